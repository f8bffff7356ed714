"""ServiceTable: the services of this member and the domain's only lock, with the steps that keep them consistent."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from app.naming.guard import vanished
from app.naming.keys import datum_key, parse_datum_key
from app.naming.merge import InstanceList
from app.naming.meta import NO_META
from app.naming.model import (
    Held,
    Instance,
    Service,
    ServiceMoment,
    ServiceView,
    Tombstone,
)
from distro.types import NO_VERSION, Version

TOMBSTONE_SLACK_MS = 60_000
TOMBSTONE_KEEP_MS_MAX = 3_600_000
"""A delete time-out may be of any length; a removal is not remembered for longer than this."""
TOMBSTONES_PER_SERVICE_MAX = 100_000
"""Beyond it the oldest removal is forgotten: a service that loses a thousand addresses a second for 90 s."""

COPIED_UNDER_LOCK_MAX = 64
COPY_TRIES_MAX = 8
"""A copy of 100,000 references takes a millisecond: so often in a row a service hardly ever changes meanwhile."""


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
        self._services: dict[str, Service] = {}
        self._namespaces: dict[str, dict[str, Service]] = {}

    # --- reading: no lock -------------------------------------------------------------------------

    def get(self, namespace: str, full_name: str) -> Service | None:
        return self._services.get(datum_key(namespace, full_name))

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
                (
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
        """All that is held of a service at one moment; None when readers do not see it.

        A big one is copied without the lock, and again if it was changed meanwhile: every change raises the revision
        before it gives the lock back.
        """
        copied: tuple[Service, int, ServiceMoment] | None = None
        for left in reversed(range(COPY_TRIES_MAX)):
            with self._lock:
                service = self._services.get(key)
                if service is None or service.hidden or _is_ghostly(service):
                    return None
                if copied is not None and copied[0] is service and copied[1] == service.revision:
                    return copied[2]
                version, held, persistent = service.version, service.held, service.persistent
                revision = service.revision
                if len(held) + len(persistent) <= COPIED_UNDER_LOCK_MAX or left == 0:
                    held, persistent = held.copy(), persistent.copy()
                    return ServiceMoment(service.namespace, service.full_name, version, held, persistent)
            moment = ServiceMoment(service.namespace, service.full_name, version, held.copy(), persistent.copy())
            copied = service, revision, moment
        raise AssertionError("the last try returns")

    def counts(self, responsible: Callable[[str], bool]) -> Counts:
        services = [one for one in self.services() if not one.hidden]
        ours = [service for service in services if responsible(service.full_name)]
        return Counts(
            len(services),
            sum(len(one.held) + len(one.persistent) for one in services),
            len(ours),
            sum(len(one.held) + len(one.persistent) for one in ours),
        )

    # --- under the lock ---------------------------------------------------------------------------

    def _open(self, namespace: str, full_name: str, now_ms: int) -> Service:
        """The service, created when it is missing, shown again when it was dropped."""
        key = datum_key(namespace, full_name)
        service = self._services.get(key)
        if service is None:
            service = self._services[key] = Service(namespace, full_name, now_ms)
        if service.hidden or service.dropped or full_name not in self._namespaces.get(namespace, ()):
            service.hidden = service.dropped = False
            self._namespaces.setdefault(namespace, {})[full_name] = service
        return service

    def _hide_if_dropped(self, service: Service) -> None:
        """A removed service goes out of sight with the last thing in it; its removals are remembered for the peers."""
        if not service.dropped or service.held or service.persistent or service.meta is not None:
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
        service.held[key] = Held(instance, service.version, now_ms)
        service.tombstones.pop(key, None)
        service.ghosts.pop(key, None)
        service.clusters.add(instance.cluster_name)
        return service.key

    def _bury(self, service: Service, key: str, held: Held, now_ms: int, beat_ms: int | None = None) -> None:
        self._raise_version(service, now_ms)
        service.held.pop(key, None)
        service.ghosts.pop(key, None)
        at_ms = now_ms if beat_ms is None else beat_ms
        keep_ms = min(held.delete_timeout_ms + self._slack_ms, TOMBSTONE_KEEP_MS_MAX) + now_ms - at_ms
        service.tombstones[key] = Tombstone(service.version, at_ms, keep_ms)
        while len(service.tombstones) > TOMBSTONES_PER_SERVICE_MAX:
            del service.tombstones[next(iter(service.tombstones))]

    def _raise_version(self, service: Service, now_ms: int) -> None:
        """Count a change. The first one after another writer's is a claim and restarts the judge's clocks (R2)."""
        version = max(service.version, self._floor if service.version == NO_VERSION else NO_VERSION).next(self.writer)
        if version.epoch != service.version.epoch:
            service.claimed_ms = now_ms
        service.version = version
        service.revision += 1
        service.changed_ms = now_ms

    def _swap(self, key: str, expected: Version | None, version: Version, value: InstanceList, now_ms: int) -> bool:
        parsed = parse_datum_key(key)
        if parsed is None:
            return False
        clusters = {held.instance.cluster_name for held in value.held.values()}
        with self._lock:
            known = self._services.get(key)
            if (known.version if known else NO_VERSION) != (expected or NO_VERSION):
                return False
            service = self._open(*parsed, now_ms) if value.held or known is None else known
            if version.writer == self.writer and service.version.writer != self.writer:
                service.claimed_ms = now_ms
            self._guard(service, value, now_ms)
            service.version, service.held, service.tombstones = version, value.held, value.tombstones
            service.clusters = service.clusters | clusters
            service.changed_ms = now_ms
            service.revision += 1
            self._hide_if_dropped(service)
            return True

    # --- the guard --------------------------------------------------------------------------------

    def _guard(self, service: Service, value: InstanceList, now_ms: int) -> None:
        """Go on showing for a while what vanishes with the new value; see ``app.naming.guard``."""
        if not self._guard_ms:
            return
        shown = {key: held.instance for key, held in service.held.items()} | service.ghosts
        lost = vanished(shown, value)
        if lost and not service.ghosts:
            service.ghosts_until_ms = now_ms + self._guard_ms
            self.held_back += 1
        service.ghosts = lost

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
        if service.version == NO_VERSION and not (service.meta or service.persistent or service.ghosts):
            self._services.pop(service.key, None)
            self._unlist(service)

    def prune_tombstones(self, service: Service, now_ms: int) -> None:
        """Forget removals that every member has had the time to learn of."""
        with self._lock:
            old = [key for key, stone in service.tombstones.items() if now_ms - stone.at_ms > stone.keep_ms]
            for key in old:
                del service.tombstones[key]


def _is_ghostly(service: Service) -> bool:
    """Whether nothing is left of a service but what the guard still shows."""
    known = service.held or service.persistent or service.meta is not None or service.version != NO_VERSION
    return bool(service.ghosts) and not known
