"""LocalWrites: the changes that clients and the health check make in this member's instance lists."""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from app.naming.model.id_allocator import IdAllocator
from app.naming.model.keys import (
    WORD_MARGIN_MS,
    check_metadata_size,
    instance_key,
    metadata_bytes,
    surplus_bytes,
)
from app.naming.model.model import Instance, Service, StoredInstance, Tombstone, instance_bytes
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry import operations
from app.naming.registry.list_state import ListState, free_in_steps
from app.naming.registry.operations import Shared
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX, ServiceTable
from distro.model.types import NO_VERSION

REMOVED_AGAIN_MS = WORD_MARGIN_MS
"""For this long a repeated deregistration of an unknown instance changes nothing. Later it is a new statement."""
MADE_BY_REMOVAL_MAX = 10_000
"""The most services that only such deregistrations made. Beyond it the oldest is forgotten."""

# ``_new_tuple(C, (...))`` is ``C(...)`` without its function in Python.
_new_tuple = tuple.__new__


class Replaced(NamedTuple):
    """The change of one instance by its registration or removal."""

    key: str
    """The datum key of the list."""
    before: Instance | None
    """The former instance; None for an unknown one."""
    instance_key: str


class LocalWrites:
    """Writes of this member, each under a separate version. Thread-safe."""

    def __init__(self, table: ServiceTable, lists: ListState, shared: Shared) -> None:
        self._table = table
        self.writer = lists.writer
        """This run, as the versions of its changes name it."""
        self._lists = lists
        self._shared = shared
        self._made_by_removal: deque[str] = deque()
        """Keys of services that a deregistration of an unknown instance made, the latest last."""

    def register(self, command: operations.RegisterInstance, now_ms: int, key: str = "") -> Replaced | None:
        """Register an instance. Return the changes, None if there are none.

        ``key``: its instance key, if the caller has it.

        Raises:
            LimitReached, TooManyRequests: as ``ServiceTable.admit``; a repeated registration is never refused.
        """
        is_numbered = operations.is_numbered(command.metadata)
        if is_numbered:
            self._make_id_allocator(command.namespace, command.service)
        key = key or instance_key(command.ip, command.port, command.cluster)
        with self._table.lock:
            service = self._table.get(command.namespace, command.service)
            old = service.stored.get(key) if service is not None else None
            is_listed = service is not None and not service.dropped and not service.hidden
            if is_listed and old is not None and operations.is_repetition(old.instance, command):
                assert service is not None, "it has the instance"
                if self._lists.alone or service.version.writer == self._lists.writer:
                    old.beat_ms = old.last_confirmed_ms = old.changed_ms = (
                        now_ms  # a statement, though nothing changes (R14)
                    )
                    return None
                # The statement wins over statements by the last writer only under a version of this member.
                self._lists.put(service, key, old.instance, now_ms, old.counted_bytes, differs=True)
                return _new_tuple(Replaced, (service.key, old.instance, key))
            size = metadata_bytes(command.metadata)
            counted = size + surplus_bytes(size, command.metadata, command.ip, command.cluster, command.app)
            if old is None:
                known = None
                self._admit(command, key, service, counted)
            else:
                known = old.instance
                grown = counted - old.counted_bytes
                if grown > 0 or not is_listed:
                    self._table.admit(command.namespace, command.service, service, 0, grown)
                if grown > 0:
                    self._table.admission.check_growth(command.service, service, 0, grown)
            if service is None or not is_listed:
                service = self._table.open(command.namespace, command.service, service, now_ms)
            ids = (service.id_allocator or service.ids()) if is_numbered and known is None else None
            instance = operations.register(known, command, ids, self._shared, size)
            changed = self._lists.put(service, key, instance, now_ms, counted, differs=is_listed)
            return None if changed is None else _new_tuple(Replaced, (changed, known, key))

    def _make_id_allocator(self, namespace: str, full_name: str) -> None:
        """Give a large service its id allocator, built without the lock. A small one does not need it."""
        service = self._table.get(namespace, full_name)
        if service is None or service.id_allocator is not None or len(service.stored) <= COPIED_UNDER_LOCK_MAX:
            return
        found = service

        def know(id_allocator: IdAllocator) -> None:
            found.id_allocator = id_allocator

        self._table.with_consistent_copy(service, lambda: IdAllocator(found.ids()), know)

    def put_from_beat(self, command: operations.Beat, now_ms: int) -> str | None:
        """Add the instance that a full beat describes. Return the datum key, None if it is stored already.

        Raises:
            LimitReached, TooManyRequests: as ``ServiceTable.admit``, for an instance that is not stored.
        """
        if operations.is_numbered(command.metadata):
            self._make_id_allocator(command.namespace, command.service)
        with self._table.lock:
            key = operations.key_of(command)
            found = self._table.get(command.namespace, command.service)
            if found is not None and key in found.stored:
                return None
            size = metadata_bytes(command.metadata)
            size += surplus_bytes(size, command.metadata, command.ip, command.cluster, None)
            self._admit(command, key, found, size)
            service = self._table.open(command.namespace, command.service, found, now_ms)
            instance = operations.instance_from_beat(command, service.id_allocator or service.ids(), self._shared)
            return self._lists.put(service, key, instance, now_ms, size)

    def patch(self, command: operations.PatchInstance, now_ms: int) -> str | None:
        """Change attributes of an instance. Return the datum key if that changed anything.

        Raises:
            InvalidParam: the instance does not exist.
            LimitReached: as ``ServiceTable.admit``.
        """
        with self._table.lock:
            service = self._table.get(command.namespace, command.service)
            key = operations.key_of(command)
            old = service.stored.get(key) if service else None
            if service is None or old is None:
                raise InvalidParam("instance not found")
            patched = operations.patch(old.instance, command)
            counted = instance_bytes(patched)
            grown = counted - old.counted_bytes
            self._table.admit(command.namespace, command.service, service, 0, grown)
            if grown > 0:
                self._table.admission.check_growth(command.service, service, 0, grown)
            return self._lists.put(service, key, patched, now_ms, counted)

    def set_metadata(
        self, namespace: str, full_name: str, key: str, change: operations.ChangeMetadata, now_ms: int
    ) -> str | None:
        """Change keys of an instance's metadata. Return the datum key if that changed anything.

        Raises:
            InvalidParam: its metadata would be too long.
        """
        with self._table.lock:
            service = self._table.get(namespace, full_name)
            stored = service.stored.get(key) if service else None
            if service is None or stored is None:
                return None
            changed = operations.change_metadata(stored.instance, change)
            check_metadata_size(changed.metadata)
            return self._lists.put(service, key, changed, now_ms)

    def set_health(self, service: Service, key: str, healthy: bool, now_ms: int, beat_ms: int | None = None) -> bool:
        """Set an instance's health. Return whether it changed.

        It stays if the instance is gone or marked or, with ``beat_ms``, has sent a beat since that last one.
        """
        with self._table.lock:
            stored = service.stored.get(key)
            if stored is None or stored.instance.marked or stored.instance.healthy == healthy:
                return False
            if beat_ms is not None and stored.beat_ms != beat_ms:
                return False
            self._lists.raise_version(service, now_ms, key)
            service.stored[key] = changed = stored.with_health(healthy, service.version)
            service.revision += 1
            changed.carry_beat(stored)
            wait_ms = stored.shortest_timeout_ms if healthy else stored.instance.delete_timeout_ms
            service.expect(max(stored.beat_ms, service.claimed_ms) + wait_ms + 1)
            return True

    def take_health(self, service: Service, healthy: Mapping[str, bool]) -> bool:
        """Set the health of a copy's instances, by ``ip:port``, as their owner, a real Nacos, reports it.

        Returns whether any changed. The version stays: only the owner of a list raises it.
        """
        flipped = [
            key
            for key, stored in service.stored.copy().items()
            if healthy.get(f"{stored.instance.ip}:{stored.instance.port}", stored.instance.healthy)
            is not stored.instance.healthy
        ]
        changed = False
        for start in range(0, len(flipped), COPIED_UNDER_LOCK_MAX):
            with self._table.lock:
                for key in flipped[start : start + COPIED_UNDER_LOCK_MAX]:
                    stored = service.stored.get(key)
                    if stored is None or stored.instance.marked:
                        continue
                    wanted = healthy[f"{stored.instance.ip}:{stored.instance.port}"]
                    if stored.instance.healthy is wanted:
                        continue
                    service.stored[key] = flipped_one = stored.with_health(wanted, stored.version)
                    flipped_one.carry_beat(stored)
                    changed = True
                    service.revision += 1
                    service.due_ms = 0
        return changed

    def remove(
        self, namespace: str, full_name: str, key: str, now_ms: int, beat_ms: int | None = None
    ) -> Replaced | None:
        """Replace an instance by a tombstone. Return the change, None if nothing changed.

        ``beat_ms``: its last beat as the health check saw it; remove it only if no other has come since. Without it a
        client requests the removal, and an instance that is unknown here leaves a tombstone, too: a peer may have it
        (R15).
        """
        with self._table.lock:
            if beat_ms is None and not self._lists.alone and not self._has(namespace, full_name, key):
                remembered = self._remember_removal(namespace, full_name, key, now_ms)
                return None if remembered is None else Replaced(remembered, None, key)
            service = self._table.get(namespace, full_name)
            stored = service.stored.get(key) if service else None
            before = stored.instance if stored is not None else None
            if service is not None and stored is None and beat_ms is None and key in service.retained:
                # Its loss had no cause so far. This removal is one.
                stored = StoredInstance(service.retained[key], NO_VERSION, now_ms)
            if service is None or stored is None or (beat_ms is not None and stored.beat_ms != beat_ms):
                return None
            self._lists.replace_by_tombstone(service, key, stored, now_ms, beat_ms)
            return _new_tuple(Replaced, (service.key, before, key))

    def _has(self, namespace: str, full_name: str, key: str) -> bool:
        service = self._table.get(namespace, full_name)
        return service is not None and (key in service.stored or key in service.retained)

    def _remember_removal(self, namespace: str, full_name: str, key: str, now_ms: int) -> str | None:
        """Store a tombstone for an unknown instance. The caller holds the lock."""
        service = self._table.get(namespace, full_name)
        known = service.tombstones.get(key) if service is not None else None
        if known is not None and now_ms - known.at_ms < REMOVED_AGAIN_MS:
            return None
        if service is None:
            service = self._table.open_hidden(namespace, full_name, now_ms)
            self._made_by_removal.append(service.key)
            if len(self._made_by_removal) > MADE_BY_REMOVAL_MAX:
                self._drop_made_by_removal(self._made_by_removal.popleft())
        self._lists.remember_removal(service, key, now_ms, unknown=known is None or known.unknown)
        return service.key

    def _drop_made_by_removal(self, key: str) -> None:
        service = self._table.find(key)
        if service is not None and service.hidden and not service.stored:
            self._lists.forget(service)

    def empty(self, namespace: str, full_name: str, now_ms: int) -> str | None:
        """Replace all instances of a list by tombstones, in one change. Return the datum key if there were any."""
        found = self._table.get(namespace, full_name)
        if found is None:
            return None
        service = found
        replaced: list[dict[str, StoredInstance]] = []

        def tombstones() -> dict[str, Tombstone] | None:
            version = self._lists.next_version(service)
            retained = {
                key: StoredInstance(retained_instance, NO_VERSION, now_ms)
                for key, retained_instance in service.retained.copy().items()
            }
            gone = retained | service.stored.copy()
            if not gone:
                return None
            known = service.tombstones.copy()
            known.update({key: self._lists.tombstone_of(stored, version, now_ms) for key, stored in gone.items()})
            self._lists.bound(known)
            return known

        def empty(tombstones: dict[str, Tombstone] | None) -> bool:
            if tombstones is None:
                return False
            self._lists.raise_version(service, now_ms)
            replaced.append(service.stored)
            self._table.count_stored(service, -len(service.stored), -service.stored_bytes)
            service.stored, service.retained, service.tombstones, service.id_allocator = {}, {}, tombstones, None
            service.tombstones_free = service.due_ms = 0
            service.revision += 1
            self._table.hide_if_dropped(service)
            return True

        emptied = self._table.with_consistent_copy(service, tombstones, empty)
        free_in_steps(replaced)
        return service.key if emptied else None

    def _admit(
        self,
        command: operations.RegisterInstance | operations.Beat,
        key: str,
        service: Service | None,
        size: int,
    ) -> None:
        """Refuse the addition of an unstored instance, with ``size`` bytes that count, beyond a limit."""
        # A retained instance still exists for its client.
        old = service.retained.get(key) if service is not None else None
        grown = size - (instance_bytes(old) if old else 0)
        self._table.admit(command.namespace, command.service, service, 0 if old else 1, grown)
        self._table.admission.check_growth(command.service, service, 1, size)
