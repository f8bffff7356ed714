"""The requests of one connection wait for their turn: each for the reply before it, and all of them for other clients.

While a request is worked on elsewhere, those that the client pipelines behind it wait here; from ``PIPELINED_MAX`` on
nothing more is read.

Requests that come again to the byte, as beats, lists and registrations do, are parsed once and answered each time.
Answers are not kept: only the meaning of the bytes, which never changes.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

from app.http.server.http_messages import AnyRequest, Refusal, RepeatedRequest, Request
from app.http.server.request_reader import IDLE, Clocked, RequestReader
from app.machine.process.loop_parts import RequestMemo

PIPELINED_MAX = 64
TURN_WORK = 1_024
"""For one connection in one turn of the loop, about a millisecond: it may send as fast as it can, and others wait."""
TURN_WORK_OF_ALL, TURN_WORK_MIN = 8 * TURN_WORK, 64
"""The same for all connections that have more than fits into a turn, and the least of one: others wait for them all."""
REQUEST_WORK = 16
FEED_BYTES = 4_096
"""Parsed in one step: it may be 200 requests, and when there are too many the rest is left as it is."""
FEED_WORK = 8
"""The work of parsing ``FEED_BYTES``."""
BULK_BYTES = 65_536
"""When so much came at once, there is more. libuv alone would read 8 MB before anybody else has a turn."""
NOTHING = memoryview(b"")
DROPPED = bytearray(16 * BULK_BYTES)
"""Room for dropped bytes, to which none is written where the system drops them by itself."""
DROP_FLAGS = socket.MSG_DONTWAIT | socket.MSG_TRUNC


class Turns(Clocked, Protocol):
    """The room that the connections of a server share, and the turns of its loop."""

    repeated: RequestMemo[Request, RepeatedRequest]
    """The requests that came before to the byte."""
    resting: int
    """Connections of which received bytes wait for the loop's next turn."""

    def soon(self, function: Callable[[], None]) -> object:
        """Have a function called in the loop's next turn."""
        ...


class Answerer(Protocol):
    """The owner of a queue."""

    def answer(self, request: AnyRequest) -> None:
        """Answer a request now, or set ``busy`` of the queue until it is answered."""
        ...

    def refuse(self, refusal: Refusal) -> None:
        """Answer for the last time, behind the replies to all requests before."""
        ...

    def send_continue(self) -> None:
        """Let the client send its body."""
        ...

    def flush(self) -> None:
        """Send the replies that were given since the last call."""
        ...

    def flush_soon(self) -> None:
        """The same at the end of this turn of the loop, with the answers to others."""
        ...


