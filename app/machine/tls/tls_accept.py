"""Accepts the connections of a TLS port. Each waits for the client's first bytes before a handshake costs anything.

A client that connects and sends nothing, or half a greeting, costs only a socket. Handshakes begin a few in each turn
of the loop, as each is a signature of up to a millisecond. When too many wait or are in progress, the oldest is cut:
honest ones end within milliseconds.
"""

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from app.machine.tls.watched import TlsStats

ACCEPTS_PER_TURN = 32
HANDSHAKES_PER_TURN = 4
HANDSHAKES_MAX = 256
"""The most handshakes in progress at once."""
GREETING_S = 10.0
"""The time for the first bytes of a client to arrive."""
HANDSHAKE_S = 10.0
SHUTDOWN_S = 2.0
"""How long a connection that this node closes waits for the client to close its side."""
SWEEP_S = 1.0
NO_ROOM_S = 0.5
"""The pause while no connection can be accepted because the descriptors are used up."""
RECORD_HEAD_BYTES = 5
GREETING_BYTES_MAX = 16_384
HANDSHAKE_RECORD = 0x16
PLAIN_BYTES = 65_536

log = logging.getLogger(__name__)


class Place(Protocol):
    """A connection's place among those that a node may keep."""

    def give_back(self) -> None: ...


P = TypeVar("P", bound=Place)


@dataclass(slots=True)
class _Waiting(Generic[P]):
    """A connected client whose greeting has not arrived."""

    client: socket.socket
    place: P
    since_s: float
    wanted_bytes: int = 1


