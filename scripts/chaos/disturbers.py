"""Loads that disturb a node while ``latency.py`` times its beats; each runs in its own process with a low priority.

``KINDS`` lists them.
"""

import collections
import contextlib
import gzip
import http.client
import itertools
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.wire.datum_codec import InstanceListCodec
from distro.wire.codec import GZIP_LEVEL, encode_frame
from scripts.support.load_process import LoadProcess

API = "/nacos/v1"
NICE = 10
BULK = 10_000
"""Instances of a large datum."""
BULK_VERSIONS = 20
BULK_NAMES = 100
FILL_SERVICES, FILL_HOSTS = 1_000, 100
FILL_AT_ONCE = 20
PEOPLE = 8
POLLERS = 4
WRITERS = 8
CALL_TIMEOUT_S = 60.0
READ_BYTES = 1 << 20
PATIENT = {"preserved.heart.beat.timeout": "86400000", "preserved.ip.delete.timeout": "86400000", "zone": "a"}
"""Metadata of instances that send no beats."""
PAGES = (
    f"{API}/ns/catalog/services?withInstances=true&pageNo=1&pageSize=500",
    f"{API}/ns/catalog/services?withInstances=false&hasIpCount=true&pageNo=1&pageSize=500",
    f"{API}/ns/service/list?pageNo=1&pageSize=100000",
    f"{API}/ns/operator/metrics",
    f"{API}/console/namespaces",
    f"{API}/console/server/state",
    f"{API}/ns/catalog/instances?serviceName=DEFAULT_GROUP%40%40held-1&clusterName=DEFAULT&pageNo=1&pageSize=100",
    f"{API}/ns/operator/dump",
)
"""Requests of users and their tools; the last one returns all data of the node."""

Counts = collections.Counter[str]
Turn = Callable[[http.client.HTTPConnection, Counts], None]
"""Makes one or a few calls on its own connection, and counts the results."""


class Disturber(LoadProcess):
    """The handle of the process for the drill."""

    def __init__(self, kind: str, address: str, *words: str) -> None:
        super().__init__("scripts.chaos.disturbers", kind, address, *words)


@contextlib.contextmanager
def disturbing(kind: str, address: str, *words: str) -> Iterator[Disturber]:
    """Yield a disturber that is ready; it ends with the block."""
    disturber = Disturber(kind, address, *words)
    try:
        disturber.wait_ready()
        yield disturber
    finally:
        disturber.kill()


# --- inside the process -----------------------------------------------------------------


def _call(
    connection: http.client.HTTPConnection,
    counts: Counts,
    method: str,
    target: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> int:
    """Send a call, read the whole answer, and count both; return the status, 0 for none."""
    try:
        connection.request(method, target, body, headers or {})
        answer = connection.getresponse()
        size = 0
        while part := answer.read(READ_BYTES):
            size += len(part)
    except (OSError, http.client.HTTPException) as error:
        counts[type(error).__name__] += 1
        connection.close()
        return 0
    counts[str(answer.status)] += 1
    counts["bytes"] += size + len(body or b"")
    return answer.status


def _registered(registry: Registry, service: str, hosts: Iterable[int], weight: float = 1.0) -> str:
    """Register hosts of a service, and return its datum key."""
    key = None
    for host in hosts:
        ip = f"10.{host // 62_500}.{host // 250 % 250}.{host % 250}"
        command = RegisterInstance(f"DEFAULT_GROUP@@{service}", ip, 8080, weight=weight, metadata=PATIENT)
        if (replaced := registry.writes.register(command, 0)) is not None:
            key = replaced.key
    assert key is not None, "a new weight is a change"
    return key


def _frame(registry: Registry, keys: Sequence[str]) -> bytes:
    return encode_frame(registry.lists.datums(keys), InstanceListCodec(lambda: 0), 0, versioned=True)


def _fill(address: str) -> None:
    """Fill the node with 100,000 instances, in datums of a hundred each."""
    registry = Registry.of("10.0.0.9:8848~1")
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=CALL_TIMEOUT_S)
    counts = Counts()
    for start in range(0, FILL_SERVICES, FILL_AT_ONCE):
        numbers = range(start, start + FILL_AT_ONCE)
        keys = [_registered(registry, f"held-{number}", range(FILL_HOSTS)) for number in numbers]
        if _call(connection, counts, "PUT", f"{API}/ns/distro/datum", _frame(registry, keys)) != 200:
            raise RuntimeError(f"the node does not take datums: {dict(counts)}")
    connection.close()


