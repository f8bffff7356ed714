"""Measure the pages of the console at 10,000 services and 100,000 instances, and what ten open consoles cost a member.

Starts ``--members`` members, one alone by default, and registers the services at the first. The parts, in this order:

pages: each page several times over a kept connection, after a first request that compiles its template.
paint: each page in Chromium with an empty cache: the first paint, and the member's time for all requests of the page.
    ``--axe FILE``, the script axe.min.js, also looks each page through for barriers.
searches: beats, 300 a second, alone and beside searches that follow each other without a break.
light, mixed: ``--consoles`` pages follow the events of one member while instances change, and each fetches itself again
    as the script of the pages does: the CPU time of the member, the lag of its loop and the p99 of beats with and
    without the consoles, first under a light load, then in turns under wrk's mixed load, which keeps the member busy.

Prints tables of pages, and one JSON line for each other figure.
"""

import argparse
import json
import math
import os
import re
import shutil
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from scripts.bench.console_pages import (
    TIMEOUT_S,
    Painted,
    Row,
    beats_beside,
    connect,
    fetch,
    page_rows,
    pages,
    paints,
)
from scripts.bench.idle import cpu_s
from scripts.bench.load import MODES, LoadError, Mode, Wrk, fill, find_wrk
from scripts.support.arguments import add_port, names_of
from scripts.support.bulk_register import Fleet, register_all
from scripts.support.member_processes import CONTEXT_PATH, MemberProcess, running_members
from scripts.support.tables import head, row, table

REFRESH_S = 5.0
"""The shortest time between two fetches of a page, as in the script of the pages."""
BEAT_S = 0.02
CHANGE_S = 0.5
"""Time between two changes of the service that the pages follow, while wrk runs."""
WARM_S, CONNECTIONS = 2, 32
"""The warm-up before each run of wrk, and the connections of both."""
LAG_BUCKET = re.compile(r'^rollcall_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)
PARTS = ("pages", "paint", "searches", "light", "mixed")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
AXE_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
AXE = "options => axe.run(document, options).then(found => found.violations.map(one => one.id + ' ' + one.impact))"


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


# --- in a browser ----------------------------------------------------------------------------------


def in_browser(member: MemberProcess, fleet: Fleet, axe: Path | None) -> None:
    """Print the first paint of each page, and the barriers that axe finds.

    Raises:
        LoadError: there is no browser.
    """
    from playwright.sync_api import sync_playwright  # only the tests install it

    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        raise LoadError(f"there is none of {', '.join(BROWSERS)} in the path")
    options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.getuid() == 0 else [])]
    script, barriers = axe.read_text(encoding="utf-8") if axe else "", list[str]()

    def look(page: Any) -> None:
        page.evaluate(script)
        barriers.extend(f"{page.url}: {one}" for one in page.evaluate(AXE, AXE_RULES))

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=options)
        print(head(Painted._fields), flush=True)
        for painted in paints(member, pages(fleet), browser, look if script else None):
            print(row(painted), flush=True)
        browser.close()
    if script:
        print(json.dumps({"axe": barriers}), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--services", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=10, help="instances of each service (10)")
    parser.add_argument("--times", type=int, default=20, help="how often each page is requested")
    parser.add_argument("--consoles", type=int, default=10)
    parser.add_argument("--span-s", type=float, default=60.0, help="seconds that each measurement takes")
    parser.add_argument("--parts", type=names_of(PARTS), default=list(PARTS), help=f"of {','.join(PARTS)} (all)")
    parser.add_argument("--axe", type=Path, help="the script axe.min.js of axe-core")
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
    with running_members(options.members, options.port) as members:
        register_all(fleet, lambda _: members[0].address, 2)
        if "pages" in options.parts:
            print(table(Row._fields, page_rows(members[0], fleet, options.times)), flush=True)
        if "paint" in options.parts:
            in_browser(members[0], fleet, options.axe)
        for beside in beats_beside(members[0], fleet, options.span_s) if "searches" in options.parts else ():
            print(json.dumps(beside), flush=True)
        for consoles in (0, options.consoles) if "light" in options.parts else ():
            print(json.dumps(cost(members[0], fleet, consoles, options.span_s)), flush=True)
        if wrk is not None:
            told = beside_wrk(members, fleet, wrk, options.consoles, options.turns, options.seconds)
            print(json.dumps(told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