class TlsAcceptor(Generic[P]):
    """Accepts the connections of one listening socket. All calls come from the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        admit: Callable[[str], P | None],
        connection: Callable[[P], asyncio.Protocol],
        context: Callable[[], ssl.SSLContext],
        stats: TlsStats,
        *,
        waiting_max: int,
        plain_reply: bytes = b"",
        takes_plain: bool = False,
    ) -> None:
        """``admit``: returns a place for a client of an address, or None. ``connection``: owns it once it is made.

        Until then, or if it is never made, the place is given back here. ``context``: returns the context of a new
        connection. ``takes_plain``: clients that speak no TLS are accepted, too; otherwise they get ``plain_reply``.
        """
        self._loop = loop
        self._listening = listening
        self._admit = admit
        self._connection = connection
        self._context = context
        self._stats = stats
        self._waiting_max = waiting_max
        self._plain_reply = plain_reply
        self._takes_plain = takes_plain
        self._waiting: dict[int, _Waiting[P]] = {}
        """The waiting clients by descriptor, in the order of their arrival."""
        self._ready: deque[_Waiting[P]] = deque()
        """The clients of ``_waiting`` whose greeting has arrived."""
        self._under_way: dict[asyncio.Task[None], socket.socket] = {}
        self._closed = False
        listening.setblocking(False)
        loop.add_reader(listening, self._accept)
        self._sweep()

    def close(self) -> None:
        """Stop listening, and cut the connections that are not yet HTTP or gRPC."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._listening)
        self._listening.close()
        self._ready.clear()
        for one in list(self._waiting.values()):
            self._drop(one)
        for client in list(self._under_way.values()):
            _cut(client)

    # --- before the greeting ----------------------------------------------------------------

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                client, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("no connection can be accepted: %s", error.strerror)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(NO_ROOM_S, self._listen_again)
                return
            # The client that has waited for longest goes first.
            while (place := self._admit(address[0])) is None and self._waiting:
                self._drop(next(iter(self._waiting.values())))
            if place is None:
                client.close()
                continue
            client.setblocking(False)
            if len(self._waiting) >= self._waiting_max:
                self._stats.tls_handshakes_cut += 1
                self._drop(next(iter(self._waiting.values())))
            waiting = self._waiting[client.fileno()] = _Waiting(client, place, self._loop.time())
            self._loop.add_reader(client, self._look, waiting)

    def _listen_again(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listening, self._accept)

    def _drop(self, waiting: _Waiting[P]) -> None:
        self._waiting.pop(waiting.client.fileno(), None)
        with suppress(ValueError):
            self._ready.remove(waiting)
        self._loop.remove_reader(waiting.client)
        waiting.client.close()
        waiting.place.give_back()

    def _look(self, waiting: _Waiting[P]) -> None:
        """Decide by the first bytes, which stay in the socket, once the first TLS record is complete."""
        try:
            seen = waiting.client.recv(RECORD_HEAD_BYTES, socket.MSG_PEEK)
            if not seen:
                self._drop(waiting)
                return
            if seen[0] != HANDSHAKE_RECORD:
                self._take_plain(waiting)
                return
            wanted = RECORD_HEAD_BYTES
            if len(seen) == RECORD_HEAD_BYTES:
                wanted = min(RECORD_HEAD_BYTES + int.from_bytes(seen[3:5], "big"), GREETING_BYTES_MAX)
                seen = waiting.client.recv(wanted, socket.MSG_PEEK)
            if len(seen) < wanted and wanted > waiting.wanted_bytes:
                # The kernel wakes us again when this many bytes have arrived, or the client has ended.
                waiting.wanted_bytes = wanted
                waiting.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
                return
            waiting.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        except BlockingIOError:
            return
        except OSError:
            self._drop(waiting)
            return
        self._loop.remove_reader(waiting.client)
        self._ready.append(waiting)
        if len(self._ready) == 1:
            self._loop.call_soon(self._begin_some)

    def _sweep(self) -> None:
        if self._closed:
            return
        self._loop.call_later(SWEEP_S, self._sweep)
        before_s = self._loop.time() - GREETING_S
        while self._waiting and (oldest := next(iter(self._waiting.values()))).since_s < before_s:
            self._stats.tls_handshakes_cut += 1
            self._drop(oldest)

    # --- without TLS ----------------------------------------------------------------------------------

    def _take_plain(self, waiting: _Waiting[P]) -> None:
        if self._takes_plain:
            self._stats.tls_plain_taken += 1
            self._hand_over(waiting, self._open_plain(waiting))
            return
        self._stats.tls_plain_refused += 1
        with suppress(OSError):
            waiting.client.recv(PLAIN_BYTES)  # unread bytes would turn the close into a reset, and lose the answer
            waiting.client.send(self._plain_reply)
        self._drop(waiting)

    async def _open_plain(self, waiting: _Waiting[P]) -> None:
        await self._loop.connect_accepted_socket(lambda: self._connection(waiting.place), waiting.client)

    # --- handshakes ----------------------------------------------------------------------------------

    def _begin_some(self) -> None:
        for _ in range(min(HANDSHAKES_PER_TURN, len(self._ready))):
            if len(self._under_way) >= HANDSHAKES_MAX:
                self._stats.tls_handshakes_cut += 1
                oldest = next(iter(self._under_way))
                _cut(self._under_way.pop(oldest))
            waiting = self._ready.popleft()
            self._hand_over(waiting, self._shake_hands(waiting))
        if self._ready:
            self._loop.call_soon(self._begin_some)

    async def _shake_hands(self, waiting: _Waiting[P]) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._connection(waiting.place),
                waiting.client,
                ssl=self._context(),
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except (OSError, TimeoutError):  # ssl.SSLError is an OSError
            self._stats.tls_handshakes_failed += 1
            raise
        self._stats.tls_handshakes += 1

    def _hand_over(self, waiting: _Waiting[P], opening: Coroutine[Any, Any, None]) -> None:
        """Turn the socket into a connection."""
        self._waiting.pop(waiting.client.fileno(), None)
        self._loop.remove_reader(waiting.client)
        task = self._loop.create_task(opening)
        self._under_way[task] = waiting.client
        task.add_done_callback(lambda done: self._on_open(done, waiting.place))

    def _on_open(self, task: asyncio.Task[None], place: P) -> None:
        self._under_way.pop(task, None)
        if task.cancelled() or task.exception() is not None:
            place.give_back()
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, OSError | TimeoutError):
                log.debug("a handshake failed: %s", error)
            else:
                log.error("a connection failed unexpectedly", exc_info=error)


def _cut(client: socket.socket) -> None:
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
