"""Measure how long a change takes to become visible on the other members.

Registers one new instance after the other through the members in turn, and polls the lists of all others every 2 ms
until they show it. One thread polls short lists, because polling takes CPU time from the members. With ``--services 1``
one list grows with all changes. Prints one JSON line: percentiles in ms over all pairs of a change and another member,
counted from the registering call, and those of the members' own histograms, from the write until it was applied. With
``--rate`` a second process changes other instances all the time, through all members.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Event
from urllib.parse import urlencode, urlsplit

from scripts.support.arguments import add_port
from scripts.support.member_processes import CONTEXT_PATH, running_members

POLL_S = 0.002
CALL_TIMEOUT_S = 10.0
STEADY_SERVICES = 100
"""Services over which the changes of ``--rate`` are spread, each with one instance for each member."""
SPARE_S = 5.0
"""Time before and after: until the steady changes run, and until changes under way have arrived."""
HISTOGRAM = "rollcall_peer_convergence_seconds_bucket{"


class Member:
    """One keep-alive connection to a member. Not thread-safe."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path.rstrip("/")
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=CALL_TIMEOUT_S)

    def call(self, method: str, path: str, **parameters: object) -> tuple[int, bytes]:
        self._connection.request(method, f"{self._path}{path}?{urlencode(parameters)}")
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def register(self, service: str, ip: str, metadata: str = "") -> int:
        named = {"metadata": metadata} if metadata else {}
        return self.call("POST", "/v1/ns/instance", serviceName=service, ip=ip, port=8080, ephemeral="true", **named)[0]

    def ask_list(self, service: str) -> None:
        """Request a list; ``lists`` reads the answer, so several members can be asked at the same time."""
        self._connection.request("GET", f"{self._path}/v1/ns/instance/list?{urlencode({'serviceName': service})}")

    def lists(self, ip: str) -> bool:
        """Return whether the requested list has the instance."""
        answer = self._connection.getresponse()
        return f'"{ip}"'.encode() in answer.read() and answer.status == 200

    def buckets(self) -> Counter[float]:
        """Return the cumulative count of changes that reached a peer, by the upper bound of their bucket in s."""
        found = Counter[float]()
        for line in self.call("GET", "/metrics")[1].decode().splitlines():
            if line.startswith(HISTOGRAM):
                labels, _, count = line.rpartition(" ")
                found[float(labels.partition('le="')[2].partition('"')[0])] += int(float(count))
        return found


def seconds_until(
    members: Sequence[Member], service: str, ip: str, since_s: float, timeout_s: float
) -> list[float | None]:
    """Return how long after ``since_s`` each member lists the instance; None for a member that does not in time."""
    found: dict[Member, float] = {}
    left = list(members)
    while left and time.perf_counter() - since_s < timeout_s:
        for member in left:
            member.ask_list(service)
        found |= {member: time.perf_counter() - since_s for member in left if member.lists(ip)}
        left = [member for member in left if member not in found]
        if left:
            time.sleep(POLL_S)
    return [found.get(member) for member in members]


def change_steadily(urls: Sequence[str], rate: float, over: Event) -> None:
    """Change instances through all members, ``rate`` times a second in all, until ``over``."""

    def run(at: int) -> None:
        member, begun_s, number = Member(urls[at]), time.monotonic(), 0
        while not over.is_set():
            service = f"steady-{number % STEADY_SERVICES}"
            member.register(service, f"10.8.0.{at + 1}", json.dumps({"change": str(number)}))
            number += 1
            over.wait(max(begun_s + number * len(urls) / rate - time.monotonic(), 0))

    with ThreadPoolExecutor(len(urls)) as pool:
        for future in [pool.submit(run, at) for at in range(len(urls))]:
            future.result()


@contextlib.contextmanager
def steady_changes(
    urls: Sequence[str], rate: float, change: Callable[[Sequence[str], float, Event], None] = change_steadily
) -> Iterator[None]:
    """Changes besides the timed ones, by ``change`` in a process of its own; none for rate 0."""
    if not rate:
        yield
        return
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    process = context.Process(target=change, args=(urls, rate, over))
    process.start()
    try:
        time.sleep(SPARE_S)
        yield
    finally:
        over.set()
        process.join()


