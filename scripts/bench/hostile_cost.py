"""Measure the cost of hostile messages: CPU time of a node's event loop, the longest stall for other clients, memory.

Each input is sent to a new node, on many connections at once, while another client sends beats. The CPU time is
that of the loop's thread, less its CPU time at rest. The longest stall is the longest wait of the other client.
Prints a table; ``--rollcall`` measures another release.

    python -m scripts.bench.hostile_cost
    python -m scripts.bench.hostile_cost --only lists,form-1m --rest 5 --rollcall ../before/.venv/bin/rollcall
"""

import argparse
import contextlib
import gzip
import http.client
import itertools
import multiprocessing
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from app.peers import payload as wire
from scripts.support.arguments import add_port, add_rollcall, names_of
from scripts.support.member_processes import running_members
from scripts.support.process_memory import rss_mb
from scripts.support.secured_members import auth_settings, make_first_administrator
from scripts.support.tables import head, row
from tests.support.http2_client import BIDI, END_HEADERS, END_STREAM, MAGIC, UNARY, ByHand, frame, prefixed

AT_ONCE, LOGINS_AT_ONCE = 40, 8
GRPC_OFFSET = 1_000
BEAT_PERIOD_S, AT_REST_S, SETTLE_S = 0.005, 1.0, 0.5
WRONG_LOGINS_S, WRONG_LOGIN_THREADS = 30.0, 24
ANSWER_TIMEOUT_S = 60.0
LISTS = b'{"namespace":"public","groupName":"G","serviceName":"s","x":[%b]}' % b",".join([b"[]"] * 1_330_000)
CROWD = b'{"namespace":"public","groupName":"G","serviceName":"s","x":[%b]}' % b",".join([b"[]"] * 10_000)
ZEROS = bytes(10_400_000)
KEYS = b"{%b}" % b",".join(b'"%d":0' % number for number in range(600_000))
FORM = "application/x-www-form-urlencoded"
ATTRIBUTES = b"serviceName=a&ip=10.0.0.1&port=80&"
SETUP = wire.encode_json("ConnectionSetupRequest", {"labels": {"module": "naming"}, "clientVersion": "v2"})


def grpc_call(kind: str, body: bytes, *, packed: bool, has_setup: bool = False, on_stream: bool = False) -> bytes:
    """The bytes of a connection that sends one message."""
    says = ByHand(begun=False)
    message = wire.encode(kind, body)
    data = prefixed(gzip.compress(message) if packed else message, packed=packed)
    begin = MAGIC + frame("SETTINGS") + frame("SETTINGS", 1)
    encoding = {"grpc_encoding": "gzip"} if packed else {}
    if on_stream:
        return begin + says.opening(1, BIDI, END_HEADERS, **encoding) + says.content(1, data)
    setup = says.opening(1, BIDI) + says.content(1, prefixed(SETUP)) if has_setup else b""
    return begin + setup + says.opening(3, UNARY, END_HEADERS, **encoding) + says.content(3, data, END_STREAM)


def http_call(method: str, path: str, body: bytes, content_type: str = FORM) -> bytes:
    head = f"{method} /nacos{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {content_type}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@dataclass(frozen=True, slots=True)
class Input:
    """One kind of message: all bytes of its connection."""

    make: Callable[[], bytes]
    is_grpc: bool = False
    at_once: int = AT_ONCE
    settings: Mapping[str, str] = field(default_factory=dict)


def _register(body: Callable[[], bytes], content_type: str = FORM) -> Input:
    return Input(lambda: http_call("POST", "/v1/ns/instance", ATTRIBUTES + body(), content_type))


def _query(body: bytes, kind: str = "ServiceQueryRequest", **how: bool) -> Input:
    return Input(lambda: grpc_call(kind, body, **{"packed": True, **how}), is_grpc=True)


INPUTS: dict[str, Input] = {
    "lists": _query(LISTS),
    "lists-set-up": _query(LISTS, has_setup=True),
    "lists-batch": _query(LISTS, "BatchInstanceRequest", has_setup=True),
    "lists-setup": _query(LISTS, "ConnectionSetupRequest", on_stream=True),
    "crowd-plain": _query(CROWD, packed=False, has_setup=True),
    "zeros": _query(ZEROS),
    "zeros-set-up": _query(ZEROS, has_setup=True),
    "form-1m": _register(lambda: b"metadata=" + b"%41" * 350_000),
    "form-8m": _register(lambda: b"metadata=" + b"%41" * 2_700_000),
    "form-500k": _register(lambda: b"metadata=" + b"%41" * 170_000),
    "parameters": _register(lambda: b"&".join(b"%%41%d=%%41" % number for number in range(990))),
    "keys": Input(
        lambda: http_call("PUT", "/v1/ns/instance/beat", b"serviceName=a&" + urlencode({"beat": KEYS}).encode())
    ),
    "keys-500k": Input(
        lambda: http_call("PUT", "/v1/ns/instance/beat", b"serviceName=a&beat=" + KEYS[:480_000] + b"}")
    ),
    "logins": Input(
        lambda: http_call("POST", "/v1/auth/users/login", b"username=a&password=" + b"%41" * 2_790_000),
        at_once=LOGINS_AT_ONCE,
        settings=auth_settings(),
    ),
    "wrong-logins": Input(lambda: b"", settings=auth_settings()),
}


