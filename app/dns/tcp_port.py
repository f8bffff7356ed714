"""DNS over TCP: connections with a bound, whose queries are answered in their order."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import cast

from app.dns.dns_stats import DnsStats

CONNECTIONS_MAX = 64
"""The most connections of all clients; one more closes the connection idle for longest. They are few,
because they use descriptors that ``app.machine.process.open_files`` spares next to the connections of HTTP and gRPC."""
IDLE_S = 10.0
"""The longest time without a whole query; a query that comes byte by byte does not count."""
SWEEP_S = 1.0
BATCH = 32
"""The most queries of one connection in one turn of the loop."""
WAITING_BYTES_MAX = 65_536 + 2
"""The most bytes of a connection that wait here, one message of the greatest length. More wait in the kernel."""
UNREAD_BYTES_MAX = 256 * 1024
"""The most bytes of answers that a client has not read; then its queries wait."""
LENGTH_BYTES = 2


class DnsConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, port: "TcpPort") -> None:
        self._port = port
        self._waiting = bytearray()
        self._transport: asyncio.Transport
        self._ip = ""
        self._is_paused = False
        self._is_due = False
        self.queried_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass
        self._transport.set_write_buffer_limits(UNREAD_BYTES_MAX)
        self._ip = (transport.get_extra_info("peername") or ("",))[0]
        self._port.opened(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self._waiting.clear()
        self._port.closed(self)

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) > WAITING_BYTES_MAX:
            self._transport.pause_reading()
        if not self._is_due:
            self._go_on()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._soon()

    def abort(self) -> None:
        """End the connection now."""
        self._transport.abort()

    def _soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._port.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Answer the queries that have come, at most ``BATCH``; the rest in a later turn."""
        self._is_due = False
        if self._transport.is_closing():
            return
        waiting, at, replies = self._waiting, 0, list[bytes]()
        is_over = False
        while not is_over and not self._is_paused and len(waiting) >= at + LENGTH_BYTES:
            end = at + LENGTH_BYTES + int.from_bytes(waiting[at : at + LENGTH_BYTES])
            if len(waiting) < end:
                break
            if len(replies) == BATCH:
                self._soon()
                break
            reply = self._port.answer(bytes(waiting[at + LENGTH_BYTES : end]), self._ip)
            at = end
            if reply is None:
                is_over = True
            else:
                replies.append(len(reply).to_bytes(LENGTH_BYTES) + reply)
        if at:
            del waiting[:at]
            self._port.queried(self)
        if replies:
            self._transport.write(b"".join(replies))
        if is_over:
            self._port.stats.connections_closed += 1
            self._transport.close()  # what was written still goes out, for as long as an idle connection is kept
        elif len(waiting) <= WAITING_BYTES_MAX:
            self._transport.resume_reading()


class TcpPort:
    """Listens, and owns the connections. Used on the loop's thread."""

    def __init__(self, answer: Callable[[bytes, str], bytes | None], stats: DnsStats) -> None:
        """``answer``: gets a message and its sender's address; None closes the connection."""
        self.answer = answer
        self.stats = stats
        self.loop: asyncio.AbstractEventLoop
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._connections: OrderedDict[DnsConnection, None] = OrderedDict()
        """The connections in the order of their last queries."""

    async def start(self, host: str, port: int) -> None:
        """Listen on each address of ``host``.

        Raises:
            OSError: the port is not free.
        """
        self.loop = asyncio.get_running_loop()
        self._server = await self.loop.create_server(lambda: DnsConnection(self), host, port)
        self._sweeping = self.loop.call_later(SWEEP_S, self._sweep)

    def stop(self) -> None:
        """End all connections. May be called twice."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._sweeping is not None:
            self._sweeping.cancel()
        for one in list(self._connections):
            one.abort()

    def opened(self, connection: DnsConnection) -> None:
        """Add a connection."""
        if len(self._connections) >= CONNECTIONS_MAX:
            oldest, _ = self._connections.popitem(last=False)
            self.stats.connections_closed += 1
            oldest.abort()
        self.queried(connection)
        self.stats.connections = len(self._connections)

    def queried(self, connection: DnsConnection) -> None:
        """Note that a whole query came."""
        connection.queried_s = self.loop.time()
        self._connections[connection] = None
        self._connections.move_to_end(connection)

    def closed(self, connection: DnsConnection) -> None:
        """Forget a connection."""
        self._connections.pop(connection, None)
        self.stats.connections = len(self._connections)

    def _sweep(self) -> None:
        now_s = self.loop.time()
        while self._connections:
            oldest = next(iter(self._connections))
            if now_s - oldest.queried_s < IDLE_S:
                break
            del self._connections[oldest]
            self.stats.connections_closed += 1
            oldest.abort()
        self.stats.connections = len(self._connections)
        self._sweeping = self.loop.call_later(SWEEP_S, self._sweep)
