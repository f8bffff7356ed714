"""The pages of the console at a member with many services: their cost at the member, and their first paint."""

import http.client
import json
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from scripts.bench.scale import BEAT_LIMIT_MS, BEATING, BeatingFleet
from scripts.support.beat_load import beating, figures
from scripts.support.bulk_register import Fleet, register_all
from scripts.support.member_processes import CONTEXT_PATH, MemberProcess

TIMEOUT_S = 30.0
IDLE_S = 3.0
SETTLE_S = 0.2
METRICS_AGE_S = 1.1
"""A member answers with the same figures for a second."""
"""Time for the member to count the last request."""
SECONDS = re.compile(r'^rollcall_http_request_seconds_sum\{.*route="([^"]*)".*\} (\S+)$', re.MULTILINE)
REQUESTS = re.compile(r'^rollcall_http_requests_total\{.*route="([^"]*)".*\} (\S+)$', re.MULTILINE)
METRICS = "/metrics"
WARM_UP = "warm-up"
"""The first visit, which is not counted."""
PAINTS = "() => performance.getEntriesByType('paint').map(one => [one.name, one.startTime])"
WINDOW = {"width": 1440, "height": 900}


def pages(fleet: Fleet) -> dict[str, str]:
    """Return the paths of all pages that show data, by name."""
    name, place = quote(fleet.name(0)), f"ip={fleet.ip(0, 0)}&port=8080"
    last = fleet.services // 20
    pick = quote(json.dumps([fleet.ip(0, 0), 8080, "DEFAULT"]))
    return {
        "overview": "/",
        "services": "/console/services",
        "services, last page": f"/console/services?page={last}",
        "services, by name": "/console/services?name=fleet-99",
        "services, the unhealthy first": "/console/services?sort=unhealthy&down=1",
        "services, only unhealthy": "/console/services?unhealthy=1",
        "service": f"/console/service?serviceName={name}",
        "service, differences": f"/console/service/differences?serviceName={name}",
        "service, describe": f"/console/service/edit?serviceName={name}",
        "edit": f"/console/instance/edit?serviceName={name}&{place}",
        "change of one": f"/console/instances/change?serviceName={name}&do=disable&pick={pick}",
        "explain": f"/console/explain?serviceName={name}&{place}",
        "members": "/console/members",
        "charts": "/console/charts",
        "metric": "/console/metric?name=rollcall_member_state",
        "events": "/console/history",
        "events, by text": "/console/history?text=fleet-77",
        "clients": "/console/clients",
        "clients, last page": f"/console/clients?page={fleet.services * fleet.hosts // 20}",
        "clients, by id": "/console/clients?id=10.0.3",
        "client": f"/console/client?id={quote(f'{fleet.ip(0, 0)}:8080#true')}",
        "subscribers": "/console/subscribers",
        "namespaces": "/console/namespaces",
        "switches": "/console/switches",
        "reports": "/console/reports",
    } | {f"search, {what}": f"/console/find?{query}" for what, query in searches(fleet).items()}


