"""Measure whether a request costs more on a fuller node: CPU time without sockets, and the cost of a million instances.

Each test bed is a process with a complete node (timers, warm store) and the HTTP server on a loop. It feeds the bytes
of requests to a connection without a socket. The beds take turns in short runs, and the best run of each counts.
Prints a table: CPU-us per request and its ratio to the first bed of the group.

held N: ``register`` adds a new instance, ``beat`` is a light one, ``list`` returns ten hosts; each picks random ones of
    N instances in services of ten. "same 100" uses the same hundred instances five times. The rest cost more because
    their memory is not in the CPU caches.
one of N: the same in one service of N instances; no list, which is longer there.
million: memory after registering them over HTTP in 10,000 and in 100 services, and the time of one full garbage
    collection; then the health check in virtual time: CPU per 5 s while every instance beats each 5 s, longest slice.

sockets: ``register`` of the same instances, ``beat`` and ``list`` from wrk, one instance after the other, at nodes that
    hold this many; CPU of the node's processes, the kernel's part of it included.

    python -m scripts.bench.growth --turns 7
    python -m scripts.bench.growth --parts sockets --seconds 4
    python -m scripts.bench.growth --parts million --instances 1000000
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from app.config.settings import read_settings
from app.http.factory import create_app
from app.http.server.connection import HttpConnection
from app.http.server.request_answers import RequestAnswers
from app.http.server.server import HttpServer
from app.http.server.worker import GC_THRESHOLDS, SWITCH_INTERVAL_S
from app.naming.changes import Changes
from app.naming.health.beat_check import BeatCheck, HealthCheckGate
from app.naming.model.keys import instance_key
from app.naming.model.model import StoredInstance
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from app.node.node import Node
from scripts.bench.calls import NoSocket
from scripts.bench.growth_sockets import measure_sockets, print_sockets
from scripts.support.arguments import names_of
from scripts.support.tables import table

PARTS = ["requests", "sockets", "million"]
GROUP = "DEFAULT_GROUP@@"
HELD = (100, 10_000, 100_000)
HOSTS = 10
ONE_OF = (10, 10_000)
CHUNK = 500
"""Requests in a run: few enough that their bytes stay in the CPU cache, as bytes from a socket would."""
NEAR = ", same 100"
KINDS = ("beat", "list", f"beat{NEAR}", f"list{NEAR}", "register")
"""The last kind changes services, so their lists are encoded again."""
RUNS_PER_TURN = 8
BEAT_MS = 5_000
WARM_UP_S, MEASURED_S = 20, 40
"""Seconds of the health check's virtual time."""
HEADERS = "Host: 127.0.0.1:8848\r\nUser-Agent: Nacos-Java-Client:v1.4.1\r\nClient-Version: Nacos-Java-Client:v1.4.1\r\n"
METADATA = "%7B%22zone%22%3A%22a%22%7D"


