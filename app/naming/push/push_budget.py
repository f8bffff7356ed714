"""The budget of push bytes to one destination: per second, and without an acknowledgement. Pure: time comes in.

A query is small, a push may be large, and the query says where pushes go. So a destination that never answers gets
little, and one that answers gets no more than a client can read.
"""

from dataclasses import dataclass
from typing import TypeVar

K = TypeVar("K")

BYTES_PER_S = 1 << 20
BURST_BYTES = 2 << 20
"""The burst to one port. A client's system keeps some 200 KB of unread datagrams, and drops the rest."""
IP_BYTES_PER_S = 8 << 20
IP_BURST_BYTES = 16 << 20
"""The burst to all ports of one address, where many clients may be."""
UNANSWERED_BYTES_MAX = 256 << 10
"""The most bytes to one port without an answer of the client: hundreds of typical pushes, or four of the largest."""


@dataclass(slots=True)
class _Account:
    rate: int
    burst: int
    left: float
    at_ms: int
    unanswered: int = 0

    def refill(self, now_ms: int) -> None:
        self.left = min(self.left + (now_ms - self.at_ms) * self.rate / 1_000, self.burst)
        self.at_ms = now_ms

    @property
    def is_idle(self) -> bool:
        return not self.unanswered and self.left >= self.burst


class PushBudget:
    """The accounts of destinations. The number of subscribers bounds theirs, as ``sweep`` drops idle ones."""

    def __init__(self) -> None:
        self._ports: dict[tuple[str, int], _Account] = {}
        self._ips: dict[str, _Account] = {}

    def __len__(self) -> int:
        return len(self._ports) + len(self._ips)

    def take(self, ip: str, port: int, size: int, now_ms: int) -> bool:
        """Count a datagram of ``size`` bytes to be sent. Return False, and count nothing, if it is too much."""
        of_port = self._ports.get((ip, port))
        if of_port is None:
            of_port = self._ports[ip, port] = _Account(BYTES_PER_S, BURST_BYTES, BURST_BYTES, now_ms)
        of_ip = self._ips.get(ip)
        if of_ip is None:
            of_ip = self._ips[ip] = _Account(IP_BYTES_PER_S, IP_BURST_BYTES, IP_BURST_BYTES, now_ms)
        of_port.refill(now_ms)
        of_ip.refill(now_ms)
        if size > of_port.left or size > of_ip.left or of_port.unanswered + size > UNANSWERED_BYTES_MAX:
            return False
        of_port.left -= size
        of_ip.left -= size
        of_port.unanswered += size
        return True

    def answered(self, ip: str, port: int, size: int) -> None:
        """Count bytes as settled: the client acknowledged them, queried again, or is forgotten."""
        account = self._ports.get((ip, port))
        if account is not None:
            account.unanswered = max(account.unanswered - size, 0)

    def sweep(self, now_ms: int) -> None:
        """Drop the accounts that equal new ones."""
        self._ports = _without_idle(self._ports, now_ms)
        self._ips = _without_idle(self._ips, now_ms)


def _without_idle(accounts: dict[K, _Account], now_ms: int) -> dict[K, _Account]:
    for account in accounts.values():
        account.refill(now_ms)
    return {key: account for key, account in accounts.items() if not account.is_idle}
