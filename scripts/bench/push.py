"""Measure how long a change takes to reach subscribers over UDP, and the cost of many subscribers.

Starts three members, with subscribers at the first, which gets all changes, and at the second. Prints one JSON line
a kind:

latency: raw sockets that behave as the Java library. In ms from the start of the HTTP call to the datagram, on the
    written member and on another; half of the services belong to neither.
crowd: ``--subscribers`` of one service at the first member, ``--dead`` of them closed. In ms from the start of the HTTP
    call to the acknowledgement of the last living one; memory and CPU of the member's processes.
sdk: the libraries of tests/sdk that can be installed. In ms from the start of the HTTP call to the listener's line.
"""

import argparse
import contextlib
import gzip
import http.client
import json
import random
import select
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from scripts.bench.idle import cpu_s, pss_mb
from scripts.support.arguments import add_port
from scripts.support.member_processes import CONTEXT_PATH, MemberProcess, local_members, start_all
from scripts.support.process_memory import rss_mb

AGENT = "Nacos-Java-Client:v1.4.8"
GROUP = "DEFAULT_GROUP@@"
MEMBERS = 3
CALL_TIMEOUT_S = 10.0
TELL_TIMEOUT_S = 5.0
"""Seconds after which a change counts as lost for a subscriber."""
SETTLE_S = 1.0
FIRST_POLL_S = 3.0
"""A library polls once more after its first query; the measurement begins later."""
SERVICES = 12
LIBRARIES = ("java", "go", "node")
DATAGRAM_BYTES = 65_536


