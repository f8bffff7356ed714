"""The nodes that run on this machine: found in Linux's /proc by the locks of their data folders."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.config import settings_keys as keys
from app.config.settings import SettingError, Settings, read_settings
from app.machine.process.data_lock import LOCK_NAME

PROC = Path("/proc")
APPLICATIONS = frozenset((b"app.wsgi:app", b"rollcall_registry.wsgi:app"))
"""The application that gunicorn runs, in a checkout and installed: an argument of each node's process."""


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node of this machine. Only nodes of this user are seen; as root all of them."""

    pid: int
    settings: Settings


def running_nodes(proc: Path = PROC) -> list[RunningNode]:
    """Return the nodes that run here, by their ports; none where there is no /proc."""
    found = {one.settings.data_dir: one for one in _nodes(proc)}
    return sorted(found.values(), key=lambda one: (one.settings.port, one.pid))


def _nodes(proc: Path) -> Iterator[RunningNode]:
    with contextlib.suppress(OSError):
        for folder in proc.iterdir():
            if not folder.name.isdecimal():
                continue
            # A process may end while it is looked at, or be another user's.
            with contextlib.suppress(OSError, SettingError):
                if not APPLICATIONS.isdisjoint((folder / "cmdline").read_bytes().split(b"\0")):
                    yield from _node(folder)


def _node(folder: Path) -> Iterator[RunningNode]:
    """Yield the node of a process, if it holds the lock of a data folder. Its first process holds none."""
    for one in (folder / "fd").iterdir():
        file = Path(os.readlink(one))
        if file.name == LOCK_NAME and file.read_bytes().split() == [folder.name.encode()]:
            yield RunningNode(int(folder.name), _settings(folder, file.parent))
            return


def _settings(folder: Path, data_dir: Path) -> Settings:
    """Return the settings of a process, from its environment and its files.

    Raises:
        SettingError: they cannot be read any more, as after a change of the file.
    """
    pairs = ((folder / "environ").read_bytes().decode("utf-8", "surrogateescape")).split("\0")
    environ = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    with contextlib.chdir(os.readlink(folder / "cwd")):  # a relative path of its settings begins there
        return read_settings({keys.DATA_DIR.name: str(data_dir)}, environ)
