"""Finding, testing and writing the audit's files on any file system of fsspec."""

import contextlib
import os
import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import fsspec

_RENAMING = {"file", "local", "hdfs", "arrow_hdfs", "webhdfs", "sftp"}
"""File systems that show a file while it is written, and rename in one step. Object stores show whole files only."""


def open_root(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI, and the path in it without a slash at its end."""
    filesystem, path = fsspec.core.url_to_fs(uri)
    return filesystem, path.rstrip("/")


def is_local(filesystem: Any) -> bool:
    """Return whether a file system's paths are those of this machine."""
    return bool({"file", "local"} & _protocols(filesystem))


def _protocols(filesystem: Any) -> set[str]:
    protocol = filesystem.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)


def place(uri: str) -> str:
    """Return a folder as a command takes it: the whole path on this machine, or the URI without credentials."""
    parts = urlsplit(uri)
    if parts.netloc:
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    filesystem, root = open_root(uri)
    return root if is_local(filesystem) else uri


def check_writable(filesystem: Any, folder: str) -> None:
    """Make a folder, and write and remove an empty file in it: a missing right shows here, before minutes of work."""
    probe = f"{folder}/.write-test-{os.getpid()}"
    filesystem.makedirs(folder, exist_ok=True)
    filesystem.pipe_file(probe, b"")
    filesystem.rm_file(probe)


def write_whole(filesystem: Any, path: str, body: bytes) -> None:
    """Write a file in one step: a reader finds the earlier file or none until then, never a part of the new one."""
    if not _RENAMING & _protocols(filesystem):
        filesystem.pipe_file(path, body)
        return
    folder, _, name = path.rpartition("/")
    unfinished = f"{folder}/.{name}.unfinished"
    try:
        with filesystem.open(unfinished, "wb") as file:
            file.write(body)
            if is_local(filesystem):
                file.flush()
                os.fsync(file.fileno())
        if is_local(filesystem):
            os.replace(unfinished, path)
        else:
            filesystem.mv(unfinished, path)
    except BaseException:
        with contextlib.suppress(Exception):  # the failure of the write is the one to report
            filesystem.rm_file(unfinished)
        raise


def overwrite(path: str, body: bytes) -> bool:
    """Write over a local file in its place, which a full disk allows; return whether the file now is ``body``.

    Nothing is written if there is no such file, or if it is shorter than ``body``.
    """
    try:
        with open(path, "r+b", buffering=0) as file:
            if os.fstat(file.fileno()).st_size < len(body):
                return False
            written = file.write(body)
            file.truncate(len(body))
            os.fsync(file.fileno())
            return written == len(body)
    except OSError:
        return False


def dated_folders(filesystem: Any, parent: str, key: str) -> list[str]:
    """Return the dates of the subfolders ``key=2026-11-21`` of ``parent``, oldest first; none without ``parent``."""
    if not filesystem.isdir(parent):
        return []
    names = (path.rstrip("/").rpartition("/")[2] for path in filesystem.ls(parent, detail=False))
    found = (re.fullmatch(rf"{key}=(\d{{4}}-\d\d-\d\d)", name) for name in names)
    return sorted(match[1] for match in found if match)
