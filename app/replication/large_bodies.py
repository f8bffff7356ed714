"""The bound on large bodies of peers: one is uncompressed and parsed at a time, so that many cannot fill memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from app.naming.model.nacos_errors import Unavailable
from distro.wire.codec import gunzip_if_gzip, unpacked_max

LARGE_BYTES = 4 * 1024 * 1024
"""The size of a large body, uncompressed. Smaller bodies take no turn."""
AT_ONCE_MAX = 1
"""The bodies that are read at once. A second one would only compete with the first for the interpreter."""
WAITING_MAX = 3
"""The most bodies that wait for their turn. Further ones are refused at once.

Each body holds a thread. Together these use half of the threads for peers, and the others serve reports and small
bodies.
"""
WAIT_S = 2.0
"""The longest wait for a turn: less than the time-out of a peer's call, which is then repeated."""


class LargeBodies:
    """Lets large bodies, however they arrive, take turns. Thread-safe; only for threads that may wait."""

    def __init__(self, body_bytes_max: int) -> None:
        """``body_bytes_max``: the bound of one body, uncompressed."""
        self._body_bytes_max = body_bytes_max
        self._turns = BoundedSemaphore(AT_ONCE_MAX)
        self._waiting = BoundedSemaphore(WAITING_MAX)

    @contextmanager
    def unpacked(self, body: bytes) -> Iterator[bytes]:
        """Yield the plain bytes of a body, gzip or plain. Use them within the block.

        Raises:
            CodecError: it cannot be uncompressed, or not within its bounds.
            Unavailable: other large bodies took longer than ``WAIT_S``, or too many wait.
        """
        if unpacked_max(body) < LARGE_BYTES:
            yield gunzip_if_gzip(body, self._body_bytes_max)
            return
        if not self._has_turn():
            raise Unavailable("other large bodies are being read, please try again")
        try:
            yield gunzip_if_gzip(body, self._body_bytes_max)
        finally:
            self._turns.release()

    def _has_turn(self) -> bool:
        """Take a turn, at once or after a wait."""
        if self._turns.acquire(blocking=False):
            return True
        if not self._waiting.acquire(blocking=False):
            return False
        try:
            return self._turns.acquire(timeout=WAIT_S)
        finally:
            self._waiting.release()
