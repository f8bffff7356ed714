"""The rows of a comparison, from a round of a dump or just taken from a running member."""

import contextlib
import gzip
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import orjson

from app.languages.phrases import phrase
from app.naming.model.keys import DEFAULT_GROUP, compose_service_name
from app.rows.rows import RowKind
from app.tools.audit.compare.compare import Row, Side
from app.tools.audit.compare.services import Facts
from app.tools.audit.format.file_systems import open_root
from app.tools.audit.format.layout import Night, Round
from app.tools.audit.format.manifest import DumpState, Part

PIECE_BYTES = 1 << 20
LINE_BYTES_MAX = 1 << 24
NO_PYARROW = "the dump is in Parquet, and this Python has no package pyarrow: pip install 'rollcall-registry[audit]'"

_TEXTS = ("namespace", "service", "cluster", "ip")
_TRUTHS = ("ephemeral", "healthy", "enabled")


class CannotCompare(Exception):
    """The members cannot be compared; the text says why."""


@dataclass(slots=True)
class Reading:
    """Parses gzip files of lines into the rows to compare; ``notes`` names each file with invalid lines, once.

    ``service``, a full name, and ``namespace`` restrict the comparison; None stands for all.
    """

    service: str | None
    namespace: str | None
    has_rows: bool = False
    """True once a row of this service and namespace was read."""
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, None] = field(default_factory=dict)
    """Texts that say which classes are not compared between some of the members, and why; in order."""

    @classmethod
    def of(cls, service: str | None, namespace: str | None) -> "Reading":
        """Return a reading of one service, by its full name or a short name in the default group; of all for None."""
        return cls(compose_service_name(service, DEFAULT_GROUP) if service else None, namespace)

    def rows(self, raw: IO[bytes], where: str) -> Iterator[Row]:
        """Yield the rows of a gzip file of lines, or of a Parquet file; ``where`` names the file."""
        bad = 0
        for row in self._parquet_rows(raw) if where.endswith(".parquet") else self._json_rows(raw, where):
            if row is None:
                bad += 1
            elif "service" in row and self._takes(row):
                self.has_rows = True
                yield row
        note = f"{where}: left out {bad} lines that are not rows"
        if bad and note not in self.notes:
            self.notes.append(note)

    def _json_rows(self, raw: IO[bytes], where: str) -> Iterator[Row | None]:
        with gzip.GzipFile(fileobj=raw) as packed:
            yield from map(parse_row, _lines(packed, where, self.service))

    def _parquet_rows(self, raw: IO[bytes]) -> Iterator[Row | None]:
        try:
            from app.tools.audit.format.columns import rows_of_parquet  # which imports pyarrow
        except ImportError:
            raise CannotCompare(NO_PYARROW) from None

        return map(valid_row, rows_of_parquet(raw, self.service))

    @property
    def is_filtered(self) -> bool:
        """True if only one service or namespace is compared."""
        return self.service is not None or self.namespace is not None

    def _takes(self, row: Row) -> bool:
        return self.service in (None, row["service"]) and self.namespace in (None, row["namespace"])


def parse_row(line: bytes) -> dict[str, Any] | None:
    """Return the row in a line; an empty one for an unknown kind; None if the line is invalid or lacks a field."""
    try:
        return valid_row(orjson.loads(line))
    except orjson.JSONDecodeError:
        return None


def valid_row(value: object) -> dict[str, Any] | None:
    """Return the row of a known kind; an empty one for an unknown kind; None for an invalid or incomplete row.

    An instance without metadata, or with null, has empty metadata.
    """
    row: dict[str, Any] = value if isinstance(value, dict) else {}
    if row.get("kind") == RowKind.INSTANCE and row.get("metadata") is None:
        row = {**row, "metadata": {}}
    match row:
        case {"kind": RowKind.INSTANCE.value, "port": int(), "weight": int() | float(), "metadata": dict()}:
            whole = all(isinstance(row.get(name), str) for name in _TEXTS)
            return row if whole and all(isinstance(row.get(name), bool) for name in _TRUTHS) else None
        case {"kind": RowKind.SERVICE.value, "namespace": str(), "service": str()}:
            return row
        case {"kind": RowKind.RECORD.value, "name": str(), "value": str()} | {
            "kind": RowKind.CLIENT.value,
            "name": str(),
        }:
            return {**row, "namespace": "", "service": ""}
        case {"kind": RowKind.INSTANCE.value | RowKind.SERVICE.value | RowKind.RECORD.value | RowKind.CLIENT.value}:
            return None
        case {"kind": str()}:
            return {}
    return None


