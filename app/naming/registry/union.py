"""What readers see of a service that clients with a connection publish: each address once, whoever registered it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from app.naming.model.model import Held, Instance, Publication, Service, ServiceMoment


def published_count(service: Service) -> int:
    """How many instances clients publish; an address for each client that does."""
    return sum([len(one.instances) for one in list((service.published or {}).values())])


def published_clusters(service: Service) -> set[str]:
    """The clusters of what clients publish."""
    publications = list((service.published or {}).values())
    return {instance.cluster_name for one in publications for instance in one.instances.values()}


def union(service: Service) -> tuple[Instance, ...]:
    """All that readers see of a service with clients: persistent ones first."""
    held, persistent = service.held.copy(), service.persistent.copy()
    publications = (service.published or {}).copy()
    said: dict[str, Instance] = {}
    count = 0
    for publication in publications.values():
        said.update(publication.instances)
        count += len(publication.instances)
    names = said.keys()
    shown: tuple[Iterable[Instance], ...]
    if len(said) == count and names.isdisjoint(held) and names.isdisjoint(persistent):
        shown = (persistent.values(), [one.instance for one in held.values()], said.values())
    else:
        shown = _brought_together(persistent, held, publications)
    ghosts = [ghost for key, ghost in service.ghosts.copy().items() if key not in said]
    return tuple(instance for part in (*shown, ghosts) for instance in part)


def _brought_together(
    persistent: Mapping[str, Instance], held: Mapping[str, Held], publications: Mapping[str, Publication]
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
    for key, held_one in held.items():
        found = newest.get(key) if key not in persistent else None
        if found is None:
            listed.append(held_one.instance)
            continue
        one = held_one.instance if held_one.said > found.seen else found.instances[key]
        listed.append(_healthy(one) if key in vouched or held_one.instance.healthy else one)
    for key, publication in newest.items():
        if key not in held and key not in persistent:
            one = publication.instances[key]
            of_clients.append(_healthy(one) if key in vouched else one)
    return durable, listed, of_clients


def of_clients_only(moment: ServiceMoment) -> list[Instance]:
    """What readers see of a service that only its clients say of it."""
    _, _, of_clients = _brought_together(moment.persistent, moment.held, moment.published)
    return list(of_clients)


def _healthy(instance: Instance) -> Instance:
    return instance if instance.healthy else replace(instance, healthy=True)
