"""A kept connection to a node, as bytes on a socket."""

import socket
from types import TracebackType

from tests.support.wire import Received, ReplyReader

TIMEOUT_S = 60.0


class RawConnection:
    """One TCP connection. ``receive_bytes`` is how much the system takes for a client that does not read."""

    def __init__(self, address: str, receive_bytes: int | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(TIMEOUT_S)
        try:
            self.socket.connect((host, int(port)))
        except OSError:
            self.socket.close()
            raise
        self._reader = ReplyReader()

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> Received:
        """Return the next answer.

        Raises:
            OSError: none came, or no whole one.
        """
        while not self._reader.found:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the connection ended before an answer")
            self._reader.parser.feed_data(data)
        return self._reader.found.pop(0)

    def call(self, data: bytes) -> Received:
        self.send(data)
        return self.read()

    def is_at_its_end(self) -> bool:
        """Wait for the next byte; whether the connection ended instead."""
        try:
            return not self.socket.recv(1)
        except ConnectionError:
            return True
