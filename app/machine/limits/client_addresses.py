"""Client addresses: the connections of each, and how many writes it may still make now."""

import time
from collections import OrderedDict
from collections.abc import Callable
from enum import IntEnum

from app.naming.limits.admission import PREFIX, LimitStats
from app.naming.model.ip_addresses import caller_key
from app.naming.model.nacos_errors import TooManyRequests

ADDRESSES_MAX = 65_536
"""The most addresses that are remembered, with or without a connection. Further ones share one bucket."""
BURST_S = 5
"""An address that was idle for this long may make the writes of that time at once: a client registers all its
services together when it starts."""


class Frontend(IntEnum):
    """A frontend whose connections are counted."""

    HTTP = 0
    GRPC = 1


class ClientAddress:
    """One address: its connections, and a bucket of writes that fills by time. ``take`` may come from any thread."""

    __slots__ = ("_table", "_writes", "connections", "key", "seen_s")

    def __init__(self, table: "AddressTable", key: str, now_s: float) -> None:
        self._table = table
        self.key = key
        self.connections = [0, 0]
        """The number of connections by frontend."""
        self._writes = table.burst
        """The writes that it may make at once, as of ``seen_s``; negative after a write of many parts."""
        self.seen_s = now_s

    def take(self) -> None:
        """Count one write.

        Raises:
            TooManyRequests: the address has used up its writes.
        """
        table = self._table
        if not table.writes_per_s:
            return
        now_s = table.now_s()
        writes = self._writes + (now_s - self.seen_s) * table.writes_per_s
        self.seen_s = now_s
        if writes > table.burst:
            writes = table.burst
        if writes < 1:
            self._writes = writes
            table.refuse_write((1 - writes) / table.writes_per_s)
        self._writes = writes - 1

    def give_back(self) -> None:
        """Undo the count of a write that is counted elsewhere."""
        self._writes += 1

    def owe(self, writes: int) -> None:
        """Count further writes of a call that was accepted: the address waits for them before its next one."""
        self._writes = max(self._writes - writes, -self._table.burst)

    def is_rested(self) -> bool:
        """Return whether it may do as much as an address that was never seen."""
        table = self._table
        return self._writes + (table.now_s() - self.seen_s) * table.writes_per_s >= table.burst


class AddressTable:
    """The addresses that have a connection or have recently made writes. Used on the loop's thread.

    An address is forgotten when that makes no difference: with no connection and a full bucket. So no client gets
    more than its share by waiting or by using other addresses. While ``ADDRESSES_MAX`` are remembered, new ones share a
    bucket.
    """

    def __init__(
        self,
        connections_max: int = 0,
        writes_per_s: int = 0,
        stats: LimitStats | None = None,
        now_s: Callable[[], float] = time.monotonic,
        addresses_max: int = ADDRESSES_MAX,
        both_max: int = 0,
    ) -> None:
        """``connections_max``, ``writes_per_s``: for one address, the former for each frontend; 0 for any number.

        ``both_max``: its connections to both frontends together; 0 for any number.
        """
        self.connections_max = connections_max
        self._both_max = both_max
        self.writes_per_s = writes_per_s
        self.burst = float(writes_per_s * BURST_S)
        self.now_s = now_s
        self.stats = stats or LimitStats()
        self._addresses_max = addresses_max
        self._known: dict[str, ClientAddress] = {}
        self._left: OrderedDict[str, ClientAddress] = OrderedDict()
        """Addresses without a connection, in the order in which their last one ended."""
        self._others = ClientAddress(self, "", now_s())

    def __len__(self) -> int:
        return len(self._known)

    def connect(self, remote_ip: str, frontend: Frontend, *, is_exempt: bool = False) -> ClientAddress | None:
        """Count a new connection, and return its address; None if the address already has as many as it may.

        ``is_exempt``: it may have any number.
        """
        key = caller_key(remote_ip)
        found = self._known.get(key)
        if found is None:
            self._forget_rested()
            if len(self._known) >= self._addresses_max:
                return self._others
            found = self._known[key] = ClientAddress(self, key, self.now_s())
        elif self._is_full(found.connections, frontend) and not is_exempt:
            self.stats.connections_per_address += 1
            return None
        self._left.pop(key, None)
        found.connections[frontend] += 1
        return found

    def _is_full(self, connections: list[int], frontend: Frontend) -> bool:
        return 0 < self.connections_max <= connections[frontend] or 0 < self._both_max <= sum(connections)

    def disconnect(self, address: ClientAddress, frontend: Frontend) -> None:
        """Count the end of a connection."""
        if address is self._others:
            return
        address.connections[frontend] -= 1
        if any(address.connections):
            return
        if address.is_rested():
            del self._known[address.key]
        else:
            self._left[address.key] = address

    def refuse_write(self, wait_s: float) -> None:
        """Refuse a write that would be possible in ``wait_s``.

        Raises:
            TooManyRequests: always.
        """
        self.stats.writes_per_second_per_address += 1
        raise TooManyRequests(
            f"refused by {PREFIX}writesPerSecondPerAddress={self.writes_per_s}: your address exceeds this rate", wait_s
        )

    def connections_refusal(self) -> str:
        """Return the text for a client whose connection was refused."""
        return f"refused by {PREFIX}connectionsPerAddress={self.connections_max}: your address has as many"

    def _forget_rested(self) -> None:
        while self._left:
            key, oldest = next(iter(self._left.items()))
            if not oldest.is_rested():
                return
            del self._left[key], self._known[key]
