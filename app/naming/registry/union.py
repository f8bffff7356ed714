"""The view of a service that readers get: the union of its sources, each address once, with operators' changes.

Sources: the instance list, the persistent instances, a publication for each client with a connection, and what links to
other clusters bring.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from app.naming.model.foreign import foreign_clusters, with_foreign
from app.naming.model.meta import NO_META
from app.naming.model.model import Instance, Publication, Service, ServiceSnapshot, ServiceView, StoredInstance
from app.naming.model.override import Override, Overrides


def view_of(service: Service) -> ServiceView:
    """Return the cached view of a service, rebuilt after a change. Takes no lock."""
    view = service.view
    # Revision first: a change while the copy is made raises it, and the next reader copies again.
    revision = service.revision
    if view is None or view.revision != revision:
        overrides, foreign = service.overrides, service.foreign
        instances = (
            union(service)
            if service.published
            else (
                *service.persistent.copy().values(),
                *[stored.instance for stored in list(service.stored.values())],
                *service.retained.copy().values(),
            )
        )
        if foreign is not None:
            instances = with_foreign(instances, foreign, (service.meta or NO_META).protect_threshold)
        view = ServiceView(
            service.namespace,
            service.full_name,
            revision,
            service.version,
            tuple(overridden(instances, overrides)) if overrides else instances,
            tuple(sorted(service.clusters.copy())),
            service.meta or NO_META,
        )
        service.view = view
    return view


def local_view(service: Service) -> tuple[Instance, ...]:
    """Return the instances that are registered in this cluster, with operators' changes. Takes no lock."""
    if service.foreign is None:
        return view_of(service).instances
    overrides, instances = service.overrides, union(service)
    return tuple(overridden(instances, overrides)) if overrides else instances


def overridden(instances: Iterable[Instance], overrides: Overrides) -> Iterator[Instance]:
    """Yield the instances with operators' changes."""
    for one in instances:
        found = overrides.get(one.key)
        yield one if found is None else _with_override(one, found)


def _with_override(one: Instance, override: Override) -> Instance:
    """Return an instance as readers see it under an operator's change."""
    return replace(
        one,
        weight=one.weight if override.weight is None else override.weight,
        enabled=one.enabled if override.enabled is None else override.enabled,
        metadata={**(one.metadata or {}), **override.metadata} if override.metadata else one.metadata,
    )


def is_unhealthy(one: Instance) -> bool:
    """Return whether an instance in service is unhealthy. An instance that an operator disabled is not a fault."""
    return not one.healthy and one.enabled


def has_instances(service: Service | None) -> bool:
    """Return whether readers see an instance of a service, be it disabled or unhealthy. In constant time."""
    return service is not None and (has_local_instances(service) or bool(service.foreign))


def has_local_instances(service: Service) -> bool:
    """Return whether readers see an instance of a service that no link brought. In constant time."""
    return bool(service.stored or service.persistent or service.published_count > 0 or service.retained)


def is_held(service: Service, key: str) -> bool:
    """Return whether a source has the instance of this key, or readers still see it after it vanished."""
    if key in service.stored or key in service.persistent or is_published(service, key) or key in service.retained:
        return True
    return any(one.key == key for part in (service.foreign or {}).values() for one in part.shown.values())


def is_published(service: Service, key: str) -> bool:
    """Return whether a client with a connection publishes the instance of this key."""
    return any(key in one.instances for one in list((service.published or {}).values()))


def clusters_of(service: Service) -> set[str]:
    """Return the cluster names of all instances of a service, however they came."""
    published = [
        one for publication in list((service.published or {}).values()) for one in publication.instances.values()
    ]
    stored = [one.instance for one in service.stored.values()]
    held = (*service.persistent.values(), *service.retained.values())
    return {one.cluster_name for one in (*published, *stored, *held)}.union(foreign_clusters(service.foreign))


def union(service: Service) -> tuple[Instance, ...]:
    """Return all instances of a service with publications, each address once, persistent ones first."""
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
    """Return the persistent, the listed and the published instances, where sources share an address.

    An address shows the attributes of its newest registration, and is healthy if one source says so. Only a persistent
    instance keeps its own attributes: an operator set them.
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
    """Return the instances that readers see only because of publications."""
    _, _, of_clients = _brought_together(snapshot.persistent, snapshot.stored, snapshot.published)
    return list(of_clients)


def _healthy(instance: Instance) -> Instance:
    return instance if instance.healthy else replace(instance, healthy=True)
