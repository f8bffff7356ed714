"""The HTTP server behind the worker: its connections, their times, and the lag of the loop."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from app.http.api.call import Reply, Services
from app.http.api.stats import HttpStats, LagMeter
from app.http.server.connection import HttpConnection
from app.http.server.http_messages import AnyRequest, date_line
from app.http.server.open_connections import OpenConnections, waiting_connections
from app.http.server.request_answers import RequestAnswers
from app.machine.process.loop_parts import TurnSends

SWEEP_S = 1.0
CHECKED_PER_TURN = 1_000
"""Connections whose times are checked in a row, in a third of a millisecond."""


class HttpServer:
    """Owns the connections, and has their requests answered. All calls come from the loop's thread."""

    __slots__ = (
        "_lag",
        "_loop",
        "_pauses",
        "_requests",
        "answer",
        "answers",
        "bounds",
        "check_pause",
        "connections",
        "date",
        "draining",
        "listening",
        "now_s",
        "repeated",
        "resting",
        "sends",
        "soon",
        "stats",
    )

    def __init__(
        self, services: Services, requests: RequestAnswers, loop: asyncio.AbstractEventLoop, connections_max: int
    ) -> None:
        self._loop = loop
        self._requests = requests
        self.answer: Callable[[HttpConnection, AnyRequest], Reply | None] = requests.answer
        self.bounds, self.repeated = requests.bounds, requests.repeated
        self.connections = OpenConnections(services, connections_max)
        self.resting = 0
        self.soon, self.sends = loop.call_soon, TurnSends(loop.call_soon)
        self.stats: HttpStats = services.http
        self.answers = services.answers
        self._lag = LagMeter(self.stats, services.instruments.http.loop_lag)
        self.listening: Sequence[socket.socket] = ()
        """The sockets of which connections are accepted."""
        self.draining = False
        self.now_s = loop.time()
        self._pauses = services.pauses
        self.check_pause: Callable[[], None] = services.pauses.check
        """Notices that this process stood still, before calls that came during that time are executed (R13)."""
        self.date = b""
        self._sweep()
        self._measure_lag(self.now_s)

    # --- connections -------------------------------------------------------------------------------

    def opened(self, connection: HttpConnection) -> bytes | None:
        return self.connections.add(connection)

    def closed(self, connection: HttpConnection) -> None:
        self.connections.remove(connection)
        self._requests.forget(connection)

    def drain(self, *, idle: bool = True) -> int:
        """Close each connection with its next reply, idle ones now if ``idle``; return how many are still open."""
        self.draining = True
        self._requests.release()
        for connection in self.connections if idle else ():
            connection.drain()
        return len(self.connections)

    def stop(self) -> None:
        """Begin no more calls and cut all connections, which are closed in the loop's next turn."""
        self._requests.release()
        for connection in self.connections:
            connection.cut()
        self._requests.stop()

    # --- time ----------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        self._loop.call_later(SWEEP_S, self._sweep)  # first: if a line below raises, the next sweep still comes
        self.now_s = now_s = self._loop.time()
        self.date = date_line(time.time()) + b"\r\n"
        self._check_times(iter(self.connections), now_s)

    def _check_times(self, connections: Iterator[HttpConnection], now_s: float) -> None:
        """Check some connections in this turn of the loop, and the others in the next ones."""
        checked = list(islice(connections, CHECKED_PER_TURN))
        if len(checked) == CHECKED_PER_TURN:
            self._loop.call_soon(self._check_times, connections, now_s)
        for connection in checked:
            connection.check_time(now_s)

    def _measure_lag(self, expected_s: float) -> None:
        self._pauses.ran(self._is_waiting)
        due_s = self._lag.next_s(expected_s, self._loop.time())
        self._loop.call_at(due_s, self._measure_lag, due_s)

    def _is_waiting(self) -> bool:
        """Return whether connections wait to be accepted."""
        return any(map(waiting_connections, self.listening))
