"""Restart three members one after the other, twice; check that no list lacks a live instance and no push is empty.

Each member stops in order (SIGTERM) and starts again; the next one follows some time after it is ready. Meanwhile gRPC
clients each keep an instance and a subscription, instances beat over HTTP, and real SDKs publish, subscribe and choose
an instance for each call. The lists of all members that answer are read repeatedly over HTTP and gRPC.
Prints a table; exit code 1 when an instance was missing, a push empty, a call without address, or a traceback in a log.

    python -m scripts.chaos.rolling
    python -m scripts.chaos.rolling --grpc 200 --http 500 --rollcall ../before/.venv/bin/rollcall
"""

import argparse
import asyncio
import collections
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from scripts.chaos.real_clients import INSTALLERS, Caller, callers, installed
from scripts.chaos.rolling_load import PORT, planned
from scripts.support.arguments import add_drill, names_of
from scripts.support.grpc_clients import CALL_TIMEOUT_S, FAULTS, SDK_OFFSET
from scripts.support.http_clients import Http
from scripts.support.load_process import LoadProcess
from scripts.support.member_processes import MemberProcess, drill_members, start_all
from scripts.support.verdicts import Absences, Measured, table
from tests.support.sdk_client import SdkClient, hosts_of

MEMBERS = 3
WHOLE_TIMEOUT_S = 120.0
LIST_TIMEOUT_S = 2.0
REOPEN_S = 0.2
REST_S = 0.1
GRPC_PERIODS = 4
"""Factor by which lists are read less often over gRPC, where each change is pushed to many clients anyway."""
PROVIDERS_OFFSET = 100
"""Offset from the first member's port to those of the frameworks' providers."""
TRACEBACK = "Traceback (most recent call last)"
KINDS = ("grpc", "http")
EXAMPLES = 6
Hosts = Mapping[str, Mapping[str, Any]]
"""The hosts of a list, by ``ip:port``."""


@dataclass
class Findings:
    """Observations of the readers, by kind of client: ``grpc``, ``http`` or ``real``."""

    lists: collections.Counter[str] = field(default_factory=collections.Counter)
    """Complete answers read, by API."""
    missing: dict[str, Absences] = field(default_factory=lambda: collections.defaultdict(Absences))
    unhealthy: dict[str, Absences] = field(default_factory=lambda: collections.defaultdict(Absences))


def kind_of(service: str) -> str:
    """The kind of client that registers the instances of a service."""
    return next((kind for kind in KINDS if service.startswith(f"rolling-{kind}-")), "real")


class Readers:
    """Reads every list of each member, over HTTP and gRPC, and compares it with the live instances."""

    def __init__(self, members: Sequence[MemberProcess], expected: Mapping[str, set[str]], period_s: float) -> None:
        """``period_s``: time between two readings of a list over HTTP."""
        self._http = {member: Http(member.address) for member in members}
        self._expected = expected
        self._period_s = period_s
        self._read: dict[tuple[MemberProcess, str], tuple[bytes, Hosts]] = {}
        """The last HTTP answer of each list from ``hosts`` on, and its decoded form, because most do not change."""
        self._begun_s = time.monotonic()
        self.found = Findings()

    def begin(self) -> None:
        """Count from now on."""
        self.found, self._begun_s = Findings(), time.monotonic()

    async def lacking(self) -> str:
        """Return member, service and size of the first incomplete list; empty if all are complete."""
        for member in self._http:
            for service, expected in self._expected.items():
                if (hosts := await self._over_http(member, service)) is None or expected - hosts.keys():
                    return f"{member.address} lists of {service} {len(hosts or ())} instead of {len(expected)}"
        return ""

    async def watch_http(self, member: MemberProcess) -> None:
        """Read all lists repeatedly."""
        while True:
            begun_s = time.monotonic()
            for service in self._expected:
                if (hosts := await self._over_http(member, service)) is None:
                    break
                self._look(f"{member.address} over HTTP", service, hosts)
            await asyncio.sleep(max(self._period_s - (time.monotonic() - begun_s), REST_S))

    async def watch_grpc(self, member: MemberProcess) -> None:
        """Read all lists on a connection that stays until the member ends it."""
        port = int(member.address.rpartition(":")[2]) + SDK_OFFSET
        while True:
            async with SdkClient(port) as client:
                try:
                    async with asyncio.timeout(CALL_TIMEOUT_S):
                        await client.set_up()
                    while not client.ended:
                        begun_s = time.monotonic()
                        await self._read_all(client, member)
                        rest_s = GRPC_PERIODS * self._period_s - (time.monotonic() - begun_s)
                        await asyncio.sleep(max(rest_s, REST_S))
                except FAULTS:
                    pass
            await asyncio.sleep(REOPEN_S)

    async def _read_all(self, client: SdkClient, member: MemberProcess) -> None:
        for service in self._expected:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                answer = await client.call("ServiceQueryRequest", serviceName=service)
            if answer["resultCode"] != 200:
                raise TimeoutError("refused")
            self._look(f"{member.address} over gRPC", service, hosts_of(answer["serviceInfo"]))

    async def _over_http(self, member: MemberProcess, service: str) -> Hosts | None:
        status, body = await self._http[member].call("GET", "/v1/ns/instance/list", LIST_TIMEOUT_S, serviceName=service)
        if status != 200:
            return None
        shown = body[body.index(b'"hosts"') :]
        known = self._read.get((member, service))
        if known is None or known[0] != shown:
            known = self._read[member, service] = (shown, hosts_of(orjson.loads(body)))
        return known[1]

    def _look(self, where: str, service: str, hosts: Hosts) -> None:
        now_s = time.monotonic() - self._begun_s
        expected, kind = self._expected[service], kind_of(service)
        self.found.lists[where.rpartition(" ")[2]] += 1
        self.found.missing[kind].note(where, service, expected - hosts.keys(), now_s)
        ill = {one for one in expected & hosts.keys() if not hosts[one]["healthy"]}
        self.found.unhealthy[kind].note(where, service, ill, now_s)


