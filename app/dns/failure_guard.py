"""The guard against queries whose answer fails unexpectedly: it counts them, and logs one now and then."""

import logging
from collections.abc import Callable

from app.dns.dns_stats import DnsStats

LOG = logging.getLogger(__name__)
LOGGED_EACH_S = 60.0
"""The time between two log entries, so that a failing query cannot fill the log."""


class FailureGuard:
    """Calls ``answer`` with a query and its sender's address, and returns None if that fails."""

    def __init__(
        self, answer: Callable[[bytes, str], bytes | None], stats: DnsStats, now_s: Callable[[], float]
    ) -> None:
        self._answer = answer
        self._stats = stats
        self._now_s = now_s
        self._logged_s = now_s() - LOGGED_EACH_S

    def __call__(self, packet: bytes, remote_ip: str) -> bytes | None:
        """Return the answer, or None for no answer."""
        try:
            return self._answer(packet, remote_ip)
        except Exception:
            self._stats.failed += 1
            if self._now_s() - self._logged_s >= LOGGED_EACH_S:
                self._logged_s = self._now_s()
                LOG.exception("a DNS query of %s failed unexpectedly", remote_ip)
            return None
