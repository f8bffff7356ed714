"""The numbers of services and instances that readers see."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from app.naming.model.model import Service
from app.naming.registry.union import is_unhealthy, view_of


@dataclass(frozen=True, slots=True)
class Counts:
    services: int
    instances: int
    responsible_services: int
    responsible_instances: int
    empty_services: int = 0
    """Services that readers see and that have no instance; ``services`` counts them, too."""
    unhealthy_instances: int = 0
    """Unhealthy instances, without those that an operator disabled."""


def counts_of(services: Iterable[Service], responsible: Callable[[str], bool]) -> Counts:
    """Count what readers see of some services, and those with a full name that is ``responsible``."""
    seen = [one for one in services if not one.hidden]
    counts = [count_of(one) for one in seen]
    ours = [count for one, count in zip(seen, counts, strict=True) if responsible(one.full_name)]
    return Counts(len(counts), sum(counts), len(ours), sum(ours), counts.count(0), sum(map(unhealthy_of, seen)))


def count_of(service: Service) -> int:
    """Return the number of a service's instances, each address once."""
    if service.published or service.foreign:
        return len(view_of(service).instances)
    return len(service.stored) + len(service.persistent)


def unhealthy_of(service: Service) -> int:
    """Return the number of unhealthy instances that are not disabled.

    Each page of the console that shows it asks all services. One without such instances is counted once a revision.
    """
    revision = service.revision  # before the count: a change in the meantime raises it
    if service.calm_revision == revision:
        return 0
    count = _count_unhealthy(service)
    if not count:
        service.calm_revision = revision
    return count


def _count_unhealthy(service: Service) -> int:
    if service.published or service.overrides or service.foreign:
        return sum(map(is_unhealthy, view_of(service).instances))
    listed = [one.instance for one in list(service.stored.values()) if not one.usual]
    return sum(map(is_unhealthy, listed)) + sum(map(is_unhealthy, list(service.persistent.values())))
