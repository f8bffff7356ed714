"""Registry: the instance lists of this member's services, changed by local calls, by the health check and by peers.

A change costs the same in a service of ten and of ten thousand instances. A list that a peer sent is built outside the
lock and swapped in.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from app.naming.limits.admission import Admission
from app.naming.model.contents import list_content
from app.naming.model.id_allocator import IdAllocator
from app.naming.model.instance_check import check_metadata_size
from app.naming.model.keys import parse_datum_key
from app.naming.model.meta import metadata_bytes, surplus_bytes
from app.naming.model.model import (
    DELETE_TIMEOUT_MS,
    NEVER_MS,
    NOT_DUE_MS,
    Change,
    Instance,
    Service,
    StoredInstance,
    Tombstone,
    instance_bytes,
)
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.value_limits import WORD_MARGIN_MS
from app.naming.registry import operations
from app.naming.registry.guard import shown, vanished
from app.naming.registry.merge import NO_INSTANCES, InstanceList, covers, is_alike, merge, unknown_to
from app.naming.registry.recent_changes import RecentChanges
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX, ServiceTable
from app.naming.registry.shared import Shared
from distro.model.digest import ChangedKeys
from distro.model.types import NO_VERSION, Datum, Merged, Version

SWAP_TRIES_MAX = 20
TOMBSTONE_SLACK_MS = 60_000
REMOVED_AGAIN_MS = WORD_MARGIN_MS
"""For this long a repeated deregistration of an unknown instance changes nothing. Later it is a new statement."""
MADE_BY_REMOVAL_MAX = 10_000
"""The most services that only such deregistrations made. Beyond it the oldest is forgotten."""
TOMBSTONE_KEEP_MS_MAX = 3_600_000
"""The longest time that a removal is remembered: a delete time-out may be of any length."""
TOMBSTONES_PER_SERVICE_MAX = 100_000
"""The most tombstones of a service; beyond it the oldest is dropped. Enough for the loss of a thousand addresses a
second for 90 s."""
TOMBSTONE_BYTES, TOMBSTONE_BYTES_MAX = 96, 1_400
"""The bytes of a tombstone on the wire: beside its key and its writer, and with the longest of both."""
TOMBSTONES_PER_WAIT_MS = 16
"""The more tombstones, the longer until the next search for old ones. It takes at most a hundredth of the time."""


# ``_new_tuple(C, (...))`` is ``C(...)`` without its function in Python.
_new_tuple = tuple.__new__


class Replaced(NamedTuple):
    """The changes by a registration."""

    key: str
    """The datum key of the list."""
    before: Instance | None
    """The former instance; None for a new one."""
    instance_key: str


class Registry:
    """The instance list of each service: stored instances and tombstones, under one version for replication.

    ``table`` has the services themselves, their other sources and the lock. The private steps of the last section are
    for the holder of that lock; all other methods are thread-safe.
    """

    def __init__(
        self,
        writer: str,
        tombstone_slack_ms: int = TOMBSTONE_SLACK_MS,
        guard_ms: int = 0,
        admission: Admission | None = None,
        *,
        keep_empty: bool = False,
        alone: bool = False,
    ) -> None:
        """``writer`` names this run of this member in versions.

        ``guard_ms``: how long instances that vanished without a tombstone are retained; 0 for a node without peers.
        ``admission``, ``keep_empty``: see ``ServiceTable``. ``alone``: no peer may have an instance that
        this member does not know.
        """
        self.writer = writer
        self.table = ServiceTable(tombstone_slack_ms, admission, keep_empty=keep_empty)
        self._changed = ChangedKeys(kept=not alone)
        self.held_back = 0
        """How often the guard retained instances."""
        self._guard_ms = guard_ms
        self._alone = alone
        self._made_by_removal: deque[str] = deque()
        """Keys of services that a deregistration of an unknown instance made, the latest last."""
        self._slack_ms = tombstone_slack_ms
        self._highest_own = NO_VERSION
        self._floor = NO_VERSION
        """New lists begin above it: the highest epoch among the forgotten ones."""
        self._lock = self.table.lock
        self._shared = Shared()
        self._recent = RecentChanges(kept=not alone)

    # --- local changes ----------------------------------------------------------------------------

    def register(self, command: operations.RegisterInstance, now_ms: int) -> Replaced | None:
        """Register an instance. Return the changes, None if there are none.

        Raises:
            LimitReached, TooManyRequests: as ``ServiceTable.admit``; a repeated registration is never refused.
        """
        if operations.is_numbered(command.metadata):
            self._make_id_allocator(command.namespace, command.service)
        with self._lock:
            key = operations.key_of(command)
            service = self.table.get(command.namespace, command.service)
            old = service.stored.get(key) if service is not None else None
            is_listed = service is not None and not service.dropped and not service.hidden
            if is_listed and old is not None and operations.is_repetition(old.instance, command):
                assert service is not None, "it has the instance"
                if self._alone or service.version.writer == self.writer:
                    old.beat_ms = old.last_confirmed_ms = old.changed_ms = (
                        now_ms  # a statement, though nothing changes (R14)
                    )
                    return None
                # The statement wins over statements by the last writer only under a version of this member.
                self._put(service, key, old.instance, now_ms, 0, differs=True)
                return _new_tuple(Replaced, (service.key, old.instance, key))
            size = metadata_bytes(command.metadata)
            counted = size + surplus_bytes(size, command.metadata, command.ip, command.cluster, command.app)
            if old is None:
                known, grown = None, counted
                self._admit(command, key, service, counted)
            else:
                known = old.instance
                grown = counted - instance_bytes(known)
                self.table.admit(command.namespace, command.service, service, 0, grown)
                if grown > 0:
                    self.table.admission.check_growth(command.service, service, 0, grown)
            if service is None or not is_listed:
                service = self.table.open(command.namespace, command.service, now_ms)
            ids = (service.id_allocator or service.ids()) if known is None else ()
            instance = operations.register(known, command, ids, self._shared, size)
            changed = self._put(service, key, instance, now_ms, grown, differs=is_listed)
            return None if changed is None else _new_tuple(Replaced, (changed, known, key))

    def _make_id_allocator(self, namespace: str, full_name: str) -> None:
        """Give a large service its id allocator, built without the lock. A small one needs none."""
        service = self.table.get(namespace, full_name)
        if service is None or service.id_allocator is not None or len(service.stored) <= COPIED_UNDER_LOCK_MAX:
            return
        found = service

        def know(id_allocator: IdAllocator) -> None:
            found.id_allocator = id_allocator

        self.table.with_consistent_copy(service, lambda: IdAllocator(found.ids()), know)

    def put_from_beat(self, command: operations.Beat, now_ms: int) -> str | None:
        """Add the instance that a full beat describes. Return the datum key, None if it is stored already.

        Raises:
            LimitReached, TooManyRequests: as ``ServiceTable.admit``, for an instance that is not stored.
        """
        if operations.is_numbered(command.metadata):
            self._make_id_allocator(command.namespace, command.service)
        with self._lock:
            key = operations.key_of(command)
            found = self.table.get(command.namespace, command.service)
            if found is not None and key in found.stored:
                return None
            size = metadata_bytes(command.metadata)
            size += surplus_bytes(size, command.metadata, command.ip, command.cluster, None)
            self._admit(command, key, found, size)
            service = self.table.open(command.namespace, command.service, now_ms)
            instance = operations.instance_from_beat(command, service.id_allocator or service.ids(), self._shared)
            return self._put(service, key, instance, now_ms)

    def patch(self, command: operations.PatchInstance, now_ms: int) -> str | None:
        """Change attributes of an instance. Return the datum key if that changed anything.

        Raises:
            InvalidParam: the instance does not exist.
            LimitReached: as ``ServiceTable.admit``.
        """
        with self._lock:
            service = self.table.get(command.namespace, command.service)
            key = operations.key_of(command)
            old = service.stored.get(key) if service else None
            if service is None or old is None:
                raise InvalidParam("instance not found")
            patched = operations.patch(old.instance, command)
            grown = instance_bytes(patched) - instance_bytes(old.instance)
            self.table.admit(command.namespace, command.service, service, 0, grown)
            if grown > 0:
                self.table.admission.check_growth(command.service, service, 0, grown)
            return self._put(service, key, patched, now_ms, grown)

    def set_health(self, service: Service, key: str, healthy: bool, now_ms: int, beat_ms: int | None = None) -> bool:
        """Set an instance's health. Return whether it changed.

        It stays if the instance is gone or marked or, with ``beat_ms``, has sent a beat since that last one.
        """
        with self._lock:
            stored = service.stored.get(key)
            if stored is None or stored.instance.marked or stored.instance.healthy == healthy:
                return False
            if beat_ms is not None and stored.beat_ms != beat_ms:
                return False
            self._raise_version(service, now_ms, key)
            service.stored[key] = changed = stored.with_health(healthy, service.version)
            changed.carry_beat(stored)
            wait_ms = stored.shortest_timeout_ms if healthy else stored.instance.delete_timeout_ms
            service.expect(max(stored.beat_ms, service.claimed_ms) + wait_ms + 1)
            return True

    def set_metadata(
        self, namespace: str, full_name: str, key: str, change: operations.ChangeMetadata, now_ms: int
    ) -> str | None:
        """Change keys of an instance's metadata. Return the datum key if that changed anything.

        Raises:
            InvalidParam: its metadata would be too long.
        """
        with self._lock:
            service = self.table.get(namespace, full_name)
            stored = service.stored.get(key) if service else None
            if service is None or stored is None:
                return None
            changed = operations.change_metadata(stored.instance, change)
            check_metadata_size(changed.metadata)
            return self._put(service, key, changed, now_ms)

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
            with self._lock:
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

    def remove(self, namespace: str, full_name: str, key: str, now_ms: int, beat_ms: int | None = None) -> str | None:
        """Replace an instance by a tombstone. Return the datum key, None if nothing changed.

        ``beat_ms``: its last beat as the health check saw it; remove it only if no other has come since. Without it a
        client requests the removal, and an instance that is unknown here leaves a tombstone, too: a peer may have it
        (R15).
        """
        with self._lock:
            if beat_ms is None and not self._alone and not self._has(namespace, full_name, key):
                return self._remember_removal(namespace, full_name, key, now_ms)
            service = self.table.get(namespace, full_name)
            stored = service.stored.get(key) if service else None
            if service is not None and stored is None and beat_ms is None and key in service.retained:
                # Its loss had no cause so far. This removal is one.
                stored = StoredInstance(service.retained[key], NO_VERSION, now_ms)
            if service is None or stored is None or (beat_ms is not None and stored.beat_ms != beat_ms):
                return None
            self._replace_by_tombstone(service, key, stored, now_ms, beat_ms)
            return service.key

    def _has(self, namespace: str, full_name: str, key: str) -> bool:
        service = self.table.get(namespace, full_name)
        return service is not None and (key in service.stored or key in service.retained)

    def _remember_removal(self, namespace: str, full_name: str, key: str, now_ms: int) -> str | None:
        """Store a tombstone for an unknown instance. The caller holds the lock."""
        service = self.table.get(namespace, full_name)
        known = service.tombstones.get(key) if service is not None else None
        if known is not None and now_ms - known.at_ms < REMOVED_AGAIN_MS:
            return None
        if service is None:
            service = self.table.open_hidden(namespace, full_name, now_ms)
            self._made_by_removal.append(service.key)
            if len(self._made_by_removal) > MADE_BY_REMOVAL_MAX:
                self._drop_made_by_removal(self._made_by_removal.popleft())
        self._raise_version(service, now_ms, key)
        keep_ms = DELETE_TIMEOUT_MS + self._slack_ms
        service.tombstones.pop(key, None)  # the latest goes to the end
        service.tombstones[key] = Tombstone(service.version, now_ms, keep_ms, unknown=known is None or known.unknown)
        self._bound_tombstones(service)
        service.expect(now_ms + keep_ms + 1)
        return service.key

    def _drop_made_by_removal(self, key: str) -> None:
        service = self.table.find(key)
        if service is not None and service.hidden and not service.stored:
            self._floor = max(self._floor, Version(service.version.epoch, 0, ""))
            service.version, service.tombstones = NO_VERSION, {}
            self._recent.forget(service)
            self._changed.note(key)
            service.revision += 1
            self.table.drop_if_bare(service)

    def empty(self, namespace: str, full_name: str, now_ms: int) -> str | None:
        """Replace all instances of a list by tombstones, in one change. Return the datum key if there were any."""
        found = self.table.get(namespace, full_name)
        if found is None:
            return None
        service = found
        replaced: list[dict[str, StoredInstance]] = []

        def tombstones() -> dict[str, Tombstone] | None:
            version = self._next_version(service)
            retained = {
                key: StoredInstance(retained_instance, NO_VERSION, now_ms)
                for key, retained_instance in service.retained.copy().items()
            }
            gone = retained | service.stored.copy()
            if not gone:
                return None
            known = service.tombstones.copy()
            known.update({key: self._tombstone_of(stored, version, now_ms) for key, stored in gone.items()})
            bound_tombstones(known)
            bound_tombstone_bytes(known, self.table.admission.removals_bytes_max)
            return known

        def empty(tombstones: dict[str, Tombstone] | None) -> bool:
            if tombstones is None:
                return False
            self._raise_version(service, now_ms)
            replaced.append(service.stored)
            self.table.count_stored(service, -len(service.stored), -service.stored_bytes)
            service.stored, service.retained, service.tombstones, service.id_allocator = {}, {}, tombstones, None
            service.tombstones_free = 0
            service.due_ms = 0
            self.table.hide_if_dropped(service)
            return True

        emptied = self.table.with_consistent_copy(service, tombstones, empty)
        free_in_steps(replaced)
        return service.key if emptied else None

    # --- replication ------------------------------------------------------------------------------

    def version(self, key: str) -> Version | None:
        """Return the version of a list; None for an unknown or forgotten one."""
        service = self.table.find(key)
        return None if service is None or service.version == NO_VERSION else service.version

    def versions(self) -> dict[str, Version]:
        """Return the versions of all lists, by datum key."""
        return {one.key: one.version for one in self.table.services() if one.version != NO_VERSION}

    def all_keys(self) -> list[str]:
        """Return the datum keys of all services, including those without a list."""
        return self.table.keys()

    def pop_changed(self) -> str | None:
        """Take one of the keys whose list got another version since it was last taken; None without any."""
        key = self._changed.pop()
        if key is not None:
            with self._lock:  # its change was noted under the lock, and is whole when that is free
                pass
        return key

    def is_empty(self, key: str) -> bool:
        """Return whether a list is known and has no instance."""
        service = self.table.find(key)
        return service is not None and service.version != NO_VERSION and not service.stored

    def content(self, key: str) -> tuple[Version, int] | None:
        """Return the version of a list, and 64 bits for its instances; None for an unknown list."""
        service = self.table.find(key)
        if service is None:
            return None
        known = service
        if len(known.stored) <= COPIED_UNDER_LOCK_MAX:  # nearly all, and each verify round takes some hundred
            with self._lock:
                version, stored = known.version, known.stored.copy()
        else:
            version, stored = self.table.with_consistent_copy(
                known, known.stored.copy, lambda one: (known.version, one)
            )
        return None if version == NO_VERSION else (version, list_content(key, stored))

    def highest_own(self) -> Version:
        """Return the highest version that this run gave to any list (R10)."""
        return self._highest_own

    def datums(self, keys: Iterable[str]) -> Iterator[Datum]:
        """Return the datums of the known ones of these keys, each a consistent copy made when it is asked for."""
        for key in keys:
            service = self.table.find(key)
            if service is not None and (datum := self._datum(service)) is not None:
                yield datum

    def _datum(self, service: Service) -> Datum | None:
        def datum_of(parts: tuple[dict[str, StoredInstance], dict[str, Tombstone]]) -> Datum | None:
            if service.version == NO_VERSION:
                return None
            return Datum(service.key, service.version, InstanceList(*parts))

        return self.table.with_consistent_copy(
            service, lambda: (service.stored.copy(), service.tombstones.copy()), datum_of
        )

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        """Replace a list by a received datum, if its version is still ``expected``. Return whether it was replaced."""
        value: InstanceList = datum.value
        self._take_over(datum, value.stored)
        return self._swap(datum.key, expected, datum.version, value, now_ms)

    def _take_over(self, datum: Datum, received: dict[str, StoredInstance]) -> None:
        """Give received instances the beats that this member knows of them, and share their equal parts in memory."""
        service = self.table.find(datum.key)
        known = service.stored if service is not None else {}
        for key, stored in received.items():
            old = known.get(key)
            if not stored.version.writer:  # from a member without versions
                stored.version = stored.client_version = datum.version
                stored.changed_ms = stored.beat_ms
            if old is None:
                stored.last_confirmed_ms = NEVER_MS
                self._shared.settle(stored)
                continue
            stored.last_confirmed_ms = old.last_confirmed_ms
            stored.beat_ms = max(stored.beat_ms, old.beat_ms)
            if stored.client_version == old.client_version:
                if stored.changed_ms <= old.changed_ms + WORD_MARGIN_MS:  # else the client repeated itself (R14)
                    stored.changed_ms = old.changed_ms  # not later by the time that the copy was under way
                if stored.version == old.version:
                    stored.version, stored.client_version = old.version, old.client_version
            # The field of most changes is compared first: comparing all fields takes as long as the rest of this.
            if stored.instance.metadata == old.instance.metadata and stored.instance == old.instance:
                stored.instance = old.instance  # with its JSON, once rendered for readers
            else:
                self._shared.settle(stored, old.instance)

    def take_change(self, change: Change, now_ms: int) -> bool:
        """Apply a change, other than a mere version, if it follows the one stored here (R5). Return whether it did."""
        version, stored, tombstone = change.version, change.stored, change.tombstone
        parsed = parse_datum_key(change.key)
        if parsed is None:
            return False
        service = self.table.find(change.key)
        if stored is not None:
            old = service.stored.get(change.instance_key) if service is not None else None
            self._shared.settle(stored, old.instance if old is not None else None)
        with self._lock:
            service = self.table.find(change.key)
            known = service.version if service else NO_VERSION
            is_first = not known.writer
            if is_first:
                if version.counter or version.epoch != 1 or not change.alone:
                    # Not the first change of the list: others are missing here. If real Nacos gave the list before, its
                    # first version has more in it than this change.
                    return False
                service = self.table.open(*parsed, now_ms)
            elif known.counter + 1 != version.counter or known.writer != version.writer or known.epoch != version.epoch:
                return False
            assert service is not None
            if is_first and tombstone is not None and tombstone.unknown:
                service.dropped = True
            service.retained.pop(change.instance_key, None)
            if stored is not None:
                self.table.open(*parsed, now_ms)  # lists the service again after its removal
                old = service.stored.get(change.instance_key)
                stored.last_confirmed_ms = old.last_confirmed_ms if old else NEVER_MS
                self._take_stored(service, change.instance_key, stored)
            elif tombstone is not None:
                self._take_tombstone(service, change.instance_key, tombstone)
            self._took(service, version, now_ms)
            return True

    def delta(self, key: str, base: Version) -> Datum | None:
        """Return the changes in a list of this member since ``base`` (R5); None if they are unknown, or there are none.

        The cost depends on the changes, not on the size of the list.
        """
        service, read, parts = self.table.find(key), base, InstanceList({}, {})
        left: frozenset[str] = frozenset()
        for _ in range(SWAP_TRIES_MAX if service is not None else 0):
            assert service is not None
            with self._lock:
                version = service.version
                changed = self._recent.since(service, read) if version != read else frozenset()
                if changed is None or version == base:
                    return None
                changed |= left
                if len(changed) <= COPIED_UNDER_LOCK_MAX:
                    # A key without a trace was removed so long ago that its tombstone is gone.
                    return None if _copy_parts(service, changed, parts) else Datum(key, version, parts, base)
            # Parts that change while these are read, without the lock, are read again.
            left = _copy_parts(service, changed, parts)
            read = version
        return None

    def claim_delta(self, key: str) -> Datum | None:
        """Return the claim of a list by this member, as a delta of the claimed state (R5); None after a change."""
        service = self.table.find(key)
        if service is None or service.claimed is None or service.version.writer != self.writer:
            return None
        claimer = service

        def claim(digest: int) -> Datum | None:
            claimed, version = claimer.claimed, claimer.version
            is_unchanged = claimed is not None and claimed.next(self.writer) == version
            return Datum(key, version, digest, claimed) if is_unchanged else None

        return self.table.with_consistent_copy(service, lambda: _version_digest(claimer), claim)

    def _apply_claim(self, datum: Datum, now_ms: int) -> bool:
        """Apply a peer's claim of the very state that is stored here: its instances and removals stay."""
        found = self.table.find(datum.key)
        if found is None or found.version != datum.base:
            return False
        service = found

        def take(digest: int) -> bool:
            if digest != datum.value or service.version != datum.base or self.table.find(datum.key) is not service:
                return False
            is_spent = not service.stored and not service.tombstones
            self._took(service, datum.version, now_ms - self._slack_ms - 1 if is_spent else now_ms)
            return True

        return self.table.with_consistent_copy(service, lambda: _version_digest(service), take)

    def apply_delta(self, datum: Datum, now_ms: int) -> bool:
        """Apply a delta to a list in its base state, or a later one (R5). Return whether it was applied.

        It is applied as a whole or not at all. It holds each instance that changed after its base, in its last state,
        so it brings any state since then to its version.
        """
        if datum.is_claim:
            return self._apply_claim(datum, now_ms)
        value: InstanceList = datum.value
        parsed, found, base = parse_datum_key(datum.key), self.table.find(datum.key), datum.base
        if parsed is None or found is None or base is None:
            return False
        service = found
        self._take_over(datum, value.stored)
        if len(value.stored) + len(value.tombstones) > COPIED_UNDER_LOCK_MAX or service.retained:
            stored = next(self.datums([datum.key]), None)
            if stored is None or not _is_between(base, stored.version, datum.version):
                return False
            whole = _with_parts(stored.value, value)
            return self._swap(datum.key, stored.version, datum.version, whole, now_ms)
        with self._lock:
            if service.retained or self.table.find(datum.key) is not service:
                return False
            if not _is_between(base, service.version, datum.version):
                return False
            if value.stored:
                self.table.open(*parsed, now_ms)
            for key, tombstone in value.tombstones.items():
                self._take_tombstone(service, key, tombstone)
            for key, one in value.stored.items():
                self._take_stored(service, key, one)
            self._took(service, datum.version, now_ms)
            return True

    def is_covered(self, datum: Datum) -> bool:
        """Return whether a datum has every change of the list stored here (R3)."""
        stored = next(self.datums([datum.key]), None)
        return stored is None or covers(datum.value, stored.value)

    def lacks(self, datum: Datum) -> bool:
        """Return whether a datum has a change that the list stored here lacks."""
        if not datum.value.stored and not datum.value.tombstones:
            return False  # without a copy of the list: at a start nearly all datums are like that
        stored = next(self.datums([datum.key]), None)
        return not covers(NO_INSTANCES if stored is None else stored.value, datum.value)

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        """Merge a received datum into the list (R4); see ``app.naming.registry.merge``."""
        for one in datum.value.stored.values():
            self._shared.settle(one)
        for _ in range(SWAP_TRIES_MAX):
            stored = next(self.datums([datum.key]), None)
            ours = stored or Datum(datum.key, self._floor, NO_INSTANCES)
            version = self._above_forgotten(max(ours.version, datum.version)).next(self.writer)
            merged = merge(ours.value, datum.value, version)
            if datum.version <= ours.version and merged.version_summary == ours.value.version_summary:
                return Merged.NOTHING
            ended = Merged.MADE
            if datum.version > ours.version and merged.version_summary == datum.value.version_summary:
                version, ended = datum.version, Merged.TAKEN
            if self._swap(datum.key, stored.version if stored else None, version, merged, now_ms):
                replaced = [ours.value.stored]
                del stored, ours
                free_in_steps(replaced)
                return ended
        return Merged.NOTHING  # a local change came before each swap; the next verify round tries again

    def reissue(self, datum: Datum, now_ms: int, *, restoring: bool) -> bool:
        """Give a list the next version if a peer has other instances under the stored one (R3). Return whether it did.

        ``restoring``: take the datum's instances that are unknown here, even as a removal, whatever its version. Each
        gets one fresh time-out, as nobody knows yet where it beats.

        If the datum's version is of this run, which did not give it, and so above the stored one, any list gets a new
        epoch (R10).
        """
        if datum.version.writer == self.writer and datum.version > (self.version(datum.key) or NO_VERSION):
            return self._give_above(datum, now_ms)
        stored = next(self.datums([datum.key]), None)
        if stored is None:
            return False
        if restoring and (unknown := unknown_to(stored.value, datum.value)):
            for one in unknown.values():
                one.beat_ms = now_ms
            return self.merge(replace(datum, value=InstanceList(unknown, {})), now_ms) is not Merged.NOTHING
        if stored.version != datum.version or is_alike(stored.value, datum.value):
            return False
        with self._lock:
            service = self.table.find(datum.key)
            if service is None or service.version != stored.version:
                return False  # a change that came meanwhile has a new version already
            self._raise_version(service, now_ms)
            return True

    def _give_above(self, datum: Datum, now_ms: int) -> bool:
        """Give a list, an empty one if it is unknown, a version of an epoch above a datum's. Return whether it did."""
        version = datum.version.next_epoch(self.writer)
        with self._lock:
            service = self.table.find(datum.key)
            if service is not None and service.version != NO_VERSION:
                if service.version >= version:
                    return False
                self._recent.forget(service)
                self._give_version(service, version, now_ms)
                return True
        return self._swap(datum.key, None, version, InstanceList({}, {}), now_ms)

    def claim(self, key: str, now_ms: int) -> bool:
        """Become the writer of a list that another member wrote (R2). Return whether that changed its version."""
        with self._lock:
            service = self.table.find(key)
            if service is None or service.version == NO_VERSION or service.version.writer == self.writer:
                return False
            # Peers know the data of real Nacos under versions of their own.
            claimed = service.version if "~" in service.version.writer else None
            self._raise_version(service, now_ms)
            service.claimed = claimed
            return True

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        """Return whether a list is empty, of tombstones too, and has not changed for the tombstones' slack (R6)."""
        service = self.table.find(key)
        return (
            service is not None
            and service.version != NO_VERSION
            and not service.stored
            and not service.tombstones
            and now_ms - service.changed_ms > self._slack_ms
        )

    def forgettable_at_ms(self, service: Service) -> int:
        """Return the earliest ``now_ms`` at which ``is_forgettable`` can be true, if nothing changes until then."""
        return service.changed_ms + self._slack_ms + 1

    def forget(self, key: str, now_ms: int | None = None) -> None:
        """Drop a list and its version (R6). The service stays if it has other sources.

        ``now_ms``: given if a peer no longer knows the key; the guard then retains the instances for a while.
        """
        found = self.table.find(key)
        if found is None:
            return
        service = found
        replaced: list[dict[str, StoredInstance]] = []

        def forget(lost: Mapping[str, Instance]) -> None:
            if self.table.find(key) is not service:
                return
            if now_ms is not None:
                self._retain(service, lost, now_ms)
            replaced.append(service.stored)
            self._forget(service)

        if now_ms is None:
            with self._lock:
                forget({})
        else:
            self.table.with_consistent_copy(service, lambda: vanished(shown(service), NO_INSTANCES), forget)
        free_in_steps(replaced)

    def forget_spent(self, key: str, now_ms: int) -> bool:
        """Drop a list as ``forget`` does, if it is forgettable now. Return whether it was."""
        with self._lock:
            service = self.table.find(key)
            if service is None or not self.is_forgettable(key, now_ms):
                return False
            self._forget(service)
            return True

    def _swap(self, key: str, expected: Version | None, version: Version, value: InstanceList, now_ms: int) -> bool:
        parsed = parse_datum_key(key)
        if parsed is None:
            return False
        clusters = {stored.instance.cluster_name for stored in value.stored.values()}
        shortest_timeout_ms = min((stored.shortest_timeout_ms for stored in value.stored.values()), default=NOT_DUE_MS)
        size = sum([instance_bytes(stored.instance) for stored in value.stored.values()])
        known = self.table.find(key)
        replaced: list[dict[str, StoredInstance]] = []

        def swap(lost: Mapping[str, Instance]) -> bool:
            found = self.table.find(key)
            if (found.version if found else NO_VERSION) != (expected or NO_VERSION):
                return False
            if found is None and not value.stored and all(one.unknown for one in value.tombstones.values()):
                service = self.table.open_hidden(*parsed, now_ms)
            else:
                service = self.table.open(*parsed, now_ms) if value.stored or found is None else found
            replaced.append(service.stored)
            if version.writer == self.writer:
                self._highest_own = max(self._highest_own, version)
                if service.version.writer != self.writer:
                    service.claimed_ms = now_ms
            self.table.count_stored(service, len(value.stored) - len(service.stored), size - service.stored_bytes)
            self._retain(service, lost if service is known else {}, now_ms)
            service.version, service.stored, service.tombstones = version, value.stored, value.tombstones
            service.tombstones_free = 0
            self._recent.forget(service)
            self._changed.note(service.key)
            service.clusters = service.clusters | clusters
            service.shortest_timeout_ms, service.id_allocator = shortest_timeout_ms, None
            # If its writer has no removals left, their time is over, and does not begin anew here.
            is_spent = not value.stored and not value.tombstones and version.writer != self.writer
            service.changed_ms = now_ms - self._slack_ms - 1 if is_spent else now_ms
            service.revision += 1
            service.due_ms = 0
            self.table.hide_if_dropped(service)
            return True

        if known is None or not self._guard_ms:
            with self._lock:
                swapped = swap({})
        else:
            swapped = self.table.with_consistent_copy(known, lambda: vanished(shown(known), value), swap)
        for key, old in replaced[0].items() if replaced else ():
            new = value.stored.get(key)
            if new is not None and new is not old:
                new.carry_beat(old)
        free_in_steps(replaced)
        return swapped

    # --- what the health check clears away ---------------------------------------------------------

    def drop_retained(self, service: Service, now_ms: int) -> bool:
        """Drop the retained instances whose time is over. Return whether there were any."""
        with self._lock:
            if not service.retained or now_ms < service.retained_until_ms:
                return False
            service.retained = {}
            service.revision += 1
            self.table.drop_if_bare(service)
            return True

    def prune_tombstones(self, service: Service, now_ms: int) -> int:
        """Drop tombstones that every member has had time to learn of (R1). Return when to call again (monotonic ms)."""
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

    # --- steps: the caller holds the lock ---------------------------------------------------------

    def _take_stored(self, service: Service, key: str, stored: StoredInstance) -> None:
        """Store an instance from a peer's change in the list."""
        old = service.stored.get(key)
        service.stored[key] = stored
        self._count(service, old, stored)
        if old is not None:
            stored.carry_beat(old)
        service.tombstones.pop(key, None)
        service.clusters.add(stored.instance.cluster_name)
        shortest_timeout_ms = stored.shortest_timeout_ms
        if shortest_timeout_ms < service.shortest_timeout_ms:
            service.shortest_timeout_ms = shortest_timeout_ms
        service.expect(stored.beat_ms + shortest_timeout_ms + 1)

    def _take_tombstone(self, service: Service, key: str, tombstone: Tombstone) -> None:
        """Store a removal from a peer's change in the list."""
        self._count(service, service.stored.pop(key, None), None)
        service.tombstones.pop(key, None)  # the latest goes to the end
        service.tombstones[key] = tombstone
        self._bound_tombstones(service)
        service.expect(tombstone.at_ms + tombstone.keep_ms + 1)

    def _took(self, service: Service, version: Version, now_ms: int) -> None:
        """Give the list the version of the peer's change that it now has."""
        service.id_allocator = None
        self._recent.forget(service)
        service.version = version
        self._changed.note(service.key)
        service.revision += 1
        service.changed_ms = now_ms
        self.table.hide_if_dropped(service)

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
        self.table.admit(command.namespace, command.service, service, 0 if old else 1, grown)
        self.table.admission.check_growth(command.service, service, 1, size)

    def _count(self, service: Service, old: StoredInstance | None, new: StoredInstance | None) -> None:
        """Count an instance of the list that came, went or was replaced."""
        size = (instance_bytes(new.instance) if new is not None else 0) - (
            instance_bytes(old.instance) if old is not None else 0
        )
        self.table.count_stored(service, (new is not None) - (old is not None), size)

    def _put(
        self,
        service: Service,
        key: str,
        instance: Instance,
        now_ms: int,
        grown: int | None = None,
        *,
        differs: bool = False,
    ) -> str | None:
        """Store an instance in a list, unless it is there already.

        ``grown``: by how many counted bytes the list grows; ``differs``: the instance is known to differ from the
        stored one.
        """
        old = service.stored.get(key)
        if old is not None:
            old.beat_ms = old.last_confirmed_ms = old.changed_ms = now_ms  # it counts as a beat, changed or not
            if not differs and old.instance == instance:
                return None
        self._raise_version(service, now_ms, key)
        stored = StoredInstance(instance, service.version, now_ms)
        if not service.stored:
            service.shortest_timeout_ms = NOT_DUE_MS
        service.stored[key] = stored
        if grown is None:
            self._count(service, old, stored)
        elif grown or old is None:
            self.table.count_stored(service, old is None, grown)
        service.tombstones.pop(key, None)
        service.retained.pop(key, None)
        service.clusters.add(instance.cluster_name)
        if service.id_allocator is not None:
            service.id_allocator.give(old.instance.instance_id if old else None)
            service.id_allocator.take(instance.instance_id)
        shortest_timeout_ms = stored.shortest_timeout_ms
        if shortest_timeout_ms < service.shortest_timeout_ms:
            service.shortest_timeout_ms = shortest_timeout_ms
        service.expect(now_ms + shortest_timeout_ms + 1)
        return service.key

    def _replace_by_tombstone(
        self, service: Service, key: str, stored: StoredInstance, now_ms: int, beat_ms: int | None = None
    ) -> None:
        self._raise_version(service, now_ms, key)
        self._count(service, service.stored.pop(key, None), None)
        service.retained.pop(key, None)
        if service.id_allocator is not None:
            service.id_allocator.give(stored.instance.instance_id)
        tombstone = self._tombstone_of(stored, service.version, now_ms, beat_ms)
        service.tombstones[key] = tombstone
        self._bound_tombstones(service)
        service.expect(tombstone.at_ms + tombstone.keep_ms + 1)

    def _bound_tombstones(self, service: Service) -> None:
        """Drop the oldest tombstones beyond the bound, after one was added."""
        bound_tombstones(service.tombstones)
        service.tombstones_free -= 1
        if service.tombstones_free < 0:
            service.tombstones_free = bound_tombstone_bytes(service.tombstones, self.table.admission.removals_bytes_max)

    def _tombstone_of(
        self, stored: StoredInstance, version: Version, now_ms: int, beat_ms: int | None = None
    ) -> Tombstone:
        at_ms = now_ms if beat_ms is None else beat_ms
        keep_ms = min(stored.instance.delete_timeout_ms + self._slack_ms, TOMBSTONE_KEEP_MS_MAX) + now_ms - at_ms
        return Tombstone(version, at_ms, keep_ms)

    def _forget(self, service: Service) -> None:
        # A new list of this key must not repeat a version: other members may still remember it.
        self._floor = max(self._floor, Version(service.version.epoch, 0, ""))
        self.table.count_stored(service, -len(service.stored), -service.stored_bytes)
        service.version, service.stored, service.tombstones, service.id_allocator = NO_VERSION, {}, {}, None
        self._recent.forget(service)
        self._changed.note(service.key)
        service.revision += 1
        service.due_ms = 0
        self.table.drop_if_bare(service)

    def _retain(self, service: Service, lost: Mapping[str, Instance], now_ms: int) -> None:
        """Keep showing ``lost`` instances for a while; see ``guard``."""
        if not self._guard_ms:
            return
        if lost and not service.retained:
            service.retained_until_ms = now_ms + self._guard_ms
            self.held_back += 1
        service.retained = dict(lost)

    def _raise_version(self, service: Service, now_ms: int, key: str = "") -> None:
        """Give a list the version of its next change. The first one after another writer restarts its time-outs (R2).

        ``key``: the instance that changes; empty if it is not a single one, and peers need the whole list.
        """
        known, writer = service.version, self.writer
        version = known.next(writer) if known.writer == writer else self._next_version(service)
        if version.epoch != service.version.epoch:
            service.claimed_ms = now_ms
            service.due_ms = 0
            self._recent.forget(service)
        self._give_version(service, version, now_ms, key)

    def _give_version(self, service: Service, version: Version, now_ms: int, key: str = "") -> None:
        service.version = version
        if not self._alone:  # both are for peers
            self._changed.note(service.key)
            if key:
                self._recent.note(service, key)
            else:
                self._recent.forget(service)
        highest = self._highest_own  # compared by hand: each change comes here, and its writer is this member
        if version.epoch > highest.epoch or (version.epoch == highest.epoch and version.counter > highest.counter):
            self._highest_own = version
        service.revision += 1
        service.changed_ms = now_ms

    def _next_version(self, service: Service) -> Version:
        if service.version.writer == self.writer:
            return service.version.next(self.writer)
        return self._above_forgotten(service.version).next(self.writer)

    def _above_forgotten(self, version: Version) -> Version:
        """Return the version; for no list, or one of real Nacos, no lower than that of any list forgotten here.

        Other members may still have such a key under a version of this run.
        """
        return max(version, self._floor) if version.epoch == NO_VERSION.epoch else version


