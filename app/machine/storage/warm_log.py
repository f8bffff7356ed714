"""The warm-start store: instance lists on disk, so that a cluster that restarts as a whole does not start empty.

It is a copy of the lists in memory, some hundred milliseconds old, or two seconds for a list that changes all the time,
in a separate SQLite file. Newer lists of peers win over it. A copy that is too old is not used. A damaged file is
renamed, and its new name logged.

A change of one instance writes its whole list, so the work per second is bounded for any kind of change. If all lists
of many instances change all the time, the copy is some seconds older.
"""

import logging
import sqlite3
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson

from app.machine.storage.private_files import create_private
from app.naming.model.model import NEVER_MS
from app.naming.registry.merge import InstanceList
from app.naming.wire.datum_codec import InstanceListCodec
from distro.model.digest import ChangedKeys
from distro.model.errors import CodecError
from distro.model.types import Datum, Version
from distro.timing.sliced import STEP_STORED, rest

LOG = logging.getLogger(__name__)
T = TypeVar("T")
FILE_NAME = "warm.sqlite3"
ASIDE = ".damaged-"
"""The part of the name of an unreadable file before the time (wall clock, ms)."""
FLUSH_MS = 500
WINDOW_MS = 2_000
"""In this window a list is written once, however often it changes. Its next change waits for the next window."""
UNITS_PER_S = 4_000
"""An instance is a unit, 4 to 5 us of work: in the long run the store uses at most a fiftieth of a core."""
UNITS_PER_LIST = 5
"""Units of a list, in addition to those of its instances."""
UNITS_SAVED_MAX = UNITS_PER_S * FLUSH_MS // 1_000
UNITS_WITHOUT_END = 1 << 60
SLICE_BYTES = 96 * 1024
"""The bytes of JSON that are made in one step, in about a millisecond, before other threads get their turn."""
BYTES_PER_PART = 1_024
"""The cost of making a part, in bytes of a slice, in addition to the part's own bytes."""
ROWS_PER_FLUSH_MAX = 2_000
ROWS_PER_STATEMENT = 100
"""Each statement, and each list that is compressed, gives up the interpreter. The thread then waits for it next to a
busy loop, which costs both more than the work itself: few calls, each for much."""
PACK_LEVEL = 1
UNPACKED_BYTES_MAX = 16 * 1024
"""A list that changes all the time and is no longer than this stays uncompressed, which costs less."""
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS datum (key TEXT PRIMARY KEY, body BLOB NOT NULL, at_ms INTEGER)",
    "CREATE TABLE IF NOT EXISTS alive (one INTEGER PRIMARY KEY CHECK (one = 1), at_ms INTEGER NOT NULL)",
)
OVER_THE_OLD = "ON CONFLICT (key) DO UPDATE SET body = excluded.body, at_ms = excluded.at_ms"
"""Half the work of a row that replaces the old one, which is removed first, from the index, too."""
ADD_TIME = "ALTER TABLE datum ADD COLUMN at_ms INTEGER"
"""Adds the time of each list (wall clock, ms). Files of earlier releases have only one, for all lists."""
REOPEN_MS = 10_000
"""The time between two attempts to open a file that cannot be opened."""
ALIVE_MS = 10_000
"""The interval at which the time is written: the file of a cluster without changes must not look old."""

Row = tuple[Any, Any, Any]
"""Key, compressed JSON and time of a list. The types are unknown, because the file may have been edited."""
IsKnown = Callable[[str, Version], bool]
LeaveOut = Callable[[object, Exception], None]
ReadDatums = Callable[[Iterable[str]], Iterable[Datum]]


