"""The services that members of Nacos 1.4 cannot hold: their names have characters of Nacos 2.

Such a member refuses the whole message that names one, and its load from this node would fail.
"""

import logging
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import TypeVar

from app.naming.model.keys import parse_datum_key
from app.naming.model.service_names import is_nacos_1_name
from distro.model.types import Datum

LOG = logging.getLogger(__name__)
LOGGED_MAX = 1_000
"""The most services that the log names, each once."""
V = TypeVar("V")


class NacosOneNames:
    """Leaves out what members of Nacos 1.4 cannot hold. Thread-safe."""

    def __init__(self) -> None:
        self._logged: set[str] = set()
        self._lock = Lock()
        self._left_out = 0

    def counters(self) -> dict[str, int]:
        """Return the number of datums and checksums that were left out."""
        return {"nacos_1_left_out": self._left_out}

    def datums(self, datums: Iterable[Datum], peer: str) -> list[Datum]:
        """Return the datums that the peer, a member of Nacos 1.4, can hold."""
        return [one for one in datums if self._fits(one.key, peer)]

    def summary(self, summary: Mapping[str, V], peer: str) -> dict[str, V]:
        """Return the entries, by datum key, that the peer, a member of Nacos 1.4, can hold."""
        return {key: value for key, value in summary.items() if self._fits(key, peer)}

    def _fits(self, key: str, peer: str) -> bool:
        parsed = parse_datum_key(key)
        if parsed is None or is_nacos_1_name(parsed[1]):
            return True
        with self._lock:
            self._left_out += 1
            is_new = len(self._logged) < LOGGED_MAX and key not in self._logged
            if is_new:
                self._logged.add(key)
        if is_new:
            LOG.warning(
                "service %s of namespace %s is not sent to %s: Nacos 1.4 allows only 0-9a-zA-Z-._:@ in names",
                parsed[1],
                parsed[0],
                peer,
            )
        return False
