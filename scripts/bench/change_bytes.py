"""Count the bytes that a change of one instance sends to each peer, headers included, for services of several sizes.

Captures the traffic between members on the loopback interface, which needs root. The members can run any software.
``--members`` names running ones (``http://127.0.0.1:8848/nacos``); without it the script starts three. Counts
the HTTP bytes, without TCP, of the calls ``PUT /v1/ns/distro/datum`` and their answers. Prints one JSON line.
"""

import argparse
import contextlib
import http.client
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlencode, urlsplit

from scripts.support.arguments import add_port
from scripts.support.member_processes import CONTEXT_PATH, running_members
from scripts.support.secured_members import auth_settings

SIZES = (10, 1_000, 10_000)
PATH = b"/v1/ns/distro/datum"
METHODS = (b"PUT ", b"GET ", b"POST ", b"DELETE ")
ETH_IP = 0x0800
HEADER_BYTES = 14
CALL_TIMEOUT_S = 10.0
NO_BEATS = {"preserved.heart.beat.timeout": "3600000", "preserved.ip.delete.timeout": "3600000"}
"""Nothing expires during a measurement."""
QUIET_S, QUIET_S_MAX = 1.5, 120.0


class Wire(threading.Thread):
    """Counts the bytes of members' calls to ``PATH`` until it is stopped. ``ports``: where the members listen."""

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__(name="bench-wire")
        self.bytes: dict[int, int] = {}
        """Keyed by the port of the called member."""
        self.calls = 0
        self.seen_s = time.monotonic()
        self._ports = frozenset(ports)
        self._datum_links: set[tuple[int, int]] = set()
        self._stopped = False
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_IP))
        self._socket.bind(("lo", 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self._socket.settimeout(0.2)

    def run(self) -> None:
        while not self._stopped:
            with contextlib.suppress(TimeoutError):
                packet, (_, _, kind, *_) = self._socket.recvfrom(1 << 17)
                if kind != socket.PACKET_OUTGOING:  # this interface shows each packet twice
                    self._take(packet[HEADER_BYTES:])
        self._socket.close()

    def stop(self) -> None:
        self._stopped = True
        self.join()

    def clear(self) -> None:
        self.bytes, self.calls = {}, 0

    def _take(self, packet: bytes) -> None:
        if packet[9] != socket.IPPROTO_TCP:
            return
        start = (packet[0] & 15) * 4
        source, target = struct.unpack_from("!HH", packet, start)
        payload = packet[start + (packet[start + 12] >> 4) * 4 : struct.unpack_from("!H", packet, 2)[0] or None]
        if not payload:
            return
        if target in self._ports:
            link = (source, target)
            if payload.startswith(METHODS):
                is_datum = payload.startswith(b"PUT ") and PATH in payload.split(b"\r\n", 1)[0]
                (self._datum_links.add if is_datum else self._datum_links.discard)(link)
                self.calls += is_datum
        elif source in self._ports:
            link = (target, source)
        else:
            return
        if link in self._datum_links:
            self.bytes[link[1]] = self.bytes.get(link[1], 0) + len(payload)
            self.seen_s = time.monotonic()

    def wait_quiet(self) -> None:
        """Return once no datum has been sent for a while."""
        end_s = time.monotonic() + QUIET_S_MAX
        self.seen_s = time.monotonic()
        while time.monotonic() - self.seen_s < QUIET_S and time.monotonic() < end_s:
            time.sleep(0.1)


class Client:
    """One keep-alive connection to a member."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path.rstrip("/")
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=CALL_TIMEOUT_S)

    def register(self, service: str, number: int, word: str) -> None:
        fields = {
            "serviceName": service,
            "ip": f"10.7.{number // 250}.{number % 250 + 1}",
            "port": 8080,
            "ephemeral": "true",
            "metadata": json.dumps(NO_BEATS | {"word": word}),
        }
        self._connection.request("POST", f"{self._path}/v1/ns/instance?{urlencode(fields)}")
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"a registration was answered {answer.status}: {text[:200]!r}")


def measure(urls: Sequence[str], options: argparse.Namespace) -> dict[str, object]:
    """Make the changes of each size, and return the printed figures."""
    wire = Wire([urlsplit(url).port or 80 for url in urls])
    wire.start()
    found: dict[str, object] = {}
    client = Client(urls[0])
    try:
        for size in options.sizes:
            service = f"change-bytes-{size}"
            for number in range(size):
                client.register(service, number, "first")
            for word in ("second", "third"):  # now each peer has acknowledged the whole list
                wire.wait_quiet()
                client.register(service, 0, word)
            wire.wait_quiet()
            wire.clear()
            for number in range(options.changes):
                client.register(service, number % size, f"changed {number:04}")
                time.sleep(options.pause_s)
            wire.wait_quiet()
            peers = max(len(wire.bytes), 1)
            each = sum(wire.bytes.values()) / options.changes / peers
            found[str(size)] = {"bytes_per_change_and_peer": round(each), "calls": wire.calls, "peers": peers}
    finally:
        wire.stop()
    return {"changes": options.changes, "by_size": found}


@contextlib.contextmanager
def members_of(options: argparse.Namespace) -> Iterator[Sequence[str]]:
    """The members to measure: running ones, or three started here."""
    if options.members:
        yield options.members
        return
    identity = {name: text for name, text in auth_settings().items() if "identity" in name} if options.signed else {}
    with running_members(3, options.port, identity) as members:
        time.sleep(options.settle_s)
        yield [f"http://{one.address}{CONTEXT_PATH}" for one in members]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", nargs="+", help="running members; the first receives the changes")
    parser.add_argument(
        "--signed", action="store_true", help="start members with an identity, so that they sign their calls"
    )
    add_port(parser)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument(
        "--pause-s", type=float, default=0.1, help="seconds between two changes, so that each is sent alone"
    )
    parser.add_argument("--settle-s", type=float, default=15.0, help="after the start")
    options = parser.parse_args()
    with members_of(options) as urls:
        print(json.dumps(measure(urls, options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
