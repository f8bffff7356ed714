"""Observers of a link to a Nacos: SDKs that subscribe at each member of both sides, and readers of lists."""

import asyncio
import collections
import contextlib
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import orjson

from scripts.bench.convergence import percentiles_ms
from scripts.support.http_clients import Http
from scripts.support.member_processes import MemberProcess
from scripts.support.real_nacos import NacosServer
from scripts.support.verdicts import Absences, Measured
from tests.sdk.program import Event, Program

HERE, THERE = "here", "there"
"""The sides: the members of Rollcall, and the Nacos."""
PORT = 8080
POLL_S = 0.05
SETTLE_POLL_S = 0.02


def at(ip: str) -> str:
    """Return the address of an instance."""
    return f"{ip}:{PORT}"


@dataclass(frozen=True, slots=True)
class LinkedSides:
    """The members of both sides."""

    ours: Sequence[MemberProcess]
    real: Sequence[NacosServer]

    def of(self, side: str) -> list[str]:
        """Return the addresses of the members of a side."""
        return [one.address for one in (self.ours if side == HERE else self.real)]

    @property
    def all(self) -> list[str]:
        return self.of(HERE) + self.of(THERE)


class Lists:
    """The lists of all members, over HTTP."""

    def __init__(self, sides: LinkedSides) -> None:
        self._clients = {address: Http(address) for address in sides.all}

    async def hosts(self, address: str, service: str) -> list[dict[str, Any]] | None:
        """Return the instances of a service as one member lists them; None without an answer."""
        status, body = await self._clients[address].call("GET", "/v1/ns/instance/list", serviceName=service)
        return orjson.loads(body)["hosts"] if status == 200 else None

    async def shows(self, service: str, wanted: set[str], members: Collection[str]) -> bool:
        """Return whether these members list exactly these instances of a service, as healthy ones."""
        for address in members:
            hosts = await self.hosts(address, service)
            if (
                hosts is None
                or {at(one["ip"]) for one in hosts if one["healthy"]} != wanted
                or len(hosts) > len(wanted)
            ):
                return False
        return True


class ListWatch:
    """Reads the lists of some services at some members all the time, each with the one instance that it must have."""

    def __init__(self, lists: Lists, members: Sequence[str], wanted: Mapping[str, str]) -> None:
        self._lists, self._members, self._wanted = lists, members, wanted
        self._tasks: list[asyncio.Task[None]] = []
        self._begun_s = 0.0
        self.lists = 0
        self.missing, self.unhealthy = Absences(), Absences()

    def begin(self) -> None:
        """Read from now on, until ``end``."""
        self._begun_s = time.monotonic()
        self._tasks = [asyncio.create_task(self._watch(one)) for one in self._members]

    async def end(self) -> None:
        """Read no more.

        Raises:
            RuntimeError: a reader ended before.
        """
        early = [one for one in self._tasks if one.done()]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if early:
            raise RuntimeError("a reader ended early") from early[0].exception()

    async def _watch(self, address: str) -> None:
        while True:
            next_s = time.monotonic() + POLL_S
            for service, instance in self._wanted.items():
                hosts = await self._lists.hosts(address, service)
                if hosts is not None:  # a member that does not answer says nothing about its services
                    self._note(address, service, instance, {at(one["ip"]): bool(one["healthy"]) for one in hosts})
            await asyncio.sleep(next_s - time.monotonic())

    def _note(self, address: str, service: str, instance: str, health: Mapping[str, bool]) -> None:
        now_s = time.monotonic() - self._begun_s
        self.lists += 1
        self.missing.note(address, service, [] if instance in health else [instance], now_s)
        self.unhealthy.note(address, service, [] if health.get(instance, True) else [instance], now_s)


class Subscribers:
    """An SDK that subscribes to services at each member of both sides, with one client for each member."""

    def __init__(self, program: Program, sides: LinkedSides) -> None:
        self._program = program
        self.clients = {side: [f"{side}-{number}" for number in range(len(sides.of(side)))] for side in (HERE, THERE)}
        self._servers = {
            client: address
            for side in (HERE, THERE)
            for client, address in zip(self.clients[side], sides.of(side), strict=True)
        }
        self._lock = threading.Lock()
        self._times_s: dict[Event, float] = {}

    def subscribe(self, services: Mapping[str, Collection[str]]) -> None:
        """Subscribe to the services of each side, at all its members."""
        for side, names in services.items():
            for client in self.clients[side]:
                self._program.call("open", client, servers=[self._servers[client]])
                for name in sorted(names):
                    self._program.call("subscribe", client, service=name)

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Take the times of all events, in a thread, until the block ends."""
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(self._program.follow, self._note, over)
            try:
                yield
            finally:
                over.set()
                reading.result()

    def _note(self, event: Event) -> None:
        with self._lock:
            self._times_s.setdefault(event, time.perf_counter())

    def times(self, kind: str, side: str, instance: str) -> list[float] | None:
        """Return when the listener of each client of a side was called with a change; None until all were called."""
        with self._lock:
            found = [self._times_s.get((kind, client, instance)) for client in self.clients[side]]
        times = [one for one in found if one is not None]
        return times if len(times) == len(found) else None

    def removed(self, instances: Collection[str]) -> int:
        """Return how often a listener was told that one of these instances was removed."""
        with self._lock:
            return sum(kind == "removed" and instance in instances for kind, _, instance in self._times_s)


@dataclass(slots=True)
class Timings:
    """The times from a call at one side until all subscribers of a side were called."""

    subscribers: Subscribers
    timeout_s: float
    _first_s: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    _all_s: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    _lost: collections.Counter[str] = field(default_factory=collections.Counter)

    async def settle(self, what: str, kind: str, begun: Sequence[tuple[str, str, float]]) -> None:
        """Wait until all see the changes. ``begun``: the side, the instance, and the time of the call of each."""
        waiting = [
            (f"{what} {side}, subscribers {where}", where, instance, begun_s)
            for side, instance, begun_s in begun
            for where in ((THERE,) if side == HERE else (HERE, THERE))
        ]
        end_s = time.perf_counter() + self.timeout_s
        while waiting and time.perf_counter() < end_s:
            left = []
            for one in waiting:
                row, where, instance, begun_s = one
                times = self.subscribers.times(kind, where, instance)
                if times is None:
                    left.append(one)
                    continue
                self._first_s[row].append(min(times) - begun_s)
                self._all_s[row].append(max(times) - begun_s)
            waiting = left
            await asyncio.sleep(SETTLE_POLL_S)
        for row, where, instance, _ in waiting:
            self._lost[row] += 1
            print(f"{row}: {instance} was not told to all subscribers {where}", flush=True)

    def rows(self) -> Iterator[Measured]:
        """The rows of the table."""
        for row in sorted(self._all_s.keys() | self._lost.keys()):
            for which, times_s in (("the first", self._first_s[row]), ("all", self._all_s[row])):
                found = percentiles_ms(times_s)
                times = " / ".join(str(found[name]) for name in ("p50_ms", "p99_ms", "max_ms"))
                yield Measured(f"{row}: ms until {which} knew, p50 / p99 / max", times)
            changes = len(self._all_s[row]) + self._lost[row]
            yield Measured(f"{row}: of {changes} changes, not seen within {self.timeout_s:g} s", self._lost[row], 0)
