"""Measure the cost of HTTP/2 frame floods at a gRPC port, for the node and for other clients.

The node must end the connection of each flood; its CPU time and memory are measured for one flood. Then attackers in
their own process repeat it for some seconds, as fast as the node allows, while calls over other connections are timed.
Prints a table; exit code 1 when a flood costs 50 ms of CPU or 1 MB, or the p99 of the other calls is 20 ms or more.
The bound of the p99 assumes an otherwise idle machine: compare it with the row without a flood.

    python -m scripts.chaos.http2_floods --port 26010 --seconds 5
"""

import argparse
import gzip
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from app.peers import payload as wire
from scripts.bench.idle import pss_mb
from scripts.support import tables
from scripts.support.arguments import add_port
from scripts.support.beat_load import Figures, figures
from scripts.support.grpc_clients import SDK_OFFSET
from scripts.support.member_processes import MemberProcess, running_members
from tests.support.http2_client import BIDI, END_HEADERS, END_STREAM, MAGIC, UNARY, ByHand, frame, prefixed

FRAMES = 5_000
"""Frames of a flood, if its connection does not end earlier."""
BLOCKS = 200
PER_WRITE = 500
CPU_S_MAX = 0.05
GROWN_MB_MAX = 1.0
P99_MS_MAX = 20.0
SETTLE_S = 3.0
PROBES = 4
"""Connections of other clients."""
PROBE_EVERY_S = 0.005
ATTACKERS = 2
TIMEOUT_S = 30.0
WIDE = frame("SETTINGS", 0, 0, b"\0\4\x7f\xff\xff\xff") + frame("WINDOW_UPDATE", 0, 0, b"\x7f\xff\0\0")
BEGIN = MAGIC + frame("SETTINGS") + frame("SETTINGS", 1)
HALF = frame("HEADERS", 0, 1)
TITLES = ("flood", "CPU ms", "MB", "a second", "calls beside", "p50 ms", "p99 ms", "max ms", "")


def check_call() -> bytes:
    """The message of a call that anyone may make."""
    return wire.encode_json("ServerCheckRequest", {})


def repeated(one: bytes, before: bytes = b"") -> Callable[[], Iterator[bytes]]:
    def made() -> Iterator[bytes]:
        yield before
        for _ in range(FRAMES):
            yield one

    return made


def rapid_resets() -> Iterator[bytes]:
    client = ByHand(begun=False)
    for stream in range(1, 2 * FRAMES, 2):
        yield client.opening(stream) + frame("RST_STREAM", 0, stream, b"\0\0\0\x08")


def resets_of_calls() -> Iterator[bytes]:
    """Complete calls, each answered before it is reset."""
    client, check = ByHand(begun=False), check_call()
    for stream in range(1, FRAMES, 2):
        yield client.call(stream, check) + frame("RST_STREAM", 0, stream, b"\0\0\0\x08")


def bombs() -> Iterator[bytes]:
    client = ByHand(begun=False)
    large = client.encoder.encode([("a", "b" * 4_000)])
    for stream in range(1, 200, 2):
        yield frame("HEADERS", END_HEADERS, stream, large + b"\xbe" * 12_000)


def large_blocks(fields: int, size: int) -> Callable[[], Iterator[bytes]]:
    """Distinct requests, each with the largest header block that is allowed."""

    def made() -> Iterator[bytes]:
        client = ByHand(begun=False)
        for number in range(BLOCKS):
            more = {f"x{number % 10}{field}": "a" * size for field in range(fields)}
            stream = 2 * number + 1
            yield client.opening(stream, UNARY, END_HEADERS, **more) + frame("RST_STREAM", 0, stream, bytes(4))

    return made


def resized_tables() -> Iterator[bytes]:
    for stream in range(1, 2 * BLOCKS, 2):
        yield frame("HEADERS", END_HEADERS, stream, b"\x20\x3f\xe1\x1f" * 4_000)


def packed_messages() -> Iterator[bytes]:
    """Calls of 256 KB, each in 300 bytes."""
    client, packed = ByHand(begun=False), prefixed(gzip.compress(bytes(1 << 18)), packed=True)
    for stream in range(1, 2 * BLOCKS, 2):
        yield client.opening(stream, grpc_encoding="gzip") + client.content(stream, packed, END_STREAM)


FLOODS: dict[str, Callable[[], Iterator[bytes]]] = {
    "rapid reset": rapid_resets,
    "rapid reset of calls": resets_of_calls,
    "settings": repeated(frame("SETTINGS", 0, 0, b"\0\4\0\0\xff\xff")),
    "ping": repeated(frame("PING", 0, 0, bytes(8))),
    "continuation with bytes": repeated(frame("CONTINUATION", 0, 1, bytes(1_000)), HALF),
    "continuation without bytes": repeated(frame("CONTINUATION", 0, 1), HALF),
    "empty data": repeated(frame("DATA", 0, 1), ByHand(begun=False).opening(1)),
    "empty data on a stream": repeated(frame("DATA", 0, 1), ByHand(begun=False).opening(1, BIDI)),
    "window update": repeated(frame("WINDOW_UPDATE", 0, 0, b"\0\0\0\1")),
    "hpack bomb": bombs,
    "large fields": large_blocks(1, 15_000),
    "many fields": large_blocks(350, 0),
    "changes of the table's size": resized_tables,
    "packed messages": packed_messages,
}


