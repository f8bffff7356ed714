"""One run of two linked clusters: their network, members and clients, a fault, and what the checkers find."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.chaos.checker import Times, check
from tests.chaos.cluster import Cluster, Member
from tests.chaos.foreign_checker import SHOWN_S, YOUNG_S, Hearing, check_foreign, unlike
from tests.chaos.history import Outcome
from tests.chaos.load import Amounts, Load
from tests.chaos.network import Network
from tests.chaos.world import LAST_PAUSE_S, LAST_ROUNDS, Pace

MEMBERS = 3
"""The members of each cluster."""
NAMES = ("dc-a", "dc-b")
IPS = 1 << 20
"""The addresses of one cluster's instances."""
LINKED_AMOUNTS = Amounts(
    lasting=60,
    lasting_services=6,
    churn_services=2,
    two_sided=0,
    two_sided_services=0,
    connected=20,
    connected_services=3,
    connected_two_sided=0,
    connected_two_sided_services=0,
    late=0,
    late_services=0,
)
BRIEF_LINKED_AMOUNTS = replace(
    LINKED_AMOUNTS, lasting=20, lasting_services=2, churn_services=1, connected=6, connected_services=1
)


@dataclass(slots=True)
class LinkedSide:
    """One of the clusters, with its clients."""

    cluster: Cluster
    load: Load
    hears_until_s: float | None = None
    """Until when it hears nothing of the other one since the fault began; None if it always hears something."""
    started_s: float = 0.0
    """When the last of its members was ready, after its last start."""
    is_emptied: bool = False
    begun_s: float = 0.0
    """When the last start of its members began."""
    killed_s: float = 0.0
    killed: frozenset[int] = frozenset()
    paused: frozenset[int] = frozenset()


