"""Calls to the configuration API, which this node does not implement: counted, and logged once for each client."""

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass

CLIENTS_REMEMBERED = 10_000
"""The most addresses that are remembered. Beyond it the one silent for longest is forgotten."""

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class ConfigCallStats:
    """Counts since the start."""

    config_refused: int = 0
    """Calls that were answered with a refusal."""
    config_absent: int = 0
    """Reads and listens that were answered as for a configuration that does not exist."""


class ConfigCallLog:
    """Takes note of calls to the configuration API, over any protocol. Thread-safe."""

    def __init__(self) -> None:
        self.stats = ConfigCallStats()
        self._lock = threading.Lock()
        self._known: OrderedDict[str, None] = OrderedDict()

    def refused(self, remote_ip: str, what: str) -> None:
        """Count a refusal, and log it if it is the first one of this client."""
        self.stats.config_refused += 1
        with self._lock:
            is_new = remote_ip not in self._known
            self._known[remote_ip] = None
            self._known.move_to_end(remote_ip)
            if len(self._known) > CLIENTS_REMEMBERED:
                self._known.popitem(last=False)
        if is_new:
            LOG.warning(
                "%s requests configurations (%a), which Rollcall does not serve; its further calls are not logged",
                remote_ip,
                what,
            )

    def absent(self) -> None:
        """Count a call that was answered as for a configuration that does not exist."""
        self.stats.config_absent += 1