@dataclass
class Restart:
    """One member's stop and return: seconds since the beginning of the drill, and the time of each part."""

    member: str
    at_s: float
    stopping_s: float
    starting_s: float


async def restart_all(members: Sequence[MemberProcess], options: argparse.Namespace) -> list[Restart]:
    """Restart one after the other, as often as requested."""
    begun_s, restarts = time.monotonic(), []
    for member in [*members] * options.rounds:
        at_s = time.monotonic()
        await asyncio.to_thread(member.stop)
        ended_s = time.monotonic()
        member.start()
        await asyncio.to_thread(member.wait_ready)
        ready_s = time.monotonic()
        restarts.append(Restart(member.address, at_s - begun_s, ended_s - at_s, ready_s - ended_s))
        print(f"{at_s - begun_s:.1f} s: {member.address} ended in {ended_s - at_s:.2f} s, "
              f"ready after {ready_s - ended_s:.2f} s more", flush=True)  # fmt: skip
        await asyncio.sleep(options.between_s)
    return restarts


@contextmanager
def loads(options: argparse.Namespace, members: Sequence[MemberProcess]) -> Iterator[dict[str, LoadProcess]]:
    """Start the client processes; each has registered all its instances."""
    ports = [member.address.rpartition(":")[2] for member in members]
    started: dict[str, LoadProcess] = {}
    try:
        for kind in KINDS:
            words = (str(getattr(options, kind)), str(options.services), str(options.beat_s), *ports)
            started[kind] = LoadProcess("scripts.chaos.rolling_load", kind, *words)
        for load in started.values():
            load.wait_ready()
        yield started
    finally:
        for load in started.values():
            load.kill()


def expected_of(options: argparse.Namespace, real: Iterable[Caller]) -> dict[str, set[str]]:
    """Return the instances that live all the time, by service."""
    expected = collections.defaultdict(set)
    for kind in KINDS:
        for service, ip in planned(kind, getattr(options, kind), options.services):
            expected[service].add(f"{ip}:{PORT}")
    for client in real:
        expected[client.service].add(client.instance)
    return expected


async def drill(options: argparse.Namespace, members: Sequence[MemberProcess], folder: Path) -> list[Measured]:
    """Start everything, restart the members, and return the measurements."""
    await asyncio.to_thread(start_all, members)
    addresses = [member.address for member in members]
    environments = installed(options.real)
    with ExitStack() as stack:
        made = callers(environments, folder, addresses, options.port + PROVIDERS_OFFSET)
        real = [stack.enter_context(caller) for caller in made]
        begun_s = time.monotonic()
        running = stack.enter_context(loads(options, members))
        readers = Readers(members, expected_of(options, real), options.poll_ms / 1_000)
        while lacking := await readers.lacking():
            if time.monotonic() - begun_s > WHOLE_TIMEOUT_S:
                raise RuntimeError(f"a cluster at rest does not list all: {lacking}")
            await asyncio.sleep(REOPEN_S)
        print(f"all instances are listed everywhere {time.monotonic() - begun_s:.1f} s after the first", flush=True)
        pool = stack.enter_context(ThreadPoolExecutor(max(len(real), 1)))
        calls = [pool.submit(client.call_on) for client in real]
        for client in real:
            stack.callback(client.halt)
        restarts, done = await watched(readers, members, running, options)
        for client in real:
            client.halt()
        for ended in calls:
            ended.result()
        for text in (*examples(readers.found.missing), *examples(readers.found.unhealthy), *done["grpc"]["examples"]):
            print(text, flush=True)
        rows = list(figures(readers.found, restarts, done))
        return rows + [row for client in real for row in client.figures()]


