"""Replies that are sent after a while: each has a timer of the loop, and no thread."""

import asyncio

from app.http.api.call import Later
from app.http.server.connection import HttpConnection


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
