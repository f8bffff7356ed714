"""Records: the values that must outlive a restart, each with a key and a version. Removals are records, too.

Kinds: service metadata, persistent instances, namespaces, switches. Every member holds all of them, in memory and,
through ``RecordDisk``, on its disk; the engine replicates them as its second resource type, by the same rules as
instance lists.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from threading import local

from app.naming.model.contents import record_content
from app.naming.model.nacos_errors import NacosError, StorageError
from app.naming.records.record import Record, RecordDisk, Value
from app.naming.records.record_keys import NAMESPACE_PREFIX, record_tag
from app.naming.records.write_order import GroupCommit, WriteTurns
from distro.model.digest import ChangedKeys
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, Datum, Merged, Version

KEEP_REMOVED_MS = 7 * 86_400_000
"""How long a removal is kept: a member that was away for less cannot bring a removed record back."""

SAID_AGAIN_MS = 1_000
"""A client that states the same again within this time only repeats a call."""
UNKNOWN_REMOVED_MAX = 10_000
"""The most removals of unknown keys that are kept: anybody may send any number of them."""


class Records:
    """All durable records of this member, and the engine's DistroStore of them.

    Readers take no lock and see the state on a disk: on this member's, or, for the milliseconds until this one has it
    too, on that of the member which sent it. Writes of one tag, of all namespaces, and of all users' records come
    one after the other, each from its decision to the end of its consequences (``WriteTurns``). All others are decided
    side by side and share the waits for the disk (``GroupCommit``). The consequences come in the order in which the
    disk took the writes, one at a time: ``on_change`` and ``on_written`` may read, and must write no record.
    """

    def __init__(
        self,
        writer: str,
        disk: RecordDisk,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        on_change: Callable[[Record], None],
        check_write: Callable[[], None] = lambda: None,
        *,
        check_record: Callable[[str, Value | None], None] = lambda _key, _value: None,
        alone: bool = False,
        check_size: Callable[[str, Value | None, Value], None] = lambda _key, _before, _value: None,
        on_written: Callable[[str, Value | None, Value | None], None] = lambda _key, _before, _after: None,
    ) -> None:
        """``check_write``: called when a local write has its turn; raises if it may no longer be done (R13).

        ``check_size``: called with the key, the value before and the one that a call would set; raises if that is too
        large to be stored, sent and loaded. ``check_record``: refuses, by ``InvalidParam``, records that the other
        members and the next start would not accept (R18). ``on_written``: called for each record that a call changed
        here, by its thread: key, value before, value after.

        ``alone``: True without peers. Only peers need statements that change nothing.
        """
        self.writer = writer
        self._check_write = check_write
        self._check_size = check_size
        self._check_record = check_record
        self._disk = disk
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._on_change = on_change
        self._turns = WriteTurns()
        self._commits = GroupCommit(disk, self._offset_ms)
        self._here = _Here()
        self._records: dict[str, Record] = {}
        self._highest_own = NO_VERSION
        self._alone = alone
        self._changed = ChangedKeys(kept=not alone)
        self._on_written = on_written
        self._unknown_removed: deque[Record] = deque()
        """Removals of keys that were unknown, the oldest first."""

    tag = staticmethod(record_tag)

    def read_disk(self, shown: Callable[[Iterable[Record]], Iterable[Record]] = iter) -> int:
        """Load all records from the disk. Return their number. ``shown`` may count them as they are read."""
        now_ms = self._monotonic_ms()
        for read in shown(self._disk.read_all(self._offset_ms())):
            is_to_come = read.changed_ms is not None and read.changed_ms > now_ms  # the wall clock went back
            record = replace(read, changed_ms=None) if is_to_come else read
            self._records[record.key] = record
            self._changed.note(record.key)
            self._on_change(record)
        return len(self._records)

    def _offset_ms(self) -> int:
        return self._wall_ms() - self._monotonic_ms()

    # --- reading --------------------------------------------------------------------------------

    def value(self, key: str) -> Value | None:
        """Return the value of a key; None if it is unknown or removed."""
        record = self._records.get(key)
        return record.value if record else None

    def changed_wall_ms(self, key: str) -> int | None:
        """Return when a key's value was set; None if it is unknown or removed."""
        record = self._records.get(key)
        return record.changed_wall_ms if record and record.value is not None else None

    def live(self, prefix: str) -> list[Record]:
        """Return the records with this key prefix that have a value, sorted by key."""
        return sorted(
            (one for one in list(self._records.values()) if one.value is not None and one.key.startswith(prefix)),
            key=lambda one: one.key,
        )

    def record(self, key: str) -> Record | None:
        """Return the record of a key; None if it is unknown or removed."""
        record = self._records.get(key)
        return record if record and record.value is not None else None

    def version(self, key: str) -> Version | None:
        """Return the version of a record, or of its removal."""
        record = self._records.get(key)
        return record.version if record else None

    def versions(self) -> dict[str, Version]:
        """Return the versions of all records, by key."""
        return {record.key: record.version for record in list(self._records.values())}

    def all_keys(self) -> list[str]:
        """Return the keys of all records."""
        return list(self._records)

    def pop_changed(self) -> str | None:
        """Take one of the keys whose record got another version since it was last taken; None without any."""
        return self._changed.pop()

    def is_empty(self, key: str) -> bool:
        """Return whether a record is a removal."""
        stored = self._records.get(key)
        return stored is not None and stored.value is None

    def content(self, key: str) -> tuple[Version, int] | None:
        """Return the version of a record, and 64 bits for its value; None for an unknown one."""
        stored = self._records.get(key)
        if stored is None:
            return None
        return stored.version, record_content(key, stored.changed.to_text(), stored.value)

    def highest_own(self) -> Version:
        """Return the highest version that this run gave to any record (R10)."""
        return self._highest_own

    def datums(self, keys: Iterable[str]) -> list[Datum]:
        """Return the datums of the known ones of these keys. Each value is a ``Record``."""
        found = (self._records.get(key) for key in keys)
        return [Datum(record.key, record.version, record) for record in found if record is not None]

    # --- writing --------------------------------------------------------------------------------

    def put_all(
        self,
        changes: Mapping[str, Callable[[Value | None], Value | None]],
        *,
        said: Collection[str] = (),
        force: bool = False,
        by_check: bool = False,
    ) -> list[str]:
        """Set each record to ``change(value)`` (None removes), on disk in one step. Return the keys that changed.

        ``said``: keys that a client named. Its statement is kept even if it changes nothing here, because the other
        side of a partition may have an earlier, different one (R14, R15). A repetition of the last statement is not
        kept.

        With ``force`` a removal is written even for an unknown key. ``by_check``: a health check makes the change, no
        client.

        Raises:
            InvalidParam: no member could store a record as it would be (R18); nothing changed.
            StorageError: the write failed; nothing changed.
            And the errors of ``check_write`` and ``check_size``.
        """
        with self._turn_at(changes):
            self._check_write()
            written: list[Record] = []
            before: list[Value | None] = []
            for key, change in changes.items():
                old = self._records.get(key)
                old_value = old.value if old else None
                value = change(old_value)
                counts = (force and value is None) or (key in said and self._counts(old))
                if value == old_value and not counts:
                    continue
                if value is not None and not by_check:
                    self._check_size(key, old_value, value)
                self._check_record(key, value)
                before.append(old_value)
                version = (old.version if old else NO_VERSION).next(self.writer)
                if by_check and old is not None:
                    written.append(replace(old, version=version, value=value))
                else:
                    written.append(Record(key, version, version, value, self._wall_ms(), self._monotonic_ms()))
            with self._kept(written, self._check_write):
                for record in written:
                    self._on_change(record)
                for record, old_value in zip(written, before, strict=True):
                    if not by_check and record.value != old_value:
                        self._on_written(record.key, old_value, record.value)
        self._bound_unknown(written)
        return [record.key for record in written]

    def _counts(self, old: Record | None) -> bool:
        """Return whether a statement that changes nothing is kept."""
        if self._alone:
            return False
        return old is None or old.changed_ms is None or self._monotonic_ms() - old.changed_ms >= SAID_AGAIN_MS

    def _bound_unknown(self, written: list[Record]) -> None:
        """Forget the oldest removals of unknown keys, once there are too many."""
        first = NO_VERSION.next(self.writer)
        self._unknown_removed += [one for one in written if one.value is None and one.version == first]
        while len(self._unknown_removed) > UNKNOWN_REMOVED_MAX:
            oldest = self._unknown_removed.popleft()
            with self._turn_at([oldest.key]):
                if self._records.get(oldest.key) is oldest and not self._delete([oldest.key]):
                    self._unknown_removed.appendleft(oldest)  # the next removal tries again
                    return

    def _turn_at(self, keys: Iterable[str]) -> AbstractContextManager[None]:
        """Return the turn of a write of these keys: no other write changes the state that decides it."""
        return self._turns.at(map(_turn_name, keys))

    @contextmanager
    def _kept(
        self, records: list[Record], check: Callable[[], None] = lambda: None, *, is_received: bool = False
    ) -> Iterator[None]:
        """Write to the disk, then to memory; the body is the consequence. The caller has the turn of the keys.

        Raises:
            As ``GroupCommit.written``; nothing changed.
        """
        if not records:
            yield
            return
        with self._commits.written(records, check, is_received=is_received):
            for record in records:
                self._records[record.key] = record
                self._changed.note(record.key)
                if record.version.writer == self.writer:
                    self._highest_own = max(self._highest_own, record.version)
            yield

    def _delete(self, keys: list[str]) -> bool:
        """Drop records, whose turn the caller has. Return False if the disk keeps them."""
        try:
            with self._commits.deleted(keys):
                for key in keys:
                    gone = self._records.pop(key)
                    self._changed.note(key)
                    if gone.value is not None:
                        self._on_change(replace(gone, value=None))
        except StorageError:
            return False
        return True

    @contextmanager
    def grouped(self, keys: Collection[str]) -> Iterator[None]:
        """Write all records of these keys that this thread takes from peers in the body at once, after it.

        Other writes of their tags wait until then. Readers and subscribers see the records before the disk has
        confirmed them: their sender has them on its disk. The sender is answered afterwards.

        Raises:
            CodecError: the disk did not take the write, at the end; nothing of it is stored.
        """
        with self._turn_at(keys):
            self._here.group = {}
            try:
                yield
                self._end_group(self._here.group)
            finally:
                self._here.group = None
        try:
            self._commits.sync()
        except StorageError as error:
            raise CodecError(error.text) from error

    def _in_group(self, key: str) -> AbstractContextManager[None]:
        """Return this thread's group, or one of this key alone, for ``_take`` in the body."""
        return self.grouped([key]) if self._here.group is None else nullcontext()

    def _take(self, record: Record) -> None:
        """Store a peer's record at the end of this thread's group."""
        assert self._here.group is not None
        self._here.group[record.key] = record

    def _end_group(self, group: dict[str, Record]) -> None:
        """Store the records of a group. If the disk refuses them, their keys fail, and are sent again."""
        found = list(group.values())
        group.clear()
        try:
            with self._kept(found, is_received=all(one.version.writer != self.writer for one in found)):
                for record in found:
                    self._on_change(record)
        except NacosError as error:
            raise CodecError(error.text) from error

    def _stored(self, key: str) -> Record | None:
        """Return the record of a key, which is stored first if it came in this thread's group."""
        group = self._here.group
        if group and key in group:
            self._end_group(group)
        return self._records.get(key)

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        """Replace a record by a received one, if its version is still ``expected`` and the other one covers it.

        In a load it may not cover it: this member may have ended before it sent its last change. Another member's claim
        of the former state, or an earlier statement from the other side of a cut, then has the higher version. The
        change stays here, and the owner fetches it.
        """
        record: Record = datum.value
        with self._in_group(datum.key):
            stored = self._stored(datum.key)
            # One writer's states have one order, whatever clients stated.
            covers = stored is None or datum.version.has_had(stored.version) or record.covers(stored)
            if (stored.version if stored else None) != expected or not covers:
                return False
            self._take(replace(record, version=datum.version))
            return True

    def is_covered(self, datum: Datum) -> bool:
        """Return whether a received record's change of the value is at least as late as the stored record's (R3)."""
        other: Record = datum.value
        stored = self._records.get(datum.key)
        return stored is None or other.covers(stored)

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        """Merge a received record into the stored one: the later change wins (R4 for single values).

        If checks made two states of one change, the state with the higher version wins.
        """
        other: Record = datum.value
        with self._in_group(datum.key):
            stored = self._stored(datum.key)
            if stored is None:
                self._take(replace(other, version=datum.version))
                return Merged.TAKEN
            if stored.changed == other.changed:
                best, rest = (other, stored) if datum.version > stored.version else (stored, other)
            else:
                best, rest = (other, stored) if other.is_later_than(stored) else (stored, other)
            highest = max(stored.version, datum.version)
            if best.changed < rest.changed:  # by time, against the versions: it gets one above both
                version = highest.next(self.writer)
                self._take(replace(best, version=version, changed=version))
                return Merged.MADE
            if best is other and datum.version == highest:
                self._take(replace(best, version=highest))
                return Merged.TAKEN
            if best is stored and stored.version == highest:
                return Merged.NOTHING
            self._take(replace(best, version=highest.next(self.writer)))
            return Merged.MADE

    def reissue(self, datum: Datum, now_ms: int, *, restoring: bool) -> bool:
        """Give a record the next version if a peer has another value under the stored one (R3). Return whether.

        Nothing is restored: a record has no parts. As with a claim, its statement stays the same (R14). If this run did
        not give the peer's version of it, it gets a new epoch above that; an unknown record is then removed.

        Raises:
            CodecError: the disk did not take it; nothing changed.
        """
        other: Record = datum.value
        with self._in_group(datum.key):
            stored = self._stored(datum.key)
            if datum.version.writer == self.writer and (stored is None or datum.version > stored.version):
                version = datum.version.next_epoch(self.writer)
                if stored is None:
                    stored = Record(datum.key, version, version, None, self._wall_ms(), self._monotonic_ms())
            elif stored is None or stored.version != datum.version:
                return False
            else:
                version = stored.version.next(self.writer)
                if (stored.value, stored.changed) == (other.value, other.changed):
                    return False
            try:
                with self._kept([replace(stored, version=version)]):
                    return True
            except StorageError as error:
                raise CodecError(error.text) from error

    def claim_all(self, keys: Collection[str], now_ms: int) -> list[str]:
        """Become the writer of records that another member wrote (R2), on disk in one step. Return their keys.

        Readers see no change. Records that the disk refuses are claimed later, or by their next change.
        """
        with self._turn_at(keys):
            found = [stored for key in keys if (stored := self._records.get(key)) is not None]
            others = [one for one in found if one.version.writer != self.writer]
            try:
                with self._kept([replace(one, version=one.version.next(self.writer)) for one in others]):
                    return [one.key for one in others]
            except StorageError:
                return []

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        """Return whether a record is a removal older than ``KEEP_REMOVED_MS`` (R6)."""
        stored = self._records.get(key)
        return (
            stored is not None and stored.value is None and self._wall_ms() - stored.changed_wall_ms > KEEP_REMOVED_MS
        )

    def forget(self, key: str, now_ms: int, *, absent: bool = False) -> None:
        """Drop an old removal without a trace. One that the disk keeps is dropped in a later verify round.

        ``absent`` drops nothing: a record that no peer has may be a write that reached only this member.
        """
        if absent:
            return
        with self._turn_at([key]):
            if key in self._records:
                self._delete([key])

    def forget_all(self, keys: Collection[str], now_ms: int) -> int:
        """Drop the old removals among these records, on disk in one step. Return how many there were.

        No listener is notified, as readers saw none of them. Removals that the disk keeps are dropped in a later verify
        round.
        """
        if not any(self.is_forgettable(key, now_ms) for key in keys):
            return 0
        with self._turn_at(keys):
            spent = [key for key in keys if self.is_forgettable(key, now_ms)]
            return len(spent) if spent and self._delete(spent) else 0


class _Here(local):
    """The pending writes of one thread."""

    group: dict[str, Record] | None = None
    """Records from peers, to be written together; None outside of a group."""


def _turn_name(key: str) -> str:
    """Return the name whose turn a write of this record takes: decisions read other records of the same name."""
    return NAMESPACE_PREFIX if key.startswith(NAMESPACE_PREFIX) else record_tag(key)