async def watched(
    readers: Readers, members: Sequence[MemberProcess], running: Mapping[str, LoadProcess], options: argparse.Namespace
) -> tuple[list[Restart], dict[str, dict[str, Any]]]:
    """Restart the members while the lists are read; return the findings, and the reports of the loads."""
    readers.begin()
    tasks = [asyncio.create_task(watch(one)) for watch in (readers.watch_http, readers.watch_grpc) for one in members]
    for load in running.values():
        load.go()
    await asyncio.sleep(options.beat_s)
    restarts = await restart_all(members, options)
    await asyncio.sleep(options.settle_s)
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(ended, asyncio.CancelledError):
            raise ended if isinstance(ended, Exception) else RuntimeError("a reader ended early")
    return restarts, {kind: load.halt() for kind, load in running.items()}


def figures(found: Findings, restarts: Sequence[Restart], done: Mapping[str, Mapping[str, Any]]) -> Iterator[Measured]:
    """The rows of the table, without those of real SDKs."""
    yield Measured("lists read over HTTP / gRPC", f"{found.lists['HTTP']} / {found.lists['gRPC']}")
    for kind in (*KINDS, "real"):
        missing, unhealthy = found.missing[kind], found.unhealthy[kind]
        yield Measured(f"{kind}: instances ever missing from a list", len(missing.instances), 0)
        yield Measured(f"{kind}: lists that lacked some", missing.answers)
        yield Measured(f"{kind}: longest absence, s", round(missing.longest_s, 2))
        yield Measured(f"{kind}: instances ever unhealthy in a list", len(unhealthy.instances), 0)
    grpc, http = done["grpc"], done["http"]
    yield Measured("grpc: pushes", grpc["pushes"])
    yield Measured("grpc: empty pushes", grpc["empty"], 0)
    yield Measured("grpc: pushes that lacked a live instance", grpc["lacking"])
    yield Measured("grpc: instances that a push lacked", grpc["lacked"])
    yield Measured("grpc: clients that connected anew", grpc["moves"])
    yield Measured("grpc: s until connected again, p50 / p99 / max", told(grpc["connected_s"]))
    yield Measured("grpc: s until published again, p50 / p99 / max", told(grpc["known_s"]))
    yield Measured("http: beats taken", http["beats"].get("taken", 0))
    yield Measured("http: beats answered 20404", http["beats"].get("answered 20404, registered again", 0))
    yield Measured("http: beats taken by no member", http["beats"].get("taken by no member", 0))
    yield Measured("clients that ended by a fault", len(grpc["faults"]) + len(http["faults"]), 0)
    yield Measured("s from SIGTERM to the end, max", round(max(one.stopping_s for one in restarts), 2))
    yield Measured("s from the start to ready, max", round(max(one.starting_s for one in restarts), 2))


def told(times_s: Sequence[float]) -> str:
    return " / ".join(map(str, times_s)) or "none"


def examples(found: Mapping[str, Absences]) -> Iterator[str]:
    """The first absences of each kind."""
    for kind, absences in found.items():
        yield from (f"{kind}: {text}" for text in absences.examples[:EXAMPLES])


def tracebacks(members: Iterable[MemberProcess]) -> int:
    return sum(member.log.read_text(errors="replace").count(TRACEBACK) for member in members)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--grpc", type=int, default=2_000, help="gRPC clients, one instance each (2000)")
    parser.add_argument("--http", type=int, default=5_000, help="instances that beat over HTTP (5000)")
    parser.add_argument("--services", type=int, default=100, help="services of each kind (100)")
    parser.add_argument("--real", type=names_of(INSTALLERS), default=list(INSTALLERS))
    parser.add_argument("--no-real", dest="real", action="store_const", const=[], help="no real SDK")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--beat-s", type=float, default=5.0, help="seconds between two beats of an instance (5)")
    parser.add_argument(
        "--between-s", type=float, default=15.0, help="seconds from the return of a member to the stop of the next (15)"
    )
    parser.add_argument(
        "--poll-ms", type=int, default=2_000, help="ms between two readings of a list of a member (2000)"
    )
    parser.add_argument(
        "--settle-s", type=float, default=40.0, help="seconds of observation afterwards: longer than copies stay (40)"
    )
    add_drill(parser)
    return parser.parse_args()


def main() -> int:
    """Run the drill; return 0 when nothing was missing."""
    options = _options()
    with drill_members(MEMBERS, options.port, options.logs, options.rollcall) as members:
        rows = asyncio.run(drill(options, members, members[0].log.parent))
        rows.append(Measured("tracebacks in the members' logs", tracebacks(members), 0))
    print(table(rows), flush=True)
    return 1 if any(row.is_breach for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
