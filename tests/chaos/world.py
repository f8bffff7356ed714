"""One run: the network, the members and the clients, a scenario's faults, and what the checker finds."""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.checker import (
    SETTLE_S,
    Disagreement,
    Found,
    Times,
    agreed_after_s,
    check,
    differing,
    is_removed_late,
    last_disagreement,
)
from tests.chaos.cluster import Cluster, Member
from tests.chaos.history import History, Outcome, Sample
from tests.chaos.http import call
from tests.chaos.load import Amounts, Load
from tests.chaos.network import Network, run

SWITCH_HEALTH_S = 3.0
CHECKED_PORT = 8080
LAST_ROUNDS, LAST_PAUSE_S = 3, 1.0
"""Members that still differ at the end are asked again, as no two are asked in the same moment."""
EXPLAINED_FROM_S, EXPLAINED_MAX = 2.0, 3
"""Instances whose lists agreed so late are explained, at most so many."""
EXPLAINED_NEAR_S = 4.0
"""Lists of so long before and after such a difference are told with it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the parts of a run take."""

    before_s: float = 12.0
    """From the start of the load to the fault: longer than a word takes to settle."""
    cut_s: float = 25.0
    """Longer than it takes until silent members are DOWN, and than an instance that nobody hears of is healthy."""
    pause_s: float = 40.0
    """Longer than an instance lives that nobody hears of."""
    links_cut_s: float = 60.0
    """How long two linked clusters do not reach each other."""
    after_s: float = 25.0
    """From the heal to the end of the churn: longer than the time to settle, and than an expiry's delay."""
    last_s: float = 16.0
    """From the end of the churn until the last lists are compared: longer than a life, and the time to settle."""


BRIEF = Pace(before_s=5.0, cut_s=12.0, pause_s=12.0, links_cut_s=12.0, after_s=SETTLE_S + 2.0, last_s=6.0)
"""Longer than it takes until silent members are DOWN, and than a word takes to settle; no instance expires."""
BRIEF_AMOUNTS = Amounts(
    lasting=40,
    lasting_services=10,
    churn_services=2,
    churn_lives_s=(1.0, 5.0),
    two_sided=12,
    two_sided_services=3,
    connected=20,
    connected_services=4,
    connected_two_sided=9,
    late=20,
)


@dataclass(slots=True)
class World:
    """What a scenario works on; it calls ``cut`` before its first fault and ``healed`` after the end of all."""

    network: Network
    cluster: Cluster
    load: Load
    pace: Pace
    random: random.Random
    sides: tuple[frozenset[int], ...] = ()
    cut_s: float = 0.0
    healed_s: float = 0.0
    killed_s: float = 0.0
    killed: frozenset[int] = frozenset()
    paused: frozenset[int] = frozenset()
    """The members that stand still from the cut to the heal."""

    def kill(self, members: Collection[Member]) -> None:
        """Kill members, all in one moment, as far as that goes."""
        self.killed_s = time.monotonic()
        self.killed = frozenset(member.number for member in members)
        for member in members:
            member.kill()

    def cut(self, *sides: set[int]) -> None:
        """The fault begins. ``sides``: members of one side reach each other unharmed; none: all reach all, badly."""
        self.sides = tuple(map(frozenset, sides))
        self.cut_s = time.monotonic()

    def healed(self) -> None:
        """All faults are over, and the keys of two sides are no longer written."""
        self.load.writing.clear()
        self.network.heal()
        self.healed_s = time.monotonic()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault, or several."""

    name: str
    faults: Callable[[World], Awaitable[None]]
    about: str
    members: int = 3
    listed: int = 3
    """How many of the members are there from the beginning."""
    prepare: Callable[[Cluster], None] | None = None
    """What is done before the members start."""
    unable: Callable[[], str] | None = None
    """Why this scenario is not possible here; empty when it is."""
    is_proof: bool = False
    """Whether breaches are wanted: it shows that they are found."""


@dataclass(slots=True)
class Result:
    """What a run showed."""

    found: Found
    agreed_s: float | None
    """From the heal until all members listed the same, and went on to; None: never."""
    disagreed: str
    """How lists differed last after the heal; empty if they never did."""
    words: int
    """Words since the fault began."""
    refused: int
    """Those that were answered and not acknowledged."""
    unanswered: int
    """Those without an answer in time."""
    unknown_beats: int
    """Beats of lasting instances that were answered with "unknown instance"."""
    late_removals: int
    """Instances that were registered through one side near the end of the cut, and soon removed through the other."""
    tracebacks: int
    """Unforeseen errors in the logs of all members."""
    late_s: float
    """How late the clients were at most."""
    cut_s: float
    healed_s: float
    explained: Sequence[Mapping[str, object]]
    """For each instance whose lists agreed late: the lists of each member about then, and its answer to ``explain``."""


@contextlib.contextmanager
def _checked_ips(count: int) -> Iterator[list[str]]:
    """Addresses of this process's namespace, for persistent instances, whose health a check of the members finds."""
    ips = [f"10.77.1.{number + 1}" for number in range(count)]
    for ip in ips:
        run("ip", "addr", "add", f"{ip}/32", "dev", "lo")
    try:
        yield ips
    finally:
        for ip in ips:
            run("ip", "addr", "del", f"{ip}/32", "dev", "lo")


