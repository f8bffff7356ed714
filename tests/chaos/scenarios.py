"""The scenarios: each is a coroutine that hurts a world and heals it. Two more are proofs that breaches are found."""

import asyncio
import json
import signal
import time
from collections.abc import Awaitable, Callable

from tests.chaos import wall_clock
from tests.chaos.cluster import Cluster, Member
from tests.chaos.http import call
from tests.chaos.load import LATE_S
from tests.chaos.network import Cut
from tests.chaos.slow_link import SlowLink
from tests.chaos.world import Scenario, World

EVERYBODY = range(3)
SCENARIOS: dict[str, Scenario] = {}

Faults = Callable[[World], Awaitable[None]]


def scenario(
    members: int = 3,
    listed: int = 3,
    prepare: Callable[[Cluster], None] | None = None,
    unable: Callable[[], str] | None = None,
    is_proof: bool = False,
) -> Callable[[Faults], Faults]:
    """Put a function among the scenarios, under its name; the arguments are those of ``Scenario``."""

    def add(faults: Faults) -> Faults:
        name = faults.__name__.replace("_", "-")
        about = (faults.__doc__ or "").partition("\n")[0]
        SCENARIOS[name] = Scenario(name, faults, about, members, listed, prepare, unable, is_proof)
        return faults

    return add


# --- cuts ---------------------------------------------------------------------------------------------


async def _apart(world: World, lasting_s: float, kind: Cut = Cut.DROP) -> None:
    world.cut({0}, {1, 2})
    world.network.split([0], [1, 2], kind)
    is_long = lasting_s >= world.pace.cut_s  # both sides have taken all keys over
    if is_long:
        await asyncio.sleep(lasting_s - LATE_S - 2.0)
        await world.load.remove_late([[0], [1, 2]])
        await asyncio.sleep(2.0)
    else:
        await asyncio.sleep(lasting_s)
    world.healed()


@scenario()
async def split(world: World) -> None:
    """One member apart from two; packets vanish."""
    await _apart(world, world.pace.cut_s)


@scenario()
async def reset(world: World) -> None:
    """One member apart from two; connections are reset."""
    await _apart(world, world.pace.cut_s, Cut.RESET)


@scenario()
async def short(world: World) -> None:
    """One member apart from two, for less than it takes to be DOWN."""
    await _apart(world, 2.5)


@scenario()
async def six_seconds(world: World) -> None:
    """One member apart from two, about as long as it takes to be DOWN."""
    await _apart(world, 6.0)


@scenario()
async def twelve_seconds(world: World) -> None:
    """One member apart from two, a little longer than it takes to be DOWN."""
    await _apart(world, 12.0)


@scenario()
async def isolate_all(world: World) -> None:
    """Nobody reaches anybody."""
    world.cut({0}, {1}, {2})
    world.network.split(EVERYBODY, EVERYBODY)
    await asyncio.sleep(world.pace.cut_s)
    world.healed()


@scenario()
async def bridge(world: World) -> None:
    """One link cut: the third member reaches both."""
    world.cut({0, 2}, {1, 2})
    world.network.split([0], [1])
    await asyncio.sleep(world.pace.cut_s)
    world.healed()


@scenario()
async def one_way_packets(world: World) -> None:
    """What one member sends arrives at nobody; it gets what the others send."""
    world.cut({0}, {1, 2})
    world.network.cut([0], [1, 2])
    await asyncio.sleep(world.pace.cut_s)
    world.healed()


@scenario()
async def not_called(world: World) -> None:
    """The others cannot call one member; it can call them."""
    world.cut({0}, {1, 2})
    world.network.cut([1, 2], [0], Cut.CONNECTS)
    await asyncio.sleep(world.pace.cut_s)
    world.healed()


@scenario()
async def cannot_call(world: World) -> None:
    """One member cannot call the others; they can call it."""
    world.cut({0}, {1, 2})
    world.network.cut([0], [1, 2], Cut.CONNECTS)
    await asyncio.sleep(world.pace.cut_s)
    world.healed()


@scenario()
async def flap(world: World) -> None:
    """A link that comes and goes."""
    world.cut({0}, {1, 2})
    for _ in range(5):
        world.network.split([0], [1, 2])
        await asyncio.sleep(3.0)
        world.network.heal()
        await asyncio.sleep(3.0)
    world.healed()


@scenario()
async def slow(world: World) -> None:
    """300 ms there and back, and a fifth of the packets lost."""
    world.cut()
    link = SlowLink(world.network, 0.15, 0.2, seed=1)
    await asyncio.to_thread(link.begin)
    await asyncio.sleep(world.pace.cut_s)
    await asyncio.to_thread(link.end)
    world.healed()


# --- processes ----------------------------------------------------------------------------------------