class WarmStore:
    """Keeps the latest datum of each key on disk: of each that is ``changed``, on any thread.

    ``tick`` is for the naming timer's thread. Call the other methods before the timer
    starts or after it ended. The result of ``load`` is for one thread, any.
    """

    def __init__(self, folder: Path, codec: InstanceListCodec, read: ReadDatums, wall_ms: Callable[[], int]) -> None:
        self._path = folder / FILE_NAME
        self._codec = codec
        self._read = read
        self._wall_ms = wall_ms
        self._noted = ChangedKeys()
        self.changed = self._noted.note
        """Schedules the list of a key to be written."""
        self._dirty: OrderedDict[str, None] = OrderedDict()
        """The keys whose lists are to be written now, in the order of their first change."""
        self._written: set[str] = set()
        """The keys whose lists were written in the current window, which ends at ``_window_end_ms``."""
        self._window_end_ms = 0
        self._later: dict[str, None] = {}
        """The keys in ``_written`` that changed again in this window."""
        self._hot: frozenset[str] = frozenset()
        """The keys that changed again in the window before; in this one they are written uncompressed."""
        self._unpacked: set[str] = set()
        """The keys whose lists were written uncompressed, to be compressed once they stay unchanged for a window."""
        self._flush: Iterator[None] | None = None
        """The write in progress, which began at ``_began_ms``."""
        self._began_ms = 0
        self._now_ms = 0
        self._units = UNITS_SAVED_MAX
        """The units that may be written now. Negative after a long list, until time has earned them."""
        self._connection: sqlite3.Connection | None = None
        self._alive_ms = -ALIVE_MS
        self._outdated = False
        self._failing = False
        self._reopen_ms: int | None = None
        """When to try again to open the file that could not be opened; None if no attempt is due."""
        self.writes_failed = 0
        """Writes that the disk refused, since the start."""
        self.unread = 0
        """Lists of the last run that could not be read, and that this start left out."""

    def load(self, age_ms_max: int, now_ms: int, is_known: IsKnown = lambda _key, _version: False) -> Iterator[Datum]:
        """Return the datums of the last run, if not older than ``age_ms_max``. Ages count from when they were written.

        The file is read now, and each datum is made when it is asked for. Datums that ``is_known`` knows by then are
        skipped without reading them. A file that cannot be read is renamed, and nothing is returned.
        """
        rows, alive_ms = self._rows(age_ms_max)
        return _Datums(rows, self._codec, alive_ms, self._wall_ms(), now_ms, is_known, self._leave_out)

    def _leave_out(self, key: object, error: Exception) -> None:
        self.unread += 1
        LOG.warning("%s: the list %.200r cannot be read and is left out: %s", self._path, key, error)

    def _rows(self, age_ms_max: int) -> tuple[list[Row], int]:
        """Return the rows of the file, and the last time that the run was alive; no rows if that is too long ago."""
        if not self._path.exists():
            return [], 0
        try:
            with closing(sqlite3.connect(self._path)) as connection:
                connection.text_factory = partial(
                    str, encoding="utf-8", errors="surrogateescape"
                )  # such a key is left out
                alive = connection.execute("SELECT at_ms FROM alive").fetchone()
                at = "at_ms" if _has_times(connection) else "NULL"
                rows = connection.execute(f"SELECT key, body, {at} FROM datum").fetchall()
        except sqlite3.Error as error:
            self._set_aside(str(error))
            return [], 0
        if alive is None or type(alive[0]) is not int or alive[0] < self._wall_ms() - age_ms_max:
            LOG.info("%s is too old; its %d instance lists are not used", self._path, len(rows))
            self._outdated = True
            return [], 0
        return rows, alive[0]

    def _set_aside(self, why: str) -> None:
        aside = self._path.with_suffix(f"{ASIDE}{self._wall_ms()}")
        try:
            self._path.rename(aside)
            for suffix in ("-wal", "-shm"):
                self._path.with_name(FILE_NAME + suffix).unlink(missing_ok=True)
        except OSError as error:
            LOG.warning("%s cannot be read (%s), nor renamed: %s", self._path, why, error)
            return
        LOG.warning("%s cannot be read (%s); it is now %s, and this member starts without it", self._path, why, aside)

    def open(self) -> None:
        """Begin to write. Without a writable disk this member serves, but would start empty after a restart of all."""
        self._reopen_ms = 0
        try:
            create_private(self._path)
            # Losing the last writes when the machine dies is fine: this store is for the end of processes.
            self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = OFF")
            for statement in SCHEMA:
                self._connection.execute(statement)
            if not _has_times(self._connection):
                self._connection.execute(ADD_TIME)
            if self._outdated:  # or the next write of this run's time would make them look fresh
                self._connection.execute("DELETE FROM datum")
        except (OSError, sqlite3.Error) as error:
            self.writes_failed += 1
            if not self._failing:
                LOG.warning("%s cannot be written; a restart of all members starts empty: %s", self._path, error)
            self._failing = True
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def tick(self, now_ms: int) -> int:
        """Write some of the changed lists. Return when to call again: ``now_ms`` while a write is in progress."""
        if self._connection is None and not self._opened_again(now_ms):
            return now_ms + FLUSH_MS
        if now_ms >= self._window_end_ms:
            self._end_window()
            self._window_end_ms = now_ms + WINDOW_MS
        self._take_noted()
        if self._flush is None:
            earned = (now_ms - self._began_ms) * UNITS_PER_S // 1_000
            self._units = min(self._units + earned, UNITS_SAVED_MAX)
            self._began_ms, self._flush = now_ms, self._write()
        self._now_ms = now_ms
        flush, self._flush = self._flush, None
        if next(flush, True):
            return max(self._began_ms + FLUSH_MS, now_ms)
        self._flush = flush
        return now_ms

    def _take_noted(self) -> None:
        for key in self._noted.take():
            (self._later if key in self._written else self._dirty)[key] = None

    def _end_window(self) -> None:
        self._take_noted()
        self._hot = frozenset(self._later)
        self._dirty.update(self._later)
        self._dirty.update(dict.fromkeys(self._unpacked - self._hot))
        self._later.clear()
        self._written.clear()

    def _opened_again(self, now_ms: int) -> bool:
        """Open the file if it is time to do so.

        Changes that came in the meantime are still written, unless nothing is kept at all.
        """
        if self._reopen_ms is None:
            self._noted.take()
            self._dirty.clear()
            self._later.clear()
            return False
        if now_ms < self._reopen_ms:
            return False
        self.open()
        self._reopen_ms = now_ms + REOPEN_MS
        return self._connection is not None

    def close(self, now_ms: int) -> None:
        """Write the lists that are still to be written, and close the file. May be called twice."""
        if self._connection is None:
            return
        self._now_ms, self._alive_ms, self._failing = now_ms, -ALIVE_MS, False
        self._end_window()
        self._hot = frozenset()
        flushes, self._flush = [self._flush or self._write()], None
        while flushes:
            self._units = UNITS_WITHOUT_END
            deque(flushes.pop(), maxlen=0)
            self._take_noted()
            if self._dirty and not self._failing:
                flushes.append(self._write())
        self._connection.close()
        self._connection = self._reopen_ms = None

    def _next_key(self) -> str | None:
        if not self._dirty:
            self._take_noted()
        if not self._dirty:
            return None
        key, _ = self._dirty.popitem(last=False)
        self._noted.discard(key)  # changes until now are written with it
        self._written.add(key)
        return key

    def _write(self) -> Iterator[None]:
        """Write as many changed lists as the units allow, in one transaction at the end.

        Yields between parts of the work, so that other threads run.
        """
        due: list[str] = []
        rows: list[tuple[str, bytes, int]] = []
        left = SLICE_BYTES
        while self._units > 0 and len(due) < ROWS_PER_FLUSH_MAX and (key := self._next_key()) is not None:
            due.append(key)
            self._unpacked.discard(key)
            self._units -= UNITS_PER_LIST
            for datum in self._read([key]):
                self._units -= len(datum.value.stored) + len(datum.value.tombstones)
                parts, wall_ms = list[bytes](), self._wall_ms()
                for part in self._codec.encode_parts(datum, self._now_ms, versioned=True):
                    parts.append(part)
                    left -= len(part) + BYTES_PER_PART
                    if left <= 0:
                        yield
                        left = SLICE_BYTES
                rows.append((key, self._packed(key, b"".join(parts)), wall_ms))
        if due or self._now_ms - self._alive_ms >= ALIVE_MS:
            self._commit(due, rows)

    def _packed(self, key: str, body: bytes) -> bytes:
        """Return the JSON of a list as it is stored: compressed, unless it will be written again soon."""
        if key in self._hot and len(body) <= UNPACKED_BYTES_MAX:
            self._unpacked.add(key)
            return body
        return zlib.compress(body, PACK_LEVEL)

    def _commit(self, due: list[str], rows: list[tuple[str, bytes, int]]) -> None:
        assert self._connection is not None, "nothing is written without one"
        self._alive_ms = self._now_ms
        gone = sorted(set(due) - {row[0] for row in rows})
        try:
            with self._connection as connection:  # commits, or rolls back
                connection.execute("BEGIN")
                connection.execute("INSERT OR REPLACE INTO alive VALUES (1, ?)", (self._wall_ms(),))
                for some in _batches(rows):
                    places = ", ".join(["(?, ?, ?)"] * len(some))
                    values = [value for row in some for value in row]
                    connection.execute(f"INSERT INTO datum (key, body, at_ms) VALUES {places} {OVER_THE_OLD}", values)
                for keys in _batches(gone):
                    places = ", ".join("?" * len(keys))
                    connection.execute(f"DELETE FROM datum WHERE key IN ({places})", keys)
        except sqlite3.Error as error:
            self.writes_failed += 1
            if not self._failing:  # logged once, not twice a second
                LOG.warning("%s does not accept %d instance lists: %s", self._path, len(rows), error)
            self._failing = True
            self._dirty.update(dict.fromkeys(due))
            return
        if self._failing:
            LOG.warning("%s accepts instance lists again", self._path)
        self._failing = False


