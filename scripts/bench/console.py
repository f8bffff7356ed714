"""Measure how long each page of the console takes at 10,000 services, and what ten open consoles cost a member.

Starts three members and registers services of two instances each. Requests each page several times over a kept
connection, after a first request that compiles its template. Then ``--consoles`` pages follow the events of one member
while instances change, and each fetches itself again as the script of the pages does. Measures the CPU time of the
member, the lag of its loop and the p99 of beats with and without the consoles, first under a light load, then in turns
under wrk's mixed load, which keeps the member busy. Prints one JSON line for each part.
"""

import argparse
import http.client
import json
import math
import re
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from scripts.bench.idle import cpu_s
from scripts.bench.load import MODES, LoadError, Mode, Wrk, fill, find_wrk
from scripts.support.arguments import add_port, names_of
from scripts.support.bulk_register import Fleet, register_all
from scripts.support.member_processes import CONTEXT_PATH, MemberProcess, running_members

TIMEOUT_S = 30.0
REFRESH_S = 5.0
"""The shortest time between two fetches of a page, as in the script of the pages."""
BEAT_S = 0.02
CHANGE_S = 0.5
"""Time between two changes of the service that the pages follow, while wrk runs."""
WARM_S, CONNECTIONS = 2, 32
"""The warm-up before each run of wrk, and the connections of both."""
LAG_BUCKET = re.compile(r'^rollcall_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)
PARTS = ("pages", "light", "mixed")


def pages(fleet: Fleet) -> dict[str, str]:
    """Return the paths of all pages that show data, by name."""
    name, place = quote(fleet.name(0)), f"ip={fleet.ip(0, 0)}&port=8080"
    last = fleet.services // 20
    return {
        "overview": "/",
        "services": "/console/services",
        "services, last page": f"/console/services?page={last}",
        "services, by name": "/console/services?name=fleet-99",
        "service": f"/console/service?serviceName={name}",
        "edit": f"/console/instance/edit?serviceName={name}&{place}",
        "search, an address": f"/console/find?text={fleet.ip(0, 0)}",
        "search, metadata": "/console/find?text=nowhere",
        "explain": f"/console/explain?serviceName={name}&{place}",
        "members": "/console/members",
        "clients": "/console/clients",
        "clients, last page": f"/console/clients?page={fleet.services * fleet.hosts // 20}",
        "clients, by id": "/console/clients?id=10.0.3",
        "client": f"/console/client?id={quote(f'{fleet.ip(0, 0)}:8080#true')}",
        "subscribers": "/console/subscribers",
        "namespaces": "/console/namespaces",
        "switches": "/console/switches",
        "reports": "/console/reports",
    }


def connect(member: MemberProcess) -> http.client.HTTPConnection:
    host, _, port = member.address.rpartition(":")
    return http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)


