"""The messages that wait for the thread of a link, with a bound in bytes; a full inbox makes their reader wait."""

from collections import deque
from threading import Condition
from typing import Any, NamedTuple

BYTES_MAX = 64 * 1024 * 1024


class Message(NamedTuple):
    """A message of a server."""

    type: str
    values: dict[str, Any]
    size: int


class Inbox:
    """Passes messages from a reading thread to the thread of the link. Thread-safe."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._changed = Condition()
        self._messages: deque[Message] = deque()
        self._bytes = 0
        self._is_awake = False
        self.ended: str | None = None
        """Why no more messages come; None while they may."""

    def put(self, message: Message) -> bool:
        """Add a message; wait while there is no room. Return False if the inbox has ended."""
        with self._changed:
            while self._messages and self._bytes + message.size > self._bytes_max and self.ended is None:
                self._changed.wait()
            if self.ended is not None:
                return False
            self._messages.append(message)
            self._bytes += message.size
            self._changed.notify_all()
            return True

    def take(self, timeout_s: float) -> list[Message]:
        """Return all messages; wait for one, for ``wake`` or the end for so long."""
        with self._changed:
            if not self._messages and not self._is_awake and self.ended is None and timeout_s > 0:
                self._changed.wait(timeout_s)
            self._is_awake = False
            found = list(self._messages)
            self._messages.clear()
            self._bytes = 0
            self._changed.notify_all()
            return found

    def wake(self) -> None:
        """Have ``take`` return. From any thread."""
        if not self._is_awake:
            with self._changed:
                self._is_awake = True
                self._changed.notify_all()

    def end(self, reason: str) -> None:
        """Take no more messages. The first reason counts."""
        with self._changed:
            if self.ended is None:
                self.ended = reason
            self._changed.notify_all()