def _copy_parts(service: Service, keys: Iterable[str], into: InstanceList) -> frozenset[str]:
    """Copy the current state of these instances. Return those that are neither stored nor removed."""
    without_trace = []
    for key in keys:
        stored, tombstone = service.stored.get(key), service.tombstones.get(key)
        into.stored.pop(key, None)
        into.tombstones.pop(key, None)
        if stored is not None:
            into.stored[key] = stored
        elif tombstone is not None:
            into.tombstones[key] = tombstone
        else:
            without_trace.append(key)
    return frozenset(without_trace)


def _version_digest(service: Service) -> int:
    return InstanceList(service.stored.copy(), service.tombstones.copy()).version_digest


def _is_between(base: Version, stored: Version, version: Version) -> bool:
    """Return whether a stored state is the base of a delta, or a later one before its version."""
    return (
        base.counter <= stored.counter < version.counter
        and base.writer == stored.writer == version.writer
        and base.epoch == stored.epoch == version.epoch
    )


def _with_parts(whole: InstanceList, parts: InstanceList) -> InstanceList:
    """Return a copy of a list with these instances and tombstones in place of its own."""
    stored, tombstones = dict(whole.stored), dict(whole.tombstones)
    for key, tombstone in parts.tombstones.items():
        stored.pop(key, None)
        tombstones.pop(key, None)
        tombstones[key] = tombstone
    for key, one in parts.stored.items():
        tombstones.pop(key, None)
        stored[key] = one
    bound_tombstones(tombstones)
    return InstanceList(stored, tombstones)


