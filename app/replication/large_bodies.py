"""The bound on large bodies of peers: two are unpacked and read at a time, so that many at once cannot fill memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from app.naming.model.nacos_errors import Unavailable
from distro.codec import gunzip_if_gzip, unpacked_max

LARGE_BYTES = 4 * 1024 * 1024
"""Unpacked; smaller bodies take no turn."""
AT_ONCE_MAX = 2
WAIT_S = 2.0
"""Less than the time-out of a peer's call, which is then repeated."""


class LargeBodies:
    """Lets large bodies of all ways in take turns. Thread-safe; only for threads that may wait."""

    def __init__(self, body_bytes_max: int) -> None:
        """``body_bytes_max``: of one body, unpacked."""
        self._body_bytes_max = body_bytes_max
        self._turns = BoundedSemaphore(AT_ONCE_MAX)

    @contextmanager
    def unpacked(self, body: bytes) -> Iterator[bytes]:
        """Yield the plain bytes of a body, gzip or plain; what is made of them should be done in the block.

        Raises:
            CodecError: it cannot be unpacked, or not within its bounds.
            Unavailable: other large bodies took longer than ``WAIT_S``.
        """
        if unpacked_max(body) < LARGE_BYTES:
            yield gunzip_if_gzip(body, self._body_bytes_max)
            return
        if not self._turns.acquire(timeout=WAIT_S):
            raise Unavailable("other large bodies are being read, please try again")
        try:
            yield gunzip_if_gzip(body, self._body_bytes_max)
        finally:
            self._turns.release()
