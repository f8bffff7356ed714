"""The digests of this node for the audit's watch: of all buckets, or of the services of some."""

from collections.abc import Collection, Iterator
from typing import Any

from app.http.api.dump_lines import instance_values
from app.naming.model.model import Instance, ServiceSnapshot
from app.naming.registry.union import of_clients_only, overridden
from app.naming.service import NamingService
from app.rows.rows import BUCKETS, bucket_of, digest_text, instance_digest
from distro.timing.sliced import STEP_ENTRIES, rest


def bucket_digests(naming: NamingService) -> dict[str, Any]:
    """The digest of each bucket, in their order, and how many services and instances are in all of them.

    A service without instances is in none: each member forgets such a one at its own time.
    """
    totals = [0] * BUCKETS
    services = instances = 0
    for (namespace, name), count, total in _services(naming, None):
        services += 1
        instances += count
        totals[bucket_of(namespace, name)] += total
    return {"services": services, "instances": instances, "buckets": [digest_text(total) for total in totals]}


def service_digests(naming: NamingService, buckets: Collection[int]) -> dict[str, Any]:
    """The services with instances of these buckets. Shape: services [[namespace, full name, instances, digest]]."""
    found = _services(naming, frozenset(buckets))
    return {"services": [[*key, count, digest_text(total)] for key, count, total in found]}


def service_digest(naming: NamingService, namespace: str, name: str) -> tuple[int, str]:
    """Return the number of instances of a service at this node, and the sum of their digests."""
    snapshot = naming.snapshot(namespace, name)
    values = [instance_values(namespace, name, one) for one in _instances(snapshot)] if snapshot is not None else []
    return len(values), digest_text(sum(map(instance_digest, values)))


def _services(naming: NamingService, buckets: frozenset[int] | None) -> Iterator[tuple[tuple[str, str], int, int]]:
    """Key, number of instances and sum of digests of each service with instances; with rests, as it is long work."""
    work = 0
    for namespace in naming.namespaces():
        for name in naming.list_services(namespace, None):
            if buckets is None or bucket_of(namespace, name) in buckets:
                snapshot = naming.snapshot(namespace, name)
                count = total = 0
                for instance in _instances(snapshot) if snapshot is not None else ():
                    count += 1
                    total += instance_digest(instance_values(namespace, name, instance))
                    if not (work + count) % STEP_ENTRIES:
                        rest()
                work += count
                if count:
                    yield (namespace, name), count, total
            work += 1
            if not work % STEP_ENTRIES:
                rest()


def _instances(snapshot: ServiceSnapshot) -> Iterator[Instance]:
    """The instances of a dump, as clients see them: those only shown for a while after a loss are not among them."""
    found = _sources(snapshot)
    return overridden(found, snapshot.overrides) if snapshot.overrides else found


def _sources(snapshot: ServiceSnapshot) -> Iterator[Instance]:
    for stored in snapshot.stored.values():
        yield stored.instance
    if snapshot.published:
        yield from of_clients_only(snapshot)
    yield from snapshot.persistent.values()
