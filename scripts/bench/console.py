"""What the console costs: how long each page takes at 10,000 services, and what ten open consoles cost a member.

Three members; services of two instances each are registered first. Each page is asked for some times over a kept
connection, after a first time that compiles its template. Then so many pages follow the events of one member, each
fetching itself anew as the script of the pages does, while instances change; the CPU time of the member, its loop's lag
and the p99 of beats are measured without them and with them. Prints one JSON line for each part.
"""

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlencode

from scripts.bench.idle import cpu_s
from scripts.support.bulk_register import Fleet, register_all
from scripts.support.member_processes import CONTEXT_PATH, MemberProcess, local_members

TIMEOUT_S = 30.0
REFRESH_S = 5.0
"""As in the script of the pages: none is fetched again sooner."""
BEAT_S = 0.02


def pages(fleet: Fleet) -> dict[str, str]:
    """The paths of all pages that show something, by name."""
    name, place = quote(fleet.name(0)), f"ip={fleet.ip(0, 0)}&port=8080"
    last = fleet.services // 20
    return {
        "overview": "/",
        "services": "/console/services",
        "services, last page": f"/console/services?page={last}",
        "services, by name": "/console/services?name=fleet-99",
        "service": f"/console/service?serviceName={name}",
        "edit": f"/console/instance/edit?serviceName={name}&{place}",
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
    """One answer, which must be a success."""
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
    """One open page: it follows the events, and fetches itself when they tell of something new."""

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
    """Beats, one after the other, and a change of a service now and then; the times of the beats in ms."""
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


def cost(member: MemberProcess, fleet: Fleet, consoles: int, span_s: float) -> dict[str, float]:
    """What the member used meanwhile, and how beats went."""
    ended = threading.Event()
    service = f"/console/service?serviceName={quote(fleet.name(0))}"
    ways = (("/", "/console/events"), (service, f"/console/events/service?serviceName={quote(fleet.name(0))}"))
    opened = [OpenConsole(member, *ways[number % 2], ended) for number in range(consoles)]
    for one in opened:
        one.start()
    worker = member.pids()[-1]
    before_s, begun_s = cpu_s(worker), time.perf_counter()
    taken_ms = load(member, fleet, span_s)
    used = (cpu_s(worker) - before_s) / (time.perf_counter() - begun_s)
    ended.set()
    lag_ms = json.loads(fetch(connect(member), "/v1/ns/operator/metrics"))["loopLagMaxMs"]
    for one in opened:
        one.join(TIMEOUT_S)
    return {
        "consoles": consoles,
        "cpu_percent": round(used * 100, 2),
        "fetched": sum(one.fetched for one in opened),
        "beat_p50_ms": round(statistics.median(taken_ms), 2),
        "beat_p99_ms": round(sorted(taken_ms)[int(len(taken_ms) * 0.99)], 2),
        "loop_lag_max_ms": lag_ms,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--services", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=2, help="instances of each service")
    parser.add_argument("--times", type=int, default=20, help="how often each page is asked for")
    parser.add_argument("--consoles", type=int, default=10)
    parser.add_argument("--span-s", type=float, default=60.0, help="for which each cost is measured")
    parser.add_argument("--port", type=int, default=22_148)
    return parser.parse_args()


def main() -> int:
    """Measure the pages, then a member without open consoles and with them."""
    options = _options()
    fleet = Fleet(options.services, options.hosts)
    with (
        tempfile.TemporaryDirectory(prefix="rollcall-bench-") as folder,
        local_members(3, options.port, Path(folder)) as members,
    ):
        for member in members:
            member.start()
        for member in members:
            member.wait_ready()
        register_all(fleet, lambda _: members[0].address, 2)
        print(json.dumps({"pages": page_times(members[0], fleet, options.times)}), flush=True)
        for consoles in (0, options.consoles):
            print(json.dumps(cost(members[0], fleet, consoles, options.span_s)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
