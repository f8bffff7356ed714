"""A stream of a server's events, which a thread follows, for a command that asks again when something has changed."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from app.tools.command.asking.server_connection import EventStream, NoServerAnswer

RETRY_S = 5.0
"""The wait after a stream that broke off, or was refused for now."""
LASTS_MIN_S = 2.0
"""The shortest stream worth following: a server that ends it sooner only gives the present state."""


class ServerEvents:
    """A thread that follows a stream, and opens it again when it ends."""

    def __init__(self, open_stream: Callable[[], EventStream | None]) -> None:
        """``open_stream`` opens one; it raises NoServerAnswer if that fails for now, and returns None without one."""
        self._open = open_stream
        self._news = threading.Event()
        self._ended = threading.Event()
        self._stream: EventStream | None = None
        self._told = b""
        self._thread: threading.Thread | None = None
        self.is_open = False
        """True while the server reports changes; else the command has to ask."""

    def start(self) -> None:
        """Open the stream, and follow it if there is one. A change from now on ends a ``wait``."""
        with suppress(NoServerAnswer):
            self._stream = self._open()
            if self._stream is None:
                return
            self.is_open = True
        self._thread = threading.Thread(target=self._run, name="server-events")
        self._thread.start()

    def wait(self, timeout_s: float) -> None:
        """Return when something has changed, the stream is lost, or the time is over."""
        self._news.wait(timeout_s)
        self._news.clear()

    def stop(self) -> None:
        """Stop following. May be called twice."""
        self._ended.set()
        if (stream := self._stream) is not None:
            stream.end()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            begun_s = time.monotonic()
            with suppress(NoServerAnswer):
                stream = self._stream or self._open()
                if stream is None:
                    break  # another server by now, of an older release
                self._follow(stream)
            self._stream = None
            if time.monotonic() - begun_s < LASTS_MIN_S:
                self._lose()
                self._ended.wait(RETRY_S)
        self._lose()

    def _follow(self, stream: EventStream) -> None:
        self._stream = stream
        if self._ended.is_set():
            stream.end()  # ``stop`` did not see it
        for data in stream:
            self.is_open = True
            if data != self._told:
                self._told = data
                self._news.set()

    def _lose(self) -> None:
        self.is_open = False
        self._news.set()
