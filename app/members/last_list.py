"""The member list of a start, and the node's name in it: from an address server or a name, else the last list.

The last list that was found is kept in the data folder for a start while its source does not answer.
"""

import logging
import os
from dataclasses import replace
from pathlib import Path

from app.config.addresses import own_address
from app.config.settings import SettingError, Settings
from app.members.member_sources import FILE_BYTES_MAX, NoListError, parse_list, source_maker

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


def with_first_list(settings: Settings) -> Settings:
    """Return the settings with the members from the address server or the name, else with those of an earlier run.

    Without either the settings stay as they are, and the node waits for a first list. May block for seconds.
    """
    if settings.standalone or not settings.lookup.is_polled:
        return settings
    lookup = settings.lookup
    source = source_maker(lookup, settings.cluster_conf, settings.self_address)(lookup.kind)
    try:
        found = source.read() or ()
    except NoListError as error:
        found = LastList(settings.data_dir).read()
        use = f"the last one is used: {', '.join(found)}" if found else "this node waits for one"
        LOG.warning("no member list: %s; %s", error, use)
    finally:
        source.close()
    own = settings.self_address if lookup.own_host else own_address(found, settings.host, settings.port)
    members = found if own in found else (*found, own)
    try:
        settings.check_members(members)
    except SettingError as error:
        LOG.error("the member list cannot be used: %s", error)
        members = (own,)
    return replace(settings, members=members, self_address=own)
