"""As ``rules``: worlds in which both sides of a cut hear words about the same keys (R14 to R16)."""

from collections.abc import Callable
from functools import partial
from typing import Any

from app.tools.simulation.member.member import SimMember
from app.tools.simulation.scenarios.rules_10_to_17 import down_ms, found_ms
from app.tools.simulation.scenarios.scenarios import live_durably, steady_world
from app.tools.simulation.world.invariants import Invariant
from app.tools.simulation.world.sim_clients import SimClient
from app.tools.simulation.world.world import World

CUT_MS = 40_000
"""Longer than an instance lives without a beat."""
SAID_MS = 1_000
"""A word that meets no fault is said and answered in so long."""
AGREE_MS = 3_000
"""The time after a heal in which all members come to give the same lists, with any member waiting for keys (R16)."""


def part_members(world: World, member: SimMember) -> list[str]:
    """Cut a member off from the others, and from no client; return the others' addresses."""
    rest = [address for address in world.addresses if address != member.address]
    for other in rest:
        world.network.cut(member.address, other)
        world.network.cut(other, member.address)
    return rest


def in_turn(world: World, member: SimMember, rest: list[str]) -> list[list[str]]:
    """The members of both sides of a cut, in any order."""
    sides = [[member.address], rest]
    world.shuffle(sides)
    return sides


def say_at(client: SimClient, members: list[str], say: Callable[[], None]) -> None:
    """Have a client say something to one of these members."""
    client.members = members
    say()


def lists_of(member: SimMember) -> dict[str, dict[str, Any]]:
    """All that a member lists of each service that has instances, as readers see it."""
    found: dict[str, dict[str, Any]] = {}
    for service in member.registry.table.services():
        ones = [*(stored.instance for stored in service.stored.values()), *service.persistent.values()]
        if ones:
            found[service.full_name] = {
                one.key: (one.ephemeral, one.healthy, one.enabled, one.weight, one.metadata) for one in ones
            }
    return found


def sides_speak(seed: int, member_class: type[SimMember]) -> World:
    """Both sides of a long cut register, change and remove instances, of known and of new services.

    All members give the same lists a short time after the heal, long before the side that waits has keys again.
    """
    world = steady_world(seed, member_class)
    world.checker.looking = False
    member = world.any_member()
    rest = part_members(world, member)
    live_durably(world, 8, CUT_MS - 5_000)
    clients = [world.add_client(f"DEFAULT_GROUP@@new{number % 10}") for number in range(20)]
    for client in (*clients, *world.sample(world.clients[: -len(clients)], 10)):
        before, after = in_turn(world, member, rest)
        world.after(world.between(0, CUT_MS - 2_000), partial(say_at, client, before, client.appear))
        if world.chance(0.3):
            world.after(world.between(0, CUT_MS - 2_000), partial(say_at, client, after, client.disappear))
    world.run(CUT_MS)
    world.heal()
    world.run(AGREE_MS)
    first, *others = world.running()
    for one in others:
        if lists_of(one) != lists_of(first):
            text = f"{one.address} and {first.address} have different lists {AGREE_MS} ms after the heal"
            raise world.checker.broken(text, Invariant.AGREEMENT)
    return world


def words_are_repeated(seed: int, member_class: type[SimMember]) -> World:
    """Both sides of a cut have a word of a client. One side gets another word, then the other side the first again.

    After the heal, all have the first word, which came last.
    """
    world = steady_world(seed, member_class)
    world.checker.looking = False
    member = world.any_member()
    rest = part_members(world, member)
    world.run(down_ms(world.config) + world.config.steady_ms)
    clients = world.sample(world.clients, 8)
    first = {client: client.revision for client in clients}
    for client in clients:
        before, after = in_turn(world, member, rest)
        world.after(world.between(0, 2_000), partial(say_at, client, before, client.appear))
        world.after(3_000, partial(say_at, client, after, partial(client.repeat, client.revision)))
    world.run(3_000 + 2 * SAID_MS)
    world.heal()
    world.run(found_ms(world.config))
    world.checker.check_agreement()
    for client in clients:
        for one in world.running():
            metadata = one.instances(client.datum_key)[client.instance_key].instance.metadata or {}
            if metadata["revision"] != str(first[client]):
                text = f"{one.address} has {metadata} of {client.address}, whose last write is {first[client]}"
                raise world.checker.broken(text, Invariant.ATTRIBUTES, client.datum_key)
    return world


def removals_are_late(seed: int, member_class: type[SimMember]) -> World:
    """Late in a cut clients register through one side, and deregister through the other within the same second.

    Some existed before. None of them is listed once the sides have compared their data.
    """
    world = steady_world(seed, member_class)
    member = world.any_member()
    rest = part_members(world, member)
    world.run(down_ms(world.config) + world.config.steady_ms)
    clients = [world.add_client(f"DEFAULT_GROUP@@svc{number % 6}") for number in range(20)]
    for client in clients:
        before, after = in_turn(world, member, rest)
        at_ms = world.between(3_000, 9_000)
        if world.chance(0.5):
            world.after(at_ms - 3_000, partial(say_at, client, world.choice((before, after)), client.appear))
        world.after(at_ms, partial(say_at, client, before, client.appear))
        world.after(at_ms + world.between(20, 1_000), partial(say_at, client, after, client.disappear))
    world.run(9_000 + 2 * SAID_MS)
    world.heal()
    world.run(AGREE_MS)
    for client in clients:
        for one in world.running():
            if one.shows(client):
                text = f"{one.address} still lists {client.address}, which deregistered"
                raise world.checker.broken(text, Invariant.GONE, client.datum_key)
    world.run(found_ms(world.config))
    world.checker.check_agreement()
    return world
