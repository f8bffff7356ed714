"""The store of dumps: a folder for each round, the manifest at its end, old nights removed.

Everything goes through fsspec, one call or stream at a time, so that any of its file systems will do.
"""

import contextlib
from collections.abc import Iterator
from datetime import date, timedelta

from app.languages.phrases import phrase
from app.tools.audit.format.file_systems import check_writable, is_local, open_root, write_whole
from app.tools.audit.format.layout import nights
from app.tools.audit.format.manifest import MANIFEST_NAME, Manifest, encode_manifest


class StoreError(Exception):
    """The dump cannot be written; the text names the path and the failure."""


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Turn any error of a file system into a StoreError that names ``path``."""
    try:
        yield
    except Exception as error:  # file systems are plug-ins, and each raises its own errors
        raise StoreError(phrase("%(path)s cannot be written: %(error)s", path=path, error=_reason(error))) from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}"


class Store:
    """The root of all dumps. Threads may write to it at the same time, each its own files.

    Raises (each call): StoreError.
    """

    def __init__(self, uri: str) -> None:
        with writing(uri):
            self.filesystem, self.root = open_root(uri)
        self.uri = uri

    def shown(self, path: str) -> str:
        """Return a path as the user would name it."""
        with writing(path):
            return path if is_local(self.filesystem) else str(self.filesystem.unstrip_protocol(path))

    def make_folder(self, path: str) -> None:
        with writing(path):
            self.filesystem.makedirs(path, exist_ok=True)

    def check_writable(self, folder: str) -> None:
        """Make a folder and try to write there: a failure shows before the members are asked, which takes minutes."""
        with writing(folder):
            check_writable(self.filesystem, folder)

    def write_manifest(self, folder: str, manifest: Manifest) -> None:
        """Write a round's manifest in one step: the file is either missing or whole."""
        path = f"{folder}/{MANIFEST_NAME}"
        with writing(path):
            write_whole(self.filesystem, path, encode_manifest(manifest))

    def remove_nights_before(self, day: date) -> list[str]:
        """Remove the folders of nights before ``day``, and nothing else; return their dates."""
        with writing(self.uri):
            old = [night for night in nights(self.uri) if _is_before(night, day)]
            for night in old:
                self.filesystem.rm(f"{self.root}/dump_date={night}", recursive=True)
        return old


def first_kept(night: str, keep_days: int) -> date:
    """Return the oldest night to keep: ``keep_days`` days before ``night``."""
    day = date.fromisoformat(night)
    return day - timedelta(days=min(keep_days, (day - date.min).days))


def _is_before(night: str, day: date) -> bool:
    try:
        return date.fromisoformat(night) < day
    except ValueError:
        return False  # named like a night, and none: not ours to remove