class _Datums(Iterator[Datum]):
    """The datums of a file's rows, one by one. After a failure the iteration continues with the next row."""

    def __init__(
        self,
        rows: list[Row],
        codec: InstanceListCodec,
        alive_ms: int,
        wall_ms: int,
        now_ms: int,
        is_known: IsKnown,
        leave_out: LeaveOut,
    ) -> None:
        """``leave_out`` is called for each list that cannot be read, with its key."""
        self._rows = deque(rows)
        self._codec = codec
        self._alive_ms = alive_ms
        self._wall_ms = wall_ms
        self._now_ms = now_ms
        self._is_known = is_known
        self._leave_out = leave_out
        self._passed = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __next__(self) -> Datum:
        while self._rows:
            self._passed += 1
            if not self._passed % STEP_STORED:
                rest()
            key, body, at_ms = self._rows.popleft()
            age_ms = self._wall_ms - (at_ms if type(at_ms) is int else self._alive_ms)
            try:
                is_packed = type(body) is not bytes or not body.startswith(b"{")
                fields = orjson.loads(zlib.decompress(body) if is_packed else body)
                if not isinstance(fields, dict):
                    raise CodecError("the list is not a JSON object")
                if "version" in fields and self._is_known(key, Version.from_text(fields["version"])):
                    continue
                return decode_aged(self._codec, key, fields, age_ms, self._now_ms)
            except (CodecError, orjson.JSONDecodeError, zlib.error, TypeError) as error:
                self._leave_out(key, error)
        raise StopIteration


def decode_aged(codec: InstanceListCodec, key: str, body: Any, age_ms: int, now_ms: int) -> Datum:
    """Return the datum of a list that was written ``age_ms`` ago by the wall clock; its ages count from then.

    A negative age means that the clock went back. Then the times in the list are unknown, and every report of other
    members counts as later.

    Raises:
        CodecError: a field is wrong, it is only a part of a list, or its version has no successors.
    """
    datum = codec.decode(key, body, now_ms - max(age_ms, 0))
    if datum.base is not None or not datum.version.has_room():
        raise CodecError("the list is not whole, or its version is too high for a further change")
    if age_ms >= 0:
        return datum
    for one in datum.value.stored.values():
        one.changed_ms = NEVER_MS
    # A removal without a known time would undo later registrations of clients.
    return replace(datum, value=InstanceList(datum.value.stored, {}))


def _batches(values: list[T]) -> Iterator[list[T]]:
    """Return the values in order, in batches of as many as one statement takes."""
    return (values[start : start + ROWS_PER_STATEMENT] for start in range(0, len(values), ROWS_PER_STATEMENT))


def _has_times(connection: sqlite3.Connection) -> bool:
    return any(row[1] == "at_ms" for row in connection.execute("PRAGMA table_info(datum)"))
