"""Timed beats at a steady rate, sent by a separate process. For the drills.

They are too few to load the node: they time it while something else disturbs it. Linux only.
"""

import argparse
import collections
import contextlib
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BEAT = "/nacos/v1/ns/instance/beat"
CODE_OK = b'"code":10200'
AGENT = "Nacos-Java-Client:v1.4.1"
ANSWER_TIMEOUT_S = 10.0
"""A beat without an answer in this time counts with this time, and as a failure."""
SO_TIMESTAMPNS = 35
"""Linux; not in Python's socket module. With this option the kernel reports when bytes arrived."""
SECONDS_NS = 1_000_000_000
ENDED_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Times of answers in ms."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    slow: int
    """The number of answers that took longer than the limit."""


def figures(times_ms: Sequence[float], limit_ms: float) -> Figures:
    """Summarize times; there must be at least one."""
    ordered = sorted(times_ms)
    count = len(ordered)
    slow = sum(one > limit_ms for one in ordered)
    return Figures(count, ordered[count // 2], ordered[min(count * 99 // 100, count - 1)], ordered[-1], slow)


@dataclass(frozen=True, slots=True)
class Beaten:
    """The outcomes of all beats of a load."""

    answered: list[tuple[float, float]]
    """The time when a beat was due (wall clock, s), and the ms from then to its answer."""
    failures: dict[str, int]
    late: list[tuple[float, float]]
    """The time when a beat was due, and the ms by which the load sent it late, a measure of how busy the machine is."""

    def between(self, begin_s: float, end_s: float) -> list[float]:
        """The times of beats that were due in a period."""
        return [ms for due_s, ms in self.answered if begin_s <= due_s < end_s]

    def late_between(self, begin_s: float, end_s: float) -> list[float]:
        return [ms for due_s, ms in self.late if begin_s <= due_s < end_s]


@dataclass(frozen=True, slots=True)
class InstanceLoad:
    """The instances that beat: ``services`` of ``hosts`` each."""

    services: int
    hosts: int
    name: str = "beating"

    def instances(self) -> Iterator[tuple[str, str]]:
        """Service, without its group, and address of each; neighbours belong to different services."""
        for host in range(self.hosts):
            for number in range(self.services):
                yield f"{self.name}-{number}", f"10.{number // 250}.{number % 250}.{host + 1}"


class BeatLoad:
    """The handle of the load for the process that starts it."""

    def __init__(self, address: str, load: InstanceLoad, rate: int, connections: int, token: str = "") -> None:
        """``token``: of the instances' user; empty if no login is required."""
        words = [address, load.name, load.services, load.hosts, rate, connections, *([token] if token else [])]
        command = [sys.executable, "-m", "scripts.support.beat_load", *map(str, words)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)

    def end(self) -> Beaten:
        """Stop sending, and return the outcomes of all sent beats."""
        said, _ = self._process.communicate(timeout=ENDED_TIMEOUT_S)
        if self._process.returncode != 0:
            raise RuntimeError(f"the load ended with exit code {self._process.returncode}")
        fields = json.loads(said)
        return Beaten(
            [(due_s, ms) for due_s, ms in fields["answered"]],
            fields["failures"],
            [(due_s, ms) for due_s, ms in fields["late"]],
        )

    def kill(self) -> None:
        """Kill it in any state."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@contextlib.contextmanager
def beating(
    address: str, load: InstanceLoad, rate: int = 300, connections: int = 16, token: str = ""
) -> Iterator[BeatLoad]:
    """A load that ends with the block, unless it was stopped before."""
    sender = BeatLoad(address, load, rate, connections, token)
    try:
        yield sender
    finally:
        sender.kill()


# --- inside the process -----------------------------------------------------------------


@dataclass(slots=True)
class _Client:
    """One keep-alive connection, with at most one beat under way."""

    socket: socket.socket
    due_s: float
    begun_s: float = 0.0
    """Start of the beat under way; 0 when there is none."""
    came: bytearray = field(default_factory=bytearray)


class _Sender:
    """Sends, waits and notes; one thread."""

    def __init__(self, address: str, load: InstanceLoad, rate: int, connections: int, token: str) -> None:
        user = f"&accessToken={token}" if token else ""
        host, _, port = address.rpartition(":")
        self._at = host, int(port)
        self._period_s = connections / rate
        self._requests = itertools.cycle(
            [
                f"PUT {BEAT}?serviceName=DEFAULT_GROUP%40%40{service}&ip={ip}&port=8080{user} HTTP/1.1\r\n"
                f"Host: {address}\r\nUser-Agent: {AGENT}\r\nContent-Length: 0\r\n\r\n".encode()
                for service, ip in load.instances()
            ]
        )
        self._poll = select.epoll()
        self._clients: dict[int, _Client] = {}
        self._answered: list[tuple[float, float]] = []
        self._late: list[tuple[float, float]] = []
        self._failures: collections.Counter[str] = collections.Counter()
        begin_s = time.time()
        for number in range(connections):
            self._connect(begin_s + number / rate)

    def run(self) -> Beaten:
        """Run until standard input ends."""
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        going = True
        while going or any(client.begun_s for client in self._clients.values()):
            now_s = time.time()
            if going:
                self._send_due(now_s)
            self._give_up(now_s)
            for descriptor, _ in self._poll.poll(self._wait_s(time.time())):
                if descriptor == sys.stdin.fileno():
                    going = bool(os.read(descriptor, 1))
                    if not going:
                        self._poll.unregister(descriptor)
                else:
                    self._read(self._clients[descriptor])
        return Beaten(self._answered, dict(self._failures), self._late)

    def _wait_s(self, now_s: float) -> float:
        due_s = min((one.due_s for one in self._clients.values() if not one.begun_s), default=now_s + 1)
        return min(max(due_s - now_s, 0.0), 1.0)

    def _connect(self, due_s: float) -> None:
        opened = socket.create_connection(self._at, ANSWER_TIMEOUT_S)
        opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setblocking(False)
        self._clients[opened.fileno()] = _Client(opened, due_s)
        self._poll.register(opened.fileno(), select.EPOLLIN)

    def _send_due(self, now_s: float) -> None:
        for client in self._clients.values():
            if not client.begun_s and client.due_s <= now_s:
                sent_s = time.time()
                self._late.append((client.due_s, (sent_s - client.due_s) * 1_000))
                # The connection was free: the node did not cause the delay.
                self._send(client, sent_s)

    def _send(self, client: _Client, begun_s: float) -> None:
        client.begun_s = begun_s
        client.due_s += self._period_s
        with contextlib.suppress(OSError):  # then its end is read
            client.socket.send(next(self._requests))

    def _give_up(self, now_s: float) -> None:
        for client in list(self._clients.values()):
            if client.begun_s and now_s - client.begun_s > ANSWER_TIMEOUT_S:
                self._fail(client, "no answer", now_s)

    def _fail(self, client: _Client, text: str, now_s: float) -> None:
        self._failures[text] += 1
        if client.begun_s:
            self._answered.append((client.begun_s, max(now_s - client.begun_s, 0.0) * 1_000))
        del self._clients[client.socket.fileno()]
        client.socket.close()
        self._connect(max(client.due_s, now_s))

    def _read(self, client: _Client) -> None:
        try:
            data, extra, _, _ = client.socket.recvmsg(1 << 16, 64)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(client, type(error).__name__, time.time())
            return
        if not data:
            self._fail(client, "closed by the node", time.time())
            return
        client.came += data
        if (text := _whole(client.came)) is None:
            return
        came_s = _arrival_s(extra)
        begun_s, client.begun_s = client.begun_s, 0.0
        client.came.clear()
        self._answered.append((begun_s, max(came_s - begun_s, 0.0) * 1_000))
        if text:
            self._failures[text] += 1
        if client.due_s < came_s:
            # Due while the node delayed us: an independent client would have sent it at that time.
            self._send(client, client.due_s)


def _whole(came: bytearray) -> str | None:
    """Return the error of an answer, an empty text for a correct one, or None while the answer is incomplete."""
    head, split, body = bytes(came).partition(b"\r\n\r\n")
    if not split:
        return None
    lines = head.split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
    if len(body) < length:
        return None
    status = lines[0][9:12].decode("latin-1")
    if status != "200":
        return f"answered {status}"
    return "" if CODE_OK in body else "answered 200 with another code"


def _arrival_s(extra: list[tuple[int, int, bytes]]) -> float:
    """The time when the kernel received the last bytes read: this process may have waited for a CPU since."""
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds = int.from_bytes(data[:8], sys.byteorder)
            return seconds + int.from_bytes(data[8:16], sys.byteorder) / SECONDS_NS
    return time.time()


def main() -> int:
    """Send beats until standard input ends; print their outcomes as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("address")
    parser.add_argument("name")
    for name in ("services", "hosts", "rate", "connections"):
        parser.add_argument(name, type=int)
    parser.add_argument("token", nargs="?", default="")
    options = parser.parse_args()
    load = InstanceLoad(options.services, options.hosts, options.name)
    beaten = _Sender(options.address, load, options.rate, options.connections, options.token).run()
    print(json.dumps({"answered": beaten.answered, "failures": beaten.failures, "late": beaten.late}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
