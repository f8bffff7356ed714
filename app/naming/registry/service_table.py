"""ServiceTable: the services of this member and the sources that keep each of them, behind the lock of all services.

A service is kept by its instance list, its description, its persistent instances and the publications of clients.
"""

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple, TypeVar

from app.naming.limits.admission import Admission, NamingCounts, Occupancy
from app.naming.model.keys import datum_key, metadata_bytes
from app.naming.model.meta import ServiceMeta, description_bytes
from app.naming.model.model import NOT_DUE_MS, Instance, Publication, Service, ServiceSnapshot, StoredInstance
from app.naming.model.override import NO_OVERRIDES, Overrides
from app.naming.model.similar_names import SimilarNames, check_new_namespace
from app.naming.registry.service_counts import Counts as Counts
from app.naming.registry.service_counts import counts_of
from app.naming.registry.union import clusters_of
from distro.model.types import NO_VERSION

T = TypeVar("T")
R = TypeVar("R")
_Parts = tuple[dict[str, StoredInstance], dict[str, Instance], dict[str, Publication]]

COPIED_UNDER_LOCK_MAX = 64
"""Instances that one holder of the lock may touch."""
COPY_TRIES_MAX = 8
"""A copy of 100,000 references takes a millisecond: a service hardly ever changes during so many consecutive tries."""


class Known(NamedTuple):
    """The parts of a client's write that exist already: instances, and bytes of their metadata."""

    instances: int
    metadata_bytes: int


