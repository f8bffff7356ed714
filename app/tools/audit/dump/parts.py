"""Parts of a dump: the rows of one member in files of bounded size, as Parquet or as gzip files of JSON lines."""

import contextlib
from collections.abc import Callable, Mapping
from gzip import GzipFile
from hashlib import sha256
from typing import Any, Protocol

from app.tools.audit.dump.store import StoreError, writing
from app.tools.audit.format.manifest import Part
from app.tools.audit.format.part_format import PartFormat

GZIP_LEVEL = 2
"""A third more bytes than level 6, at a third of the time."""


class RowFile(Protocol):
    """A file of rows while it is written; ``rows`` and ``plain_bytes`` count what was written to it.

    ``corrupt``: the rows with values for which the format has no place; ``unknown``: the names of such fields.
    """

    rows: int
    plain_bytes: int
    corrupt: int
    unknown: set[str]

    def write(self, line: bytes, row: Mapping[str, Any]) -> None:
        """Add a row, given as a line with its end, and parsed."""
        ...

    def close(self) -> tuple[int, str]:
        """Write the rest; return the size and the sha256 of a footer, 0 and an empty text without one."""
        ...


class JsonFile:
    """A gzip file of JSON lines that goes to the function ``take``. The same rows make the same bytes."""

    def __init__(self, take: Callable[[bytes], int]) -> None:
        self.rows = self.plain_bytes = self.corrupt = 0
        self.unknown: set[str] = set()
        # Without name and time: the same rows make the same file.
        self._gzip = GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=_Sink(take), mtime=0)

    def write(self, line: bytes, row: Mapping[str, Any]) -> None:
        """Add a row's line."""
        self._gzip.write(line)
        self.rows += 1
        self.plain_bytes += len(line)

    def close(self) -> tuple[int, str]:
        """End the gzip stream, which has no footer."""
        self._gzip.close()
        return 0, ""


class _Sink:
    """A file for GzipFile to write to: its bytes go to the function ``take``."""

    def __init__(self, take: Callable[[bytes], int]) -> None:
        self.write = take

    def flush(self) -> None:
        """Do nothing: each write goes through at once."""


class PartWriter:
    """Writes the rows of one member to files of bounded size, in the folder ``name`` in a round's folder.

    For Parquet one row group is held in memory, some ``columns.GROUP_BYTES``; for JSON only gzip's own buffers.

    Raises (each call): StoreError.
    """

    def __init__(
        self,
        filesystem: Any,
        folder: str,
        name: str,
        part_format: PartFormat = PartFormat.JSON,
        *,
        rows_max: int | None = None,
        plain_bytes_max: int | None = None,
        prefix: str = "part",
    ) -> None:
        """``prefix``: of the names of its files."""
        self._prefix = prefix
        self._filesystem = filesystem
        self._folder = f"{folder}/{name}"
        self._name = name
        self._format = part_format
        self._rows_max = rows_max or part_format.rows_max
        self._plain_bytes_max = plain_bytes_max or part_format.plain_bytes_max
        self._open: _OpenPart | None = None
        self._parts: list[Part] = []
        self._begun: list[str] = []
        self.unknown: set[str] = set()
        """The names of fields for which the format of the finished parts has no place."""
        self.corrupt = 0
        """Rows of the finished parts with values for which the format has no place."""

    def write(self, line: bytes, row: Mapping[str, Any]) -> None:
        """Write one row, given as a line with its end, and parsed."""
        part = self._open
        if part is not None and part.is_full(self._rows_max, self._plain_bytes_max - len(line)):
            self._finish()
            part = None
        with writing(self._folder):
            if part is None:
                part = self._open = self._begin()
            part.file.write(line, row)

    def close(self) -> list[Part]:
        """Finish the last part; return all parts, none when there was no row."""
        self._finish()
        return self._parts

    def discard(self) -> None:
        """Remove the files written so far: the member counts as absent, or is asked again."""
        part, self._open = self._open, None
        with contextlib.suppress(StoreError), writing(self._folder):
            if part is not None:
                part.close()
        with writing(self._folder):
            for name in self._begun:
                if self._filesystem.exists(f"{self._folder}/{name}"):
                    self._filesystem.rm_file(f"{self._folder}/{name}")
            # An object store has no folders, and a folder that something else is in stays.
            with contextlib.suppress(OSError, NotImplementedError):
                self._filesystem.rmdir(self._folder)
        self._parts, self._begun, self.unknown, self.corrupt = [], [], set(), 0

    def _begin(self) -> "_OpenPart":
        name = f"{self._prefix}-{len(self._begun):05d}.{self._format.ending}"
        if not self._begun:
            self._filesystem.makedirs(self._folder, exist_ok=True)
        self._begun.append(name)
        with contextlib.ExitStack() as on_failure:
            file = on_failure.enter_context(contextlib.closing(self._filesystem.open(f"{self._folder}/{name}", "wb")))
            part = _OpenPart(file, f"{self._name}/{name}", self._format)  # which writes a head
            on_failure.pop_all()
        return part

    def _finish(self) -> None:
        part, self._open = self._open, None
        if part is not None:
            with writing(self._folder):
                self._parts.append(part.close())
                self.unknown |= part.file.unknown
                self.corrupt += part.file.corrupt


class _OpenPart:
    """One part while it is written, with the hash and the number of the bytes in its file."""

    def __init__(self, raw: Any, path: str, part_format: PartFormat) -> None:
        self._raw = raw
        self._path = path
        self._hash = sha256()
        self._bytes = 0
        self.file = row_file(part_format, self._take)

    def is_full(self, rows_max: int, plain_bytes_max: int) -> bool:
        return self.file.rows >= rows_max or self.file.plain_bytes > plain_bytes_max

    def close(self) -> Part:
        with contextlib.closing(self._raw):
            footer_bytes, footer_sha256 = self.file.close()
        return Part(self._path, self.file.rows, self._bytes, self._hash.hexdigest(), footer_bytes, footer_sha256)

    def _take(self, data: bytes) -> int:
        self._raw.write(data)
        self._hash.update(data)
        self._bytes += len(data)
        return len(data)


def row_file(part_format: PartFormat, take: Callable[[bytes], int]) -> RowFile:
    """Return a file of rows whose bytes go to ``take``."""
    if part_format is PartFormat.JSON:
        return JsonFile(take)
    from app.tools.audit.format.columns import ColumnFile  # which imports pyarrow

    return ColumnFile(take)
