"""ServiceTable: the services of this member and the domain's only lock, with the steps that keep them consistent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from app.naming.model.keys import datum_key, parse_datum_key
from app.naming.model.meta import NO_META
from app.naming.model.model import (
    NOT_DUE_MS,
    Instance,
    Publication,
    Service,
    ServiceSnapshot,
    ServiceView,
    StoredInstance,
    Tombstone,
)
from app.naming.registry.guard import vanished
from app.naming.registry.merge import InstanceList
from app.naming.registry.shared import Shared
from app.naming.registry.union import union
from distro.types import NO_VERSION, Version

T = TypeVar("T")
R = TypeVar("R")

TOMBSTONE_SLACK_MS = 60_000
TOMBSTONE_KEEP_MS_MAX = 3_600_000
"""A delete time-out may be of any length; a removal is not remembered for longer than this."""
TOMBSTONES_PER_SERVICE_MAX = 100_000
"""Beyond it the oldest removal is forgotten: a service that loses a thousand addresses a second for 90 s."""

COPIED_UNDER_LOCK_MAX = 64
COPY_TRIES_MAX = 8
"""A copy of 100,000 references takes a millisecond: so often in a row a service hardly ever changes meanwhile."""
TOMBSTONES_PER_WAIT_MS = 16
"""Of many removals the old ones are looked for the more seldom: a hundredth of the time, at the most, goes into it."""


@dataclass(frozen=True, slots=True)
class Counts:
    services: int
    instances: int
    responsible_services: int
    responsible_instances: int


class ServiceTable:
    """The services by datum key. ``writer`` names this run of this member in versions.

    What begins with an underscore is called under the lock.
    """

    def __init__(
        self,
        writer: str,
        tombstone_slack_ms: int = TOMBSTONE_SLACK_MS,
        guard_ms: int = 0,
        *,
        keep_empty: bool = False,
    ) -> None:
        """``guard_ms``: for how long a loss that nobody caused is not shown; 0 for a node without peers.

        ``keep_empty``: a service that lost its last instance long ago is still shown.
        """
        self._keep_empty = keep_empty
        self.writer = writer
        self.held_back = 0
        """How often a loss was not shown at once."""
        self._guard_ms = guard_ms
        self._slack_ms = tombstone_slack_ms
        self._floor = NO_VERSION
        self._lock = Lock()
        self._shared = Shared()
        self._services: dict[str, Service] = {}
        self._namespaces: dict[str, dict[str, Service]] = {}

    # --- reading: no lock -------------------------------------------------------------------------

    def get(self, namespace: str, full_name: str) -> Service | None:
        # Nearly always it is one that readers see, found without making its key.
        names = self._namespaces.get(namespace)
        service = names.get(full_name) if names is not None else None
        return self._services.get(datum_key(namespace, full_name)) if service is None else service

    def find(self, key: str) -> Service | None:
        return self._services.get(key)

    def services(self) -> list[Service]:
        """All services at one moment. ``list(dict.values())`` is one step for other threads."""
        return list(self._services.values())

    def service_count(self) -> int:
        return len(self._services)

    def namespaces(self) -> list[str]:
        """The namespaces that hold a service."""
        return sorted(self._namespaces.copy())

    def names(self, namespace: str) -> list[str]:
        """Full names of a namespace's services, sorted."""
        return sorted(self._namespaces.get(namespace, {}).copy())

    def view(self, namespace: str, full_name: str) -> ServiceView | None:
        service = self.get(namespace, full_name)
        return None if service is None else self.view_of(service)

    @staticmethod
    def view_of(service: Service) -> ServiceView:
        """The service as it is now, made anew only after a change."""
        view = service.view
        # Revision first: what changes while the copy is made raises it, and the next reader copies again.
        revision = service.revision
        if view is None or view.revision != revision:
            view = ServiceView(
                service.namespace,
                service.full_name,
                revision,
                service.version,
                union(service)
                if service.published
                else (
                    *service.persistent.copy().values(),
                    *[stored.instance for stored in list(service.stored.values())],
                    *service.retained.copy().values(),
                ),
                tuple(sorted(service.clusters.copy())),
                service.meta or NO_META,
            )
            service.view = view
        return view

    def snapshot(self, key: str) -> ServiceSnapshot | None:
        """All that is held of a service at one moment; None when readers do not see it."""
        service = self._services.get(key)
        if service is None:
            return None

        def parts() -> tuple[dict[str, StoredInstance], dict[str, Instance], dict[str, Publication]]:
            return service.stored.copy(), service.persistent.copy(), (service.published or {}).copy()

        def snapshot_of(
            copied: tuple[dict[str, StoredInstance], dict[str, Instance], dict[str, Publication]],
        ) -> ServiceSnapshot | None:
            if service.hidden or _is_retained_only(service) or self._services.get(key) is not service:
                return None
            return ServiceSnapshot(service.namespace, service.full_name, service.version, *copied)

        return self._with_consistent_copy(service, parts, snapshot_of)

    def _with_consistent_copy(self, service: Service, make: Callable[[], T], take: Callable[[T], R]) -> R:
        """Let ``take`` have, under the lock, what ``make`` made of the service as it is at that moment.

        Of a service that is not small it is made without the lock, and again if there was a change meanwhile: every
        change raises the revision before it gives the lock back.
        """
        size = len(service.stored) + len(service.persistent) + len(service.tombstones) + len(service.retained)
        size += len(service.published or ())
        if size > COPIED_UNDER_LOCK_MAX:
            for _ in range(COPY_TRIES_MAX - 1):
                with self._lock:
                    revision = service.revision
                made = make()
                with self._lock:
                    if service.revision == revision:
                        return take(made)
        with self._lock:
            return take(make())

    def counts(self, responsible: Callable[[str], bool]) -> Counts:
        services = [one for one in self.services() if not one.hidden]
        ours = [service for service in services if responsible(service.full_name)]
        return Counts(
            len(services),
            sum(map(self._count, services)),
            len(ours),
            sum(map(self._count, ours)),
        )

    def _count(self, service: Service) -> int:
        if service.published:  # an address that has several sources is seen once, and counted once
            return len(self.view_of(service).instances)
        return len(service.stored) + len(service.persistent)

    # --- under the lock ---------------------------------------------------------------------------

    def _open(self, namespace: str, full_name: str, now_ms: int) -> Service:
        """The service, created when it is missing, shown again when it was dropped."""
        service = self.get(namespace, full_name)
        if service is None:
            service = Service(namespace, full_name, now_ms)
            self._services[service.key] = service
        if service.hidden or service.dropped or full_name not in self._namespaces.get(namespace, ()):
            service.hidden = service.dropped = False
            self._namespaces.setdefault(namespace, {})[full_name] = service
        return service

    def _hide_if_dropped(self, service: Service) -> None:
        """A removed service goes out of sight with the last thing in it; its removals are remembered for the peers."""
        if not service.dropped or service.stored or service.persistent or service.published or service.meta is not None:
            return
        service.hidden = True
        self._unlist(service)
        if service.version == NO_VERSION:
            self._services.pop(service.key, None)

    def _unlist(self, service: Service) -> None:
        names = self._namespaces.get(service.namespace, {})
        names.pop(service.full_name, None)
        if not names:
            self._namespaces.pop(service.namespace, None)

    def _put(self, service: Service, key: str, instance: Instance, now_ms: int) -> str | None:
        old = service.stored.get(key)
        if old is not None:
            old.beat_ms = old.last_confirmed_ms = now_ms  # a registration is a sign of life, changed or not
            if old.instance == instance:
                return None
        self._raise_version(service, now_ms)
        stored = StoredInstance(instance, service.version, now_ms)
        if not service.stored:
            service.shortest_timeout_ms = NOT_DUE_MS
        service.stored[key] = stored
        service.tombstones.pop(key, None)
        service.retained.pop(key, None)
        service.clusters.add(instance.cluster_name)
        if service.id_allocator is not None:
            service.id_allocator.give(old.instance.instance_id if old else None)
            service.id_allocator.take(instance.instance_id)
        shortest_timeout_ms = stored.shortest_timeout_ms
        if shortest_timeout_ms < service.shortest_timeout_ms:
            service.shortest_timeout_ms = shortest_timeout_ms
        self._expect(service, now_ms + shortest_timeout_ms + 1)
        return service.key

    def _replace_by_tombstone(
        self, service: Service, key: str, stored: StoredInstance, now_ms: int, beat_ms: int | None = None
    ) -> None:
        self._raise_version(service, now_ms)
        service.stored.pop(key, None)
        service.retained.pop(key, None)
        if service.id_allocator is not None:
            service.id_allocator.give(stored.instance.instance_id)
        tombstone = self._tombstone_of(stored, service.version, now_ms, beat_ms)
        service.tombstones[key] = tombstone
        bound_tombstones(service.tombstones)
        self._expect(service, tombstone.at_ms + tombstone.keep_ms + 1)

    def _tombstone_of(
        self, stored: StoredInstance, version: Version, now_ms: int, beat_ms: int | None = None
    ) -> Tombstone:
        at_ms = now_ms if beat_ms is None else beat_ms
        keep_ms = min(stored.delete_timeout_ms + self._slack_ms, TOMBSTONE_KEEP_MS_MAX) + now_ms - at_ms
        return Tombstone(version, at_ms, keep_ms)

    @staticmethod
    def _expect(service: Service, due_ms: int) -> None:
        """The judge has something to do there at ``due_ms``."""
        if due_ms < service.due_ms:
            service.due_ms = due_ms

    def expect(self, service: Service, due_ms: int) -> None:
        """The same, for who holds no lock: the judge after a look, before which it put ``due_ms`` off."""
        with self._lock:
            self._expect(service, due_ms)

    def _raise_version(self, service: Service, now_ms: int) -> None:
        """Count a change. The first one after another writer's is a claim and restarts the judge's clocks (R2)."""
        version = self._next_version(service)
        if version.epoch != service.version.epoch:
            service.claimed_ms = now_ms
            service.due_ms = 0
        service.version = version
        service.revision += 1
        service.changed_ms = now_ms

    def _next_version(self, service: Service) -> Version:
        if service.version.writer == self.writer:
            return service.version.next(self.writer)
        return max(service.version, self._floor if service.version == NO_VERSION else NO_VERSION).next(self.writer)

    def _swap(self, key: str, expected: Version | None, version: Version, value: InstanceList, now_ms: int) -> bool:
        parsed = parse_datum_key(key)
        if parsed is None:
            return False
        clusters = {stored.instance.cluster_name for stored in value.stored.values()}
        shortest_timeout_ms = min((stored.shortest_timeout_ms for stored in value.stored.values()), default=NOT_DUE_MS)
        known = self._services.get(key)
        replaced: list[dict[str, StoredInstance]] = []

        def swap(lost: Mapping[str, Instance]) -> bool:
            found = self._services.get(key)
            if (found.version if found else NO_VERSION) != (expected or NO_VERSION):
                return False
            service = self._open(*parsed, now_ms) if value.stored or found is None else found
            replaced.append(service.stored)
            if version.writer == self.writer and service.version.writer != self.writer:
                service.claimed_ms = now_ms
            self._retain(service, lost if service is known else {}, now_ms)
            service.version, service.stored, service.tombstones = version, value.stored, value.tombstones
            service.clusters = service.clusters | clusters
            service.shortest_timeout_ms, service.id_allocator = shortest_timeout_ms, None
            service.changed_ms = now_ms
            service.revision += 1
            service.due_ms = 0
            self._hide_if_dropped(service)
            return True

        if known is None or not self._guard_ms:
            with self._lock:
                swapped = swap({})
        else:
            swapped = self._with_consistent_copy(known, lambda: vanished(shown(known), value), swap)
        free_in_steps(replaced)
        return swapped

    # --- the guard --------------------------------------------------------------------------------

    def _retain(self, service: Service, lost: Mapping[str, Instance], now_ms: int) -> None:
        """Show for a while what vanishes with a new value; see ``app.naming.registry.guard``."""
        if not self._guard_ms:
            return
        if lost and not service.retained:
            service.retained_until_ms = now_ms + self._guard_ms
            self.held_back += 1
        service.retained = dict(lost)

    def drop_retained(self, service: Service, now_ms: int) -> bool:
        """Stop showing what vanished, when it has not come back in time; return whether readers see a change."""
        with self._lock:
            if not service.retained or now_ms < service.retained_until_ms:
                return False
            service.retained = {}
            service.revision += 1
            self._drop_if_bare(service)
            return True

    def _drop_if_bare(self, service: Service) -> None:
        if self._keep_empty and not service.dropped:
            return
        kept = service.meta or service.persistent or service.published or service.retained
        if service.version == NO_VERSION and not kept:
            self._services.pop(service.key, None)
            self._unlist(service)

    def prune_tombstones(self, service: Service, now_ms: int) -> int:
        """Forget removals that every member has had the time to learn of; return when to come again."""
        tombstones = service.tombstones.copy()
        old, due_ms = [], NOT_DUE_MS
        for key, tombstone in tombstones.items():
            end_ms = tombstone.at_ms + tombstone.keep_ms
            if now_ms > end_ms:
                old.append(key)
            elif end_ms < due_ms:
                due_ms = end_ms
        for start in range(0, len(old), COPIED_UNDER_LOCK_MAX):
            with self._lock:
                for key in old[start : start + COPIED_UNDER_LOCK_MAX]:
                    if service.tombstones.get(key) is tombstones[key]:
                        del service.tombstones[key]
        if due_ms == NOT_DUE_MS:
            return NOT_DUE_MS
        return max(due_ms + 1, now_ms + (len(tombstones) - len(old)) // TOMBSTONES_PER_WAIT_MS)


def shown(service: Service) -> dict[str, Instance]:
    """The ephemeral instances that readers see."""
    return {key: stored.instance for key, stored in service.stored.copy().items()} | service.retained


def bound_tombstones(tombstones: dict[str, Tombstone]) -> None:
    while len(tombstones) > TOMBSTONES_PER_SERVICE_MAX:
        del tombstones[next(iter(tombstones))]


def free_in_steps(replaced: list[dict[str, StoredInstance]]) -> None:
    """Give back, one by one, the memory of instances that are held no more; all at once takes many milliseconds.

    The caller keeps no other reference. The mappings are left as they are: readers without the lock may be on them.
    """
    while replaced:
        left = list(replaced.pop().values())
        while left:
            left.pop()


def _is_retained_only(service: Service) -> bool:
    """Whether nothing is left of a service but what the guard still shows."""
    sources = service.stored or service.persistent or service.published
    known = sources or service.meta is not None or service.version != NO_VERSION
    return bool(service.retained) and not known
