"""What becomes of a query whose answer fails in an unforeseen way: it is counted, and now and then logged."""

import logging
from collections.abc import Callable

from app.dns.dns_stats import DnsStats

LOG = logging.getLogger(__name__)
LOGGED_EACH_S = 60.0
"""Whoever finds a query that fails shall not fill the log with it."""


class FailureGuard:
    """Calls ``answer``, which gets a query and its sender's address, and returns None where that fails."""

    def __init__(
        self, answer: Callable[[bytes, str], bytes | None], stats: DnsStats, now_s: Callable[[], float]
    ) -> None:
        self._answer = answer
        self._stats = stats
        self._now_s = now_s
        self._logged_s = now_s() - LOGGED_EACH_S

    def __call__(self, packet: bytes, remote_ip: str) -> bytes | None:
        """The answer, or None for none."""
        try:
            return self._answer(packet, remote_ip)
        except Exception:
            self._stats.failed += 1
            if self._now_s() - self._logged_s >= LOGGED_EACH_S:
                self._logged_s = self._now_s()
                LOG.exception("a DNS query of %s failed in an unforeseen way", remote_ip)
            return None
