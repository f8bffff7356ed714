"""ServiceTable: the services of this member and the domain's only lock, with the steps that keep them consistent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from app.naming.model.keys import datum_key, parse_datum_key
from app.naming.model.meta import NO_META
from app.naming.model.model import (
    NOT_DUE_MS,
    Held,
    Instance,
    Publication,
    Service,
    ServiceMoment,
    ServiceView,
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
                    *[held.instance for held in list(service.held.values())],
                    *service.ghosts.copy().values(),
                ),
                tuple(sorted(service.clusters.copy())),
                service.meta or NO_META,
            )
            service.view = view
        return view

    def moment(self, key: str) -> ServiceMoment | None:
        """All that is held of a service at one moment; None when readers do not see it."""
        service = self._services.get(key)
        if service is None:
            return None

        def parts() -> tuple[dict[str, Held], dict[str, Instance], dict[str, Publication]]:
            return service.held.copy(), service.persistent.copy(), (service.published or {}).copy()

        def moment_of(
            copied: tuple[dict[str, Held], dict[str, Instance], dict[str, Publication]],
        ) -> ServiceMoment | None:
            if service.hidden or _is_ghostly(service) or self._services.get(key) is not service:
                return None
            return ServiceMoment(service.namespace, service.full_name, service.version, *copied)

        return self._at_one_moment(service, parts, moment_of)

    def _at_one_moment(self, service: Service, make: Callable[[], T], take: Callable[[T], R]) -> R:
        """Let ``take`` have, under the lock, what ``make`` made of the service as it is at that moment.

        Of a service that is not small it is made without the lock, and again if there was a change meanwhile: every
        change raises the revision before it gives the lock back.
        """
        size = len(service.held) + len(service.persistent) + len(service.tombstones) + len(service.ghosts)
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
        return len(service.held) + len(service.persistent)

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
        if not service.dropped or service.held or service.persistent or service.published or service.meta is not None:
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
        old = service.held.get(key)
        if old is not None:
            old.beat_ms = old.heard_ms = now_ms  # a registration is a sign of life, changed or not
            if old.instance == instance:
                return None
        self._raise_version(service, now_ms)
        held = Held(instance, service.version, now_ms)
        if not service.held:
            service.patience_ms = NOT_DUE_MS
        service.held[key] = held
        service.tombstones.pop(key, None)
        service.ghosts.pop(key, None)
        service.clusters.add(instance.cluster_name)
        if service.numbers is not None:
            service.numbers.give(old.instance.instance_id if old else None)
            service.numbers.take(instance.instance_id)
        patience_ms = held.patience_ms
        if patience_ms < service.patience_ms:
            service.patience_ms = patience_ms
        self._expect(service, now_ms + patience_ms + 1)
        return service.key

    def _bury(self, service: Service, key: str, held: Held, now_ms: int, beat_ms: int | None = None) -> None:
        self._raise_version(service, now_ms)
        service.held.pop(key, None)
        service.ghosts.pop(key, None)
        if service.numbers is not None:
            service.numbers.give(held.instance.instance_id)
        stone = self._stone(held, service.version, now_ms, beat_ms)
        service.tombstones[key] = stone
        bound_tombstones(service.tombstones)
        self._expect(service, stone.at_ms + stone.keep_ms + 1)

    def _stone(self, held: Held, version: Version, now_ms: int, beat_ms: int | None = None) -> Tombstone:
        at_ms = now_ms if beat_ms is None else beat_ms
        keep_ms = min(held.delete_timeout_ms + self._slack_ms, TOMBSTONE_KEEP_MS_MAX) + now_ms - at_ms
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
        clusters = {held.instance.cluster_name for held in value.held.values()}
        patience_ms = min((held.patience_ms for held in value.held.values()), default=NOT_DUE_MS)
        known = self._services.get(key)
        replaced: list[dict[str, Held]] = []

        def swap(lost: Mapping[str, Instance]) -> bool:
            found = self._services.get(key)
            if (found.version if found else NO_VERSION) != (expected or NO_VERSION):
                return False
            service = self._open(*parsed, now_ms) if value.held or found is None else found
            replaced.append(service.held)
            if version.writer == self.writer and service.version.writer != self.writer:
                service.claimed_ms = now_ms
            self._go_on_showing(service, lost if service is known else {}, now_ms)
            service.version, service.held, service.tombstones = version, value.held, value.tombstones
            service.clusters = service.clusters | clusters
            service.patience_ms, service.numbers = patience_ms, None
            service.changed_ms = now_ms
            service.revision += 1
            service.due_ms = 0
            self._hide_if_dropped(service)
            return True

        if known is None or not self._guard_ms:
            with self._lock:
                swapped = swap({})
        else:
            swapped = self._at_one_moment(known, lambda: vanished(shown(known), value), swap)
        let_go(replaced)
        return swapped

    # --- the guard --------------------------------------------------------------------------------

    def _go_on_showing(self, service: Service, lost: Mapping[str, Instance], now_ms: int) -> None:
        """Show for a while what vanishes with a new value; see ``app.naming.registry.guard``."""
        if not self._guard_ms:
            return
        if lost and not service.ghosts:
            service.ghosts_until_ms = now_ms + self._guard_ms
            self.held_back += 1
        service.ghosts = dict(lost)

    def lay_ghosts(self, service: Service, now_ms: int) -> bool:
        """Stop showing what vanished, when it has not come back in time; return whether readers see a change."""
        with self._lock:
            if not service.ghosts or now_ms < service.ghosts_until_ms:
                return False
            service.ghosts = {}
            service.revision += 1
            self._drop_if_bare(service)
            return True

    def _drop_if_bare(self, service: Service) -> None:
        if self._keep_empty and not service.dropped:
            return
        kept = service.meta or service.persistent or service.published or service.ghosts
        if service.version == NO_VERSION and not kept:
            self._services.pop(service.key, None)
            self._unlist(service)

    def prune_tombstones(self, service: Service, now_ms: int) -> int:
        """Forget removals that every member has had the time to learn of; return when to come again."""
        stones = service.tombstones.copy()
        old, due_ms = [], NOT_DUE_MS
        for key, stone in stones.items():
            end_ms = stone.at_ms + stone.keep_ms
            if now_ms > end_ms:
                old.append(key)
            elif end_ms < due_ms:
                due_ms = end_ms
        for start in range(0, len(old), COPIED_UNDER_LOCK_MAX):
            with self._lock:
                for key in old[start : start + COPIED_UNDER_LOCK_MAX]:
                    if service.tombstones.get(key) is stones[key]:
                        del service.tombstones[key]
        if due_ms == NOT_DUE_MS:
            return NOT_DUE_MS
        return max(due_ms + 1, now_ms + (len(stones) - len(old)) // TOMBSTONES_PER_WAIT_MS)


def shown(service: Service) -> dict[str, Instance]:
    """The ephemeral instances that readers see."""
    return {key: held.instance for key, held in service.held.copy().items()} | service.ghosts


def bound_tombstones(stones: dict[str, Tombstone]) -> None:
    while len(stones) > TOMBSTONES_PER_SERVICE_MAX:
        del stones[next(iter(stones))]


def let_go(replaced: list[dict[str, Held]]) -> None:
    """Give back, one by one, the memory of instances that are held no more; all at once takes many milliseconds.

    The caller keeps no other reference. The mappings are left as they are: readers without the lock may be on them.
    """
    while replaced:
        left = list(replaced.pop().values())
        while left:
            left.pop()


def _is_ghostly(service: Service) -> bool:
    """Whether nothing is left of a service but what the guard still shows."""
    sources = service.held or service.persistent or service.published
    known = sources or service.meta is not None or service.version != NO_VERSION
    return bool(service.ghosts) and not known
