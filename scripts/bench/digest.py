"""What does a look of the watch cost a node, in CPU time, time, bytes and in what it does to others' calls?

Starts a node, registers instances, and asks for its digests, and for its dump to compare: first with nothing else
running, then while lists of ten instances are asked for at a steady rate. Prints one JSON line for each kind of call.

    python -m scripts.bench.digest --instances 100000 --services 10000 --calls 10
"""

import argparse
import http.client
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlencode

from scripts.bench.idle import cpu_s
from scripts.support.member_processes import MemberProcess, local_members

API = "/nacos/v1/ns"
CALLS = {
    "digest": f"{API}/operator/digest",
    "digest of 64 buckets": f"{API}/operator/digest?buckets={','.join(map(str, range(64)))}",
    "dump": f"{API}/operator/dump",
}
LONG = json.dumps({"preserved.heart.beat.timeout": "3600000", "preserved.ip.delete.timeout": "3600000", "zone": "a"})
LISTS_PER_S = 100
PAUSE_S = 1.0
QUIET_S = 15.0


def connected(address: str) -> http.client.HTTPConnection:
    host, _, port = address.rpartition(":")
    return http.client.HTTPConnection(host, int(port), timeout=120)


def asked(connection: http.client.HTTPConnection, method: str, path: str) -> bytes:
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{method} {path.partition('?')[0]} is answered {answer.status} {body[:200]!r}")
    return body


def fill(address: str, instances: int, services: int) -> None:
    with closing(connected(address)) as connection:
        for number in range(instances):
            ip = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            values = {"serviceName": f"orders-{number % services}", "ip": ip, "port": 8080, "metadata": LONG}
            asked(connection, "POST", f"{API}/instance?{urlencode(values)}")


class Lists:
    """Asks for a list at each hundredth of a second, whatever becomes of the one before, and times them from then."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._stop = threading.Event()
        self.took_ms: list[float] = []

    def run(self) -> None:
        with closing(connected(self._address)) as connection:
            due_s = time.perf_counter()
            while not self._stop.is_set():
                due_s += 1 / LISTS_PER_S
                self._stop.wait(max(0.0, due_s - time.perf_counter()))
                asked(connection, "GET", f"{API}/instance/list?serviceName=orders-1")
                self.took_ms.append((time.perf_counter() - due_s) * 1_000)

    def end(self) -> None:
        self._stop.set()


@contextmanager
def listing(address: str) -> Iterator[Lists]:
    lists = Lists(address)
    timer = threading.Timer(0, lists.run)
    timer.start()
    try:
        yield lists
    finally:
        lists.end()
        timer.join()


def quantiles_ms(lists: Lists) -> dict[str, float]:
    cuts = statistics.quantiles(lists.took_ms, n=100)
    return {"list_p50_ms": round(cuts[49], 2), "list_p99_ms": round(cuts[98], 2), "lists": len(lists.took_ms)}


def cost(member: MemberProcess, path: str, calls: int) -> dict[str, float]:
    """The call with nothing else running: CPU time of the worker, time and bytes of one, medians."""
    worker = member.pids()[1]
    cpu, took, size = [], [], 0
    with closing(connected(member.address)) as connection:
        for _ in range(calls):
            before_s, begun_s = cpu_s(worker), time.perf_counter()
            size = len(asked(connection, "GET", path))
            took.append(time.perf_counter() - begun_s)
            cpu.append(cpu_s(worker) - before_s)
            time.sleep(PAUSE_S)
    return {
        "cpu_ms": round(statistics.median(cpu) * 1_000),
        "ms": round(statistics.median(took) * 1_000),
        "bytes": size,
    }


def disturbance(member: MemberProcess, path: str, calls: int) -> dict[str, float]:
    """What lists take while the call is under way again and again."""
    with listing(member.address) as lists, closing(connected(member.address)) as connection:
        for _ in range(calls):
            asked(connection, "GET", path)
    return quantiles_ms(lists)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--services", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--port", type=int, default=18_900)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        local_members(1, options.port, Path(folder), {"nacos.standalone": "true"}) as [member],
    ):
        member.start()
        member.wait_ready()
        begun_s = time.perf_counter()
        fill(member.address, options.instances, options.services)
        print(
            json.dumps({"instances": options.instances, "filled_s": round(time.perf_counter() - begun_s)}), flush=True
        )
        with listing(member.address) as lists:
            time.sleep(QUIET_S)
        print(json.dumps({"call": "none", **quantiles_ms(lists)}), flush=True)
        for name, path in CALLS.items():
            found = cost(member, path, options.calls) | disturbance(member, path, options.calls)
            print(json.dumps({"call": name, **found}), flush=True)


if __name__ == "__main__":
    main()
