"""The UDP sockets of the DNS server, read and answered on the event loop."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from app.dns.dns_stats import DnsStats

BATCH = 32
"""The most datagrams in one turn of the loop, which take a millisecond; then beats have their turn."""
RECEIVE_BYTES = 4_096
"""The most bytes of a datagram. A query is shorter; the rest of a longer one is lost, which makes it malformed."""
BUFFER_BYTES = 1 << 20
"""The bytes that may wait in the kernel: 1,000 queries or more, so that a long turn of the loop loses none."""


class UdpPort:
    """Answers datagrams by ``answer``, which gets their bytes and their sender's address. Used on the loop's thread."""

    def __init__(self, answer: Callable[[bytes, str], bytes | None], stats: DnsStats) -> None:
        self._answer = answer
        self._stats = stats
        self._sockets: list[socket.socket] = []
        self._loop: asyncio.AbstractEventLoop

    async def start(self, host: str, port: int) -> None:
        """Listen on each address of ``host``.

        Raises:
            OSError: the port is not free.
        """
        self._loop = loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(found):
            one = socket.socket(family, socket.SOCK_DGRAM)
            self._sockets.append(one)
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            loop.add_reader(one, partial(self._read, one))

    def stop(self) -> None:
        """Close the sockets. May be called twice."""
        for one in self._sockets:
            self._loop.remove_reader(one)
            one.close()
        self._sockets = []

    def _read(self, one: socket.socket) -> None:
        receive, send, answer = one.recvfrom, one.sendto, self._answer
        for _ in range(BATCH):
            try:
                packet, source = receive(RECEIVE_BYTES)
            except OSError:
                return  # nothing more, or an error of an earlier answer, such as a port that is closed by now
            reply = answer(packet, source[0])
            if reply is not None:
                try:
                    send(reply, source)
                except OSError:
                    self._stats.unsent += 1
