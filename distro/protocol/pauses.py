"""PauseWatch (R9): notices by a late tick that this process stood still."""

import logging

from distro.protocol.protocol_parts import ProtocolParts

LOG = logging.getLogger(__name__)


class PauseWatch:
    """The time at which the next tick is expected, and the end of the last pause. For the protocol's thread."""

    def __init__(self, parts: ProtocolParts, now_ms: int) -> None:
        self._parts = parts
        self.expected_ms: int | None = None
        """When the next tick is to be at the latest; None before the first."""
        self.resumed_ms = now_ms
        """The end of the last pause: calls that were under way end soon after it."""

    def notice(self, now_ms: int, ran_ms: int) -> int:
        """Return by how many ms this tick is late, as the process stood still; 0 if it did not.

        ``ran_ms``: for how long this process ran since the last tick (CPU time). A tick that is late by the process's
        own work has the same effect, as nothing was heard meanwhile; but that is counted apart.
        """
        if self.expected_ms is None or not self._parts.rules.notices_pauses:
            return 0
        late_ms = now_ms - self.expected_ms
        if late_ms <= self._parts.config.pause_ms:
            return 0
        self.resumed_ms = now_ms
        if ran_ms * 2 >= late_ms:
            self._parts.stats.overruns += 1
            LOG.warning(
                "the engine was %d ms late by this process's own work (%d ms); deadlines move, reports come first",
                late_ms,
                ran_ms,
            )
        else:
            self._parts.stats.pauses += 1
            LOG.warning("this process did not run for %d ms; deadlines move, reports come first", late_ms)
        return late_ms
