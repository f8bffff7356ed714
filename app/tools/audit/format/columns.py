"""Parquet files of rows: written while the rows come, and read without Spark.

A Parquet file has a checksum in each page, which its readers verify while they read; its footer names every page. So a
reader that knows the hash of the footer needs no second pass over the file to know that it is whole.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import IO, Any

import orjson
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as pq

from app.naming.model.keys import dump_bucket
from app.rows.rows import BUCKET, CORRUPT, FIELDS, METADATA, canonical

BATCH_ROWS = 2_000
"""Rows that wait as Python objects, some 2 KB each, before they become columns."""
BATCH_BYTES = 8 * 1024 * 1024
"""The bytes of JSON that wait likewise, if rows are large."""
GROUP_ROWS = 100_000
PAGE_ROWS = 2_048
"""The rows of a page: a reader of one bucket reads some of these from each column. Smaller pages make larger files."""
GROUP_BYTES = 32 * 1024 * 1024
"""The most bytes of a row group, which waits in memory as Arrow columns."""
READ_ROWS = 10_000
CORRUPT_CHARS_MAX = 1_000

ARROW_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "map<string,string>": pa.string(),
}
_TOLD = {**FIELDS, CORRUPT: "string"}
SCHEMA = pa.schema([*((name, ARROW_TYPES[kind]) for name, kind in _TOLD.items()), (BUCKET, pa.int32())])
"""The columns of a part: the fields of rows, metadata as ``canonical`` JSON, the text of an invalid line, and the
bucket of the service."""
_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError)

Row = Mapping[str, Any]


def batch_of(rows: Sequence[tuple[bytes, Row]]) -> tuple[pa.RecordBatch, set[str]]:
    """Return the rows, each with its line, as columns; a row with unfit values has only its line, in ``_corrupt``.

    Fields that are unknown here are left out: their names are returned.
    """
    names = set().union(*(row for _, row in rows))
    try:
        batch = _batch([_flat(row) for _, row in rows], names)
    except _ERRORS:
        batch = _batch([_fitting(line, row) for line, row in rows], names | {CORRUPT})
    return batch, names - _TOLD.keys()


def _flat(row: Row) -> Row:
    pairs = row.get(METADATA)
    if pairs is None:
        return row
    if not isinstance(pairs, dict):
        raise TypeError(METADATA)
    return {**row, METADATA: canonical(pairs) if pairs else "{}"}


def _fitting(line: bytes, row: Row) -> Row:
    try:
        flat = _flat(row)
        _batch([flat], flat.keys())
        return flat
    except _ERRORS:
        return {CORRUPT: line[: 4 * CORRUPT_CHARS_MAX].decode(errors="replace").rstrip("\n")[:CORRUPT_CHARS_MAX]}


def _batch(rows: Sequence[Row], there: Collection[str]) -> pa.RecordBatch:
    columns = [
        pa.array([row.get(field.name) for row in rows], field.type)
        if field.name in there
        else pa.nulls(len(rows), field.type)
        for field in list(SCHEMA)[:-1]
    ]
    return pa.record_batch([*columns, pa.array(_buckets(rows), pa.int32())], schema=SCHEMA)


def _buckets(rows: Sequence[Row]) -> Iterator[int | None]:
    last: tuple[Any, Any] = (None, None)
    bucket = None
    for row in rows:
        namespace, service = name = row.get("namespace"), row.get("service")
        if name != last:
            last, bucket = name, None
            if isinstance(namespace, str) and isinstance(service, str):
                bucket = dump_bucket(namespace, service)
        yield bucket


def rows_of_parquet(raw: IO[bytes], service: str | None = None) -> Iterator[dict[str, Any] | None]:
    """Yield the rows of a Parquet file, as they would be in JSON; None for an invalid line.

    ``service``: only the rows of this service, by its full name.

    Raises:
        OSError: a page does not match its checksum, or the file is not a Parquet file of rows.
    """
    try:
        file = pq.ParquetFile(raw, page_checksum_verification=True)
        for batch in file.iter_batches(batch_size=READ_ROWS):
            wanted = batch if service is None else batch.filter(compute.equal(batch["service"], service))
            yield from map(_plain, wanted.to_pylist())
    except (pa.ArrowException, KeyError) as error:
        raise OSError(str(error).partition("\n")[0]) from None


def rows_in_footer(footer: bytes) -> int:
    """Return the number of rows of a Parquet file, of which these are the last bytes.

    Raises:
        OSError: they are not a footer.
    """
    try:
        return int(pq.read_metadata(pa.BufferReader(footer)).num_rows)
    except pa.ArrowException as error:
        raise OSError(str(error).partition("\n")[0]) from None


def _plain(row: dict[str, Any]) -> dict[str, Any] | None:
    if row.get(CORRUPT) is not None:
        return None
    plain = {name: value for name, value in row.items() if value is not None and name != BUCKET}
    if METADATA in plain:
        plain[METADATA] = orjson.loads(plain[METADATA])
    return plain


class ColumnFile:
    """A Parquet file of rows that goes to the function ``take``, piece by piece.

    ``rows`` and ``plain_bytes`` count what was written, ``corrupt`` the rows with unfit values; ``unknown`` are the
    names of fields that were left out.
    """

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self.rows = self.plain_bytes = self.corrupt = 0
        self.unknown: set[str] = set()
        self._sink = _PieceSink(take)
        self._writer = pq.ParquetWriter(
            self._sink,
            SCHEMA,
            compression="zstd",
            write_page_checksum=True,
            # Readers skip pages by the bucket alone; those of all columns are larger than the rows of a small part.
            write_statistics=[BUCKET],
            write_page_index=True,
            max_rows_per_page=PAGE_ROWS,
            store_schema=False,
        )
        self._waiting: list[tuple[bytes, Row]] = []
        self._waiting_bytes = 0
        self._group: list[pa.RecordBatch] = []

    def write(self, line: bytes, row: Row) -> None:
        """Add a row, with its line of JSON."""
        self._waiting.append((line, row))
        self._waiting_bytes += len(line)
        self.rows += 1
        self.plain_bytes += len(line)
        if len(self._waiting) >= BATCH_ROWS or self._waiting_bytes >= BATCH_BYTES:
            self._to_columns()
            rows, size = sum(one.num_rows for one in self._group), sum(one.nbytes for one in self._group)
            if rows >= GROUP_ROWS or size >= GROUP_BYTES:
                self._end_group()

    def close(self) -> tuple[int, str]:
        """Write the rows that wait and the footer; return the footer's number of bytes and its sha256."""
        self._to_columns()
        self._end_group()
        self._sink.hash = sha256()
        start = self._sink.tell()
        self._writer.close()
        return self._sink.tell() - start, self._sink.hash.hexdigest()

    def _to_columns(self) -> None:
        if self._waiting:
            batch, unknown = batch_of(self._waiting)
            self._group.append(batch)
            self.corrupt += batch.num_rows - batch[CORRUPT].null_count
            self.unknown |= unknown
            self._waiting, self._waiting_bytes = [], 0

    def _end_group(self) -> None:
        if self._group:
            self._writer.write_table(pa.Table.from_batches(self._group, SCHEMA), row_group_size=GROUP_ROWS * 2)
            self._group = []


class _PieceSink:
    """A file for Arrow to write to; ``hash``, once set, is that of the bytes since."""

    closed = False

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self._take = take
        self._bytes = 0
        self.hash: Any = None

    def write(self, data: Any) -> int:
        body = bytes(data)
        self._take(body)
        self._bytes += len(body)
        if self.hash is not None:
            self.hash.update(body)
        return len(body)

    def tell(self) -> int:
        return self._bytes

    def flush(self) -> None:
        """Do nothing: each write goes through at once."""

    def close(self) -> None:
        """Do nothing: the file belongs to its maker."""