class Http:
    """One keep-alive connection to a member."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=CALL_TIMEOUT_S)

    def call(self, method: str, path: str, **parameters: object) -> Any:
        target = f"{CONTEXT_PATH}/v1/ns{path}?{urlencode(parameters)}"
        self._connection.request(method, target, headers={"User-Agent": AGENT})
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {body[:200]!r}")
        return json.loads(body) if body.startswith(b"{") else body

    def register(self, service: str, ip: str, weight: float = 1.0) -> None:
        """Register an instance, or change it; it needs no beats during a measurement."""
        metadata = '{"preserved.heart.beat.timeout":"3600000","preserved.ip.delete.timeout":"3600000"}'
        self.call("POST", "/instance", serviceName=service, ip=ip, port=8080, weight=weight, metadata=metadata)

    def fill(self, service: str, hosts: int) -> None:
        for number in range(hosts):
            self.register(service, f"10.8.{number // 250}.{number % 250 + 1}")


class Listener:
    """A subscriber: a socket that a member knows."""

    def __init__(self, ip: str) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("0.0.0.0", 0))
        self._ip = ip

    def subscribe(self, member: Http, service: str) -> None:
        port = self.socket.getsockname()[1]
        answer = member.call(
            "GET", "/instance/list", serviceName=GROUP + service, clientIP=self._ip, udpPort=port, app="bench"
        )
        if answer["cacheMillis"] != 10_000:
            raise RuntimeError(f"no pushes are promised: {answer}")

    def take(self) -> bytes:
        """Read one waiting datagram, acknowledge it, and return its plain bytes."""
        datagram, member = self.socket.recvfrom(DATAGRAM_BYTES)
        plain = gzip.decompress(datagram) if datagram.startswith(b"\x1f\x8b") else datagram
        # The last value, because the list inside has a field of the same name.
        reference = plain.rpartition(b":")[2].rstrip(b"}")
        self.socket.sendto(b'{"type": "push-ack", "lastRefTime":"%s", "data":""}' % reference, member)
        return plain


def seconds_until_told(listeners: Sequence[Listener], mark: bytes, since_s: float) -> list[float | None]:
    """Return how long after ``since_s`` each subscriber acknowledged a push with the mark; None if not in time."""
    told: list[float | None] = [None] * len(listeners)
    waiting = {one.socket.fileno(): index for index, one in enumerate(listeners)}
    poll = select.poll()
    for number in waiting:
        poll.register(number, select.POLLIN)
    while waiting and (left_s := since_s + TELL_TIMEOUT_S - time.perf_counter()) > 0:
        for number, _ in poll.poll(left_s * 1000):
            index = waiting.get(number)
            if index is not None and mark in listeners[index].take():
                told[index] = time.perf_counter() - since_s
                del waiting[number]
                poll.unregister(number)
    return told


def percentiles_ms(times_s: Sequence[float | None]) -> dict[str, float | int | None]:
    """Return the percentiles of the pushes that arrived; ``lost`` counts the others."""
    ordered = sorted(one for one in times_s if one is not None)
    parts = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}
    found: dict[str, float | int | None] = {
        name: round(ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1000, 1) if ordered else None
        for name, part in parts.items()
    }
    return {"n": len(ordered), "lost": len(times_s) - len(ordered), **found}


# --- latency -------------------------------------------------------------------------------------


def measure_latency(members: list[MemberProcess], options: argparse.Namespace) -> dict[str, object]:
    """Change services in turn, each with one subscriber at the first member and one at the second."""
    one, two = (Http(member.address) for member in members[:2])
    services = [f"push-{random.randrange(10**9)}" for _ in range(SERVICES)]
    pairs = []
    for service in services:
        one.fill(service, max(options.hosts, 1))
        pair = [Listener(options.client_ip), Listener(options.client_ip)]
        pair[0].subscribe(one, service)
        pair[1].subscribe(two, service)
        pairs.append(pair)
    time.sleep(SETTLE_S)
    times_s: list[list[float | None]] = [[], []]
    for number in range(options.changes):
        weight = 2 + number / 64  # both sides write it the same way
        service, pair = services[number % SERVICES], pairs[number % SERVICES]
        begun_s = time.perf_counter()
        one.register(service, "10.8.0.1", weight)
        for index, took_s in enumerate(seconds_until_told(pair, b'\\"weight\\":%s,' % str(weight).encode(), begun_s)):
            times_s[index].append(took_s)
        time.sleep(options.gap_s)
        if number % 50 == 49:  # as clients do every 10 s
            for member, index in ((one, 0), (two, 1)):
                for name, each in zip(services, pairs, strict=True):
                    each[index].subscribe(member, name)
    return {"hosts": options.hosts, "writing": percentiles_ms(times_s[0]), "other": percentiles_ms(times_s[1])}


# --- crowd ---------------------------------------------------------------------------------------


def costs(member: MemberProcess) -> dict[str, float]:
    """Return the memory of the worker process."""
    pid = member.pids()[-1]
    return {"rss_mb": round(rss_mb(pid), 1), "pss_mb": round(pss_mb(pid), 1)}


def measure_crowd(members: list[MemberProcess], options: argparse.Namespace) -> dict[str, object]:
    """Change one service repeatedly while all subscribers listen."""
    service = f"crowd-{random.randrange(10**9)}"
    one = Http(members[0].address)
    one.fill(service, max(options.hosts, 1))
    before = costs(members[0])
    crowd = [Listener(options.client_ip) for _ in range(options.subscribers)]
    for listener in crowd:
        listener.subscribe(one, service)
    dead, living = crowd[: options.dead], crowd[options.dead :]
    for listener in dead:
        listener.socket.close()
    one.call("GET", "/operator/push/state", reset="true")
    time.sleep(SETTLE_S)
    lasts_s: list[float | None] = []
    medians_s: list[float] = []
    lost = 0
    pid = members[0].pids()[-1]
    begun_cpu_s, begun_at_s = cpu_s(pid), time.perf_counter()
    for number in range(options.changes):
        weight = 2 + number / 64
        begun_s = time.perf_counter()
        one.register(service, "10.8.0.1", weight)
        told = seconds_until_told(living, b'\\"weight\\":%s,' % str(weight).encode(), begun_s)
        came = [took_s for took_s in told if took_s is not None]
        lost += len(told) - len(came)
        lasts_s.append(max(came) if len(came) == len(told) else None)
        medians_s.append(statistics.median(came) if came else TELL_TIMEOUT_S)
        time.sleep(options.gap_s)
    used_s, passed_s = cpu_s(pid) - begun_cpu_s, time.perf_counter() - begun_at_s
    time.sleep(SETTLE_S)
    state = one.call("GET", "/operator/push/state", detail="true")
    return {
        "subscribers": options.subscribers,
        "dead": options.dead,
        "hosts": options.hosts,
        "changes": options.changes,
        "last_living_ack": percentiles_ms(lasts_s),
        "median_living_ack_ms": round(statistics.median(medians_s) * 1000, 1),
        "missed_pushes": lost,
        "unacknowledged_at_the_end": len(state["data"]),
        "memory_before": before,
        "memory_after": costs(members[0]),
        "cpu_ms_per_change": round(used_s / options.changes * 1000, 1),
        "cpu_percent": round(used_s / passed_s * 100, 1),
    }


# --- real libraries ------------------------------------------------------------------------------


def measure_library(
    name: str, environment: Any, members: list[MemberProcess], options: argparse.Namespace, folder: Path
) -> dict[str, object]:
    """Change services in turn, each with a library's listener at the first member and one at the second."""
    from tests.sdk.program import Program

    one = Http(members[0].address)
    service, cities = f"sdk-{name}-{random.randrange(10**9)}", ["writing", "other"]
    one.fill(service, max(options.hosts, 1))
    time.sleep(SETTLE_S)
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(Program(environment, folder / f"{name}-{city}")) for city in cities]
        for program, member in zip(programs, members, strict=False):
            program.call("open", "reader", servers=[member.address])
            program.call("subscribe", "reader", service=service)
            program.wait_event("added", "reader", "10.8.0.1:8080", TELL_TIMEOUT_S)
        time.sleep(FIRST_POLL_S)
        times_s: list[list[float | None]] = [[], []]
        with ThreadPoolExecutor(len(programs)) as pool:
            for number in range(options.changes):
                begun_s = time.perf_counter()
                waits = [pool.submit(_seconds_until_event, program, begun_s) for program in programs]
                one.register(service, "10.8.0.1", 2 + number / 64)
                for index, wait in enumerate(waits):
                    times_s[index].append(wait.result())
                time.sleep(options.gap_s)
    return {"library": name, **dict(zip(cities, map(percentiles_ms, times_s), strict=True))}


