"""The faults of a world: a plan drawn from its chance, carried out in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.http.api.call import Call
from app.replication.instance_list_type import INSTANCE_LIST
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.transcript.entry import What
from app.tools.simulation.world.network import Weather
from app.tools.simulation.world.world import World
from distro.model.types import VERSION_NUMBER_MAX, Datum, Version
from distro.wire.codec import encode_frame
from distro.wire.http_agent import MEMBER_HEADER

Fault = Callable[[World, int], None]
"""Starts a fault now, which ends by itself after about so many ms."""


def crash(world: World, length_ms: int) -> None:
    """A member is killed and returns empty."""
    member = world.any_member()
    if not member.listening:
        return
    world.trace(member.address, f"is killed for {length_ms} ms", What.FAULT)
    world.kill(member)
    world.in_faults(length_ms, lambda: world.start(member))


def crash_at_the_disk(world: World, length_ms: int) -> None:
    """A member is killed while its disk, which is slow, writes something."""
    member = world.any_member()
    disk = member.record_disk
    slow_disk_of(world, member, length_ms)

    def look() -> None:
        if member.listening and member.disk.is_busy and not member.paused:
            disk.hurry()
            world.kill(member)
            world.in_faults(2_000, lambda: world.start(member))
        elif disk.is_slow:
            world.in_faults(50, look)

    look()


def power_cut(world: World, length_ms: int) -> None:
    """All members are killed at once, and come back one by one, with their disks."""
    world.marks["power cut"] += 1
    world.trace("world", f"has no power for {length_ms} ms", What.FAULT)
    for member in world.members.values():
        world.kill(member)
        world.in_faults(length_ms + world.between(0, 1_500), partial(world.start, member))


def leave(world: World, length_ms: int) -> None:
    """A member is stopped in an orderly way and returns empty."""
    member = world.any_member()
    if not member.serving:
        return
    world.trace(member.address, f"leaves for {length_ms} ms", What.FAULT)
    member.leave()
    world.in_faults(length_ms + member.config.drain_ms_max, lambda: world.start(member))


def drain(world: World, length_ms: int) -> None:
    """An operator drains a member, and has it serve again after a while."""
    member = world.any_member()
    if not member.serving or member.membership.draining:
        return
    world.trace(member.address, f"is drained for {length_ms} ms", What.FAULT)
    member.drain()
    run = member.run
    world.in_faults(length_ms, lambda: member.drain(enabled=False) if member.run == run else None)


def pause(world: World, length_ms: int) -> None:
    """A member is paused; its connections stay open."""
    member = world.any_member()
    if not member.listening or member.paused:
        return
    world.trace(member.address, f"is paused for {length_ms} ms", What.FAULT)
    member.pause()
    run = member.run
    world.in_faults(length_ms, lambda: world.resume(member) if member.run == run else None)


def partition(world: World, length_ms: int) -> None:
    """Two groups of members hear nothing of each other; a client is on one side, or sees both."""
    one_side = set(world.sample(world.addresses, world.between(1, len(world.addresses) - 1)))
    clients = {client.address: world.choice(("one", "other", "both")) for client in world.clients}
    cuts = [(a, b) for a in world.addresses for b in world.addresses if (a in one_side) != (b in one_side)]
    for client, side in clients.items():
        if side != "both":
            cuts += [(client, a) for a in world.addresses if (a in one_side) != (side == "one")]
    world.trace("network", f"separates {', '.join(sorted(one_side))} from the others for {length_ms} ms", What.FAULT)
    _cut(world, cuts, length_ms)


def deaf(world: World, length_ms: int) -> None:
    """One member's messages to another are lost; in the other direction they arrive."""
    source, target = world.sample(world.addresses, 2)
    world.trace("network", f"loses all messages from {source} to {target} for {length_ms} ms", What.FAULT)
    _cut(world, [(source, target)], length_ms)


