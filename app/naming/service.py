"""The operations on services that both frontends call. Each changes the registry, then publishes its event."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from app.naming.changes import Changes
from app.naming.drained import DrainedInstances
from app.naming.health.silence import Silence
from app.naming.model import keys
from app.naming.model.events import Event, InstanceHealed, InstancesChanged, Origin
from app.naming.model.model import (
    BEAT_INTERVAL_MS,
    PRESERVED_BEAT_INTERVAL,
    Instance,
    Metadata,
    Service,
    ServiceSnapshot,
    ServiceView,
    StoredInstance,
    preserved_ms,
)
from app.naming.model.nacos_errors import NotFound
from app.naming.registry import http_publishers, operations
from app.naming.registry.http_publishers import AddressClients
from app.naming.registry.local_writes import LocalWrites, Replaced
from app.naming.registry.operations import CollectBeat
from app.naming.registry.service_table import Counts, ServiceTable
from app.naming.registry.union import view_of
from app.naming.wire.service_info import ANSWERS_BYTES_MAX, QUICK_HOSTS_MAX, ListAnswer, ListAnswers, Variant

_LOCAL = Origin.LOCAL
"""Bound once: Python 3.11 needs ten times as long to look an enum member up in its class."""


@lru_cache(64)
def _known(interval_ms: int) -> operations.BeatAnswer:
    """Return the answer to the beat of a healthy instance without an individual interval: nearly all beats."""
    return operations.BeatAnswer(interval_ms, known=True)


class NamingService:
    """The operations of a service registry. Thread-safe."""

    def __init__(
        self,
        table: ServiceTable,
        writes: LocalWrites,
        changes: Changes,
        monotonic_ms: Callable[[], int],
        publish: Callable[[Event], None],
        kept_lists_bytes_max: int = ANSWERS_BYTES_MAX,
        on_deregistered: Callable[[str, str], None] = lambda _key, _instance_key: None,
    ) -> None:
        """``kept_lists_bytes_max``: the bound of the cached v1 lists; other frontends cache half as much.

        ``on_deregistered``: called for each deregistration executed here: datum key, instance key; on its thread.
        """
        self.kept_lists_bytes_max = kept_lists_bytes_max
        self._table = table
        self._writes = writes
        self._writer = writes.writer
        self._now_ms = monotonic_ms
        self._publish = publish
        self._answers = ListAnswers(kept_lists_bytes_max)
        self._lists = self._answers.lists  # list queries, the hot path, look here first
        self.drained = DrainedInstances()
        self.silence = Silence()
        self._on_deregistered = on_deregistered
        self.change_of, self.take_change = changes.change_of, changes.take_change
        self.service_count, self.namespaces = table.service_count, table.namespaces
        self.service_of, self.named = table.get, table.named

    # --- instances -------------------------------------------------------------------------------

    def register(self, command: operations.RegisterInstance, key: str = "") -> Replaced | None:
        """Register an instance, or replace it; ``key``: its key, if known. Return the changes, None for none.

        Raises:
            InvalidParam: a name, the cluster or the weight is not allowed.
            LimitReached, TooManyRequests: it would add more than a limit allows (``ServiceTable.admit``).
        """
        keys.check_names(command.service, command.cluster, command.namespace)
        operations.check_weight(command.weight)
        if self.drained.any:
            self.drained.forget((command.namespace, command.service, operations.key_of(command)))
        replaced = self._writes.register(command, self._now_ms(), key)
        if replaced is not None:
            self._publish(InstancesChanged(replaced.key, _LOCAL))
        return replaced

    def update(self, command: operations.RegisterInstance, strict: bool, of: Service | None = None) -> Replaced | None:
        """Replace an instance of the service ``of``, if known; ``strict`` refuses to create it. Return the changes.

        Raises:
            InvalidParam: as ``register``, or strict and there is none. Source: Nacos 1.4.1 ServiceManager.
        """
        key = keys.instance_key(command.ip, command.port, command.cluster)
        if strict:
            stored = of.stored.get(key) if of is not None else None
            if stored is None or stored.instance.ephemeral is not command.ephemeral:
                operations.check_weight(command.weight)
                operations.check_known(self._known(command), command)
        return self.register(command, key)

    def _known(self, command: operations.RegisterInstance) -> list[Instance] | None:
        """Return the instances among which an update may find its own; None for an unknown service."""
        service = self._table.get(command.namespace, command.service)
        if service is None or service.hidden:
            return None
        # The instance of that key first: it is nearly always the right one, and needs no search.
        stored = service.stored.get(operations.key_of(command))
        return [one.instance for one in ([stored] if stored else list(service.stored.values()))]

    def deregister(self, command: operations.DeregisterInstance) -> Replaced | None:
        """Remove an instance; an unknown one leaves a tombstone (R15). Return the change, None for none.

        Raises:
            InvalidParam: no member can have such an instance, nor a tombstone of it (R18).
        """
        keys.check_address(command.namespace, command.service, command.cluster, command.ip, command.port)
        key = keys.instance_key(command.ip, command.port, command.cluster)
        removed = self._writes.remove(command.namespace, command.service, key, self._now_ms())
        if removed is not None:
            self._on_deregistered(removed.key, key)
            self._publish(InstancesChanged(removed.key, _LOCAL))
        return removed

    def patch(self, command: operations.PatchInstance) -> bool:
        """Change single attributes. Return whether that changed anything.

        Raises:
            InvalidParam: there is no such instance, or the weight is out of range.
        """
        key = self._writes.patch(command, self._now_ms())
        self._changed(key)
        return key is not None

    def beat(
        self,
        command: operations.Beat,
        interval_ms: int = BEAT_INTERVAL_MS,
        collect: CollectBeat | None = None,
        count_write: Callable[[], None] = lambda: None,
    ) -> operations.BeatAnswer:
        """Take the beat of an instance. A full beat registers an unknown instance; the answer to a light one says so.

        A persistent instance needs no beats: its beat is answered, and has no effect. ``collect`` gets the beats of
        instances in a list that another run wrote last, with that run: until its claim here, it may keep judging them.
        ``count_write``: called before an instance is registered; it may refuse that by its error.

        Raises:
            InvalidParam: a full beat of an unknown instance has a name that is not allowed.
            LimitReached, TooManyRequests: as ``register``, of a full beat of an unknown instance.
        """
        now_ms = self._now_ms()
        service = self._table.get(command.namespace, command.service)
        key = keys.instance_key(command.ip, command.port, command.cluster)
        stored = service.stored.get(key) if service is not None else None
        if service is None or stored is None:
            if service is not None and (persistent := service.persistent.get(key)) is not None:
                return operations.BeatAnswer(_interval_ms(persistent.metadata, interval_ms), known=True)
            if self.drained.any and self.drained.ignores((command.namespace, command.service, key), now_ms):
                return _known(interval_ms)
            if not command.full or not command.ephemeral:
                return operations.BeatAnswer(interval_ms, known=False)
            keys.check_names(command.service, command.cluster, command.namespace)
            count_write()
            put = self._writes.put_from_beat(command, now_ms)
            self._changed(put)
            return operations.BeatAnswer(
                _interval_ms(command.metadata, interval_ms), known=True, is_new=put is not None
            )
        stored.beat_ms = stored.last_confirmed_ms = now_ms
        if service.version.writer != self._writer and collect is not None:
            collect(service.version.writer, service.key, key, now_ms)
        if service.stored.get(key) is not stored:
            return self.beat(command, interval_ms, collect, count_write)  # it was replaced in the meantime
        if stored.usual:
            return _known(interval_ms)
        healed = not stored.instance.healthy and self._writes.set_health(service, key, True, now_ms)
        if healed:
            self._changed(service.key)
        return operations.BeatAnswer(
            _interval_ms(stored.instance.metadata, interval_ms), known=True, is_new=healed, is_healed=healed
        )

    def beat_of_copy(self, command: operations.Beat, owner: str, collect: CollectBeat) -> int | None:
        """Take the beat of an instance that another member owns, and collect it for that member, unless that refuses.

        Returns the interval to answer with (ms, 0: the default), or None without a healthy copy: the owner must answer.
        """
        service = self._table.get(command.namespace, command.service)
        key = operations.key_of(command)
        stored = service.stored.get(key) if service else None
        if service is None or stored is None or not stored.instance.healthy or service.persistent:
            return None
        now_ms = self._now_ms()
        if not collect(owner, service.key, key, now_ms):
            return None
        stored.beat_ms = stored.last_confirmed_ms = now_ms  # in case this member becomes the owner
        if service.stored.get(key) is not stored:
            _carry_on(service, key, stored)
        return 0 if stored.usual else _interval_ms(stored.instance.metadata, 0)

    def take_beats(self, datum_key: str, ages_ms: Mapping[str, int]) -> list[str]:
        """Take beats that another member collected, as ages in ms by instance key. Return unknown instances' keys."""
        service, now_ms = self._table.find(datum_key), self._now_ms()
        if service is None:
            return list(ages_ms)
        unknown, healed = [], False
        for key, age_ms in ages_ms.items():
            stored = service.stored.get(key)
            if stored is None:
                unknown.append(key)
                continue
            beat_ms = now_ms - age_ms
            if beat_ms > stored.beat_ms:
                stored.beat_ms = stored.last_confirmed_ms = beat_ms
                _carry_on(service, key, stored)
            is_ill = not stored.instance.healthy and age_ms < stored.instance.beat_timeout_ms
            if is_ill and self._writes.set_health(service, key, True, now_ms):
                healed = True
                self._publish(InstanceHealed(datum_key, key))
        if healed:
            self._changed(datum_key)
        return unknown

    def set_health(self, namespace: str, service: str, key: str, healthy: bool) -> None:
        """Set an ephemeral instance's health by hand, until its next beat or health check changes it again."""
        found = self._table.get(namespace, service)
        if found is not None and self._writes.set_health(found, key, healthy, self._now_ms()):
            self._changed(found.key)

    def take_health(self, namespace: str, service: str, healthy: Mapping[str, bool]) -> None:
        """Take over the health that a member reports for the instances that it owns, by ``ip:port``."""
        found = self._table.get(namespace, service)
        if found is not None and self._writes.take_health(found, healthy):
            self._publish(InstancesChanged(found.key, Origin.PEER))

    def set_metadata(self, namespace: str, service: str, key: str, change: operations.ChangeMetadata) -> None:
        """Change single keys of an ephemeral instance's metadata. A missing instance is ignored."""
        self._changed(self._writes.set_metadata(namespace, service, key, change, self._now_ms()))

    def check_metadata(self, namespace: str, service: str, grown: int) -> None:
        """Refuse a change of several instances whose metadata grows by ``grown`` bytes, before any of them is changed.

        Raises:
            LimitReached: as ``ServiceTable.admit``.
        """
        found = self._table.get(namespace, service)
        self._table.admit(namespace, service, found, 0, grown)
        if grown > 0:
            self._table.admission.check_growth(service, found, 0, grown)

    def is_listed(self, command: operations.Beat) -> bool:
        """Return whether the instance of a beat is known here, so that its beat registers nothing."""
        service = self._table.get(command.namespace, command.service)
        key = operations.key_of(command)
        return service is not None and (key in service.stored or key in service.persistent)

    def find(self, namespace: str, service: str, cluster: str, ip: str, port: int) -> Instance | None:
        """Return the instance of an address in a cluster: the persistent one, if there is an ephemeral one, too.

        Source: Nacos 1.4.1 ServiceManager.getInstance.
        """
        view = self.service_view(namespace, service)
        candidates = view.instances if view else ()
        return next(
            (one for one in candidates if one.cluster_name == cluster and one.ip == ip and one.port == port), None
        )

    def beat_ages(self, namespace: str, service: str, *, counted: bool = False) -> dict[str, int]:
        """Return the ages of last beats in ms by instance key; ``counted``: those since this member claimed it."""
        found, now_ms = self._table.get(namespace, service), self._now_ms()
        stored, since_ms = (found.stored.copy(), found.claimed_ms) if found else ({}, 0)
        return {k: max(now_ms - one.beat_ms, 0) for k, one in stored.items() if not counted or one.beat_ms >= since_ms}

    def detail(self, namespace: str, service: str, ip: str, port: int, cluster: str) -> Instance:
        """Return one instance.

        Raises:
            NotFound: with the text of Nacos 1.4.1 InstanceController.detail.
        """
        view = self.service_view(namespace, service)
        if view is None:
            raise NotFound(f"no service {service} found!")
        members = [one for one in view.instances if one.cluster_name == cluster]
        if not members:
            raise NotFound(f"no ips found for cluster {cluster} in service {service}")
        for one in members:
            if one.ip == ip and one.port == port:
                return one
        raise NotFound("no matched ip found!")

    def hot_detail(self, namespace: str, service: str, ip: str, port: int, cluster: str) -> Instance | None:
        """As ``detail``, at a cost that does not grow with the service; None for cases that need ``detail``."""
        found = self._table.get(namespace, service)
        if found is None or found.hidden or found.published or found.overrides or found.foreign:
            return None
        persistent, stored = found.persistent.get(key := keys.instance_key(ip, port, cluster)), found.stored.get(key)
        return persistent if persistent is not None else stored.instance if stored is not None else None

    # --- services --------------------------------------------------------------------------------

    def service_view(self, namespace: str, service: str) -> ServiceView | None:
        """Return a consistent view of a service's instances and description; None for an unknown one."""
        found = self._table.get(namespace, service)
        return None if found is None or found.hidden else view_of(found)

    def revision(self, namespace: str, service: str) -> int:
        """Return a number that differs after any change that readers of a service see; 0 for an unknown one."""
        found = self._table.get(namespace, service)
        return 0 if found is None or found.hidden else found.revision

    def revisions(self, namespace: str) -> tuple[int, int]:
        """Return the number of a namespace's services, and the sum of their revisions."""
        found = self._table.in_namespace(namespace)
        return len(found), sum([one.revision for one in found])

    def instance_count(self, namespace: str, service: str) -> int:
        """Return the number of a service's instances. An address with several sources counts several times."""
        found = self._table.get(namespace, service)
        if found is None:
            return 0
        foreign = sum([len(part.shown) for part in (found.foreign or {}).values()])
        return len(found.stored) + len(found.persistent) + found.published_count + foreign

    def list_answer(self, namespace: str, service: str, variant: Variant) -> ListAnswer | None:
        """Return the v1 list of a service, from the cache or rendered; None for an unknown service."""
        view = self.service_view(namespace, service)
        return None if view is None else self._answers.get(view, variant)

    def hot_list_answer(self, namespace: str, service: str, variant: Variant) -> ListAnswer | None:
        """As ``list_answer``, but None also for a large service whose list is not in the cache."""
        view = self.service_view(namespace, service)
        if view is None:
            return None
        found = self._lists.find(view, variant)
        return self._answers.get(view, variant) if found is None and len(view.instances) <= QUICK_HOSTS_MAX else found

    def list_services(self, namespace: str, group: str | None) -> list[str]:
        """Return the full names of a namespace, sorted; of all groups for None."""
        names = self._table.names(namespace)
        if group is None:
            return names
        prefix = group + keys.GROUP_SPLITTER
        return [name for name in names if name.startswith(prefix)]

    def snapshots(self, only: tuple[str, str] | None = None) -> Iterator[ServiceSnapshot]:
        """Yield a snapshot of each service in the order of a dump, if it is still there when its turn comes.

        ``only``: the namespace and full name of the one service that is requested.
        """
        found = [only] if only else keys.dump_order((one.namespace, one.full_name) for one in self._table.services())
        return (snapshot for one in found if (snapshot := self.snapshot(*one)) is not None)

    def snapshot(self, namespace: str, service: str) -> ServiceSnapshot | None:
        """Return a consistent copy of a service's whole state; None for an unknown one."""
        return self._table.snapshot(keys.datum_key(namespace, service))

    def address_clients(self, contained: str = "") -> AddressClients:
        """Return the clients over HTTP whose ids contain a text."""
        return http_publishers.address_clients(self._table, contained)

    def instances_of_address(self, client_id: str) -> Iterator[tuple[Service, Instance]]:
        """Return the instances that a client over HTTP registered, each with its service."""
        return http_publishers.instances_of_address(self._table, client_id)

    def silent_ms(self, stored: StoredInstance) -> int:
        """Return the time since an instance's last beat, in ms."""
        return max(self._now_ms() - stored.beat_ms, 0)

    def judged_silence_ms(self, snapshot: ServiceSnapshot, stored: StoredInstance) -> int:
        """Return the silence of an instance as this member's health check counts it, in ms; see ``Silence``."""
        service, now_ms = self._table.get(snapshot.namespace, snapshot.full_name), self._now_ms()
        if service is None:
            return 0
        return self.silence.judged_ms(service, snapshot.version, self._writer, stored.beat_ms, now_ms)

    def counts(self, responsible: Callable[[str], bool]) -> Counts:
        """Return the registry's counts. ``responsible``: returns by full name whether this member owns a service."""
        return self._table.counts(responsible)

    def _changed(self, key: str | None) -> None:
        if key is not None:
            self._publish(InstancesChanged(key, _LOCAL))


def _interval_ms(metadata: Metadata | None, default_ms: int) -> int:
    """Return how long a client should wait between two beats. Source: Nacos 1.4.1 InstanceController.beat."""
    if metadata and PRESERVED_BEAT_INTERVAL in metadata:
        return preserved_ms(metadata, PRESERVED_BEAT_INTERVAL, BEAT_INTERVAL_MS)
    return default_ms


def _carry_on(service: Service, key: str, beaten: StoredInstance) -> None:
    """Give the beat of an instance to its successor, if one replaced it while the beat was written."""
    while (stored := service.stored.get(key)) is not beaten and stored is not None:
        stored.carry_beat(beaten)
        beaten = stored
