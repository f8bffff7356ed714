"""A subscriber of v1 with a socket of its own: takes pushes, and acknowledges them as the Java library does."""

import gzip
import json
import socket
from typing import Any

import psutil
import pytest

TIMEOUT_S = 60.0
QUIET_S = 0.15
"""In which a datagram that should not come would have come."""
BYTES_MAX = 1 << 16


def own_address(family: socket.AddressFamily) -> str:
    """An address of this machine that is not a loopback one; skips the test when there is none."""
    for each in psutil.net_if_addrs().values():
        for one in each:
            if one.family == family and not one.address.startswith(("127.", "::1", "fe80:")):
                return one.address
    pytest.skip(f"this machine has no {family.name} address but loopback")


class Listener:
    """Listens on all addresses of a family, and announces ``ip``."""

    def __init__(self, ip: str = "127.0.0.1") -> None:
        family, bind = (socket.AF_INET6, "::") if ":" in ip else (socket.AF_INET, "0.0.0.0")
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.bind((bind, 0))
        self._socket.settimeout(TIMEOUT_S)
        self.ip, self.port = ip, self._socket.getsockname()[1]
        self.server: tuple[Any, ...] = ()
        """Where the last push came from."""

    def close(self) -> None:
        self._socket.close()

    def receive_datagram(self) -> bytes:
        """Return the bytes of the next push."""
        datagram, self.server = self._socket.recvfrom(BYTES_MAX)
        return datagram

    def receive(self) -> dict[str, Any]:
        """Return the next push. Shape: type, data, lastRefTime."""
        datagram = self.receive_datagram()
        plain = gzip.decompress(datagram) if datagram.startswith(b"\x1f\x8b") else datagram
        push: dict[str, Any] = json.loads(plain)
        return push

    def hears_nothing(self) -> bool:
        """Whether no push comes for a while."""
        self._socket.settimeout(QUIET_S)
        try:
            self._socket.recv(BYTES_MAX)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(TIMEOUT_S)
        return False

    def send(self, body: bytes) -> None:
        """Send anything to where the last push came from."""
        self._socket.sendto(body, self.server)

    def acknowledge(self, reference: int) -> None:
        self.send(b'{"type": "push-ack", "lastRefTime":"%d", "data":""}' % reference)