def fetch(connection: http.client.HTTPConnection, path: str, method: str = "GET") -> bytes:
    """Return one answer, which must be a success."""
    connection.request(method, CONTEXT_PATH + path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {body[:200]!r}")
    return body


def page_times(member: MemberProcess, fleet: Fleet, times: int) -> dict[str, dict[str, float]]:
    """Median and slowest answer of each page, ms, and its size."""
    connection, found = connect(member), {}
    for name, path in pages(fleet).items():
        size = len(fetch(connection, path))
        taken_ms = []
        for _ in range(times):
            begun_s = time.perf_counter()
            fetch(connection, path)
            taken_ms.append((time.perf_counter() - begun_s) * 1_000)
        found[name] = {
            "p50_ms": round(statistics.median(taken_ms), 1),
            "max_ms": round(max(taken_ms), 1),
            "kb": round(size / 1_000, 1),
        }
    return found


class OpenConsole(threading.Thread):
    """One open page: it follows the events, and fetches itself when they announce a change."""

    def __init__(self, member: MemberProcess, path: str, events: str, ended: threading.Event) -> None:
        super().__init__(name="open-console")
        self._member, self._path, self._events, self._ended = member, path, events, ended
        self.fetched = 0

    def run(self) -> None:
        known, fetched_s, page = b"", time.monotonic(), connect(self._member)
        while not self._ended.is_set():
            stream = connect(self._member)
            stream.request("GET", CONTEXT_PATH + self._events)
            answer = stream.getresponse()
            while not self._ended.is_set() and (line := answer.readline()):
                if line.startswith(b"data:") and line != known:
                    if known and time.monotonic() - fetched_s >= REFRESH_S:
                        fetch(page, self._path)
                        fetched_s, self.fetched = time.monotonic(), self.fetched + 1
                    known = line
            stream.close()
        page.close()


def load(member: MemberProcess, fleet: Fleet, span_s: float) -> list[float]:
    """Send beats one after the other, with a change of a service now and then; return the times of beats in ms."""
    connection, taken_ms, end_s = connect(member), [], time.monotonic() + span_s
    number = 0
    while time.monotonic() < end_s:
        number += 1
        said = {"serviceName": fleet.name(number % 100), "ip": fleet.ip(number % 100, 0), "port": 8080}
        begun_s = time.perf_counter()
        fetch(connection, f"/v1/ns/instance/beat?{urlencode(said)}", "PUT")
        taken_ms.append((time.perf_counter() - begun_s) * 1_000)
        if not number % 50:
            changed = {"serviceName": fleet.name(0), "ip": fleet.ip(0, 0), "port": 8080, "weight": number % 9 + 1}
            fetch(connection, f"/v1/ns/instance?{urlencode(changed)}", "PATCH")
        time.sleep(BEAT_S)
    return taken_ms


@contextmanager
def open_consoles(member: MemberProcess, fleet: Fleet, count: int) -> Iterator[list[OpenConsole]]:
    """This many open pages, alternately of the overview and of one service."""
    ended = threading.Event()
    query = urlencode({"serviceName": fleet.name(0)})
    ways = (("/", "/console/events"), (f"/console/service?{query}", f"/console/events/service?{query}"))
    opened = [OpenConsole(member, *ways[number % 2], ended) for number in range(count)]
    for one in opened:
        one.start()
    try:
        yield opened
    finally:
        ended.set()
        for one in opened:
            one.join(TIMEOUT_S)


def loop_lag_ms(member: MemberProcess) -> float:
    """The longest recent delay of a member's event loop."""
    lag_ms: float = json.loads(fetch(connect(member), "/v1/ns/operator/metrics"))["loopLagMaxMs"]
    return lag_ms


def loop_lags(member: MemberProcess) -> Counter[float]:
    """Cumulative counts of late timers since the start, by the upper bound of their delay in seconds."""
    page = fetch(connect(member), "/metrics").decode()
    return Counter({float(bound): int(float(count)) for bound, count in LAG_BUCKET.findall(page)})


def lag_ms_of(before: Counter[float], after: Counter[float], part: float) -> float:
    """The upper bound of the loop's delay for this share of timers between two readings, by the histogram's buckets."""
    counts = {bound: after[bound] - before[bound] for bound in sorted(after)}
    wanted = part * counts[math.inf]
    return next(bound for bound, count in counts.items() if count >= wanted) * 1_000


def cost(member: MemberProcess, fleet: Fleet, consoles: int, span_s: float) -> dict[str, float]:
    """Return the CPU time and loop lag of the member and the latency of beats, under this many open consoles."""
    with open_consoles(member, fleet, consoles) as opened:
        worker = member.pids()[-1]
        before_s, begun_s = cpu_s(worker), time.perf_counter()
        taken_ms = load(member, fleet, span_s)
        used = (cpu_s(worker) - before_s) / (time.perf_counter() - begun_s)
        lag_ms = loop_lag_ms(member)
    return {
        "consoles": consoles,
        "cpu_percent": round(used * 100, 2),
        "fetched": sum(one.fetched for one in opened),
        "beat_p50_ms": round(statistics.median(taken_ms), 2),
        "beat_p99_ms": round(sorted(taken_ms)[int(len(taken_ms) * 0.99)], 2),
        "loop_lag_max_ms": lag_ms,
    }


# --- beside wrk ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BusyTurn:
    """One run of wrk."""

    requests: int
    span_s: float
    worker_s: float
    """CPU time of the member's process."""
    p99_ms: float
    lag_p99_ms: float
    """Lag of the event loop that runs the timers."""
    fetched: int

    @property
    def request_us(self) -> float:
        return self.worker_s * 1_000_000 / self.requests


def change(member: MemberProcess, fleet: Fleet, ended: threading.Event) -> None:
    """Change the service that pages follow, again and again."""
    connection, number = connect(member), 0
    while not ended.wait(CHANGE_S):
        number += 1
        changed = {"serviceName": fleet.name(0), "ip": fleet.ip(0, 0), "port": 8080, "weight": number % 9 + 1}
        fetch(connection, f"/v1/ns/instance?{urlencode(changed)}", "PATCH")
    connection.close()


def busy_turn(member: MemberProcess, fleet: Fleet, wrk: Wrk, mode: Mode, consoles: int, seconds: int) -> BusyTurn:
    """Put the mixed load on a member while pages follow a service that changes; without pages it changes as well."""
    ended = threading.Event()
    with open_consoles(member, fleet, consoles) as opened, ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change, member, fleet, ended)
        try:
            wrk.run(member.address, mode, CONNECTIONS, WARM_S)
            worker = member.pids()[-1]
            lags, before_s, begun = loop_lags(member), cpu_s(worker), sum(one.fetched for one in opened)
            ran = wrk.run(member.address, mode, CONNECTIONS, seconds)
            worker_s = cpu_s(worker) - before_s
            lag_ms = lag_ms_of(lags, loop_lags(member), 0.99)
            fetched = sum(one.fetched for one in opened) - begun
        finally:
            ended.set()
            changing.result(TIMEOUT_S)
        return BusyTurn(ran.requests, ran.seconds, worker_s, ran.p99_ms, lag_ms, fetched)