async def _restart_in_cut(world: World, numbers: list[int]) -> None:
    world.cut({0}, {1, 2})
    world.network.split([0], [1, 2])
    await asyncio.sleep(world.pace.cut_s * 0.4)
    members = [world.cluster.members[number] for number in numbers]
    world.kill(members)
    for member in members:
        member.start()
    await asyncio.sleep(world.pace.cut_s * 0.6)
    world.healed()
    for member in members:
        await asyncio.to_thread(member.wait_ready)


@scenario()
async def majority_killed(world: World) -> None:
    """Both members of the larger side are killed and started inside the cut."""
    await _restart_in_cut(world, [1, 2])


@scenario()
async def isolated_killed(world: World) -> None:
    """The member that is apart is killed and started inside the cut."""
    await _restart_in_cut(world, [0])


@scenario()
async def pause(world: World) -> None:
    """One member stands still for a while; reads wait in its sockets."""
    world.cut({0}, {1, 2})
    world.paused = frozenset({0})
    world.cluster.members[0].signal(signal.SIGSTOP)
    await asyncio.sleep(world.pace.pause_s)
    waiting = asyncio.ensure_future(world.load.read_all(0))
    await asyncio.sleep(0.5)
    world.cluster.members[0].signal(signal.SIGCONT)
    world.healed()
    await waiting


# --- machines -----------------------------------------------------------------------------------------


@scenario(prepare=lambda cluster: cluster.members[0].small_disk())
async def disk_full(world: World) -> None:
    """The disk of one member takes nothing for a while."""
    world.cut(set(EVERYBODY))
    world.cluster.members[0].fill_disk()
    await asyncio.sleep(world.pace.cut_s)
    world.cluster.members[0].free_disk()
    world.healed()


@scenario(prepare=lambda cluster: cluster.members[0].own_wall_clock(), unable=wall_clock.unable)
async def clock(world: World) -> None:
    """The wall clock of one member jumps an hour ahead, then two hours back, then is right again."""
    member = world.cluster.members[0]
    assert member.wall_clock is not None
    world.cut(set(EVERYBODY))
    for offset_s in (3_600, -4_000, 0):
        member.wall_clock.jump(offset_s)
        await _shows(member, offset_s)
        await asyncio.sleep(world.pace.cut_s / 3)
    world.healed()


async def _shows(member: Member, offset_s: int) -> None:
    """Return if the member's lists tell the true time plus ``offset_s``.

    Raises:
        RuntimeError: they tell another; the jump did not reach the member.
    """
    _, body = await call(member.address, "GET", "/instance/list", {"serviceName": "lasting-0"})
    told_s = json.loads(body)["lastRefTime"] / 1_000 - time.time()
    if abs(told_s - offset_s) > 5:
        raise RuntimeError(f"member {member.number} is {told_s:.0f} s ahead, and not {offset_s}")


# --- the member list ----------------------------------------------------------------------------------


async def _spread(world: World, members: list[Member], listed: list[Member]) -> None:
    """Give each member the new list in an order of its own, one after the other with some time between."""
    for member in world.random.sample(members, len(members)):
        member.list_members(one.address for one in world.random.sample(listed, len(listed)))
        await asyncio.sleep(world.random.uniform(0.5, 3.0))


@scenario(members=4)
async def list_change(world: World) -> None:
    """A fourth member joins and the first leaves; each member reads its new list at another time, in another order."""
    first, *_, fourth = world.cluster.members
    world.cut({0, 1, 2, 3})
    fourth.list_members(member.address for member in world.cluster.members)
    fourth.start()
    await _spread(world, world.cluster.listed, world.cluster.members)
    await asyncio.to_thread(fourth.wait_ready)
    world.load.join(fourth.number)
    await asyncio.sleep(world.pace.cut_s / 2)
    staying = world.cluster.members[1:]
    world.load.stop_reading(first.number)
    await _spread(world, staying, staying)
    await asyncio.to_thread(first.stop)
    world.load.leave(first.number)
    await asyncio.sleep(world.pace.cut_s / 2)
    world.healed()


# --- proofs -------------------------------------------------------------------------------------------


@scenario(is_proof=True)
async def unhealed(world: World) -> None:
    """A proof: one member apart from two, and the network never heals."""
    await _apart(world, world.pace.cut_s)
    world.network.split([0], [1, 2])


@scenario(is_proof=True)
async def amnesia(world: World) -> None:
    """A proof: all members are killed, and lose all that they wrote to their disks."""
    world.load.writing.clear()
    world.cut(set(EVERYBODY))
    for member in world.cluster.members:
        member.kill()
        member.forget_all()
        member.start()
    for member in world.cluster.members:
        await asyncio.to_thread(member.wait_ready)
    world.healed()
