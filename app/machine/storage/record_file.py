"""The SQLite store of durable records, in the data folder of every member."""

import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

import orjson

from app.config.settings_keys import SettingError, unreadable
from app.languages.catalogues import N_
from app.languages.phrases import phrase
from app.machine.storage.private_files import create_private
from app.naming.model.keys import WALL_MS_END
from app.naming.model.nacos_errors import InvalidParam, StorageError
from app.naming.records.record import Record
from app.naming.records.record_values import check_record, without_secrets
from distro.model.errors import CodecError
from distro.model.types import Version

LOG = logging.getLogger(__name__)
FILE_NAME = "records.sqlite3"
SCHEMA_VERSION = 2
UNDATED_VERSION = 1
"""The format without ``changed_here_ms``, the time by this member's wall clock. There the time is the writer's."""
BUSY_TIMEOUT_S = 5.0
ADVICE = phrase("move it away to let this member load from the others")
_UNOPENED = N_("%(file)s cannot be opened: %(reason)s")
SET_ASIDE = (
    "CREATE TABLE IF NOT EXISTS set_aside"
    " (key, version, changed, value, changed_wall_ms, changed_here_ms, why TEXT, set_aside_ms INTEGER)"
)
"""The table of rows that a start could not read, each column unchanged: no stored value is lost."""
NAMED_MAX = 100
"""The most rows set aside at one start that the log names. The table has all of them."""
CHECKPOINT_PAGES = 1_000
"""Pages of the log after which SQLite copies them into the file. Source: its default."""
CHECKPOINT_BYTES = 4_096 * CHECKPOINT_PAGES
ROW_BYTES = 8_192
"""About how much a small row adds to the log: its page, and one above."""
SYNC = getattr(os, "fdatasync", os.fsync)
INSERT = "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?, ?, ?)"
SELECT_ALL = "SELECT key, version, changed, value, changed_wall_ms, {} FROM record"


@dataclass(frozen=True, slots=True)
class UnreadRecord:
    """A row that cannot be read as a record."""

    key: object
    why: str


