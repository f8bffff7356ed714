"""The file with the list of members, which may change while this node runs."""

import logging
from collections.abc import Callable
from pathlib import Path

from app.config.cluster_conf import parse_members
from app.config.file_stamp import file_stamp
from app.config.settings import SettingError

LOG = logging.getLogger(__name__)
CONF_WATCH_INTERVAL_MS = 2_000


class ClusterConfWatch:
    """Reads the member file again when it changed. Called by the naming timer."""

    def __init__(
        self,
        path: Path,
        self_address: str,
        check: Callable[[tuple[str, ...]], None],
        take: Callable[[tuple[str, ...]], None],
    ) -> None:
        """``check`` raises SettingError for a list that this node may not take."""
        self._path = path
        self._self_address = self_address
        self._check = check
        self._take = take
        self._seen = file_stamp(path)

    def tick(self, now_ms: int) -> int:
        """Read the file if it changed. One that cannot be read, or names no member, is logged and changes nothing."""
        stamp = file_stamp(self._path)
        if stamp is not None and stamp != self._seen:
            self._seen = stamp
            try:
                members = parse_members(self._path.read_text(encoding="utf-8"))
                self._check(members)
            except (OSError, UnicodeDecodeError, SettingError, ValueError) as error:
                LOG.warning("%s cannot be taken, the member list stays: %s", self._path, error)
                return now_ms + CONF_WATCH_INTERVAL_MS
            if not members:
                LOG.warning("%s names no member, the member list stays", self._path)
            else:
                self._take(members if self._self_address in members else (*members, self._self_address))
        return now_ms + CONF_WATCH_INTERVAL_MS
