"""The rate of queries of each client address, and the addresses that are proven not to be forged."""

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from functools import lru_cache

from app.naming.model.ip_addresses import caller_key

ADDRESSES_MAX = 65_536
"""The addresses that are counted at a time; further ones, mostly forged, share one count."""
SLIP = 2
"""The step between queries beyond the rate that are answered truncated, so that a true client comes back over TCP; the
others are dropped. So an attacker who forges an address causes less traffic to it than the attack costs."""
PROVEN_S = 3_600.0
"""The time for which an address counts as proven after a query over TCP."""
UNPROVEN_FACTOR = 3
"""The most bytes to an address that may be forged, as a multiple of those that it sent. Source: RFC 9000, 8.1."""
HEADERS_BYTES = 28
"""The headers of IP and UDP, in each datagram."""
OTHERS = ""

key_of = lru_cache(4_096)(caller_key)


class RateVerdict(Enum):
    """The treatment of a query."""

    ANSWER = 0
    TRUNCATE = 1
    """Answer that the records did not fit, without any."""
    DROP = 2


_ANSWER = RateVerdict.ANSWER
"""The member as a module value: Python 3.11 needs ten times as long to look it up in its class."""


class SourceRate:
    """Counts the queries of each address within whole seconds. Used on the loop's thread."""

    def __init__(self, per_second: int, now_s: Callable[[], float], addresses_max: int = ADDRESSES_MAX) -> None:
        """``per_second``: the most queries of one address; 0 for any number."""
        self._per_second = per_second
        self._now_s = now_s
        self._addresses_max = addresses_max
        self._second = 0
        self._counts: dict[str, int] = {}

    def take(self, remote_ip: str) -> RateVerdict:
        """Count a query, and decide on it."""
        if not self._per_second:
            return _ANSWER
        second = int(self._now_s())
        counts = self._counts
        if second != self._second:
            self._second = second
            counts.clear()
        key = key_of(remote_ip) if ":" in remote_ip else remote_ip
        count = counts.get(key)
        if count is None:
            if len(counts) >= self._addresses_max:
                key = OTHERS
            count = counts.get(key, 0)
        counts[key] = count + 1
        beyond = count - self._per_second
        if beyond < 0:
            return _ANSWER
        return RateVerdict.DROP if beyond % SLIP else RateVerdict.TRUNCATE


class ProvenAddresses:
    """The addresses that asked over TCP lately, which a forger cannot do. Used on the loop's thread."""

    def __init__(self, now_s: Callable[[], float], addresses_max: int = ADDRESSES_MAX) -> None:
        self._now_s = now_s
        self._addresses_max = addresses_max
        self._noted_s: OrderedDict[str, float] = OrderedDict()

    def note(self, remote_ip: str) -> None:
        """Note that a query came from an address over TCP."""
        self._noted_s[remote_ip] = self._now_s()
        self._noted_s.move_to_end(remote_ip)
        if len(self._noted_s) > self._addresses_max:
            self._noted_s.popitem(last=False)

    def answer_bytes_max(self, remote_ip: str, query_bytes: int, wanted: int) -> int:
        """Return the longest answer over UDP to a client that accepts ``wanted`` bytes."""
        noted_s = self._noted_s.get(remote_ip)
        if noted_s is not None and self._now_s() - noted_s < PROVEN_S:
            return wanted
        return min(wanted, UNPROVEN_FACTOR * (query_bytes + HEADERS_BYTES) - HEADERS_BYTES)
