"""The scenarios of two linked clusters. The runs of one take the clusters and members in turn, by their seed."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable

from tests.chaos import wall_clock
from tests.chaos.cluster import Member
from tests.chaos.load import BEAT_S
from tests.chaos.two_clusters import MEMBERS, LinkedScenario, LinkedSide, TwoClusters

LINKED: dict[str, LinkedScenario] = {}
DOWN_S = 20.0
"""A cluster that restarts empty is away for so long: longer than an instance without beats is healthy."""
CLOCK_OFFSETS_S = (3_600, -4_000, 0)

LinkedFaults = Callable[[TwoClusters], Awaitable[None]]


def linked(
    prepare: Callable[[Member], None] | None = None, unable: Callable[[], str] | None = None
) -> Callable[[LinkedFaults], LinkedFaults]:
    """Put a function among the scenarios, under its name; the arguments are those of ``LinkedScenario``."""

    def add(faults: LinkedFaults) -> LinkedFaults:
        name = faults.__name__.replace("_", "-")
        about = (faults.__doc__ or "").partition("\n")[0]
        LINKED[name] = LinkedScenario(name, faults, about, prepare, unable)
        return faults

    return add


def _over(world: TwoClusters, *silent: LinkedSide) -> None:
    """End a cut, in which these sides heard nothing."""
    world.over()
    for side in silent:
        side.hears_until_s = world.healed_s


@linked()
async def linked_cut(world: TwoClusters) -> None:
    """Two linked clusters do not reach each other for a minute."""
    world.begin()
    world.network.split(world.places(0), world.places(1))
    await asyncio.sleep(world.pace.links_cut_s)
    _over(world, *world.sides)


@linked()
async def linked_one_way(world: TwoClusters) -> None:
    """What one of two linked clusters sends does not arrive at the other for a minute."""
    world.begin()
    sender = world.turn % 2
    world.network.cut(world.places(sender), world.places(1 - sender))
    await asyncio.sleep(world.pace.links_cut_s)
    _over(world, world.sides[1 - sender])


@linked()
async def linked_killed(world: TwoClusters) -> None:
    """One member of two linked clusters is killed, and started after a while."""
    side, number = world.victim
    member = side.cluster.members[number]
    world.begin()
    side.killed_s, side.killed = time.monotonic(), frozenset({number})
    member.kill()
    await asyncio.sleep(world.pace.cut_s)
    await _start(side, [member])
    world.over()


@linked()
async def linked_restarted(world: TwoClusters) -> None:
    """One member of two linked clusters is stopped in order, and started at once."""
    side, number = world.victim
    member = side.cluster.members[number]
    world.begin()
    await asyncio.to_thread(member.stop)
    await _start(side, [member])
    world.over()


@linked()
async def linked_paused(world: TwoClusters) -> None:
    """One member of two linked clusters stands still for a while."""
    side, number = world.victim
    member = side.cluster.members[number]
    world.begin()
    side.paused = frozenset({number})
    member.signal(signal.SIGSTOP)
    await asyncio.sleep(world.pace.pause_s)
    member.signal(signal.SIGCONT)
    world.over()


@linked()
async def linked_emptied(world: TwoClusters) -> None:
    """All members of one of two linked clusters are killed, lose their data, and are started after a while."""
    reader, side = world.sides[world.turn % 2], world.sides[1 - world.turn % 2]
    members = side.cluster.members
    world.begin()
    side.killed_s, side.killed, side.is_emptied = time.monotonic(), frozenset(range(MEMBERS)), True
    for member in members:
        member.kill()
    await asyncio.sleep(DOWN_S)
    for member in members:
        member.forget_all()
    reader.hears_until_s = time.monotonic()
    await _start(side, members)
    await asyncio.sleep(BEAT_S)  # until all its clients came back
    world.over()


async def _start(side: LinkedSide, members: list[Member]) -> None:
    side.begun_s = time.monotonic()
    for member in members:
        member.start()
    for member in members:
        await asyncio.to_thread(member.wait_ready)
    side.started_s = time.monotonic()


@linked(prepare=Member.own_wall_clock, unable=wall_clock.unable)
async def linked_clocks(world: TwoClusters) -> None:
    """The wall clocks of one of two linked clusters jump an hour ahead, then two hours back, then are right again."""
    world.are_words_late = False
    world.begin()
    for offset_s in CLOCK_OFFSETS_S:
        for member in world.sides[1].cluster.members:
            assert member.wall_clock is not None
            member.wall_clock.jump(offset_s)
        await asyncio.sleep(world.pace.cut_s / len(CLOCK_OFFSETS_S))
    world.over()