def beside_wrk(members: list[MemberProcess], fleet: Fleet, wrk: Wrk, consoles: int, turns: int, seconds: int) -> object:
    """Medians without and with pages, and the share of a core that the pages used in addition to the requests."""
    mode, found = MODES["mixed"], dict[int, list[BusyTurn]]()
    for number in range(turns):
        for count in (0, consoles) if number % 2 == 0 else (consoles, 0):
            fill([one.address for one in members], mode)
            found.setdefault(count, []).append(busy_turn(members[0], fleet, wrk, mode, count, seconds))
    each_us = {count: statistics.median(one.request_us for one in ran) for count, ran in found.items()}
    open_for_s = statistics.median(one.span_s for one in found[consoles])
    more_s = statistics.median(one.requests for one in found[consoles]) * (each_us[consoles] - each_us[0]) / 1e6
    return {
        "mixed": [
            {
                "consoles": count,
                "requests_s": round(statistics.median(one.requests / one.span_s for one in ran)),
                "cpu_us": round(each_us[count], 2),
                "cpu_us_turns": [round(one.request_us, 2) for one in ran],
                "p99_ms": round(statistics.median(one.p99_ms for one in ran), 2),
                "loop_lag_p99_ms": statistics.median(one.lag_p99_ms for one in ran),
                "fetched": sum(one.fetched for one in ran),
            }
            for count, ran in sorted(found.items())
        ],
        "percent_of_a_core": round(more_s / open_for_s * 100, 2),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--services", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=2, help="instances of each service")
    parser.add_argument("--times", type=int, default=20, help="how often each page is requested")
    parser.add_argument("--consoles", type=int, default=10)
    parser.add_argument("--span-s", type=float, default=60.0, help="seconds that each measurement takes")
    parser.add_argument("--parts", type=names_of(PARTS), default=list(PARTS), help=f"of {','.join(PARTS)} (all)")
    parser.add_argument("--turns", type=int, default=5, help="of wrk without pages, and as many with them (5)")
    parser.add_argument("--seconds", type=int, default=8, help="seconds of each run of wrk (8), and of its beats")
    add_port(parser)
    return parser.parse_args()


def main() -> int:
    """Measure the pages, then a member without open consoles and with them."""
    options = _options()
    fleet = Fleet(options.services, options.hosts)
    try:
        wrk = Wrk(find_wrk()) if "mixed" in options.parts else None
    except LoadError as error:
        print(error, file=sys.stderr)
        return 2
    with running_members(3, options.port) as members:
        register_all(fleet, lambda _: members[0].address, 2)
        if "pages" in options.parts:
            print(json.dumps({"pages": page_times(members[0], fleet, options.times)}), flush=True)
        for consoles in (0, options.consoles) if "light" in options.parts else ():
            print(json.dumps(cost(members[0], fleet, consoles, options.span_s)), flush=True)
        if wrk is not None:
            told = beside_wrk(members, fleet, wrk, options.consoles, options.turns, options.seconds)
            print(json.dumps(told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
