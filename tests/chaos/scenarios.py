"""The faults: each is a coroutine that hurts a world and heals it."""

import asyncio
import signal
from collections.abc import Callable

from tests.chaos.network import Cut
from tests.chaos.slow_link import SlowLink
from tests.chaos.world import Faults, World

CUT_S = 25.0
"""Longer than it takes until silent members are DOWN, and than an instance that nobody hears of is healthy."""
EVERYBODY = range(3)
SCENARIOS: dict[str, Faults] = {}


def scenario(faults: Faults) -> Faults:
    SCENARIOS[faults.__name__.replace("_", "-")] = faults  # type: ignore[attr-defined]
    return faults


@scenario
async def split(world: World) -> None:
    """One member apart from two; packets vanish."""
    world.cut({0}, {1, 2})
    world.network.split([0], [1, 2])
    await asyncio.sleep(CUT_S)
    world.healed()


@scenario
async def reset(world: World) -> None:
    """One member apart from two; connections are reset."""
    world.cut({0}, {1, 2})
    world.network.split([0], [1, 2], Cut.RESET)
    await asyncio.sleep(CUT_S)
    world.healed()


@scenario
async def short(world: World) -> None:
    """One member apart from two, for less than it takes to be DOWN."""
    world.cut({0}, {1, 2})
    world.network.split([0], [1, 2])
    await asyncio.sleep(2.5)
    world.healed()


@scenario
async def six_seconds(world: World) -> None:
    """One member apart from two, about as long as it takes to be DOWN."""
    world.cut({0}, {1, 2})
    world.network.split([0], [1, 2])
    await asyncio.sleep(6.0)
    world.healed()


@scenario
async def twelve_seconds(world: World) -> None:
    """One member apart from two, a little longer than it takes to be DOWN."""
    world.cut({0}, {1, 2})
    world.network.split([0], [1, 2])
    await asyncio.sleep(12.0)
    world.healed()


@scenario
async def isolate_all(world: World) -> None:
    """Nobody reaches anybody."""
    world.cut({0}, {1}, {2})
    world.network.split(EVERYBODY, EVERYBODY)
    await asyncio.sleep(CUT_S)
    world.healed()


@scenario
async def bridge(world: World) -> None:
    """One link cut: the third member reaches both."""
    world.cut({0}, {1}, {2})
    world.network.split([0], [1])
    await asyncio.sleep(CUT_S)
    world.healed()


@scenario
async def one_way_packets(world: World) -> None:
    """What one member sends arrives at nobody; it gets what the others send."""
    world.cut({0}, {1, 2})
    world.network.cut([0], [1, 2])
    await asyncio.sleep(CUT_S)
    world.healed()


@scenario
async def not_called(world: World) -> None:
    """The others cannot call one member; it can call them."""
    world.cut({0}, {1, 2})
    world.network.cut([1, 2], [0], Cut.CONNECTS)
    await asyncio.sleep(CUT_S)
    world.healed()


@scenario
async def cannot_call(world: World) -> None:
    """One member cannot call the others; they can call it."""
    world.cut({0}, {1, 2})
    world.network.cut([0], [1, 2], Cut.CONNECTS)
    await asyncio.sleep(CUT_S)
    world.healed()


@scenario
async def flap(world: World) -> None:
    """A link that comes and goes."""
    world.cut({0}, {1, 2})
    for _ in range(5):
        world.network.split([0], [1, 2])
        await asyncio.sleep(3.0)
        world.network.heal()
        await asyncio.sleep(3.0)
    world.healed()


@scenario
async def slow(world: World) -> None:
    """300 ms there and back, and a fifth of the packets lost."""
    world.cut()
    link = SlowLink(world.network, 0.15, 0.2, seed=1)
    await asyncio.to_thread(link.begin)
    await asyncio.sleep(CUT_S)
    await asyncio.to_thread(link.end)
    world.healed()


async def _restart_in_cut(world: World, numbers: list[int]) -> None:
    world.cut({0}, {1, 2})
    world.network.split([0], [1, 2])
    await asyncio.sleep(10.0)
    members = [world.cluster.members[number] for number in numbers]
    for member in members:
        await asyncio.to_thread(member.kill)
    for member in members:
        member.start()
    await asyncio.sleep(CUT_S - 10.0)
    world.healed()
    for member in members:
        await asyncio.to_thread(member.wait_ready)


@scenario
async def majority_killed(world: World) -> None:
    """Both members of the larger side are killed and started inside the cut."""
    await _restart_in_cut(world, [1, 2])


@scenario
async def isolated_killed(world: World) -> None:
    """The member that is apart is killed and started inside the cut."""
    await _restart_in_cut(world, [0])


@scenario
async def pause(world: World) -> None:
    """One member stands still for 40 s."""
    world.cut({0}, {1, 2})
    world.cluster.members[0].signal(signal.SIGSTOP)
    await asyncio.sleep(40.0)
    world.cluster.members[0].signal(signal.SIGCONT)
    world.healed()


@scenario
async def disk_full(world: World) -> None:
    """The disk of one member takes nothing for a while."""
    world.cut()
    world.cluster.members[0].fill_disk()
    await asyncio.sleep(CUT_S)
    world.cluster.members[0].free_disk()
    world.healed()


def _prepare(faults: Faults) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def keep(prepare: Callable[..., None]) -> Callable[..., None]:
        faults.prepare = prepare  # type: ignore[attr-defined]
        return prepare

    return keep


@_prepare(disk_full)
def _small_disk(cluster) -> None:  # type: ignore[no-untyped-def]
    cluster.members[0].small_disk()