def _seconds_until_event(program: Any, since_s: float) -> float | None:
    program.events.clear()
    try:
        program.wait_event("changed", "reader", "10.8.0.1:8080", TELL_TIMEOUT_S)
    except AssertionError:
        return None
    return time.perf_counter() - since_s


def library_results(
    members: list[MemberProcess], options: argparse.Namespace, folder: Path
) -> Iterator[dict[str, object]]:
    """One result for each library, or the reason why it cannot be installed."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.sdk.environments import INSTALLERS, NotInstallable

    for name in options.libraries:
        try:
            environment = INSTALLERS[name]()
        except NotInstallable as error:
            yield {"library": name, "skipped": str(error)}
            continue
        yield measure_library(name, environment, members, options, folder)


# --- the command ---------------------------------------------------------------------------------


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=["latency", "crowd", "sdk"])
    parser.add_argument(
        "--changes", type=int, help="number of changes: by default 300, of a crowd 30, of a library 100"
    )
    parser.add_argument("--gap-s", type=float, default=0.1, help="seconds between two changes")
    parser.add_argument("--hosts", type=int, default=10, help="instances of a service")
    parser.add_argument("--subscribers", type=int, default=1_000)
    parser.add_argument("--dead", type=int, default=100)
    parser.add_argument("--client-ip", default="127.0.0.1", help="address that the raw subscribers announce")
    parser.add_argument("--libraries", nargs="+", default=list(LIBRARIES), choices=LIBRARIES)
    add_port(parser)
    options = parser.parse_args()
    options.changes = options.changes or {"latency": 300, "crowd": 30, "sdk": 100}[options.kind]
    return options


def main() -> int:
    """Start the members and measure."""
    options = _options()
    with (
        tempfile.TemporaryDirectory(prefix="rollcall-bench-") as name,
        local_members(MEMBERS, options.port, Path(name)) as members,
    ):
        start_all(members)
        time.sleep(SETTLE_S)
        match options.kind:
            case "latency":
                results: Iterator[dict[str, object]] = iter([measure_latency(members, options)])
            case "crowd":
                results = iter([measure_crowd(members, options)])
            case _:
                results = library_results(members, options, Path(name))
        for result in results:
            print(json.dumps({"kind": options.kind, **result}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
