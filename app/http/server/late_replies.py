"""Replies that wait, by timers of the loop and without a thread: those sent after a while, and streams of events."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from app.http.api.answers import text_reply
from app.http.api.call import Events, Later, Reply
from app.http.api.event_stream import FIRST_LINES, STILL_HERE, STREAM_HEAD, event
from app.http.server.connection import HttpConnection

STREAMS_MAX = 64
"""Each is an open page, or a program that follows changes."""
PERIOD_S = 0.5
"""Between two looks at the news of streams, each of some microseconds: pages fetch themselves no sooner for it."""
LASTS_S = 60.0
"""A stream ends so long after its begin, and the browser asks again: with the rights that its user has by then."""
STILL_S = 15.0
_FULL = text_reply(503, "as many follow this node as it serves at a time")

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _OpenStream:
    answer: Events
    ends_s: float
    told_s: float
    """When the last bytes were sent."""
    ready: bool = False
    """The head was sent, and the client has taken what came before."""
    told: bytes | None = None

    def is_taken(self) -> None:
        """Note that there is room for the next event."""
        self.ready = True


class LiveStreams:
    """The streams that are open. Used on the loop's thread; what they tell is read on a thread of a pool."""

    def __init__(self, loop: asyncio.AbstractEventLoop, put: Callable[[Callable[[], None]], bool]) -> None:
        """``put`` queues work for a pool, and returns whether there was room."""
        self._loop = loop
        self._put = put
        self._streams: dict[HttpConnection, _OpenStream] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._reading = False
        self._ended = False

    def begin(self, connection: HttpConnection, answer: Events) -> Reply | None:
        """Open a stream on the connection that asks for it; the refusal, if there are too many."""
        if self._ended or len(self._streams) >= STREAMS_MAX:
            return _FULL
        now_s = self._loop.time()
        self._streams[connection] = stream = _OpenStream(answer, now_s + LASTS_S, now_s)
        self._loop.call_soon(self._open, connection, stream)
        return None

    def _open(self, connection: HttpConnection, stream: _OpenStream) -> None:
        """Send the head, once the connection has been told that its request is under way."""
        if self._streams.get(connection) is not stream:
            return
        connection.stream_head(Reply(200, b"", None, head=STREAM_HEAD))
        stream.ready = True
        self._send(connection, stream, FIRST_LINES)
        if self._timer is not None:
            self._timer.cancel()
        self._tick()

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

    def _end(self, connection: HttpConnection) -> None:
        del self._streams[connection]
        connection.stream_end(whole=True)

    # --- time ----------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Make the streams read their news, and end the streams whose time is over; again while there are any."""
        now_s, self._timer = self._loop.time(), None
        for connection, stream in list(self._streams.items()):
            if now_s >= stream.ends_s:
                self._end(connection)
        if not self._streams:
            return
        self._timer = self._loop.call_later(PERIOD_S, self._tick)
        if not self._reading:
            topics = {stream.answer.topic: stream.answer.read for stream in self._streams.values()}
            self._reading = self._put(lambda: self._read(topics))

    def _read(self, topics: dict[tuple[str, ...], Callable[[], bytes]]) -> None:
        """On a pool's thread: read what each topic tells, and have it sent on the loop."""
        found: dict[tuple[str, ...], bytes] = {}
        try:
            for topic, read in topics.items():
                try:
                    found[topic] = read()
                except Exception:
                    log.exception("cannot make the event for the followers of %s", topic)
        finally:
            try:
                self._loop.call_soon_threadsafe(self._tell, found)
            except RuntimeError:
                log.debug("the loop ended before it notified the followers")

    def _tell(self, found: dict[tuple[str, ...], bytes]) -> None:
        self._reading = False
        now_s = self._loop.time()
        for connection, stream in list(self._streams.items()):
            data = found.get(stream.answer.topic)
            if data is not None and data != stream.told:
                if self._send(connection, stream, event(data)):
                    stream.told = data
            elif now_s - stream.told_s >= STILL_S:
                self._send(connection, stream, STILL_HERE)

    def _send(self, connection: HttpConnection, stream: _OpenStream, part: bytes) -> bool:
        """Send a part if the client has taken the one before; whether it was sent."""
        if not stream.ready:
            return False
        stream.ready, stream.told_s = False, self._loop.time()
        connection.stream_part(part, stream.is_taken)
        return True


class HeldReplies:
    """The replies that wait for their time; one for each connection at most. Used on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[HttpConnection, tuple[Later, asyncio.TimerHandle]] = {}
        self._released = False

    def hold(self, connection: HttpConnection, answer: Later) -> None:
        """Answer the request that the connection is busy with when it is time."""
        after_s = 0 if self._released else answer.after_ms / 1_000
        self._timers[connection] = (answer, self._loop.call_later(after_s, self._send, connection))

    def _send(self, connection: HttpConnection) -> None:
        answer, _ = self._timers.pop(connection)
        connection.reply(answer.reply)

    def forget(self, connection: HttpConnection) -> None:
        """Hold nothing for a connection that is closed."""
        if connection in self._timers:
            self._timers[connection][1].cancel()
            self._send(connection)

    def release(self) -> None:
        """Send all now, and later ones at once, as the node stops. May be called twice."""
        self._released = True
        for connection, (_, timer) in list(self._timers.items()):
            timer.cancel()
            self._send(connection)