def ip_of(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


class Bed:
    """A node with ``stored`` instances in ``services`` services, instance k in service k modulo their count."""

    def __init__(self, folder: str, stored: int, services: int) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.stored, self.services = stored, services
        keys = {"nacos.standalone": "true", "rollcall.data.dir": folder, "rollcall.announce": "false"}
        self.node = Node(read_settings(keys, {}))
        self.node.start()
        self.node.services.durable.update_switch(
            "check", "false", here_only=True
        )  # otherwise instances without beats expire after 30 s
        app = create_app(self.node.services)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        loop = asyncio.get_running_loop()
        parts = self.node.services
        self.server = HttpServer(parts, RequestAnswers(app, parts, loop), loop, 100)
        self.connection = HttpConnection(self.server)
        self.socket = NoSocket()
        self.connection.connection_made(self.socket)
        self.random = random.Random(stored)

    def close(self) -> None:
        self.server.stop()
        self.node.stop()

    def service_of(self, number: int) -> str:
        return f"{GROUP}bench-{number % self.services}"

    def request(self, kind: str, number: int) -> bytes:
        service = f"serviceName={self.service_of(number).replace('@', '%40')}&namespaceId=public"
        where = f"{service}&clusterName=DEFAULT&ip={ip_of(number)}&port=8080"
        match kind:
            case "register":
                asked = f"{where}&groupName=DEFAULT_GROUP&weight=1.0&enable=true&healthy=true&ephemeral=true"
                line = f"POST /nacos/v1/ns/instance?{asked}&metadata={METADATA}&app=unknown"
            case "beat":
                line = f"PUT /nacos/v1/ns/instance/beat?{where}"
            case _:
                line = f"GET /nacos/v1/ns/instance/list?{service}&clusters=&healthyOnly=false&udpPort=0"
        return f"{line} HTTP/1.1\r\n{HEADERS}\r\n".encode()

    def cpu_us(self, kind: str, numbers: list[int]) -> float:
        """CPU time of the whole process per request, each of which must be answered with 200."""
        requests = [self.request(kind, number) for number in numbers]
        receive, answers = self.connection.data_received, self.socket.answers
        begun_s = time.process_time()
        for one in requests:
            receive(one)
        self.server.sends.send()  # else at the end of a turn of the loop
        took_s = time.process_time() - begun_s
        if self.socket.answers - answers != len(requests):
            raise SystemExit(f"{kind}: {self.socket.answers - answers} of {len(requests)} were answered with 200")
        return took_s / len(requests) * 1e6

    def fill(self, kind: str = "register") -> None:
        """Send a request for each instance, so that all clients are known before the measurement."""
        for start in range(0, self.stored, CHUNK):
            self.cpu_us(kind, list(range(start, min(start + CHUNK, self.stored))))

    def run(self, kind: str) -> float:
        """One run among random instances; an instance that it registers is new, and removed afterwards."""
        kind, _, near = kind.partition(", ")
        if kind != "register":
            numbers = [self.random.randrange(self.stored) for _ in range(HELD[0] if near else CHUNK)]
            return self.cpu_us(kind, (numbers * CHUNK)[:CHUNK])
        first = self.stored + self.random.randrange(self.stored)
        numbers = [first + number * max(self.services // CHUNK, 1) for number in range(CHUNK)]
        took_us = self.cpu_us(kind, numbers)
        for number in numbers:
            self.node.services.naming.deregister(DeregisterInstance(self.service_of(number), ip_of(number), 8080))
        return took_us


def serve_bed(pipe: Connection, folder: str, stored: int, services: int) -> None:
    """A bed's process: runs each command it receives, until it receives None."""

    async def serve() -> None:
        bed = Bed(folder, stored, services)
        with closing(bed):
            bed.fill()
            bed.fill("beat")
            if services > 1:
                bed.fill("list")
            while (kind := pipe.recv()) is not None:
                pipe.send(bed.run(kind))
                await asyncio.sleep(0)

    asyncio.run(serve())


@dataclass
class Row:
    name: str
    kinds: tuple[str, ...]
    stored: int
    services: int
    best_us: dict[str, float] = field(default_factory=dict)


@contextmanager
def beds_of(rows: list[Row]) -> Iterator[list[Connection]]:
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for number, row in enumerate(rows):
                ours, theirs = context.Pipe()
                data = f"{folder}/{number}"
                process = context.Process(target=serve_bed, args=(theirs, data, row.stored, row.services))
                process.start()
                theirs.close()
                pipes.append(ours)
                processes.append(process)
            yield pipes
        finally:
            for pipe in pipes:
                pipe.send(None)
            for process in processes:
                process.join()


def measure_requests(turns: int) -> list[Row]:
    rows = [Row(f"held {count:,}", KINDS, count, max(count // HOSTS, 1)) for count in HELD]
    no_list = tuple(kind for kind in KINDS if not kind.startswith("list"))
    rows += [Row(f"one of {count:,}", no_list, count, 1) for count in ONE_OF]
    with beds_of(rows) as pipes:
        for kind in KINDS:
            for _ in range(turns):
                for row, pipe in zip(rows, pipes, strict=True):
                    for _ in range(RUNS_PER_TURN if kind in row.kinds else 0):
                        pipe.send(kind)
                        row.best_us[kind] = min(pipe.recv(), row.best_us.get(kind, float("inf")))
    return rows


def print_rows(rows: list[Row]) -> None:
    first, lines = rows[0], []
    for row in rows:
        first = row if row.name.split()[0] != first.name.split()[0] else first
        cells = [
            f"{row.best_us[kind]:.1f} ({row.best_us[kind] / first.best_us[kind]:.2f})" if kind in row.kinds else "-"
            for kind in KINDS
        ]
        lines.append([row.name, *cells])
    print(table(["CPU-us per request", *KINDS], lines))


# --- a million ------------------------------------------------------------------------------------------


def serve_memory(pipe: Connection, folder: str, stored: int, services: int) -> None:
    """Measure the memory of a node with ``stored`` instances, registered over HTTP, before any list request."""

    async def serve() -> None:
        bed = Bed(folder, stored, services)
        with closing(bed):
            before_mb, begun_s = rss_mb(), time.process_time()
            bed.fill()
            figures = {"rss_mb": rss_mb(), "grew_mb": rss_mb() - before_mb, "cpu_s": time.process_time() - begun_s}
            begun_s = time.perf_counter()
            figures["found"] = gc.collect()
            figures["collection_s"] = time.perf_counter() - begun_s
            pipe.send(figures)

    asyncio.run(serve())


class Virtual:
    """Services whose instances all beat every five seconds after their registration, in virtual time."""

    def __init__(self, stored: int, services: int) -> None:
        self.now_ms = 0
        registry = self.registry = Registry.of("127.0.0.1:8848~1")
        changes = Changes(registry.table, registry.replication, self._monotonic_ms, self._ignore)
        naming = NamingService(registry.table, registry.writes, changes, self._monotonic_ms, self._ignore)
        self.turns: list[list[StoredInstance]] = [[] for _ in range(BEAT_MS)]
        for number in range(stored):
            self.now_ms = number * BEAT_MS // stored
            name, ip = f"{GROUP}bench-{number % services}", ip_of(number)
            naming.register(RegisterInstance(name, ip, 8080, metadata={"zone": "a"}))
            service = self.registry.table.get("public", name)
            assert service is not None
            self.turns[self.now_ms].append(service.stored[instance_key(ip, 8080, "DEFAULT")])
        self.check = BeatCheck(registry.table, registry.lists.writer, registry.writes, registry.upkeep, self.complain)

    def _monotonic_ms(self) -> int:
        return self.now_ms

    def _ignore(self, _event: object) -> None:
        pass

    def complain(self, event: object) -> None:
        raise SystemExit(f"no instance should expire, but: {event}")

    def second(self) -> tuple[float, float]:
        """Advance by a second, then check; return the check's CPU time and its longest slice, in ms."""
        for _ in range(1_000):
            self.now_ms += 1
            now_ms = self.now_ms
            for stored in self.turns[now_ms % BEAT_MS]:
                stored.beat_ms = stored.last_confirmed_ms = now_ms
        longest_s, begun_s = 0.0, time.process_time()
        while True:
            slice_s = time.process_time()
            again_ms = self.check.tick(self.now_ms, lambda: HealthCheckGate(True, self.now_ms, lambda _name: True))
            longest_s = max(longest_s, time.process_time() - slice_s)
            if again_ms > self.now_ms:
                return (time.process_time() - begun_s) * 1e3, longest_s * 1e3


def serve_check(pipe: Connection, _folder: str, stored: int, services: int) -> None:
    gc.disable()
    world = Virtual(stored, services)
    for _ in range(WARM_UP_S):
        world.second()
    seconds = [world.second() for _ in range(MEASURED_S)]
    windows = [sum(cpu_ms for cpu_ms, _ in seconds[at : at + 5]) for at in range(0, MEASURED_S, 5)]
    pipe.send(
        {
            "cpu_ms_per_5_s": statistics.mean(windows),
            "worst_5_s_ms": max(windows),
            "longest_slice_ms": max(longest_ms for _, longest_ms in seconds),
        }
    )


def in_process(target: Callable[[Connection, str, int, int], None], stored: int, services: int) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        process = context.Process(target=target, args=(theirs, folder, stored, services))
        process.start()
        theirs.close()
        figures: dict[str, float] = ours.recv()
        process.join()
    return figures


def measure_million(instances: int) -> dict[str, dict[str, float]]:
    found = {}
    for services in (10_000, 100):
        for name, target in (("memory", serve_memory), ("health check", serve_check)):
            found[f"{name}, {services:,} services"] = in_process(target, instances, services)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--parts", type=names_of(PARTS), default=PARTS, help=f"of {','.join(PARTS)} (all)")
    parser.add_argument("--seconds", type=int, default=3, help="seconds of each run of the part sockets")
    parser.add_argument("--instances", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, help="where to write the figures as JSON")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    if "requests" in options.parts:
        rows = measure_requests(options.turns)
        print_rows(rows)
        figures["requests"] = {row.name: row.best_us for row in rows}
    if "sockets" in options.parts:
        socket_rows = measure_sockets(HELD, options.seconds, options.turns)
        print_sockets(socket_rows)
        figures["sockets"] = {row.stored: row.best_us for row in socket_rows}
    if "million" in options.parts:
        figures["million"] = measure_million(options.instances)
        for name, found in figures["million"].items():
            print(f"{name}: " + ", ".join(f"{key} {value:,.1f}" for key, value in found.items()))
    if options.out:
        options.out.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