def chunks(name: str) -> list[bytes]:
    """The bytes of a flood: encoded in advance, because that takes longer than answering it."""
    parts = iter(FLOODS[name]())
    return list(iter(lambda: b"".join(part for _, part in zip(range(PER_WRITE), parts, strict=False)), b""))


def cpu_s(pid: int) -> float:
    """The CPU time of all threads of a process, with a resolution far below a ms."""
    return time.clock_gettime((~pid << 3) | 2)  # computed as by the C library's clock_getcpuclockid, on Linux


def flood(port: int, written: list[bytes], *, reads: bool) -> None:
    """Send the whole flood; return when the node has ended the connection.

    Raises:
        RuntimeError: the node accepted the whole flood.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as client:
        try:
            client.sendall(BEGIN)
            for chunk in written:
                client.sendall(chunk)
            while reads and client.recv(1 << 16):
                pass
            end_s = time.monotonic() + (0 if reads else TIMEOUT_S)
            while time.monotonic() < end_s:
                client.sendall(frame("PRIORITY", 0, 1, bytes(5)))
        except (BrokenPipeError, ConnectionResetError):
            return
        if not reads:
            raise RuntimeError("the node accepted the whole flood")


class Probe:
    """Makes one call after the other over a connection, without the threads of a library."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(BEGIN + WIDE)
        self._client, self._check, self._stream, self._rest = ByHand(begun=False), check_call(), 1, b""

    def call(self) -> float:
        """Make a call; return the ms until its end."""
        stream, self._stream = self._stream, self._stream + 2
        said = self._client.call(stream, self._check)
        begun_s = time.perf_counter()
        self._socket.sendall(said)
        while not self._is_ended(stream):
            data = self._socket.recv(1 << 16)
            if not data:
                raise RuntimeError("a connection beside the flood was ended")
            self._rest += data
        return (time.perf_counter() - begun_s) * 1e3

    def _is_ended(self, stream: int) -> bool:
        while len(self._rest) >= 9 and len(self._rest) >= 9 + (size := int.from_bytes(self._rest[:3], "big")):
            kind, flags, of = self._rest[3], self._rest[4], int.from_bytes(self._rest[5:9], "big")
            self._rest = self._rest[9 + size :]
            if of == stream and kind == 1 and flags & END_STREAM:
                return True
        return False

    def close(self) -> None:
        self._socket.close()


def beside(port: int, seconds: float) -> Figures:
    """Times of calls over some connections, one call every ``PROBE_EVERY_S``."""
    probes, took, end_s = [Probe(port) for _ in range(PROBES)], [], time.monotonic() + seconds
    while time.monotonic() < end_s:
        for probe in probes:
            took.append(probe.call())
            time.sleep(PROBE_EVERY_S)
    for probe in probes:
        probe.close()
    return figures(took, P99_MS_MAX)


def attack(port: int, name: str, seconds: float) -> int:
    """Repeat a flood over ``ATTACKERS`` connections at a time; return the number of floods."""
    written, end_s = chunks(name), time.monotonic() + seconds

    def repeat(_: int) -> int:
        count = 0
        while time.monotonic() < end_s:
            flood(port, written, reads=True)
            count += 1
        return count

    with ThreadPoolExecutor(ATTACKERS) as pool:
        return sum(pool.map(repeat, range(ATTACKERS)))


def row(member: MemberProcess, port: int, name: str, seconds: float) -> tuple[str, bool]:
    """Attack; return the row of the table, and whether all limits were kept."""
    pid, written = member.pids()[1], chunks(name)
    flood(port, written, reads=True)  # the first of a kind warms up code and caches
    before_s, before_mb = cpu_s(pid), pss_mb(pid)
    flood(port, written, reads=True)
    used_s, grown_mb = cpu_s(pid) - before_s, pss_mb(pid) - before_mb
    command = [sys.executable, "-m", "scripts.chaos.http2_floods", "--port", str(port), "--attack", name]
    with subprocess.Popen([*command, "--seconds", str(seconds + 2)], stdout=subprocess.PIPE, text=True) as attacker:
        time.sleep(1)
        found = beside(port, seconds)
        count = int(attacker.communicate()[0])
    good = used_s < CPU_S_MAX and grown_mb < GROWN_MB_MAX and found.p99_ms < P99_MS_MAX and not attacker.returncode
    shown = (f"{used_s * 1e3:.1f}", f"{max(grown_mb, 0):.2f}", f"{count / (seconds + 2):.0f}")
    return tables.row((name, *shown, *of(found), "" if good else "NO")), good


def of(found: Figures) -> tuple[str, ...]:
    return str(found.count), f"{found.p50_ms:.2f}", f"{found.p99_ms:.2f}", f"{found.max_ms:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_port(parser)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", help="one of the floods", choices=FLOODS)
    parser.add_argument("--attack", help=argparse.SUPPRESS, choices=FLOODS)
    options = parser.parse_args()
    if options.attack:
        print(attack(options.port, options.attack, options.seconds))
        return 0
    failed = False
    with running_members(1, options.port) as [member]:
        port = options.port + SDK_OFFSET
        time.sleep(SETTLE_S)
        print(tables.head(TITLES), flush=True)
        print(tables.row(("none", "", "", "", *of(beside(port, options.seconds)), "")), flush=True)
        for name in [options.only] if options.only else FLOODS:
            line, good = row(member, port, name, options.seconds)
            failed |= not good
            print(line, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
