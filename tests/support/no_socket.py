"""A connection without a socket: what a protocol of asyncio is handed, and what it does with it."""

import random
from typing import Any

from app.rpc.server.transport import RpcTransport


class NoSocket:
    """What a transport of asyncio is to its protocol, without a socket."""

    def __init__(self, protocol: RpcTransport, reads: random.Random) -> None:
        self._protocol = protocol
        self._reads = reads
        self._slow = False
        self.sent = 0
        self.is_reading = True
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent += len(data)
        if not self._slow and self._reads.random() < 0.05:
            self._slow = True
            self._protocol.pause_writing()

    def set_write_buffer_limits(self, *, high: int) -> None:
        assert high == 1

    def read(self) -> None:
        """The other side reads."""
        if self._slow:
            self._slow = False
            self._protocol.resume_writing()

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 4) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return int(self._slow)

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.closed = True

    abort = close
