"""Rights of the data folder: only its owner may read it, because it has all addresses, metadata and users."""

import logging
import os
import stat
from pathlib import Path

LOG = logging.getLogger(__name__)
FOLDER_MODE, FILE_MODE = 0o700, 0o600
OTHERS = 0o077
OURS = ("LOCK", "first-admin.", "members.", "records.sqlite3", "warm.")
"""The prefixes of a node's file names, including the files that SQLite adds."""
FOLDERS = ("loader", "logs")
"""Folders of an operator's rules and of logs. They keep their rights."""


def make_private(folder: Path) -> None:
    """Take the rights to a data folder and to a node's files in it from group and others. Each change is logged.

    A folder with other files in it, or of another owner, keeps its rights, as others may need it.
    """
    names = sorted(os.listdir(folder))
    files = [folder / name for name in names if name.startswith(OURS)]
    strange = [name for name in names if not name.startswith(OURS) and name not in FOLDERS]
    narrowed = [path.name for path in files if _narrow(path, FILE_MODE)]
    if narrowed:
        LOG.warning("%s: others could read %s; now only this user can", folder, ", ".join(narrowed))
    if strange and folder.stat().st_mode & OTHERS:
        LOG.warning(
            "%s is open to other users, and its mode is unchanged, because it has files of other users: %r",
            folder,
            strange[0],
        )
    elif _narrow(folder, FOLDER_MODE):
        LOG.warning("%s was open to others; now only this user can enter it", folder)


def create_private(path: Path) -> None:
    """Create a file that only its owner may read, if it is missing: SQLite would make it readable for all.

    Raises:
        OSError: it cannot be created.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def _narrow(path: Path, mode: int) -> bool:
    """Set the mode of this user's file or folder if others have rights to it. Return whether the mode was changed."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode) or not found.st_mode & OTHERS or found.st_uid != os.geteuid():
        return False
    try:
        path.chmod(mode)
    except OSError as error:
        LOG.warning("%s is open to others, and its mode cannot be changed: %s", path, error.strerror)
        return False
    return True
