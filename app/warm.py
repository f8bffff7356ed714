"""The warm-start store: instance lists on disk, so that a cluster that restarts as a whole does not start empty.

It is a copy of what is in memory, some hundred milliseconds old, in an SQLite file of its own. What peers hold is
better; what is too old is not used; and a damaged file is set aside and named.
"""

import logging
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import orjson

from distro.errors import CodecError
from distro.ports import DatumCodec
from distro.types import Datum

LOG = logging.getLogger(__name__)
FILE_NAME = "warm.sqlite3"
FLUSH_MS = 500
LARGE_BYTES = 64 * 1024
LARGE_FLUSH_MS = 5_000
"""A large list is written at most once in so long: one that changes all the time would keep the disk busy."""
ROWS_PER_FLUSH_MAX = 2_000
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS datum (key TEXT PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS alive (one INTEGER PRIMARY KEY CHECK (one = 1), at_ms INTEGER NOT NULL)",
)
ALIVE_MS = 10_000
"""How often it is noted that this member runs: the store of a quiet cluster must not look old."""

ReadDatums = Callable[[Iterable[str]], Iterable[Datum]]


class WarmStore:
    """Keeps the latest datum of each key. ``changed`` comes from any thread, the rest from the naming timer's."""

    def __init__(self, folder: Path, codec: DatumCodec, read: ReadDatums, wall_ms: Callable[[], int]) -> None:
        self._path = folder / FILE_NAME
        self._codec = codec
        self._read = read
        self._wall_ms = wall_ms
        self._lock = threading.Lock()
        self._dirty: dict[str, None] = {}
        self._not_before_ms: dict[str, int] = {}
        self._connection: sqlite3.Connection | None = None
        self._alive_ms = -ALIVE_MS
        self._outdated = False
        self._failing = False

    def load(self, age_ms_max: int, now_ms: int) -> Iterator[Datum]:
        """The datums of the last run, if they are not older than ``age_ms_max``; each instance has just been heard of.

        A file that cannot be read is set aside, and none are given.
        """
        if not self._path.exists():
            return
        try:
            with closing(sqlite3.connect(self._path)) as connection:
                alive = connection.execute("SELECT at_ms FROM alive").fetchone()
                rows = connection.execute("SELECT key, body FROM datum").fetchall()
        except sqlite3.Error as error:
            self._set_aside(str(error))
            return
        if alive is None or type(alive[0]) is not int or alive[0] < self._wall_ms() - age_ms_max:
            LOG.info("%s is too old, its %d instance lists are not used", self._path, len(rows))
            self._outdated = True
            return
        for key, body in rows:
            try:
                datum = self._codec.decode(key, orjson.loads(zlib.decompress(body)), now_ms)
            except (CodecError, orjson.JSONDecodeError, zlib.error, TypeError) as error:
                LOG.warning("%s: the list %r cannot be read and is left out: %s", self._path, str(key)[:200], error)
                continue
            yield datum

    def _set_aside(self, why: str) -> None:
        aside = self._path.with_suffix(f".damaged-{self._wall_ms()}")
        self._path.rename(aside)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(FILE_NAME + suffix).unlink(missing_ok=True)
        LOG.warning("%s cannot be read (%s); it is now %s, and this member starts without it", self._path, why, aside)

    def open(self) -> None:
        """Begin to write. A disk that takes nothing costs warmth, not service."""
        try:
            # Not this store's loss if the machine dies: the process's end is what it is for.
            self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = OFF")
            for statement in SCHEMA:
                self._connection.execute(statement)
            if self._outdated:  # or the next note of this run's life would make them look fresh
                self._connection.execute("DELETE FROM datum")
        except sqlite3.Error as error:
            LOG.warning("%s cannot be written; this member starts empty after a restart of all: %s", self._path, error)
            self._connection = None

    def changed(self, key: str) -> None:
        """The list of a key is another now. Returns at once."""
        with self._lock:
            self._dirty[key] = None

    def tick(self, now_ms: int) -> int:
        """Write what changed; return when to come again."""
        self._flush(now_ms)
        return now_ms + FLUSH_MS

    def close(self, now_ms: int) -> None:
        """Write the rest and close. May be called twice."""
        self._alive_ms = -ALIVE_MS
        self._not_before_ms.clear()
        while self._flush(now_ms) and self._dirty:
            self._not_before_ms.clear()  # what changes even now is written whatever its size
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _flush(self, now_ms: int) -> bool:
        """Write some of what is due; return whether the disk took it."""
        with self._lock:
            due = [key for key in self._dirty if self._not_before_ms.get(key, 0) <= now_ms][:ROWS_PER_FLUSH_MAX]
            for key in due:
                del self._dirty[key]
        note_alive = now_ms - self._alive_ms >= ALIVE_MS
        if self._connection is None:
            return False
        if not (due or note_alive):
            return True
        self._alive_ms = now_ms
        rows = []
        for datum in self._read(due):
            body = self._codec.encode(datum, now_ms, versioned=True)
            if len(body) > LARGE_BYTES:
                self._not_before_ms[datum.key] = now_ms + LARGE_FLUSH_MS
            rows.append((datum.key, zlib.compress(body, 1)))
        gone = [(key,) for key in set(due) - {row[0] for row in rows}]
        try:
            self._connection.execute("BEGIN")
            self._connection.execute("INSERT OR REPLACE INTO alive VALUES (1, ?)", (self._wall_ms(),))
            self._connection.executemany("INSERT OR REPLACE INTO datum VALUES (?, ?)", rows)
            self._connection.executemany("DELETE FROM datum WHERE key = ?", gone)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if not self._failing:  # said once, not twice a second
                LOG.warning("%s does not take %d instance lists: %s", self._path, len(rows), error)
            self._failing = True
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            with self._lock:
                self._dirty.update(dict.fromkeys(due))
            return False
        self._failing = False
        return True