def measure(urls: Sequence[str], options: argparse.Namespace) -> dict[str, object]:
    """Make the changes, and return the printed figures."""
    name = f"convergence-{random.randrange(10**9)}"
    services = [f"{name}-{number}" for number in range(options.services)]
    writers, readers = [Member(url) for url in urls], [Member(url) for url in urls]
    for service in services:
        for number in range(options.hosts):
            assert writers[0].register(service, f"10.1.{number // 250}.{number % 250 + 1}") == 200
    times_s: list[float] = []
    lost = refused = 0
    with steady_changes(urls, options.rate):
        before = all_buckets(urls)
        for number in range(options.changes):
            ip, at = f"10.9.{number // 250}.{number % 250 + 1}", number % len(urls)
            service = services[number % len(services)]
            begun_s = time.perf_counter()
            if writers[at].register(service, ip) != 200:
                refused += 1
                continue
            others = [reader for index, reader in enumerate(readers) if index != at]
            for took_s in seconds_until(others, service, ip, begun_s, options.timeout_s):
                if took_s is None:
                    lost += 1
                else:
                    times_s.append(took_s)
            time.sleep(options.gap_s)
        threading.Event().wait(1.1)  # the page of metrics is cached for a second
        came = all_buckets(urls) - before
    return {
        "members": len(urls),
        "rate": options.rate,
        "pairs": len(times_s),
        "lost": lost,
        "refused": refused,
        **percentiles_ms(times_s),
        "by_members": histogram_percentiles_ms(came),
    }


def all_buckets(urls: Sequence[str]) -> Counter[float]:
    return sum((Member(root_of(url)).buckets() for url in urls), Counter[float]())


def root_of(url: str) -> str:
    """The URL without the context path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def percentiles_ms(times_s: list[float]) -> dict[str, float | None]:
    ordered = sorted(times_s)
    parts = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}
    return {
        name: round(ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1000, 1) if ordered else None
        for name, part in parts.items()
    }


def histogram_percentiles_ms(buckets: Mapping[float, int]) -> dict[str, float | int | None]:
    """Percentiles of cumulative buckets, interpolated linearly; the lower bound for the last bucket."""
    total = buckets.get(float("inf"), 0)
    found: dict[str, float | int | None] = {"changes": total}
    for name, part in {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}.items():
        lower_s, below = 0.0, 0
        found[name] = None
        for bound_s, count in sorted(buckets.items()):
            if total and count >= part * total:
                share = (part * total - below) / max(count - below, 1)
                width_s = 0.0 if bound_s == float("inf") else bound_s - lower_s
                found[name] = round((lower_s + share * width_s) * 1_000, 1)
                break
            lower_s, below = bound_s, count
    return found


@contextlib.contextmanager
def own_members(port: int, count: int) -> Iterator[list[str]]:
    """The URLs of members started for this measurement."""
    with running_members(count, port) as members:
        yield [f"http://{member.address}{CONTEXT_PATH}" for member in members]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("urls", nargs="*", metavar="URL", help="http://host:port/nacos of each member")
    parser.add_argument("--start", action="store_true", help="start members of its own")
    parser.add_argument("--members", type=int, default=3, help="how many members to start")
    add_port(parser)
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--rate", type=float, default=0, help="other changes a second in the background")
    parser.add_argument("--services", type=int, default=32, help="services in which the changes are made, in turn")
    parser.add_argument("--hosts", type=int, default=0, help="instances in each service at the beginning")
    parser.add_argument("--gap-s", type=float, default=0.05, help="seconds between two changes")
    parser.add_argument("--timeout-s", type=float, default=15.0, help="seconds after which a change counts as lost")
    options = parser.parse_args()
    if options.start == bool(options.urls) or len(options.urls) == 1:
        parser.error("give the URLs of two members or more, or --start")
    return options


def main() -> int:
    """Measure; 0 when nothing was lost or refused."""
    options = _options()
    members = own_members(options.port, options.members) if options.start else contextlib.nullcontext(options.urls)
    with members as urls:
        result = measure(urls, options)
    print(json.dumps(result))
    return 1 if result["lost"] or result["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
