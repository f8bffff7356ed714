"""The last member list that was found, kept in the data folder for a start while its source does not answer."""

import logging
import os
from pathlib import Path

from app.members.member_sources import FILE_BYTES_MAX, NoListError, parse_list

LOG = logging.getLogger(__name__)
NAME = "members.list"
MODE = 0o600


class LastList:
    """The file of the last list.

    Reads and writes never fail: a list that the disk refuses is only missing at a later start.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME
        self.writes_failed = 0

    def read(self) -> tuple[str, ...]:
        """Return the members of the last list; empty if there is no file, or no usable one."""
        try:
            with self._path.open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
            return parse_list(content, str(self._path))
        except FileNotFoundError:
            return ()
        except (OSError, NoListError) as error:
            LOG.warning("the last member list cannot be used: %s", error)
            return ()

    def write(self, members: tuple[str, ...]) -> None:
        """Replace the former list as a whole."""
        new = self._path.with_suffix(".new")
        try:
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE), "w") as file:
                file.write("".join(f"{one}\n" for one in members))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            self.writes_failed += 1
            LOG.warning("the member list cannot be saved for a later start: %s", error)