class Beats:
    """A client that sends beats from its own process, and the longest time that it waited for an answer."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        query = {"serviceName": "light", "ip": "10.1.1.1", "port": 80, "accessToken": token}
        self._target = "/nacos/v1/ns/instance?" + urlencode(query)
        self._over = multiprocessing.Event()
        self._longest_s = multiprocessing.Value("d", 0.0)
        self._process = multiprocessing.Process(target=self._run)

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_TIMEOUT_S)
        with contextlib.closing(connection):
            while not self._over.wait(BEAT_PERIOD_S):
                begun_s = time.monotonic()
                connection.request("POST", self._target)
                connection.getresponse().read()
                self._longest_s.value = max(self._longest_s.value, time.monotonic() - begun_s)

    def take_longest_s(self) -> float:
        """The longest wait since the last call."""
        longest_s: float = self._longest_s.value
        self._longest_s.value = 0.0
        return longest_s

    def __enter__(self) -> "Beats":
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._process.join()


def loop_cpu_s(pid: int) -> float:
    """The CPU time of the loop's thread, which is the first of the worker."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def send_at_once(port: int, data: bytes, count: int) -> None:
    """Send the bytes on this many connections, and read until each is answered and idle, or closed."""

    def one() -> None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), ANSWER_TIMEOUT_S) as opened:
            with contextlib.suppress(OSError):  # refused before everything was sent: the answer can be read
                opened.sendall(data)
            wait_s = ANSWER_TIMEOUT_S
            while select.select([opened], [], [], wait_s)[0] and opened.recv(1 << 16):
                wait_s = SETTLE_S

    with ThreadPoolExecutor(count) as threads:
        for _ in range(count):
            threads.submit(one)


def send_wrong_logins(port: int) -> int:
    """Try wrong passwords of many users from many addresses for a while; return how many were answered."""
    end_s, numbers, answered = time.monotonic() + WRONG_LOGINS_S, itertools.count(), itertools.count()

    def one() -> None:
        while time.monotonic() < end_s:
            number = next(numbers)
            source = f"127.{1 + number // 250 % 250}.{number % 250}.1"
            body = urlencode({"username": f"user-{number}", "password": "wrong wrong"})
            connection = http.client.HTTPConnection(
                "127.0.0.1", port, timeout=ANSWER_TIMEOUT_S, source_address=(source, 0)
            )
            with contextlib.closing(connection):
                connection.request("POST", "/nacos/v1/auth/users/login", body, {"Content-Type": FORM})
                connection.getresponse().read()
            next(answered)

    with ThreadPoolExecutor(WRONG_LOGIN_THREADS) as threads:
        for _ in range(WRONG_LOGIN_THREADS):
            threads.submit(one)
    return next(answered)


@contextlib.contextmanager
def node(options: argparse.Namespace, settings: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """A node, its worker's pid, and a token of its administrator, which is empty if no login is required."""
    with running_members(1, options.port, settings, options.rollcall.absolute()) as [member]:
        token = make_first_administrator(member.address, member.data, None) if settings else ""
        yield member.pids()[-1], token


def measure(options: argparse.Namespace, name: str, given: Input) -> str:
    """The row of one input."""
    port = options.port + GRPC_OFFSET * given.is_grpc
    data = given.make()
    with node(options, given.settings) as (pid, token), Beats(options.port, token) as beats:
        begun_s = loop_cpu_s(pid)
        time.sleep(AT_REST_S)
        at_rest, before_mb = (loop_cpu_s(pid) - begun_s) / AT_REST_S, rss_mb(pid)
        beats.take_longest_s()
        begun_s, since_s = loop_cpu_s(pid), time.monotonic()
        count = given.at_once
        if name == "wrong-logins":
            count = send_wrong_logins(options.port)
        else:
            send_at_once(port, data, count)
        spent_s = loop_cpu_s(pid) - begun_s - at_rest * (time.monotonic() - since_s)
        longest_s, after_mb = beats.take_longest_s(), rss_mb(pid)
        time.sleep(options.rest)
        later_mb = rss_mb(pid)
    figures = (len(data), count, f"{spent_s * 1_000 / max(count, 1):.1f}", f"{longest_s * 1_000:.1f}")
    memory = (f"{after_mb - before_mb:+.0f}", f"{later_mb - before_mb:+.0f}")
    return row((name, *figures, *memory))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", type=names_of(INPUTS), default=list(INPUTS), help=f"of {','.join(INPUTS)}")
    parser.add_argument("--rest", type=float, default=60.0, help="seconds until the memory is measured again (60)")
    add_port(parser)
    add_rollcall(parser)
    options = parser.parse_args()
    titles = ("input", "bytes", "messages", "loop's CPU, ms each", "longest stall, ms", "RSS, MB")
    print(head([*titles, f"{options.rest:.0f} s later"]), flush=True)
    for name in options.only:
        print(measure(options, name, INPUTS[name]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