# --- a dump --------------------------------------------------------------------------------------


def sides_of_night(uri: str, night: Night, a: str, b: str, reading: Reading) -> list[tuple[Side, Side]]:
    """Return the sides of both members, one pair for each round of the night in which both were dumped.

    Raises:
        CannotCompare: there is no such round; the text says why.
    """
    pairs, reasons = [], []
    for one in night.rounds:
        try:
            pairs.append((_side_of_round(uri, one, a, reading), _side_of_round(uri, one, b, reading)))
        except CannotCompare as error:
            reasons.append(str(error))
    if not pairs:
        raise CannotCompare(reasons[-1])
    return pairs


def _side_of_round(uri: str, one: Round, address: str, reading: Reading) -> Side:
    """Return the side of a member with the rows of one round.

    Raises:
        CannotCompare: the member is not in the manifest, or gave no dump.
    """
    member = one.manifest.member(address)
    if member is None:
        known = ", ".join(known.address for known in one.manifest.members)
        raise CannotCompare(
            phrase(
                "%(address)s is not in the dump of %(taken_at)s, whose members are %(known)s",
                address=address,
                taken_at=one.manifest.taken_at,
                known=known,
            )
        )
    if member.state is not DumpState.DUMPED:
        raise CannotCompare(
            phrase(
                "%(address)s was not dumped at %(taken_at)s: %(reason)s",
                address=address,
                taken_at=one.manifest.taken_at,
                reason=member.error or phrase("no reason given"),
            )
        )
    checked: set[str] = set()

    def rows() -> Iterator[Row]:
        filesystem, _ = open_root(uri)
        for part in member.parts:
            path = f"{one.folder}/{part.path}"
            if path not in checked:
                _check_part(filesystem, path, part)
                checked.add(path)
            with _opened(filesystem, path) as raw:
                yield from reading.rows(raw, path)

    return Side(address, rows, Facts(member.kind, frozenset(member.tells), tuple(member.members)))


@contextlib.contextmanager
def _opened(filesystem: Any, path: str) -> Iterator[IO[bytes]]:
    try:
        with filesystem.open(path, "rb") as raw:
            yield raw
    except (OSError, EOFError, zlib.error) as error:
        raise CannotCompare(phrase("%(path)s cannot be read: %(error)s", path=path, error=error)) from None


def _lines(packed: gzip.GzipFile, where: str, service: str | None) -> Iterator[bytes]:
    """Yield lines without their ends, of ``LINE_BYTES_MAX`` at most; with ``service``, only lines with this name."""
    named = None if service is None else orjson.dumps(service)
    rest = b""
    while piece := packed.read(PIECE_BYTES):
        whole, _, rest = (rest + piece).rpartition(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise CannotCompare(
                phrase("%(where)s has a line of over %(count)s bytes", where=where, count=LINE_BYTES_MAX)
            )
        # Searching a million bytes at once for a name is far quicker than parsing them into rows.
        if whole and named is None:
            yield from whole.split(b"\n")
        elif named is not None and named in whole:
            yield from (line for line in whole.split(b"\n") if named in line)
    if rest and (named is None or named in rest):
        yield rest


def _check_part(filesystem: Any, path: str, part: Part) -> None:
    """Check the sha256 of a part: a file that the manifest does not name says nothing about the member."""
    digest = hashlib.sha256()
    with _opened(filesystem, path) as raw:
        while piece := raw.read(PIECE_BYTES):
            digest.update(piece)
    if digest.hexdigest() != part.sha256:
        raise CannotCompare(phrase("%(path)s is not the file in its manifest: the sha256 differs", path=path))


# --- a running member ----------------------------------------------------------------------------


def spool_writer(spool: IO[bytes]) -> gzip.GzipFile:
    """Return a writer of gzip lines to ``spool``, which is emptied first: an earlier attempt may have left lines."""
    spool.seek(0)
    spool.truncate()
    return gzip.GzipFile(fileobj=spool, mode="wb", compresslevel=1, mtime=0)


def side_of_spool(address: str, spool: IO[bytes], reading: Reading, facts: Facts) -> Side:
    """Return the side of a member whose lines are in ``spool``; each reading starts at its beginning."""

    def rows() -> Iterator[Row]:
        spool.seek(0)
        yield from reading.rows(spool, address)

    return Side(address, rows, facts)
