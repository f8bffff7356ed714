"""The streams of lines that are open: each part is sent when the client has taken the one before."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from app.http.api.answers import text_reply
from app.http.api.call import Reply
from app.http.api.stream_answers import LINES_TYPE, Lines, LineSource
from app.http.server.connection import HttpConnection

STREAMS_MAX = 256
IDLE_S = 1.0
"""A stream without any line for so long gets one that says that the node still serves."""
LASTS_S = 60.0
"""A stream ends so long after its begin, and the follower asks again: with the rights that its user has by then."""
HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {LINES_TYPE}\r\nCache-Control: no-store\r\n".encode()
_FULL = text_reply(503, "as many links follow this node as it serves at a time, please try another server")
LOG = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Open:
    source: LineSource
    ends_s: float
    sent_s: float
    ready: bool = False
    """The head was sent, and the client has taken what came before."""
    reading: bool = False
    due: bool = False
    """There may be something to read."""


class LineStreams:
    """Used on the loop's thread; what is sent is read on a thread of a pool."""

    def __init__(self, loop: asyncio.AbstractEventLoop, put: Callable[[Callable[[], None]], bool]) -> None:
        """``put`` queues work for a pool, and returns whether there was room."""
        self._loop, self._put = loop, put
        self._streams: dict[HttpConnection, _Open] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def begin(self, connection: HttpConnection, answer: Lines) -> Reply | None:
        """Open a stream on the connection that asks for it; the refusal, if there are too many."""
        if self._ended or len(self._streams) >= STREAMS_MAX:
            return _FULL
        now_s = self._loop.time()
        self._streams[connection] = stream = _Open(answer.source, now_s + LASTS_S, now_s)
        self._loop.call_soon(self._open, connection, stream)
        return None

    def _open(self, connection: HttpConnection, stream: _Open) -> None:
        if self._streams.get(connection) is not stream:
            return
        connection.stream_head(Reply(200, b"", None, head=HEAD))
        stream.ready = stream.due = True
        stream.source.attach(partial(self._wake, connection, stream))
        self._read(connection, stream)
        if self._timer is None:
            self._timer = self._loop.call_later(IDLE_S / 2, self._tick)

    def _wake(self, connection: HttpConnection, stream: _Open) -> None:
        """From any thread: there is something to read."""
        if stream.due:
            return
        stream.due = True
        try:
            self._loop.call_soon_threadsafe(self._read, connection, stream)
        except RuntimeError:
            LOG.debug("the loop has ended")

    def _tick(self) -> None:
        now_s, self._timer = self._loop.time(), None
        for connection, stream in list(self._streams.items()):
            if now_s >= stream.ends_s and stream.ready and not stream.reading:
                self._end(connection)
            elif stream.due or now_s - stream.sent_s >= IDLE_S:
                stream.due = True
                self._read(connection, stream)
        if self._streams:
            self._timer = self._loop.call_later(IDLE_S / 2, self._tick)

    def _read(self, connection: HttpConnection, stream: _Open) -> None:
        """Have the next part read, if the client has taken the one before."""
        if not stream.ready or stream.reading or self._streams.get(connection) is not stream:
            return
        is_idle = self._loop.time() - stream.sent_s >= IDLE_S
        stream.due = False  # before it is read: a change that comes in the meantime is read again
        stream.reading = self._put(partial(self._make, connection, stream, is_idle))
        if not stream.reading:
            stream.due = True  # the pool is full: the next tick tries again

    def _make(self, connection: HttpConnection, stream: _Open, is_idle: bool) -> None:
        """On a pool's thread: read the next part, and have it sent on the loop."""
        part: bytes | None = None
        try:
            part = stream.source.read(is_idle=is_idle)
        except Exception:
            LOG.exception("a stream of lines ends, as its lines cannot be read")
        try:
            self._loop.call_soon_threadsafe(self._send, connection, stream, part)
        except RuntimeError:
            LOG.debug("the loop has ended")

    def _send(self, connection: HttpConnection, stream: _Open, part: bytes | None) -> None:
        stream.reading = False
        if self._streams.get(connection) is not stream:
            return
        if part is None:
            self._end(connection)
        elif part:
            stream.ready, stream.sent_s = False, self._loop.time()
            connection.stream_part(part, partial(self._taken, connection, stream))
        elif stream.due:
            self._read(connection, stream)

    def _taken(self, connection: HttpConnection, stream: _Open) -> None:
        """Note that there is room for the next part, of which there may be more at once."""
        stream.ready = stream.due = True
        self._loop.call_soon(self._read, connection, stream)

    def _end(self, connection: HttpConnection) -> None:
        self._streams.pop(connection).source.detach()
        connection.stream_end(whole=True)

    def forget(self, connection: HttpConnection) -> None:
        """End the stream of a connection that is closed, if it has one."""
        if connection in self._streams:
            self._end(connection)

    def end(self) -> None:
        """End all streams, and begin no more. May be called twice."""
        self._ended = True
        for connection in list(self._streams):
            self._end(connection)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