def searches(fleet: Fleet) -> dict[str, str]:
    """Return the queries of searches, by what they look for."""
    return {
        "an address": f"text={fleet.ip(0, 0)}",
        "an address and port": f"text={fleet.ip(9, 1)}:8080",
        "the beginning of addresses": "text=10.1.",
        "a port that all have": "text=8080",
        "a key and value": f"text={quote('team=team-7')}",
        "a key": f"text={quote('version=')}",
        "a text that nothing has": "text=nowhere",
        "a letter that all have": "text=a",
        "a name of services": "text=fleet-99",
        "unhealthy instances": "state=unhealthy",
        "healthy instances, by metadata": "state=healthy&sort=metadata",
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


def threads_cpu_ms(pid: int) -> float:
    """The CPU time of a process since its start, by the scheduler's nanoseconds, without threads that have ended."""
    spent_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            spent_ns += int((thread / "schedstat").read_text(encoding="ascii").split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return spent_ns / 1_000_000


class Row(NamedTuple):
    """The figures of one page."""

    page: str
    p50_ms: float
    max_ms: float
    """From the request to the last byte of the answer, at a client of the same machine."""
    cpu_ms: float
    """CPU time of the member's process for one request, less what it uses when idle."""
    kb: float


def page_rows(member: MemberProcess, fleet: Fleet, times: int) -> list[Row]:
    """Request each page several times, after a first request that compiles its template, and return the figures."""
    connection, pid, found = connect(member), member.pids()[-1], []
    before_ms, begun_s = threads_cpu_ms(pid), time.perf_counter()
    time.sleep(IDLE_S)
    idle_ms_s = (threads_cpu_ms(pid) - before_ms) / (time.perf_counter() - begun_s)
    for name, path in pages(fleet).items():
        size = len(fetch(connection, path))
        taken_ms = []
        before_ms, first_s = threads_cpu_ms(pid), time.perf_counter()
        for _ in range(times):
            begun_s = time.perf_counter()
            fetch(connection, path)
            taken_ms.append((time.perf_counter() - begun_s) * 1_000)
        cpu_ms = threads_cpu_ms(pid) - before_ms - idle_ms_s * (time.perf_counter() - first_s)
        found.append(
            Row(
                name,
                round(statistics.median(taken_ms), 1),
                round(max(taken_ms), 1),
                round(max(cpu_ms, 0) / times, 1),
                round(size / 1_000, 1),
            )
        )
    return found


# --- in a browser ----------------------------------------------------------------------------------


class Painted(NamedTuple):
    """One visit of a page by a browser that has nothing of it."""

    page: str
    first_paint_ms: float
    contentful_ms: float
    requests: int
    """All that the member answered, without the stream of events."""
    member_ms: float
    """The time from the last byte of each request to its answer, of all of them together, as the member counts it."""


def counted(member: MemberProcess) -> tuple[int, float]:
    """The requests that a member has answered, and the seconds that it took, without those for its metrics.

    Waits until the member counts anew.
    """
    time.sleep(METRICS_AGE_S)
    text = fetch(connect(member), METRICS).decode()

    def total(found: list[tuple[str, str]]) -> float:
        return sum(float(value) for route, value in found if route != METRICS)

    return int(total(REQUESTS.findall(text))), total(SECONDS.findall(text))


def paints(
    member: MemberProcess, paths: Mapping[str, str], browser: Any, look: Callable[[Any], object] | None = None
) -> Iterator[Painted]:
    """Visit each page with an empty cache. ``look``: called with each open page, after its figures were taken."""
    for name, path in {WARM_UP: "/", **paths}.items():
        context = browser.new_context(viewport=WINDOW)
        page = context.new_page()
        before, before_s = counted(member)
        page.goto(f"http://{member.address}{CONTEXT_PATH}{path}", wait_until="load")
        page.wait_for_function("() => performance.getEntriesByType('paint').length > 1")
        painted = dict(page.evaluate(PAINTS))
        after, after_s = counted(member)
        if look is not None:
            look(page)
        context.close()
        first, contentful = painted["first-paint"], painted["first-contentful-paint"]
        taken_ms = round((after_s - before_s) * 1_000, 1)
        if name != WARM_UP:
            yield Painted(name, round(first), round(contentful), after - before, taken_ms)


# --- beats beside searches -------------------------------------------------------------------------


def beats_beside(member: MemberProcess, fleet: Fleet, span_s: float) -> list[dict[str, object]]:
    """Time beats, 300 a second, first alone and then beside searches that follow each other without a break."""
    found: list[dict[str, object]] = []
    for searching in (False, True):
        count = 0
        register_all(BeatingFleet(BEATING.services, BEATING.hosts), lambda _: member.address, 1)
        with beating(member.address, BEATING) as load:
            time.sleep(IDLE_S)
            connection, begun_s, end_s = connect(member), time.time(), time.time() + span_s
            queries = list(searches(fleet).values())
            while time.time() < end_s:
                if searching:
                    fetch(connection, f"/console/find?{queries[count % len(queries)]}")
                    count += 1
                else:
                    time.sleep(SETTLE_S)
            beaten = load.end()
        took = figures(beaten.between(begun_s, end_s), BEAT_LIMIT_MS)
        found.append(
            {
                "searches": count,
                "beats": took.count,
                "p50_ms": round(took.p50_ms, 2),
                "p99_ms": round(took.p99_ms, 2),
                "max_ms": round(took.max_ms, 1),
                "failures": sum(beaten.failures.values()),
            }
        )
    return found
