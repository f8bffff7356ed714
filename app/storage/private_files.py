"""The data folder is its owner's alone: it holds addresses, metadata and users of everybody."""

import logging
import os
import stat
from pathlib import Path

LOG = logging.getLogger(__name__)
FOLDER_MODE, FILE_MODE = 0o700, 0o600
OTHERS = 0o077
OURS = ("LOCK", "first-admin.", "members.", "records.sqlite3", "warm.")
"""How the names of a node's files begin, those of SQLite beside them too."""
FOLDERS = ("loader", "logs")
"""Of an operator's rules and of logs; they keep their rights."""


def make_private(folder: Path) -> None:
    """Take from group and others the rights to a data folder and to a node's files in it; what is narrowed is logged.

    A folder with anything else in it, and one of another owner, keeps its rights, as others may need it.
    """
    names = sorted(os.listdir(folder))
    files = [folder / name for name in names if name.startswith(OURS)]
    strange = [name for name in names if not name.startswith(OURS) and name not in FOLDERS]
    narrowed = [path.name for path in files if _narrow(path, FILE_MODE)]
    if narrowed:
        LOG.warning("%s: others could read %s; now only this user can", folder, ", ".join(narrowed))
    if strange and folder.stat().st_mode & OTHERS:
        LOG.warning("%s is open to others, and stays so, as it holds what is no node's: %r", folder, strange[0])
    elif _narrow(folder, FOLDER_MODE):
        LOG.warning("%s was open to others; now only this user can enter it", folder)


def create_private(path: Path) -> None:
    """Make a file that only its owner may read, if it is missing: SQLite's own would be readable for all.

    Raises:
        OSError: it cannot be made.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def _narrow(path: Path, mode: int) -> bool:
    """Set the mode of our own file or folder if others have rights to it; whether that was done."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode) or not found.st_mode & OTHERS or found.st_uid != os.geteuid():
        return False
    try:
        path.chmod(mode)
    except OSError as error:
        LOG.warning("%s is open to others, and cannot be narrowed: %s", path, error.strerror)
        return False
    return True