class ServiceTable:
    """The services of this member, by datum key and by namespace.

    Readers take no lock. ``lock`` guards every change of a service: its holder touches at most
    ``COPIED_UNDER_LOCK_MAX`` instances, calls nothing that waits, and raises ``Service.revision`` after the change.
    ``open``, ``hide_if_dropped``, ``drop_if_bare``, ``admit`` and ``count_stored`` are steps for the holder; all other
    methods are thread-safe.
    """

    def __init__(
        self,
        linger_ms: int,
        admission: Admission | None = None,
        *,
        keep_empty: bool = False,
        on_listed: Callable[[str, str, bool], None] | None = None,
    ) -> None:
        """``linger_ms``: how long a service outlives the last publication, if it had nothing else.
        ``admission``: refuses what clients' writes would add; without one nothing is refused.
        ``keep_empty``: a service stays listed after its last instance is gone.
        ``on_listed``: called under the lock when readers begin or cease to see a service: namespace, full name, which.
        """
        self.lock = Lock()
        self.counts_held = NamingCounts()
        self.admission = admission or Admission()
        self._linger_ms = linger_ms
        self._keep_empty, self._on_listed = keep_empty, on_listed
        self._services: dict[str, Service] = {}
        self._namespaces: dict[str, dict[str, Service]] = {}
        self._used, self.created_namespaces = SimilarNames(), SimilarNames()
        """The namespaces with a service that is not hidden, and those with a record."""
        self._durable: dict[Service, None] = {}
        """Services with persistent instances, which are checked each second."""
        self.overrides: dict[str, Overrides] = {}
        """Operators' changes by datum key, also of services that are not here yet."""
        self._first_revision = 0
        """The first revision of a new service: above those of dropped ones, which may have been the same service."""
        self.find: Callable[[str], Service | None] = self._services.get
        """Returns the service of a datum key, also a hidden one. The mapping's own method, as each beat calls it."""
        self.named: Callable[[str], dict[str, Service] | None] = self._namespaces.get
        """Returns a namespace's services that are not hidden, by full name; also the mapping's own method."""

    # --- reading: no lock -------------------------------------------------------------------------

    def get(self, namespace: str, full_name: str) -> Service | None:
        """Return the service of this name, hidden ones included. Nearly always it is found without making its key."""
        names = self._namespaces.get(namespace)
        service = names.get(full_name) if names is not None else None
        return self._services.get(datum_key(namespace, full_name)) if service is None else service

    def services(self) -> list[Service]:
        """Return a copy of the list of all services. ``list(dict.values())`` is one step for other threads."""
        return list(self._services.values())

    def durable_services(self) -> list[Service]:
        """Return a copy of the list of services that have persistent instances."""
        return list(self._durable)

    def keys(self) -> list[str]:
        """Return a copy of the datum keys of all services, made in one step."""
        return list(self._services)

    def service_count(self) -> int:
        """Return the number of services, hidden ones included."""
        return len(self._services)

    def namespaces(self) -> list[str]:
        """Return the namespaces with a service that is not hidden, sorted."""
        return sorted(self._namespaces.copy())

    def names(self, namespace: str) -> list[str]:
        """Return the full names of a namespace's services that are not hidden, sorted."""
        return sorted(self._namespaces.get(namespace, {}).copy())

    def in_namespace(self, namespace: str) -> list[Service]:
        """Return a copy of the list of a namespace's services that are not hidden."""
        return list(self._namespaces.get(namespace, {}).values())

    def counts(self, responsible: Callable[[str], bool]) -> Counts:
        """Count the services and instances that readers see, and those with a full name that is ``responsible``."""
        return counts_of(self.services(), responsible)

    def totals(self) -> tuple[int, int]:
        """Return the numbers of visible services and of instances, in constant time.

        An address that has several sources counts for each of them.
        """
        return sum(map(len, self._namespaces.copy().values())), self.counts_held.instances()

    # --- consistent copies ------------------------------------------------------------------------

    def with_consistent_copy(self, service: Service, make: Callable[[], T], take: Callable[[T], R]) -> R:
        """Call ``take``, under the lock, with a copy of the service that ``make`` made and that is still up to date.

        A small service is copied under the lock; any other without it, and again when its revision rose during the
        copy.
        """
        parts = (service.stored, service.persistent, service.tombstones, service.retained, service.published or ())
        if sum(map(len, parts)) > COPIED_UNDER_LOCK_MAX:
            for _ in range(COPY_TRIES_MAX - 1):
                with self.lock:
                    revision = service.revision
                made = make()
                with self.lock:
                    if service.revision == revision:
                        return take(made)
        with self.lock:
            return take(make())

    def snapshot(self, key: str) -> ServiceSnapshot | None:
        """Return a consistent copy of a service; None if it is unknown or hidden."""
        service = self._services.get(key)
        if service is None:
            return None

        def parts() -> _Parts:
            return service.stored.copy(), service.persistent.copy(), (service.published or {}).copy()

        def snapshot_of(copied: _Parts) -> ServiceSnapshot | None:
            if service.hidden or _is_retained_only(service) or self._services.get(key) is not service:
                return None
            return ServiceSnapshot(service.namespace, service.full_name, service.version, *copied, service.overrides)

        return self.with_consistent_copy(service, parts, snapshot_of)

    # --- steps: the caller holds the lock ---------------------------------------------------------

    def open(self, namespace: str, full_name: str, service: Service | None, now_ms: int, key: str = "") -> Service:
        """Return ``service``, listed again if it was hidden; if None, as none has this name, a new one.

        ``key``: the datum key of the name, if it is known.
        """
        if service is None:
            service = Service(namespace, full_name, now_ms, self._first_revision, key)
            self._services[service.key] = service
        if service.dropped or full_name not in self._namespaces.get(namespace, ()):
            service.hidden = service.dropped = False
            if self.overrides:
                service.overrides = self.overrides.get(service.key, NO_OVERRIDES)
            if namespace not in self._namespaces:
                self._used.add(namespace)
            self._namespaces.setdefault(namespace, {})[full_name] = service
            if self._on_listed is not None:
                self._on_listed(namespace, full_name, True)
        return service

    def open_hidden(self, namespace: str, full_name: str, now_ms: int) -> Service:
        """Return a new service that readers do not see: it has only removals of unknown instances."""
        service = Service(namespace, full_name, now_ms, self._first_revision)
        service.dropped = service.hidden = True
        self._services[service.key] = service
        return service

    def admit(
        self,
        namespace: str,
        full_name: str,
        service: Service | None,
        instances: int,
        metadata_bytes: int,
        persistent: int = 0,
    ) -> None:
        """Refuse a client's write that would exceed a limit with its instances, its metadata or a new service.

        ``service``: the service of that name, None if there is none. ``persistent``: how many of the instances are
        durable. The holder of the lock of durable records calls it without the lock: an ephemeral write at the same
        moment may then exceed a limit by its additions.

        Raises:
            InvalidParam: as ``check_new_namespace``. LimitReached, TooManyRequests: as ``Admission.check``.
        """
        names = self._namespaces.get(namespace)
        is_new = names is None or full_name not in names
        if not is_new and instances <= 0 and metadata_bytes <= 0:
            return
        if names is None:
            check_new_namespace("namespaceId", namespace, self.created_namespaces, self._used)
        occupied = _held(service) if service is not None else 0
        held = Occupancy(len(self._namespaces), len(names or ()), occupied, names is None, is_new)
        self.admission.check(self.counts_held, held, namespace, full_name, instances, metadata_bytes, persistent)

    def count_stored(self, service: Service, instances: int, metadata_bytes: int) -> None:
        """Count additions to a service's instance list; negative numbers are removals."""
        service.stored_bytes += metadata_bytes
        self.counts_held.add(service.namespace, instances, metadata_bytes)

    def hide_if_dropped(self, service: Service) -> None:
        """Hide a removed service if it has nothing left that readers see. Its tombstones are kept for the peers."""
        if not service.dropped or service.stored or service.meta is not None or _is_held_beside_list(service):
            return
        service.hidden = True
        self._unlist(service)
        if service.version == NO_VERSION:
            self._drop(service)

    def drop_if_bare(self, service: Service) -> None:
        """Forget a service without list, description, persistent, published or retained instances."""
        if self._keep_empty and not service.dropped:
            return
        kept = service.meta or service.retained or _is_held_beside_list(service)
        # The health check may hold a service that was dropped since, and whose name another one has by now.
        if service.version == NO_VERSION and not kept and self._services.get(service.key) is service:
            self._drop(service)
            self._unlist(service)

    def _drop(self, service: Service) -> None:
        del self._services[service.key]
        self._first_revision = max(self._first_revision, service.revision + 1)

    def _unlist(self, service: Service) -> None:
        names = self._namespaces.get(service.namespace, {})
        was_listed = names.pop(service.full_name, None) is not None
        if not names:
            self._namespaces.pop(service.namespace, None)
            self._used.discard(service.namespace)
        if was_listed and self._on_listed is not None:
            self._on_listed(service.namespace, service.full_name, False)

    # --- the health check's notes -----------------------------------------------------------------

    def expect(self, service: Service, due_ms: int) -> None:
        """Have the health check come to a service at ``due_ms`` at the latest."""
        with self.lock:
            service.expect(due_ms)

    def drop_bare(self, service: Service, now_ms: int) -> int:
        """Forget a service that only publications had made, ``linger_ms`` after the last. Return when to call again.

        So readers see no change if its only client soon comes back.
        """
        with self.lock:
            published = service.published
            held = published is None or service.stored or _is_held_beside_list(service)
            if self._keep_empty or service.version != NO_VERSION or held:
                return NOT_DUE_MS
            due_ms = service.changed_ms + self._linger_ms + 1
            if now_ms < due_ms:
                return due_ms
            self.drop_if_bare(service)
            return NOT_DUE_MS

    # --- durable parts, projected from records ----------------------------------------------------

    def set_meta(self, namespace: str, full_name: str, meta: ServiceMeta | None, now_ms: int) -> None:
        """Set a service's description; None if the service was removed by its own call."""
        with self.lock:
            if meta is not None:
                service = self.open(namespace, full_name, self.get(namespace, full_name), now_ms)
                service.clusters = service.clusters | meta.clusters.keys()
            elif (found := self.get(namespace, full_name)) is None:
                return
            else:
                service = found
                service.dropped = True
                service.clusters = clusters_of(service)
            self.counts_held.add(namespace, 0, description_bytes(meta) - description_bytes(service.meta))
            service.meta = meta
            service.revision += 1
            self.hide_if_dropped(service)

    def set_persistent(self, namespace: str, full_name: str, key: str, instance: Instance | None, now_ms: int) -> None:
        """Set the persistent instance of an instance key; None if it was removed."""
        with self.lock:
            if instance is not None:
                service = self.open(namespace, full_name, self.get(namespace, full_name), now_ms)
                self._count_persistent(service, service.persistent.get(key), instance)
                service.persistent[key] = instance
                self._durable[service] = None
                service.clusters = service.clusters | {instance.cluster_name}
            elif (found := self.get(namespace, full_name)) is None or key not in found.persistent:
                return
            else:
                service = found
                self._count_persistent(service, service.persistent.pop(key), None)
                if not service.persistent:
                    self._durable.pop(service, None)
            service.revision += 1
            self.hide_if_dropped(service)

    def _count_persistent(self, service: Service, old: Instance | None, new: Instance | None) -> None:
        came = (new is not None) - (old is not None)
        size = (metadata_bytes(new.metadata) if new else 0) - (metadata_bytes(old.metadata) if old else 0)
        self.counts_held.persistent += came
        self.counts_held.add(service.namespace, came, size)

    # --- publications: without versions, they come and go with their clients ----------------------

    def publish(
        self,
        namespace: str,
        full_name: str,
        client_id: str,
        publication: Publication,
        now_ms: int,
        known: Known | None = None,
    ) -> None:
        """Set a client's publication of a service, in place of its former one.

        ``known``: the existing parts of a client's own write; None for data of a member, which is never refused.

        Raises:
            LimitReached, TooManyRequests: as ``admit``.
        """
        clusters = {one.cluster_name for one in publication.instances.values()}
        with self.lock:
            found = self._services.get(key := datum_key(namespace, full_name))
            old = (found.published or {}).get(client_id) if found is not None else None
            came = len(publication.instances) - (len(old.instances) if old is not None else 0)
            size = publication.metadata_bytes - (old.metadata_bytes if old is not None else 0)
            if known is not None:
                more = len(publication.instances) - known.instances
                self.admit(namespace, full_name, found, more, publication.metadata_bytes - known.metadata_bytes)
            service = self.open(namespace, full_name, found, now_ms, key)
            if service.published is None:
                service.published = {}
            service.published[client_id] = publication
            service.published_count += came
            self.counts_held.add(namespace, came, size)
            service.clusters = service.clusters | clusters
            service.changed_ms = now_ms
            service.revision += 1

    def withdraw(self, namespace: str, full_name: str, client_id: str, publication: Publication, now_ms: int) -> bool:
        """Remove a client's publication, unless another one has replaced it. Return whether it existed."""
        with self.lock:
            service = self.get(namespace, full_name)
            published = service.published if service else None
            if service is None or published is None or published.get(client_id) is not publication:
                return False
            del published[client_id]
            service.published_count -= len(publication.instances)
            self.counts_held.add(namespace, -len(publication.instances), -publication.metadata_bytes)
            service.changed_ms = now_ms
            service.revision += 1
            if not published:
                service.expect(now_ms + self._linger_ms + 1)
                self.hide_if_dropped(service)
            return True


def _held(service: Service) -> int:
    """Return the instances of all sources that count against the limit of a service."""
    return len(service.stored) + len(service.persistent) + service.published_count


def _is_retained_only(service: Service) -> bool:
    """Return whether a service has nothing left but retained instances."""
    known = service.stored or service.meta is not None or _is_held_beside_list(service)
    return bool(service.retained) and not known and service.version == NO_VERSION


def _is_held_beside_list(service: Service) -> bool:
    """Return whether a second source, besides the instance list, has instances of a service."""
    return bool(service.persistent or service.published or service.foreign)
