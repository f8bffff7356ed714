"""What readers see of a service that clients with a connection publish: each address once, whoever registered it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from app.naming.model.model import Instance, Publication, Service, ServiceSnapshot, StoredInstance


def published_count(service: Service) -> int:
    """How many instances clients publish; an address for each client that does."""
    return sum([len(one.instances) for one in list((service.published or {}).values())])


def published_clusters(service: Service) -> set[str]:
    """The clusters of what clients publish."""
    publications = list((service.published or {}).values())
    return {instance.cluster_name for one in publications for instance in one.instances.values()}


def union(service: Service) -> tuple[Instance, ...]:
    """All that readers see of a service with clients: persistent ones first."""
    stored, persistent = service.stored.copy(), service.persistent.copy()
    publications = (service.published or {}).copy()
    by_key: dict[str, Instance] = {}
    count = 0
    for publication in publications.values():
        by_key.update(publication.instances)
        count += len(publication.instances)
    names = by_key.keys()
    shown: tuple[Iterable[Instance], ...]
    if len(by_key) == count and names.isdisjoint(stored) and names.isdisjoint(persistent):
        shown = (persistent.values(), [one.instance for one in stored.values()], by_key.values())
    else:
        shown = _brought_together(persistent, stored, publications)
    retained = [retained_instance for key, retained_instance in service.retained.copy().items() if key not in by_key]
    return tuple(instance for part in (*shown, retained) for instance in part)


def _brought_together(
    persistent: Mapping[str, Instance], stored: Mapping[str, StoredInstance], publications: Mapping[str, Publication]
) -> tuple[list[Instance], list[Instance], list[Instance]]:
    """The sources where some of them name the same address.

    The newest registration's attributes are shown; it is healthy if one source vouches for it. A persistent instance is
    a decision of its own, which no connection undoes: it keeps its attributes.
    """
    newest: dict[str, Publication] = {}
    vouched: set[str] = set()
    for _, publication in sorted(publications.items(), key=lambda one: (one[1].at_ms, one[0])):
        for key, instance in publication.instances.items():
            newest[key] = publication
            if instance.healthy:
                vouched.add(key)
    durable = [_healthy(one) if key in vouched else one for key, one in persistent.items()]
    listed, of_clients = [], []
    for key, stored_one in stored.items():
        found = newest.get(key) if key not in persistent else None
        if found is None:
            listed.append(stored_one.instance)
            continue
        one = stored_one.instance if stored_one.client_version > found.seen else found.instances[key]
        listed.append(_healthy(one) if key in vouched or stored_one.instance.healthy else one)
    for key, publication in newest.items():
        if key not in stored and key not in persistent:
            one = publication.instances[key]
            of_clients.append(_healthy(one) if key in vouched else one)
    return durable, listed, of_clients


def of_clients_only(snapshot: ServiceSnapshot) -> list[Instance]:
    """What readers see of a service that only its clients say of it."""
    _, _, of_clients = _brought_together(snapshot.persistent, snapshot.stored, snapshot.published)
    return list(of_clients)


def _healthy(instance: Instance) -> Instance:
    return instance if instance.healthy else replace(instance, healthy=True)