def bound_tombstones(tombstones: dict[str, Tombstone]) -> None:
    """Drop the oldest tombstones beyond ``TOMBSTONES_PER_SERVICE_MAX``."""
    while len(tombstones) > TOMBSTONES_PER_SERVICE_MAX:
        del tombstones[next(iter(tombstones))]


def free_in_steps(replaced: list[dict[str, StoredInstance]]) -> None:
    """Free the instances of replaced lists one by one: freeing all at once stops every thread for many milliseconds.

    The caller keeps no other reference. The mappings stay as they are: readers without the lock may be on them.
    """
    while replaced:
        left = list(replaced.pop().values())
        while left:
            left.pop()


def bound_tombstone_bytes(tombstones: dict[str, Tombstone], bytes_max: int) -> int:
    """Drop the oldest tombstones beyond ``bytes_max``, and a few more. Return how many more fit, whatever their keys.

    0 means no bound.
    """
    if bytes_max == 0:
        return TOMBSTONES_PER_SERVICE_MAX
    sizes = [
        (len(key) if key.isascii() else len(key.encode())) + len(one.version.writer) + TOMBSTONE_BYTES
        for key, one in tombstones.items()
    ]
    size = sum(sizes)
    if size > bytes_max:
        for key, one_size in zip(list(tombstones), sizes, strict=True):
            if size <= bytes_max * 7 // 8:
                break
            del tombstones[key]
            size -= one_size
    return (bytes_max - size) // TOMBSTONE_BYTES_MAX
