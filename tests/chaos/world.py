"""One run: the network, the members and the clients, a scenario's faults, and what the checker finds."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.checker import Found, Times, agreed_after_s, check
from tests.chaos.cluster import Cluster
from tests.chaos.history import Outcome
from tests.chaos.load import Amounts, Load
from tests.chaos.network import DRIVER_IP, Network, run

MEMBERS = 3
BEFORE_S = 12.0
"""From the start of the load to the fault: longer than a word takes to settle."""
AFTER_S = 25.0
"""From the heal to the end of the churn: longer than the time to settle, and than an expiry's delay."""
LAST_S = 6.0
"""From the end of the churn until the last lists are compared."""
SWITCH_HEALTH_S = 3.0


@dataclass(slots=True)
class World:
    """What a scenario works on; it calls ``cut`` before its first fault and ``healed`` after the end of all."""

    network: Network
    cluster: Cluster
    load: Load
    sides: tuple[frozenset[int], ...] = ()
    cut_s: float = 0.0
    healed_s: float = 0.0

    def cut(self, *sides: set[int]) -> None:
        """The fault begins, and the keys of two sides are written; ``sides`` are those that cannot talk."""
        self.sides = tuple(map(frozenset, sides))
        self.cut_s = time.monotonic()
        self.load.writing.set()

    def healed(self) -> None:
        """All faults are over."""
        self.load.writing.clear()
        self.network.heal()
        self.healed_s = time.monotonic()


Faults = Callable[[World], Awaitable[None]]


@dataclass(slots=True)
class Result:
    """What a run showed."""

    found: Found
    agreed_s: float | None
    """From the heal until all members listed the same, and went on to; None: never."""
    words: int
    refused: int
    """Words that were answered and not acknowledged."""
    unknown: int
    """Words without an answer in time."""
    tracebacks: int
    cut_s: float = field(default=0.0)


@contextlib.contextmanager
def _health_checked_ips(count: int) -> Iterator[list[str]]:
    """Addresses of this process's namespace, for persistent instances, whose health a check of the members finds."""
    ips = [f"10.77.1.{number + 1}" for number in range(count)]
    for ip in ips:
        run("ip", "addr", "add", f"{ip}/32", "dev", "br0")
    try:
        yield ips
    finally:
        for ip in ips:
            run("ip", "addr", "del", f"{ip}/32", "dev", "br0")


async def _switch_health(ips: list[str], until: asyncio.Event) -> None:
    """Open and close the port of half of the addresses, in turn."""

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    turn = 0
    while not until.is_set():
        turn += 1
        servers = [await asyncio.start_server(serve, ip, 8080) for ip in ips[turn % 2 :: 2]]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(until.wait(), SWITCH_HEALTH_S)
        for server in servers:
            server.close()


def play(faults: Faults, amounts: Amounts, seed: int, command: Path | None, log: Callable[[str], None]) -> Result:
    """Run a scenario once; needs a namespace of this process's own."""
    with tempfile.TemporaryDirectory(prefix="rollcall-chaos-") as folder:
        network = Network(MEMBERS)
        try:
            for place in network.places:
                run(*place.enter("ip", "route", "add", "10.77.1.0/24", "via", DRIVER_IP))
            cluster = Cluster(network, Path(folder), command)
            try:
                prepare = getattr(faults, "prepare", None)
                if prepare is not None:
                    prepare(cluster)
                cluster.start()
                log("members serve")
                with _health_checked_ips(amounts.two_sided) as ips:
                    return asyncio.run(
                        _play(World(network, cluster, Load([], amounts, seed)), faults, amounts, seed, ips)
                    )
            finally:
                cluster.end()
        finally:
            network.end()
            run("ip", "link", "del", "br0")


async def _play(world: World, faults: Faults, amounts: Amounts, seed: int, ips: list[str]) -> Result:
    load = world.load = Load([member.address for member in world.cluster.members], amounts, seed)
    load.durable_ips = ips
    over = asyncio.Event()
    switching = asyncio.create_task(_switch_health(ips, over))
    await load.begin()
    load.writing.set()
    await asyncio.sleep(BEFORE_S)
    await faults(world)
    over.set()
    await switching
    await asyncio.sleep(AFTER_S)
    load.stop_churn()
    await asyncio.sleep(LAST_S + max(0.0, 10.0))
    end_s = time.monotonic()
    await asyncio.sleep(2.0)
    await load.end()
    history = load.history
    times = Times(world.cut_s, world.healed_s, world.sides)
    words = [word for said in history.words.values() for word in said]
    during = [word for word in words if world.cut_s <= word.ended_s]
    return Result(
        check(history, times, end_s),
        agreed_after_s(history, world.healed_s),
        len(during),
        sum(word.outcome is Outcome.REFUSED for word in during),
        sum(word.outcome is Outcome.UNKNOWN for word in during),
        sum(member.tracebacks() for member in world.cluster.members),
        world.cut_s,
    )