@dataclass(slots=True)
class TwoClusters:
    """A world for a scenario, which calls ``begin`` before its first fault and ``over`` after the end of all."""

    network: Network
    sides: tuple[LinkedSide, LinkedSide]
    pace: Pace
    turn: int
    """Chooses the cluster and the member of a fault: the runs of a scenario take them in turn."""
    cut_s: float = 0.0
    healed_s: float = 0.0
    are_words_late: bool = True
    """Whether words of the time of the fault may show only after its end."""

    @property
    def victim(self) -> tuple[LinkedSide, int]:
        """The side and the number of the member there whose turn it is."""
        return self.sides[self.turn // MEMBERS % 2], self.turn % MEMBERS

    def places(self, side: int) -> range:
        """Return the numbers of the members of a cluster in the network."""
        return range(side * MEMBERS, (side + 1) * MEMBERS)

    @property
    def settled_s(self) -> float:
        """From when on no member is young, and nothing is kept for that."""
        return max(side.started_s for side in self.sides) + YOUNG_S + SHOWN_S

    def begin(self) -> None:
        """The fault begins."""
        self.cut_s = time.monotonic()

    def over(self) -> None:
        """All faults are over."""
        self.network.heal()
        self.healed_s = time.monotonic()


@dataclass(frozen=True, slots=True)
class LinkedScenario:
    """A fault of two linked clusters."""

    name: str
    faults: Callable[[TwoClusters], Awaitable[None]]
    about: str
    prepare: Callable[[Member], None] | None = None
    """Called with each member of the second cluster before it starts."""
    unable: Callable[[], str] | None = None


@dataclass(slots=True)
class LinkedResult:
    """Figures and breaches of a run. ``breaches``: by kind and subject; those of one cluster alone begin with *own*."""

    breaches: dict[str, dict[str, str]]
    lists: int
    timed: int
    """As ``ForeignFound`` has them."""
    words: int
    refused: int
    unanswered: int
    stale_s: float | None
    """From the beginning of silence until all foreign instances were marked; None without silence."""
    agreed_s: float
    gone_s: float
    tracebacks: int
    late_s: float
    cut_s: float
    healed_s: float


def play_linked(
    scenario: LinkedScenario, pace: Pace, amounts: Amounts, seed: int, command: Path | None, folder: Path
) -> LinkedResult:
    """Run a scenario once, in namespaces of this process's own; ``folder`` takes the members' files.

    Raises:
        RuntimeError: a member did not serve in time.
        Unable: the machine does not allow what the scenario needs.
    """
    network = Network(2 * MEMBERS)
    clusters: list[Cluster] = []
    try:
        loads = list[Load]()
        for number, own in enumerate(_amounts_of_both(amounts)):
            places = range(number * MEMBERS, (number + 1) * MEMBERS)
            clusters.append(Cluster(network, folder, MEMBERS, command, places))
            addresses = [member.address for member in clusters[-1].members]
            loads.append(Load(addresses, range(MEMBERS), [], own, seed + number))
        _link(clusters, scenario)
        with ThreadPoolExecutor() as pool:
            for future in [pool.submit(one.start) for one in clusters]:
                future.result()
        now_s = time.monotonic()
        one, other = (LinkedSide(*pair, started_s=now_s) for pair in zip(clusters, loads, strict=True))
        return asyncio.run(_play(TwoClusters(network, (one, other), pace, seed - 1), scenario))
    finally:
        for cluster in clusters:
            cluster.end()
        network.end()


def _amounts_of_both(amounts: Amounts) -> list[Amounts]:
    """Return the load of each cluster: instances that come and go in the same services, and last in different ones."""
    own = [replace(amounts, owner=f"{name}-", first_ip=number * IPS) for number, name in enumerate(NAMES)]
    return [replace(one, also_read=other.lasting_names()) for one, other in zip(own, reversed(own), strict=True)]


def _link(clusters: list[Cluster], scenario: LinkedScenario) -> None:
    """Give the members the settings of a link each way."""
    for number, cluster in enumerate(clusters):
        servers = ",".join(member.address for member in clusters[1 - number].members)
        settings = {"rollcall.cluster.id": NAMES[number], f"rollcall.link.{NAMES[1 - number]}.servers": servers}
        for member in cluster.members:
            member.environ |= settings
            if number and scenario.prepare is not None:
                scenario.prepare(member)


async def _play(world: TwoClusters, scenario: LinkedScenario) -> LinkedResult:
    loads = [side.load for side in world.sides]
    for load in loads:
        await load.begin()
    await asyncio.sleep(world.pace.before_s)
    await scenario.faults(world)
    await asyncio.sleep(world.pace.after_s)
    for load in loads:
        load.stop_churn()
    await asyncio.sleep(world.pace.last_s)
    await asyncio.sleep(max(world.settled_s - time.monotonic(), 0))
    for _ in range(LAST_ROUNDS):
        for load in loads:
            load.history.last = await load.read_last()
        if not unlike([sample for load in loads for sample in load.history.last]):
            break
        await asyncio.sleep(LAST_PAUSE_S)
    for load in loads:
        await load.end()
    return _result(world)


def _hearing(world: TwoClusters, number: int) -> Hearing:
    """Return what a cluster hears of the other one."""
    reader, origin = world.sides[number], world.sides[1 - number]
    return Hearing(
        world.cut_s,
        world.healed_s,
        reader.hears_until_s or 0.0,
        world.are_words_late,
        origin.started_s + YOUNG_S + SHOWN_S,
        origin.is_emptied,
        origin.begun_s + YOUNG_S,
        reader.is_emptied,
    )


def _result(world: TwoClusters) -> LinkedResult:
    breaches: dict[str, dict[str, str]] = {}
    histories = [side.load.history for side in world.sides]
    for side, history in zip(world.sides, histories, strict=True):
        times = Times(world.cut_s, world.healed_s, (), side.killed_s, side.killed, side.paused)
        for kind, own in check(history, times).breaches.items():
            breaches.setdefault(f"own {kind.value}", {}).update({name: str(one) for name, one in own.items()})
    hearings = [_hearing(world, number) for number in range(len(NAMES))]
    foreign = [check_foreign(histories[at], histories[1 - at], hearing) for at, hearing in enumerate(hearings)]
    for one in foreign:
        for kind, found in one.breaches.items():
            breaches.setdefault(kind.value, {}).update({name: str(breach) for name, breach in found.items()})
    said = [word for history in histories for words in history.words.values() for word in words]
    words = [word for word in said if word.ended_s >= world.cut_s]
    members = [member for side in world.sides for member in side.cluster.members]
    return LinkedResult(
        breaches,
        sum(one.lists for one in foreign),
        sum(one.timed for one in foreign),
        len(words),
        sum(word.outcome is Outcome.REFUSED for word in words),
        sum(word.outcome is Outcome.UNKNOWN for word in words),
        max(one.stale_s for one in foreign) if any(one.silent_until_s for one in hearings) else None,
        max(one.agreed_s for one in foreign),
        max(one.gone_s for one in foreign),
        sum(member.tracebacks() for member in members),
        max(side.load.late_s for side in world.sides),
        world.cut_s,
        world.healed_s,
    )
