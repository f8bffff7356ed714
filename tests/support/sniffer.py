"""What goes over loopback, as anybody sees it who may read packets there."""

import base64
import binascii
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest

ALL_PROTOCOLS = 3
ANSWERED_BYTES = 1 << 25
SO_RCVBUFFORCE, PACKET_STATISTICS, SOL_PACKET = 33, 6, 263
POLL_S = 0.05


class Sniffer:
    """The bytes of each direction of each TCP connection at some ports, in the order in which they were sent."""

    def __init__(self, opened: socket.socket, ports: frozenset[int]) -> None:
        self._opened = opened
        self._ports = ports
        self._flows: dict[tuple[int, int], bytearray] = defaultdict(bytearray)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="sniffer")
        self._thread.start()

    def _read(self) -> None:
        while not self._ended.is_set():
            try:
                packet, (_, _, kind, *_) = self._opened.recvfrom(1 << 17)
            except TimeoutError:
                continue
            if kind == socket.PACKET_OUTGOING:  # each packet of loopback is seen twice
                self._take(packet[14:])

    def _take(self, packet: bytes) -> None:
        if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
            return
        tcp = packet[(packet[0] & 15) * 4 : struct.unpack_from("!H", packet, 2)[0] or len(packet)]
        source, target = struct.unpack_from("!HH", tcp)
        if source in self._ports or target in self._ports:
            self._flows[source, target] += tcp[(tcp[12] >> 4) * 4 :]

    def end(self) -> dict[tuple[int, int], bytes]:
        """Return all that was sent.

        Raises:
            AssertionError: the kernel dropped packets, so that this was not all.
        """
        self._ended.set()
        self._thread.join()
        _, drops = struct.unpack("II", self._opened.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        assert drops == 0, f"{drops} packets were not seen"
        return {flow: bytes(sent) for flow, sent in self._flows.items()}


@contextmanager
def sniffing(ports: frozenset[int]) -> Iterator[Sniffer]:
    """Read what goes over loopback from or to these ports until the block ends; skips the test where that is denied."""
    try:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    except PermissionError:
        pytest.skip("reading packets takes root or CAP_NET_RAW")
    with opened:
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ANSWERED_BYTES)
        opened.bind(("lo", 0))
        opened.settimeout(POLL_S)
        sniffer = Sniffer(opened, ports)
        try:
            yield sniffer
        finally:
            sniffer._ended.set()
            sniffer._thread.join()


def forms_of(secret: str) -> set[bytes]:
    """The ways in which a text may be written: as it is, in base64 at any offset, as hex, escaped for a URL or JSON."""
    plain = secret.encode()
    found = {plain, binascii.hexlify(plain), quote(secret, safe="").encode(), quote(secret).encode()}
    for offset in range(3):
        # Without the characters at the ends, which hold bits of what stands beside it.
        inner = base64.b64encode(b"x" * offset + plain)[4 if offset else 0 :].rstrip(b"=")[:-1]
        found |= {inner, inner.translate(bytes.maketrans(b"+/", b"-_"))}
    return found
