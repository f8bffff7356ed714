"""The requests of one connection, in their order: one after the other is answered, and others have their turn, too.

While a request is worked on elsewhere, what the client pipelines behind it waits here; from ``PIPELINED_MAX`` on
nothing more is read.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from app.http.server.request_reader import FEED_BYTES, IDLE, Bounds, Request, RequestReader

PIPELINED_MAX = 64
TURN_WORK = 1_024
"""For one connection in one turn of the loop, about a millisecond: it may send as fast as it can, and others wait."""
REQUEST_WORK = 16
BULK_BYTES = 65_536
"""When so much came at once, there is more. libuv alone would read 8 MB before anybody else has a turn."""


class Turns(Bounds, Protocol):
    """What the connections of a server share, and its loop."""

    def soon(self, function: Callable[[], None]) -> object:
        """Have something done in the loop's next turn."""
        ...


class RequestQueue(RequestReader):
    """Who inherits it answers, and tells when it can go on."""

    __slots__ = ("_going_on", "_pending", "_reading", "_resting", "_unread_s", "busy")

    _server: Turns

    def __init__(self) -> None:
        super().__init__()
        self.busy = False
        """A request is worked on elsewhere, or its reply is streamed."""
        self._pending: deque[Request] = deque()
        self._reading = True
        self._unread_s = 0.0
        """Since when too much is unread; 0 while it is not."""
        self._going_on = False
        self._resting = False
        """The rest of what came waits for the loop's next turn."""

    def _take(self, data: bytes) -> None:
        """Answer what came, as far as this turn reaches."""
        self._work = 0
        if len(data) <= FEED_BYTES:
            self._feed(data)
            if self._pending:
                self._rest()
            return
        self._left = memoryview(data)
        self._going_on = True
        try:
            self._feed_left()
        finally:
            self._going_on = False
        if self._pending or self._left or len(data) >= BULK_BYTES:
            self._rest()

    def on_message_complete(self) -> None:
        if self._deaf or self._upgrade:
            return
        self._phase = IDLE
        self._more_bytes = -1
        parser = self._parser
        keep_alive = parser.should_keep_alive()
        if not keep_alive:
            self._deaf = True
        body = self._take_body() if self._body else b""
        # As Request(...), without its function in Python.
        request = tuple.__new__(Request, (parser.get_method(), self._target, self._block, body, keep_alive))
        if self.busy or self._pending or self._unread_s or self._work >= TURN_WORK:
            self._pending.append(request)
            if len(self._pending) >= PIPELINED_MAX:
                self._pause_reading()
            return
        self._work += REQUEST_WORK
        self._answer(request)

    def _may_feed(self) -> bool:
        return len(self._pending) < PIPELINED_MAX and self._work < TURN_WORK

    def _go_on(self, rested: bool = False) -> None:
        """Answer what waits, as far as a turn reaches; read more when there is room.

        ``rested``: it had only left a turn to others.
        """
        if self._going_on:
            return  # a request of those below was answered at once, though not by ``answer`` itself
        pending, self._going_on = self._pending, True
        self._work = 0
        try:
            while pending and not self.busy and not self._unread_s and self._work < TURN_WORK:
                self._work += REQUEST_WORK
                self._answer(pending.popleft())
            self._feed_left()
        finally:
            self._going_on = False
        if pending or self._left:
            self._rest()
        stays = self._reading or self._left or self._resting or self._deaf or self._unread_s
        if not stays and len(pending) < PIPELINED_MAX:
            self._resume_reading()
            if not rested:
                self._began_s = self._server.now_s  # what is half there could not come on while nobody read
        self.flush()

    def _rest(self) -> None:
        """Go on in the loop's next turn, unless something else is waited for anyway."""
        if not (self.busy or self._unread_s or self._resting):
            self._resting = True
            self._pause_reading()
            self._server.soon(self._on_turn)

    def _on_turn(self) -> None:
        self._resting = False
        if self._lingers:
            self._resume_reading()
        elif not self.busy:
            self._go_on(rested=True)

    # --- of who inherits -------------------------------------------------------------------------------

    def _answer(self, request: Request) -> None:
        """Answer a request, at once or later; ``busy`` until then."""
        raise NotImplementedError

    def flush(self) -> None:
        """Send what was answered."""
        raise NotImplementedError

    @property
    def _lingers(self) -> bool:
        """Whether nothing is answered any more, but what comes is still read."""
        raise NotImplementedError

    def _pause_reading(self) -> None:
        raise NotImplementedError

    def _resume_reading(self) -> None:
        raise NotImplementedError