def _large_datums(address: str) -> list[Turn]:
    """A peer sends a service of 10,000 instances repeatedly, with one instance changed; gzip and plain in turn."""
    registry = Registry.of("10.0.0.9:8848~1")
    key = _registered(registry, "bulk-00", range(BULK))
    frames = []
    for number in range(BULK_VERSIONS):
        _registered(registry, "bulk-00", [number], 2.0)
        frames.append(_frame(registry, [key]))
    # A known version is not applied again; the next service has versions of its own.
    names = [b"bulk-%02d" % number for number in range(BULK_NAMES)]
    bodies = itertools.cycle(itertools.product(names, enumerate(frames)))

    def turn(connection: http.client.HTTPConnection, counts: Counts) -> None:
        name, (number, frame) = next(bodies)
        body = frame.replace(b"bulk-00", name)
        if number % 2:
            body = gzip.compress(body, GZIP_LEVEL, mtime=0)
        _call(connection, counts, "PUT", f"{API}/ns/distro/datum", body)

    return [turn]


def _fetching(target: str, headers: dict[str, str] | None = None) -> Turn:
    """Return the turn of a client that repeats one request."""

    def turn(connection: http.client.HTTPConnection, counts: Counts) -> None:
        _call(connection, counts, "GET", target, headers=headers)

    return turn


def _snapshots(address: str) -> list[Turn]:
    """A peer fetches all data."""
    _fill(address)
    return [_fetching(f"{API}/ns/distro/datums")]


def _cold_pages(address: str) -> list[Turn]:
    """Users read every page."""
    _fill(address)

    def visitor(number: int) -> Turn:
        pages = itertools.cycle(PAGES[number % len(PAGES) :] + PAGES[: number % len(PAGES)])

        def turn(connection: http.client.HTTPConnection, counts: Counts) -> None:
            _call(connection, counts, "GET", next(pages))

        return turn

    return [visitor(number) for number in range(PEOPLE)]


def _growth(address: str) -> list[Turn]:
    """A service grows to 10,000 instances while clients ask for it."""
    hosts = itertools.count()

    def register(connection: http.client.HTTPConnection, counts: Counts) -> None:
        host = next(hosts)
        # Each round has other weights, because an unchanged registration is no change.
        query = f"serviceName=growing-0&ip=10.50.{host % BULK // 250}.{host % 250}&port=8080&weight={host // BULK + 1}"
        _call(connection, counts, "POST", f"{API}/ns/instance?{query}")

    zipped = {"Accept-Encoding": "gzip", "User-Agent": "Nacos-Java-Client:v1.4.1"}
    target = f"{API}/ns/instance/list?serviceName=DEFAULT_GROUP%40%40growing-0"
    return [register, *[_fetching(target, zipped)] * POLLERS]


def _writes(address: str, name: str, services: str) -> list[Turn]:
    """Clients register in the services that beat, at any owner."""
    numbers = itertools.count()

    def register(connection: http.client.HTTPConnection, counts: Counts) -> None:
        number = next(numbers)
        query = f"serviceName={name}-{number % int(services)}&ip=10.60.0.{number % 250}&port=8080&weight={number}"
        _call(connection, counts, "POST", f"{API}/ns/instance?{query}")

    return [register] * WRITERS


KINDS: dict[str, Callable[..., list[Turn]]] = {
    "large-datums": _large_datums,
    "snapshots": _snapshots,
    "cold-pages": _cold_pages,
    "growth": _growth,
    "writes": _writes,
}


def _told() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _run(turns: Sequence[Turn], address: str) -> Counts:
    """Run all turns in parallel until a line arrives on standard input."""
    host, _, port = address.rpartition(":")
    counts = Counts()

    def go_on(turn: Turn) -> None:
        connection = http.client.HTTPConnection(host, int(port), timeout=CALL_TIMEOUT_S)
        with contextlib.closing(connection):
            while not _told():
                turn(connection, counts)

    with ThreadPoolExecutor(len(turns)) as pool:
        for ended in [pool.submit(go_on, turn) for turn in turns]:
            ended.result()
    return counts


def main() -> int:
    """Prepare, then disturb from each ``go`` to the next ``halt``."""
    kind, address, *words = sys.argv[1:]
    os.nice(NICE)
    turns = KINDS[kind](address, *words)
    print("ready", flush=True)
    # Not with readline: ``select`` does not see lines that were read ahead.
    while word := os.read(sys.stdin.fileno(), 64):
        if word != b"go\n":
            continue
        begun_s = time.monotonic()
        counts = _run(turns, address)
        print(json.dumps({**counts, "seconds": round(time.monotonic() - begun_s, 1)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
