"""A lock file in the data folder: no two nodes use one folder at the same time."""

import fcntl
import os
from pathlib import Path
from types import TracebackType

from app.config.settings_keys import DATA_DIR, SettingError
from app.languages.catalogues import N_
from app.languages.phrases import phrase

LOCK_NAME = "LOCK"
"""The file whose content is the number of the process that holds the lock."""


class DataLockError(SettingError):
    """The data folder cannot be made or written, or another node uses it."""


class DataFolderInUse(DataLockError):
    """Another node uses the data folder."""


class DataLock:
    """Keeps other nodes out of the data folder from ``acquire`` to ``release``, or to any end of the process."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Make the folder if it is missing, and lock it.

        Raises:
            DataLockError: the folder cannot be made or written, or a running node uses it.
        """
        assert self._descriptor is None, "a lock is acquired once"
        try:
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._data_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            text = N_("data folder %(folder)s cannot be used: %(reason)s")
            raise DataLockError(phrase(text, folder=self._data_dir, reason=error.strerror)) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise DataFolderInUse(
                phrase(
                    "data folder %(folder)s is in use by another node, process %(process)s; stop it, or set %(key)s to "
                    "another folder",
                    folder=self._data_dir,
                    process=holder,
                    key=DATA_DIR.name,
                )
            ) from None
        except OSError as error:
            os.close(descriptor)
            text = N_("data folder %(folder)s cannot be locked: %(reason)s")
            raise DataLockError(phrase(text, folder=self._data_dir, reason=error.strerror)) from None
        self._descriptor = descriptor

    def release(self) -> None:
        """Unlock the folder. May be called twice."""
        # The file stays: otherwise a node that has it open already would lock a file that no later node can see.
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def __enter__(self) -> "DataLock":
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