def block(world: World, length_ms: int) -> None:
    """One member cannot call another, but answers it; sometimes its calls are refused, sometimes lost."""
    source, target = world.sample(world.addresses, 2)
    refused = world.chance(0.3)
    world.trace("network", f"blocks calls from {source} to {target} for {length_ms} ms", What.FAULT)
    world.network.block(source, target, refused=refused)
    world.in_faults(length_ms, lambda: world.network.unblock(source, target, refused=refused))


def bridge(world: World, length_ms: int) -> None:
    """Two members hear nothing of each other, all others hear both; a client may reach only one of them."""
    if len(world.addresses) < 3:
        return
    one, other = world.sample(world.addresses, 2)
    world.marks["bridge"] += 1
    world.trace("network", f"cuts {one} from {other}, but not from the others, for {length_ms} ms", What.FAULT)
    cuts = [(one, other), (other, one)]
    for client in world.clients:
        side = world.choice((one, other, ""))
        cuts += [(client.address, side)] if side else []
    _cut(world, cuts, length_ms)


def change_lists(world: World, length_ms: int) -> None:
    """One member leaves the list of each other member and comes back to it, at a different time for each."""
    gone = world.any_member()
    rest = [one for one in world.addresses if one != gone.address]
    world.trace(gone.address, f"leaves the member lists, one after the other, for {length_ms} ms", What.FAULT)

    def take(member: SimMember, addresses: list[str]) -> None:
        if member.listed != tuple(sorted({*addresses, member.address})):
            world.marks["list changed while running" if member.listening else "list changed while away"] += 1
            member.take_list(addresses)

    for member in world.members.values():
        keeps_others = member is gone and world.chance(0.5)
        without = world.addresses if keeps_others else rest if member is not gone else []
        world.in_faults(world.between(0, length_ms // 2), partial(take, member, without))
        world.in_faults(world.between(length_ms // 2, length_ms), partial(take, member, world.addresses))


def jump(world: World, length_ms: int) -> None:
    """One member's wall clock is set, sometimes by days."""
    member = world.any_member()
    if not member.listening:
        return
    world.marks["wall clock set"] += 1
    reach_ms = world.choice((2_000, 3_600_000, 10 * 86_400_000))
    jump_ms = world.between(-reach_ms, reach_ms)
    world.trace(member.address, f"changes its wall clock by {jump_ms} ms", What.FAULT)
    member.set_wall(jump_ms)


def slow_disk(world: World, length_ms: int) -> None:
    """Each disk write of one member takes up to 2.5 s, which is longer than its caller waits."""
    slow_disk_of(world, world.any_member(), length_ms)


def slow_disk_of(world: World, member: SimMember, length_ms: int) -> None:
    world.marks["slow disk"] += 1
    world.trace(member.address, f"has a slow disk for {length_ms} ms", What.FAULT)
    member.record_disk.cost_ms_max = 2_500
    world.in_faults(length_ms, member.record_disk.hurry)


def full_disk(world: World, length_ms: int) -> None:
    """One member's disk accepts no more writes."""
    member = world.any_member()
    disk = member.record_disk
    world.trace(member.address, f"has a full disk for {length_ms} ms", What.FAULT)
    disk.full = True
    world.in_faults(length_ms, disk.empty)


def forge(world: World, length_ms: int) -> None:
    """An attacker sends a member one of its datums in a peer's name, under a version that no member may assign
    (R10)."""
    holder = world.any_member()
    keys = [key for key, _ in holder.stored()] if holder.serving else []
    if not keys:
        return
    key = world.choice(keys)
    sender = world.choice([address for address in world.addresses if address != holder.address])
    version = Version(VERSION_NUMBER_MAX, 0, f"{sender}~9")
    stored = next(iter(holder.registry.lists.datums([key])))
    component = holder.components[INSTANCE_LIST]
    datum = Datum(key, version, stored.value)
    body = encode_frame([datum], component.codec, holder.clock.monotonic_ms(), versioned=True)
    world.trace(holder.address, f"receives a forged {version.to_text()} of {key}", What.FAULT, keys=(key,))
    call = Call("PUT", "/v1/ns/distro/datum", b"", {MEMBER_HEADER.lower(): sender}, body, sender.partition(":")[0])
    holder.http.take(call, lambda _reply: None)


def _cut(world: World, cuts: list[tuple[str, str]], length_ms: int) -> None:
    for source, target in cuts:
        world.network.cut(source, target)

    def mend() -> None:
        for source, target in cuts:
            world.network.mend(source, target)

    world.in_faults(length_ms, mend)


def meaning_of(fault: Fault) -> str:
    """Return a sentence on the effect of a kind of fault."""
    return (fault.__doc__ or "").partition("\n")[0]


def _weather(weather: Weather, what: str) -> Fault:
    def blow(world: World, length_ms: int) -> None:
        world.trace("network", f"{what} for {length_ms} ms", What.FAULT)
        world.network.add(weather)
        world.in_faults(length_ms, lambda: world.network.remove(weather))

    blow.__doc__ = f"The network {what}."
    return blow


lose_some = _weather(Weather(loss=0.1), "loses a tenth of all messages")
lose_many = _weather(Weather(loss=0.4), "loses four tenths of all messages")
reorder = _weather(Weather(slow=0.3, slow_ms_max=1_500), "is sometimes slow")
crawl = _weather(Weather(slow=0.5, slow_ms_max=6_000), "is sometimes slower than the deadlines")
repeat = _weather(Weather(duplicates=0.3, late_ms_max=8_000), "delivers some requests a second time, late")
keep = _weather(Weather(loss=0.1, kept=0.7, kept_ms_max=60_000), "keeps lost calls, and delivers most within a minute")

ALL: tuple[tuple[Fault, int], ...] = (
    (crash, 12_000),
    (crash, 3_000),
    (leave, 6_000),
    (pause, 20_000),
    (pause, 6_000),
    (partition, 20_000),
    (partition, 4_000),
    (deaf, 12_000),
    (lose_some, 15_000),
    (lose_many, 8_000),
    (reorder, 15_000),
    (crawl, 10_000),
    (repeat, 20_000),
    (keep, 20_000),
    (block, 20_000),
    (block, 6_000),
    (bridge, 25_000),
    (bridge, 8_000),
    (change_lists, 25_000),
    (jump, 200),
    (slow_disk, 15_000),
    (crash_at_the_disk, 20_000),
    (power_cut, 4_000),
    (full_disk, 15_000),
)
"""Each kind with its greatest length; the short ones end before any member notices."""


NAMED: dict[str, tuple[tuple[Fault, int], ...]] = {
    "loss": ((lose_some, 15_000), (lose_many, 8_000)),
    "late": ((reorder, 15_000), (crawl, 10_000)),
    "duplicate": ((repeat, 20_000),),
    "kept": ((keep, 20_000),),
    "one-way": ((deaf, 12_000),),
    "block": ((block, 20_000), (block, 6_000)),
    "partition": ((partition, 20_000), (partition, 4_000)),
    "bridge": ((bridge, 25_000), (bridge, 8_000)),
    "pause": ((pause, 20_000), (pause, 6_000)),
    "restart": ((leave, 6_000),),
    "drain": ((drain, 30_000), (drain, 4_000)),
    "kill": ((crash, 12_000), (crash, 3_000)),
    "power": ((power_cut, 4_000),),
    "disk-full": ((full_disk, 15_000),),
    "disk-slow": ((slow_disk, 15_000), (crash_at_the_disk, 20_000)),
    "clock": ((jump, 200),),
    "lists": ((change_lists, 25_000),),
    "liar": ((forge, 200),),
}
"""The kinds by name, as an option has them."""


def plan(world: World, span_ms: int, count: int, kinds: tuple[tuple[Fault, int], ...] = ALL) -> None:
    """Schedule ``count`` faults over the span; they may overlap."""
    for _ in range(count):
        fault, length_ms_max = world.choice(kinds)
        length_ms = world.between(200, length_ms_max)
        world.in_faults(world.between(0, span_ms), partial(fault, world, length_ms))