class RequestQueue:
    """Hands the requests of one connection to its owner, one after the other, and reads no more than can wait."""

    __slots__ = (
        "_answer",
        "_answerer",
        "_bounds",
        "_closed",
        "_going_on",
        "_left",
        "_lingers",
        "_reading",
        "_repeated",
        "_resting",
        "_server",
        "_transport",
        "blocked",
        "busy",
        "pending",
        "reader",
    )

    def __init__(self, server: Turns, transport: asyncio.Transport, answerer: Answerer, remote_ip: str) -> None:
        self._server = server
        self._bounds = server.bounds
        self._transport = transport
        self._answerer = answerer
        self._answer = answerer.answer
        self._repeated = server.repeated
        self.reader = RequestReader(server, self, remote_ip)
        self.busy = False
        """A request is worked on elsewhere, or its reply is streamed. Set by the owner."""
        self.blocked = False
        """The client leaves too much of its replies unread. Set by the owner."""
        self.pending: deque[AnyRequest] = deque()
        self._left = NOTHING
        """Received, and not parsed yet."""
        self._reading = True
        self._going_on = False
        self._resting = False
        """The rest of the received bytes waits for the loop's next turn."""
        self._lingers = False
        self._closed = False

    def take(self, data: bytes) -> None:
        """Have the requests in received bytes answered, as far as this turn of the loop reaches.

        Bytes behind the last request are dropped.
        """
        reader = self.reader
        if reader.ended:
            if len(data) >= BULK_BYTES:
                self.rest()
            return
        reader.work = 0
        if len(data) <= FEED_BYTES:
            if reader.phase is IDLE:
                self._take_piece(data)
            elif (refusal := reader.feed(data)) is not None:
                self._answerer.refuse(refusal)
            if self.pending:
                self.rest()
            return
        reader.work = self._work_begun()
        self._left = memoryview(data)
        self._going_on = True
        try:
            self._feed_left()
        finally:
            self._going_on = False
        if self.pending or self._left or len(data) >= BULK_BYTES:
            self.rest()

    def _take_piece(self, data: bytes) -> None:
        """Take a piece that begins with a request; nearly all are one whole request that came before to the byte."""
        reader = self.reader
        request = self._repeated.find(data)
        if request is not None and (not request.body or self._bounds.reserve(len(request.body))):
            request.used = True
            reader.more_bytes = 0
            if self.busy or self.pending or self.blocked:
                self.on_request(request)
            else:
                self._answer(request)
            return
        reader.taken = 0
        refusal = reader.feed(data)
        if refusal is not None:
            self._answerer.refuse(refusal)
        latest, reader.latest = reader.latest, None
        if latest is None or latest.block.claims_member:  # no two calls of members are the same
            return
        if reader.taken == 1 and reader.phase is IDLE and not reader.ended:
            self._repeated.note(data, latest)

    @property
    def is_empty(self) -> bool:
        """True if no request is worked on, waits or is being received."""
        return not (self.busy or self.pending or self._left) and self.reader.phase is IDLE

    # --- called by the reader --------------------------------------------------------------------------

    def on_request(self, request: AnyRequest) -> None:
        reader = self.reader
        if self.busy or self.pending or self.blocked or reader.work >= TURN_WORK:
            self.pending.append(request)
            if len(self.pending) >= PIPELINED_MAX:
                self.pause_reading()
            return
        reader.work += REQUEST_WORK
        self._answer(request)

    def on_expect(self) -> None:
        # Before its turn it would be taken for a part of another answer.
        if not self.busy and not self.pending:
            self._answerer.send_continue()

    # --- turns -----------------------------------------------------------------------------------------

    def go_on(self, rested: bool = False, *, together: bool = False) -> None:
        """Have waiting requests answered, as far as a turn reaches; read more when there is room.

        ``rested``: nothing was waited for but the loop's next turn. ``together``: others get replies in this turn.
        """
        if self._going_on:
            return  # a request of those below was answered at once, though not by ``answer`` itself
        if self.pending or self._left or not self._reading:
            self._take_turn(rested)
        if together:
            self._answerer.flush_soon()
        else:
            self._answerer.flush()

    def _take_turn(self, rested: bool) -> None:
        pending, reader, self._going_on = self.pending, self.reader, True
        reader.work = self._work_begun()
        try:
            while pending and not self.busy and not self.blocked and reader.work < TURN_WORK:
                reader.work += REQUEST_WORK
                self._answer(pending.popleft())
            self._feed_left()
        finally:
            self._going_on = False
        if pending or self._left:
            self.rest()
        stays = self._reading or self._left or self._resting or reader.ended or self.blocked
        if not stays and len(pending) < PIPELINED_MAX:
            self._resume_reading()
            if not rested:
                reader.restart_time()  # the rest of a request could not come while nobody read

    def _work_begun(self) -> int:
        """Return where the count of a turn's work begins: above 0 while many connections share the turn."""
        share = TURN_WORK_OF_ALL // (self._server.resting or 1)
        return 0 if share >= TURN_WORK else TURN_WORK - max(share, TURN_WORK_MIN)

    def _feed_left(self) -> None:
        """Parse received bytes, as far as this turn reaches."""
        reader = self.reader
        while self._left and not reader.ended and len(self.pending) < PIPELINED_MAX and reader.work < TURN_WORK:
            part, self._left = self._left[:FEED_BYTES], self._left[FEED_BYTES:]
            reader.work += FEED_WORK
            refusal = reader.feed(part)
            if refusal is not None:
                self._answerer.refuse(refusal)
        if reader.ended:
            self._left = NOTHING

    def rest(self) -> None:
        """Continue in the loop's next turn, unless something else is waited for anyway."""
        if not (self.busy or self.blocked or self._resting):
            self._resting = True
            self._server.resting += 1
            self.pause_reading()
            self._server.soon(self._on_turn)

    def _on_turn(self) -> None:
        self._resting = False
        self._server.resting -= 1
        if self._closed:
            return
        if self._lingers and not self._transport.is_closing():
            if self._drop_received():
                self.rest()
            else:
                self._resume_reading()
        elif not self.busy:
            self.go_on(rested=True)

    def pause_reading(self) -> None:
        """Leave further bytes of the client in the system's buffers, until there is room again."""
        if self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        self._reading = True
        self._transport.resume_reading()

    # --- the end ---------------------------------------------------------------------------------------

    def linger(self) -> None:
        """Read and drop further bytes of the client, until the connection is closed."""
        self._lingers = True
        if not self._reading and not self._resting:
            self._resume_reading()

    def _drop_received(self) -> int:
        """Drop bytes that wait in the system's buffer, without having them copied; return how many, or 0 if none do.

        The rest of a refused body then costs half of the cost of reading it. The end of the connection is left to the
        transport, and encrypted bytes are left to TLS, whose end comes in those bytes.
        """
        opened = self._transport.get_extra_info("socket")
        if opened is None or self._transport.get_extra_info("ssl_object") is not None:
            return 0
        direct = socket.socket(opened.family, opened.type, opened.proto, opened.fileno())
        try:
            return direct.recv_into(DROPPED, 0, DROP_FLAGS)
        except OSError:  # nothing waits, or the transport is told
            return 0
        finally:
            direct.detach()

    def close(self) -> None:
        """Drop all requests, give back the room of their bodies, and let go of the owner."""
        self._closed = True
        self._bounds.reserve(-sum(len(request.body) for request in self.pending))
        self.pending.clear()
        self._left = NOTHING
        self.reader.close()
        del self._answer, self._answerer