class RecordFile:
    """RecordDisk on one SQLite file. Thread-safe: one connection behind one lock.

    Write-ahead log with ``synchronous = FULL``: a transaction that was committed survives the end of the process and
    of the machine. Those of received records are ``NORMAL``: they survive the machine once ``sync`` has returned.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._is_undated = False
        self._failing = False
        self._syncing = Lock()
        self._received_bytes = 0
        """About how much the log has of received records since the last checkpoint by ``sync``."""
        self._confirmed = 0
        """How many of the commits the disk has confirmed."""
        self.writes_failed = 0
        """Changes that the disk refused, since the start."""
        self.commits = 0
        """Transactions since the start. Each waits for the disk once or twice, those of received records afterwards."""
        self.set_aside = 0
        """Rows of the file that were set aside, at this start or an earlier one."""

    def open(self) -> None:
        """Open or make the file.

        Raises:
            SettingError: the file cannot be opened, is damaged, or is of a later release.
        """
        connection = None
        try:
            create_private(self._path)
            connection = sqlite3.connect(
                self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._prepare(connection)
        except (OSError, sqlite3.Error, SettingError) as error:
            if connection is not None:
                connection.close()
            raise self._refusal(error) from error
        self._connection = connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.text_factory = _text
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > SCHEMA_VERSION:
            text = N_("%(file)s was written by a later release (format %(format)s); it is not changed")
            raise SettingError(phrase(text, file=self._path, format=found))
        if (complaint := connection.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(complaint)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS record (key TEXT PRIMARY KEY, version TEXT NOT NULL, changed TEXT NOT NULL,"
            " value BLOB, changed_wall_ms INTEGER NOT NULL, changed_here_ms INTEGER) WITHOUT ROWID"
        )
        # A full disk must not keep a member from starting, to be read from: the first write changes an older file.
        self._is_undated = found == UNDATED_VERSION
        if found not in (SCHEMA_VERSION, UNDATED_VERSION):
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _refusal(self, error: OSError | sqlite3.Error | SettingError) -> SettingError:
        """Return the error for the operator, with the way to solve it."""
        match error:
            case SettingError():
                return error
            case OSError():
                return SettingError(phrase(_UNOPENED, file=self._path, reason=error.strerror))
            case sqlite3.OperationalError():
                return SettingError(phrase(_UNOPENED, file=self._path, reason=error))
            case _:
                text = N_("%(file)s is damaged (%(reason)s); %(advice)s")
                return SettingError(phrase(text, file=self._path, reason=error, advice=ADVICE))

    def close(self) -> None:
        """Close the file. May be called twice."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def read_all(self, offset_ms: int) -> Iterator[Record]:
        """Return all records, as ``RecordDisk``. Rows that cannot be read are set aside, and the start continues.

        Raises:
            SettingError: SQLite cannot read the file.
        """
        try:
            with self._lock:
                found = _rows(self._open_connection(), self._is_undated)
                self.set_aside = _count_set_aside(self._open_connection())
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        cleaned, unread = [], []
        for row in found:
            record = _record_or_why(row, offset_ms)
            if isinstance(record, UnreadRecord):
                unread.append(record)
                continue
            value = without_secrets(record.key, record.value)
            if value is not record.value:
                record = replace(record, value=value)
                cleaned.append(record)
            yield record
        if unread:
            self._set_aside(unread)
        if cleaned:
            self._forget_secrets(cleaned, offset_ms)

    def _set_aside(self, unread: list[UnreadRecord]) -> None:
        """Move rows into the table of rows set aside. If the disk is full, they stay in their table, unread."""
        self.set_aside += len(unread)
        for one in unread[:NAMED_MAX]:
            LOG.warning("%s: the record %.200r cannot be read and is set aside: %s", self._path, one.key, one.why)
        if len(unread) > NAMED_MAX:
            LOG.warning("%s: %d more records cannot be read and are set aside", self._path, len(unread) - NAMED_MAX)
        at = "changed_wall_ms" if self._is_undated else "changed_here_ms"
        copy = "INSERT INTO set_aside " + SELECT_ALL.format(f"{at}, ?, strftime('%s') * 1000")
        try:
            with self._lock, self._open_connection() as connection:  # commits, or rolls back
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(SET_ASIDE)
                for one in unread:
                    is_key, key = _condition(one.key)
                    connection.execute(f"{copy} WHERE {is_key}", (one.why, key))
                    connection.execute(f"DELETE FROM record WHERE {is_key}", (key,))
        except sqlite3.Error as error:
            LOG.warning("%s: the records that cannot be read stay where they are: %s", self._path, error)

    def _forget_secrets(self, records: list[Record], offset_ms: int) -> None:
        """Overwrite records of an earlier release that held passwords, in the SQLite log and the free pages, too."""
        try:
            self.write(records, offset_ms)
            with self._lock:
                self._open_connection().execute("VACUUM")
                self._open_connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except (StorageError, sqlite3.Error) as error:
            LOG.warning(
                "%s still holds passwords of MYSQL checkers, to be removed at the next start: %s", self._path, error
            )
            return
        LOG.info("%s: passwords of MYSQL checkers are removed from %d services", self._path, len(records))

    def write(self, records: list[Record], offset_ms: int) -> None:
        """Write the records, all or none.

        Raises:
            InvalidParam: a value cannot be written as JSON.
            StorageError: the disk is full, or failed.
        """
        self._change(INSERT, [_row(record, offset_ms) for record in records])

    def write_received(self, records: list[Record], offset_ms: int) -> None:
        """Write the records without a wait for the disk, all or none.

        Raises:
            As ``write``.
        """
        rows = [_row(record, offset_ms) for record in records]
        self._change(INSERT, rows, is_synced=False)
        self._received_bytes += sum(ROW_BYTES + len(value or b"") for _, _, _, value, _, _ in rows)

    def sync(self) -> None:
        """Wait until the disk has all that was written. Other writes continue in the meantime.

        Raises:
            StorageError: the disk failed, or the file is closed.
        """
        with self._syncing:  # a thread that waits here may find its transaction confirmed
            with self._lock:
                self._open_connection()
                commits = self.commits
                if self._confirmed >= commits:
                    return
            try:
                # SQLite locks other files, not its log: so a second descriptor may be closed.
                with self._path.with_name(f"{FILE_NAME}-wal").open("rb") as log:
                    SYNC(log.fileno())
            except OSError as error:
                raise StorageError(f"the data folder does not accept the change: {error}") from error
            with self._lock:
                self._confirmed = max(self._confirmed, commits)
                if self._received_bytes > CHECKPOINT_BYTES:
                    self._received_bytes = 0
                    with suppress(sqlite3.Error):  # the next one copies them, too
                        self._open_connection().execute("PRAGMA wal_checkpoint(PASSIVE)")

    def delete(self, keys: list[str]) -> None:
        """Delete records, all or none.

        Raises:
            StorageError: the disk failed.
        """
        self._change("DELETE FROM record WHERE key = ?", [(key,) for key in keys])

    def _change(self, statement: str, rows: Sequence[tuple[object, ...]], *, is_synced: bool = True) -> None:
        with self._lock:
            connection = self._open_connection()
            try:
                connection.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
                connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES if is_synced else 0}")
                with connection:  # commits, or rolls back
                    connection.execute("BEGIN IMMEDIATE")
                    if self._is_undated:
                        _add_times(connection)
                    connection.executemany(statement, rows)
                self._is_undated = False
                self.commits += 1
                if is_synced:
                    self._confirmed = self.commits
            except sqlite3.Error as error:
                self.writes_failed += 1
                if not self._failing:  # logged once, not with each change
                    LOG.warning("%s does not accept durable changes; they are refused: %s", self._path, error)
                self._failing = True
                raise StorageError(f"the data folder does not accept the change: {error}") from error
            if self._failing:
                LOG.warning("%s accepts durable changes again", self._path)
            self._failing = False

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StorageError("the data folder is closed: this member stops")
        return self._connection


