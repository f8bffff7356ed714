"""How long a change takes to be visible on the other members.

Registers one new instance after the other through the members in turn, and polls the lists of all others every 2 ms
until it shows. Prints one JSON line: percentiles in ms over all pairs of a change and another member.
"""

import argparse
import contextlib
import http.client
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from scripts.support.member_processes import CONTEXT_PATH, local_members

POLL_S = 0.002
CALL_TIMEOUT_S = 10.0
MEMBERS = 3


class Member:
    """One kept connection to a member. Not thread-safe."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path.rstrip("/")
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=CALL_TIMEOUT_S)

    def call(self, method: str, path: str, **parameters: object) -> tuple[int, bytes]:
        self._connection.request(method, f"{self._path}{path}?{urlencode(parameters)}")
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def register(self, service: str, ip: str) -> int:
        return self.call("POST", "/v1/ns/instance", serviceName=service, ip=ip, port=8080, ephemeral="true")[0]

    def shows(self, service: str, ip: str) -> bool:
        status, body = self.call("GET", "/v1/ns/instance/list", serviceName=service)
        return status == 200 and f'"{ip}"'.encode() in body


def seconds_until(member: Member, service: str, ip: str, since_s: float, timeout_s: float) -> float | None:
    """How long after ``since_s`` the member lists the instance; None when it does not in time."""
    while time.perf_counter() - since_s < timeout_s:
        if member.shows(service, ip):
            return time.perf_counter() - since_s
        time.sleep(POLL_S)
    return None


def measure(urls: Sequence[str], options: argparse.Namespace) -> dict[str, object]:
    """Make the changes, and return what is printed."""
    service = f"convergence-{random.randrange(10**9)}"
    writers, readers = [Member(url) for url in urls], [Member(url) for url in urls]
    for number in range(options.hosts):
        assert writers[0].register(service, f"10.1.{number // 250}.{number % 250 + 1}") == 200
    for reader in readers:
        reader.shows(service, "")
    times_s: list[float] = []
    lost = refused = 0
    with ThreadPoolExecutor(len(urls)) as pool:
        for number in range(options.changes):
            ip, at = f"10.9.{number // 250}.{number % 250 + 1}", number % len(urls)
            begun_s = time.perf_counter()
            if writers[at].register(service, ip) != 200:
                refused += 1
                continue
            others = [reader for index, reader in enumerate(readers) if index != at]
            seen = [pool.submit(seconds_until, one, service, ip, begun_s, options.timeout_s) for one in others]
            for took_s in [future.result() for future in seen]:
                if took_s is None:
                    lost += 1
                else:
                    times_s.append(took_s)
            time.sleep(options.gap_s)
    return {"pairs": len(times_s), "lost": lost, "refused": refused, **percentiles_ms(times_s)}


def percentiles_ms(times_s: list[float]) -> dict[str, float | None]:
    ordered = sorted(times_s)
    parts = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}
    return {
        name: round(ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1000, 1) if ordered else None
        for name, part in parts.items()
    }


@contextlib.contextmanager
def own_members(port: int) -> Iterator[list[str]]:
    """The URLs of three members started for this measurement."""
    with (
        tempfile.TemporaryDirectory(prefix="rollcall-bench-") as folder,
        local_members(MEMBERS, port, Path(folder)) as members,
    ):
        for member in members:
            member.start()
        for member in members:
            member.wait_ready()
        yield [f"http://{member.address}{CONTEXT_PATH}" for member in members]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("urls", nargs="*", metavar="URL", help="http://host:port/nacos of each member")
    parser.add_argument("--start", action="store_true", help=f"start {MEMBERS} members of its own")
    parser.add_argument("--port", type=int, default=21_948, help="of the first of these")
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--hosts", type=int, default=0, help="instances in the service before it begins")
    parser.add_argument("--gap-s", type=float, default=0.05, help="between two changes")
    parser.add_argument("--timeout-s", type=float, default=15.0, help="after which a change counts as lost")
    options = parser.parse_args()
    if options.start == bool(options.urls) or len(options.urls) == 1:
        parser.error("give the URLs of two members or more, or --start")
    return options


def main() -> int:
    """Measure; 0 when nothing was lost or refused."""
    options = _options()
    with own_members(options.port) if options.start else contextlib.nullcontext(options.urls) as urls:
        result = measure(urls, options)
    print(json.dumps(result))
    return 1 if result["lost"] or result["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
