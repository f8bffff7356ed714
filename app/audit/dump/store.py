"""The store of dumps: parts of bounded size, the manifest at the end, old nights removed.

Everything goes through fsspec, one call or stream at a time, so that any of its file systems will do.
"""

import contextlib
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from gzip import GzipFile
from hashlib import sha256
from typing import Any

from app.audit.format.file_systems import check_writable, is_local, open_root, write_whole
from app.audit.format.layout import nights
from app.audit.format.manifest import MANIFEST_NAME, Manifest, Part, encode_manifest

PART_ROWS_MAX = 100_000
PART_BYTES_MAX = 32 * 1024 * 1024
"""The most bytes of a part, uncompressed. A gzip file cannot be split, so one task of the check reads a whole part."""
GZIP_LEVEL = 2
"""A third more bytes than level 6, at a third of the time."""


class StoreError(Exception):
    """The dump cannot be written; the text names the path and the failure."""


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # file systems are plug-ins, and each raises errors of its own
        raise StoreError(f"{path} cannot be written: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}"


class Store:
    """The root of all dumps. Threads may write to it at the same time, each its own files.

    Raises (each call): StoreError.
    """

    def __init__(self, uri: str) -> None:
        with _writing(uri):
            self.filesystem, self.root = open_root(uri)
        self.uri = uri

    def shown(self, path: str) -> str:
        """A path as the user would name it."""
        with _writing(path):
            return path if is_local(self.filesystem) else str(self.filesystem.unstrip_protocol(path))

    def make_folder(self, path: str) -> None:
        with _writing(path):
            self.filesystem.makedirs(path, exist_ok=True)

    def check_writable(self, folder: str) -> None:
        """Make a folder and try to write there: a failure shows before the members are asked, which takes minutes."""
        with _writing(folder):
            check_writable(self.filesystem, folder)

    def write_manifest(self, folder: str, manifest: Manifest) -> None:
        """Write a round's manifest in one step: the file is either missing or whole."""
        path = f"{folder}/{MANIFEST_NAME}"
        with _writing(path):
            write_whole(self.filesystem, path, encode_manifest(manifest))

    def remove_nights_before(self, day: date) -> list[str]:
        """Remove the folders of nights before ``day``, and nothing else; return their dates."""
        with _writing(self.uri):
            old = [night for night in nights(self.uri) if _is_before(night, day)]
            for night in old:
                self.filesystem.rm(f"{self.root}/dump_date={night}", recursive=True)
        return old


def first_kept(night: str, keep_days: int) -> date:
    """The oldest night to keep: ``keep_days`` days before ``night``."""
    day = date.fromisoformat(night)
    return day - timedelta(days=min(keep_days, (day - date.min).days))


def _is_before(night: str, day: date) -> bool:
    try:
        return date.fromisoformat(night) < day
    except ValueError:
        return False  # named like a night, and none: not ours to remove


class PartWriter:
    """Writes the rows of one member to files of bounded size, in the folder ``name`` in a round's folder.

    No row is held in memory beyond gzip's own buffers.

    Raises (each call): StoreError.
    """

    def __init__(
        self,
        filesystem: Any,
        folder: str,
        name: str,
        rows_max: int = PART_ROWS_MAX,
        bytes_max: int = PART_BYTES_MAX,
    ) -> None:
        self._filesystem = filesystem
        self._folder = f"{folder}/{name}"
        self._name = name
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._open: _OpenPart | None = None
        self._parts: list[Part] = []
        self._begun: list[str] = []

    def write(self, line: bytes) -> None:
        """Write one row, a line with its end."""
        part = self._open
        if part is not None and (part.rows >= self._rows_max or part.plain_bytes + len(line) > self._bytes_max):
            self._finish()
            part = None
        with _writing(self._folder):
            if part is None:
                part = self._open = self._begin()
            part.write(line)

    def close(self) -> list[Part]:
        """Finish the last part; return all parts, none when there was no row."""
        self._finish()
        return self._parts

    def discard(self) -> None:
        """Remove the files written so far: the member counts as absent, or is asked again."""
        part, self._open = self._open, None
        with contextlib.suppress(StoreError), _writing(self._folder):
            if part is not None:
                part.close()
        with _writing(self._folder):
            for name in self._begun:
                if self._filesystem.exists(f"{self._folder}/{name}"):
                    self._filesystem.rm_file(f"{self._folder}/{name}")
            # An object store has no folders, and a folder that something else is in stays.
            with contextlib.suppress(OSError, NotImplementedError):
                self._filesystem.rmdir(self._folder)
        self._parts, self._begun = [], []

    def _begin(self) -> "_OpenPart":
        name = f"part-{len(self._begun):05d}.jsonl.gz"
        if not self._begun:
            self._filesystem.makedirs(self._folder, exist_ok=True)
        self._begun.append(name)
        with contextlib.ExitStack() as on_failure:
            file = on_failure.enter_context(contextlib.closing(self._filesystem.open(f"{self._folder}/{name}", "wb")))
            part = _OpenPart(file, f"{self._name}/{name}")  # which writes a head
            on_failure.pop_all()
        return part

    def _finish(self) -> None:
        part, self._open = self._open, None
        if part is not None:
            with _writing(self._folder):
                self._parts.append(part.close())


class _Sink:
    """A file for GzipFile to write to: its bytes go to the function ``take``."""

    def __init__(self, take: Callable[[bytes], int]) -> None:
        self.write = take

    def flush(self) -> None:
        """Do nothing: each write goes through at once."""


class _OpenPart:
    """One part while it is written, with the hash and the number of the bytes in its file."""

    def __init__(self, file: Any, path: str) -> None:
        self._file = file
        self._path = path
        self._hash = sha256()
        self._bytes = 0
        self.rows = 0
        self.plain_bytes = 0
        # Without name and time: the same rows are the same file.
        self._gzip = GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=_Sink(self._take), mtime=0)

    def write(self, line: bytes) -> None:
        self._gzip.write(line)
        self.rows += 1
        self.plain_bytes += len(line)

    def close(self) -> Part:
        with contextlib.closing(self._file):
            self._gzip.close()
        return Part(self._path, self.rows, self._bytes, self._hash.hexdigest())

    def _take(self, data: bytes) -> int:
        self._file.write(data)
        self._hash.update(data)
        self._bytes += len(data)
        return len(data)