def _add_times(connection: sqlite3.Connection) -> None:
    """Upgrade a file of the format without times by this member's clock."""
    connection.execute("ALTER TABLE record ADD COLUMN changed_here_ms INTEGER")
    connection.execute("UPDATE record SET changed_here_ms = changed_wall_ms")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def unread_records(folder: Path) -> list[UnreadRecord]:
    """Return the rows of a data folder's file that were set aside, and those that the next start will set aside.

    The file is only read; a node may be using it.

    Raises:
        SettingError: SQLite cannot read the file.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return []
    try:
        with closing(
            sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)
        ) as connection:
            connection.text_factory = _text
            is_undated = connection.execute("PRAGMA user_version").fetchone()[0] == UNDATED_VERSION
            kept = []
            if _count_set_aside(connection):
                kept = [UnreadRecord(*row) for row in connection.execute("SELECT key, why FROM set_aside")]
            read = (_record_or_why(row, 0) for row in _rows(connection, is_undated))
            return kept + [one for one in read if isinstance(one, UnreadRecord)]
    except sqlite3.Error as error:
        raise unreadable(path, error) from error


def _text(raw: bytes) -> str:
    """Return a text of the file.

    Bytes that are not UTF-8 make a text that fails every check, and that encodes back to them.
    """
    return raw.decode("utf-8", "surrogateescape")


def _condition(key: object) -> tuple[str, object]:
    """Return the condition that selects a row by its key, of any type, and the value to bind."""
    if isinstance(key, str):
        return "key = CAST(? AS TEXT)", key.encode("utf-8", "surrogateescape")
    return "key IS ?", key


def _rows(connection: sqlite3.Connection, is_undated: bool) -> list[tuple[Any, ...]]:
    at = "changed_wall_ms" if is_undated else "changed_here_ms"
    return connection.execute(SELECT_ALL.format(at)).fetchall()


def _count_set_aside(connection: sqlite3.Connection) -> int:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'set_aside'").fetchone():
        return 0
    count: int = connection.execute("SELECT count(*) FROM set_aside").fetchone()[0]
    return count


def _row(record: Record, offset_ms: int) -> tuple[str, str, str, bytes | None, int, int | None]:
    """Return the columns of a record.

    Raises:
        InvalidParam: its value cannot be written as JSON.
    """
    try:
        value = None if record.value is None else orjson.dumps(record.value)
    except orjson.JSONEncodeError as error:
        raise InvalidParam(f"the value of record {record.key[:200]!r} cannot be kept: {error}") from error
    here_ms = None if record.changed_ms is None else record.changed_ms + offset_ms
    version, changed = record.version.to_text(), record.changed.to_text()
    return record.key, version, changed, value, record.changed_wall_ms, here_ms


def _record_or_why(row: tuple[Any, ...], offset_ms: int) -> Record | UnreadRecord:
    """Return the record of a row; if the row cannot be read, the reason."""
    try:
        return _record(*row, offset_ms=offset_ms)
    except (CodecError, InvalidParam, orjson.JSONDecodeError) as error:
        return UnreadRecord(row[0], str(error))


def _record(
    key: str, version: str, changed: str, value: bytes | None, wall_ms: int, here_ms: int | None, *, offset_ms: int
) -> Record:
    """Return the record of one row, with each column checked: the file may have been edited by hand.

    Raises:
        CodecError, InvalidParam, orjson.JSONDecodeError: a column has a value that no record has.
    """
    if not isinstance(key, str) or not isinstance(value, bytes | None):
        raise CodecError("a column is of another type")
    for at_ms in (wall_ms, 0 if here_ms is None else here_ms):
        if type(at_ms) is not int or not 0 <= at_ms < WALL_MS_END:
            raise CodecError("a time is not a number of milliseconds in the allowed range")
    stored = None if value is None else orjson.loads(value)
    if stored is not None and not isinstance(stored, dict):
        raise CodecError("the value is not a JSON object")
    check_record(key, stored)
    changed_ms = None if here_ms is None else here_ms - offset_ms
    record = Record(key, Version.from_text(version), Version.from_text(changed), stored, wall_ms, changed_ms)
    if record.changed > record.version:
        raise CodecError("its version is below that of its change")
    if not record.version.has_room():
        raise CodecError(f"its version is too high for a further change: {version[:80]}")
    return record
