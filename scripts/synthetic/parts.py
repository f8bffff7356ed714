"""The files of a synthetic dump: parts with the same services and number at all members, including damaged ones."""

import hashlib
from typing import Any

import orjson

from app.rows.rows import CORRUPT
from app.tools.audit.dump.parts import row_file
from app.tools.audit.format.digests import DigestWriter
from app.tools.audit.format.manifest import Digests, Part
from app.tools.audit.format.part_format import PartFormat

BUFFER_BYTES = 1 << 18


class SyntheticParts:
    """Writes the parts of one member in one round. With ``damage`` the first file does not match its hash."""

    def __init__(self, filesystem: Any, folder: str, name: str, part_format: PartFormat, damage: int | None) -> None:
        self.parts: list[Part] = []
        self.plain_bytes = self.services = self.instances = 0
        self._filesystem = filesystem
        self._folder = folder
        self._name = name
        self._format = part_format
        self._damage = damage
        self._number = 0
        self._file: Any = None
        self._buffer: list[bytes] = []
        self._digests = DigestWriter()
        self._corrupt = 0
        self._buffered = self._rows = 0
        filesystem.makedirs(f"{folder}/{name}", exist_ok=True)

    def add(self, lines: bytes, rows: int, services: int, instances: int) -> None:
        """Add lines, with the numbers of their rows of all kinds, of services and of instances."""
        self._buffer.append(lines)
        self._buffered += len(lines)
        self._rows += rows
        self.services += services
        self.instances += instances
        if self._buffered >= BUFFER_BYTES:
            self._pack()

    def end_part(self, number: int) -> None:
        """Finish the part unless it is empty; the next part gets this number."""
        if self._rows:
            self._pack()
            footer = self._rows_file.close()
            self._corrupt += self._rows_file.corrupt
            self._file.close()
            self.parts.append(Part(self._path, self._rows, self._bytes, self._hash.hexdigest(), *footer))
            if self._damage is not None and self._number == 0:
                self._spoil(f"{self._folder}/{self._path}", self._damage)
            self._file, self._rows = None, 0
        self._number = number

    def digests(self) -> Digests | None:
        """Return the digests of the rows of finished Parquet parts; None for JSON, which is not parsed here."""
        return self._digests.result(corrupt=self._corrupt) if self._format is PartFormat.PARQUET else None

    def _spoil(self, path: str, damage: int) -> None:
        """Truncate a file, or flip a bit of its last byte, or in Parquet of a page of rows."""
        body = bytearray(self._filesystem.cat_file(path))
        at = len(body) // 3 if self._format is PartFormat.PARQUET else -1
        body[at] ^= 1
        self._filesystem.pipe_file(path, bytes(body[:-10] if damage % 2 else body))

    @property
    def _path(self) -> str:
        return f"{self._name}/part-{self._number:05d}.{self._format.ending}"

    def _pack(self) -> None:
        if self._file is None:
            self._file = self._filesystem.open(f"{self._folder}/{self._path}", "wb")
            self._hash, self._bytes = hashlib.sha256(), 0
            self._rows_file = row_file(self._format, self._take)
        plain = b"".join(self._buffer)
        self.plain_bytes += self._buffered
        self._buffer, self._buffered = [], 0
        if self._format is PartFormat.JSON:
            self._rows_file.write(plain, {})
            return
        for line in plain.splitlines(keepends=True):
            row = _parsed(line)
            self._rows_file.write(line, row)
            self._digests.add(row)

    def _take(self, data: bytes) -> int:
        self._hash.update(data)
        self._bytes += len(data)
        self._file.write(data)
        return len(data)


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        row: dict[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {CORRUPT: line.decode(errors="replace").rstrip("\n")}
    return row