async def _switch_health(ips: list[str], until: asyncio.Event) -> None:
    """Open and close the port of half of the addresses, in turn."""

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    turn = 0
    while not until.is_set():
        turn += 1
        servers = [await asyncio.start_server(serve, ip, CHECKED_PORT) for ip in ips[turn % 2 :: 2]]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(until.wait(), SWITCH_HEALTH_S)
        for server in servers:
            server.close()


def play(scenario: Scenario, pace: Pace, amounts: Amounts, seed: int, command: Path | None, folder: Path) -> Result:
    """Run a scenario once, in namespaces of this process's own; ``folder`` takes the members' files.

    Raises:
        RuntimeError: a member did not serve in time.
        Unable: the machine does not allow what the scenario needs.
    """
    network = Network(scenario.members)
    try:
        cluster = Cluster(network, folder, scenario.listed, command)
        try:
            if scenario.prepare is not None:
                scenario.prepare(cluster)
            cluster.start()
            with _checked_ips(amounts.two_sided) as ips:
                addresses = [member.address for member in cluster.members]
                load = Load(addresses, range(scenario.listed), ips, amounts, seed)
                return asyncio.run(_play(World(network, cluster, load, pace, random.Random(seed)), scenario, ips))
        finally:
            cluster.end()
    finally:
        network.end()


async def _play(world: World, scenario: Scenario, ips: list[str]) -> Result:
    load = world.load
    over = asyncio.Event()
    switching = asyncio.create_task(_switch_health(ips, over))
    await load.begin()
    load.writing.set()
    await asyncio.sleep(world.pace.before_s)
    await scenario.faults(world)
    over.set()
    await switching
    await asyncio.sleep(world.pace.after_s)
    load.stop_churn()
    await asyncio.sleep(world.pace.last_s)
    for _ in range(LAST_ROUNDS):
        load.history.last = await load.read_last()
        if not differing(load.history.last):
            break
        await asyncio.sleep(LAST_PAUSE_S)
    explained = await _explain_late(world)
    await load.end()
    return _result(world, explained)


async def _explain_late(world: World) -> list[Mapping[str, object]]:
    """Ask all members for the reason of the last difference, if it lasted beyond ``EXPLAINED_FROM_S``."""
    last = last_disagreement(world.load.history, world.healed_s)
    if not isinstance(last, Disagreement) or last.sample.ended_s - world.healed_s < EXPLAINED_FROM_S:
        return []
    found: list[Mapping[str, object]] = []
    for ip in last.ips[:EXPLAINED_MAX]:
        asked = {"serviceName": last.sample.service, "ip": ip, "port": CHECKED_PORT, "local": "true"}
        told: dict[str, object] = {"service": last.sample.service, "ip": ip, "at": time.monotonic()}
        for number, member in enumerate(world.cluster.members):
            told[f"lists of {number}"] = _lists_near(world.load.history, last.sample, number, ip)
            with contextlib.suppress(OSError, ValueError):
                told[str(number)] = json.loads((await call(member.address, "GET", "/explain", asked))[1])
        found.append(told)
    return found


def _lists_near(history: History, sample: Sample, member: int, ip: str) -> list[tuple[float, float, str]]:
    """The lists of the same service that a member gave about that time: from when to when, and what was in them."""
    return [
        (one.begun_s, one.ended_s, "no list" if one.hosts is None else str(one.hosts.get(ip)))
        for one in history.samples
        if one.member == member
        and one.service == sample.service
        and one.ended_s > sample.begun_s - EXPLAINED_NEAR_S
        and one.begun_s < sample.ended_s + EXPLAINED_NEAR_S
    ]


def _result(world: World, explained: Sequence[Mapping[str, object]]) -> Result:
    history = world.load.history
    words = [word for said in history.words.values() for word in said if word.ended_s >= world.cut_s]
    times = Times(world.cut_s, world.healed_s, world.sides, world.killed_s, world.killed, world.paused)
    last = last_disagreement(history, world.healed_s)
    return Result(
        check(history, times),
        agreed_after_s(history, world.healed_s),
        last.text if isinstance(last, Disagreement) else last or "",
        len(words),
        sum(word.outcome is Outcome.REFUSED for word in words),
        sum(word.outcome is Outcome.UNKNOWN for word in words),
        history.unknown_beats,
        sum(is_removed_late(history.words[key], times) for key in history.late),
        sum(member.tracebacks() for member in world.cluster.members),
        world.load.late_s,
        world.cut_s,
        world.healed_s,
        explained,
    )
