"""Worlds in which one rule alone stands between the members and a breach: each is followed by a time bound."""

from collections.abc import Callable
from typing import Any

from app.naming.model.model import DELETE_TIMEOUT_MS
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.scenarios.scenarios import steady_world
from app.tools.simulation.world import faults
from app.tools.simulation.world.linked_world import LinkedWorld
from app.tools.simulation.world.network import Weather
from app.tools.simulation.world.world import World
from distro.members.mapper import DistroMapper

Trial = Callable[[int, type[Any]], World | LinkedWorld]
"""Runs a seed with members of a class, from ``SimMember`` on; raises ``Broken`` if an invariant is not kept in time."""
SLACK_MS = 1_000


def change_often(world: World, span_ms: int, every_ms: int) -> None:
    """Let clients register again with other attributes, one after the other."""
    for at_ms in range(0, span_ms, every_ms):
        world.after(at_ms, lambda: world.choice(world.clients).appear())


def sends_get_lost(seed: int, member_class: type[SimMember]) -> World:
    """Bound: a send that ends by its deadline, the longest back-off, the send that is then repeated."""
    world = steady_world(seed, member_class)
    world.checker.looking = False
    change_often(world, 6_000, 200)
    world.network.add(Weather(loss=0.2))
    world.run(6_000)  # less than what makes a member DOWN
    world.heal()
    config = world.config
    world.run(2 * config.sync_timeout_ms + config.retry_delay_ms_max + SLACK_MS)
    world.checker.check_agreement()
    return world


def sends_overtake(seed: int, member_class: type[SimMember]) -> World:
    """Bound: the slowest message there and back, twice."""
    world = steady_world(seed, member_class, services=3)
    world.checker.looking = False
    change_often(world, 5_000, 100)
    slow_ms = 700
    world.network.add(Weather(slow=0.7, slow_ms_max=slow_ms))
    world.run(5_000)
    world.heal()
    world.run(4 * slow_ms + SLACK_MS)
    world.checker.check_agreement()
    return world


def sends_repeat_late(seed: int, member_class: type[SimMember]) -> World:
    """Bound: the latest copy."""
    world = steady_world(seed, member_class, services=3)
    world.checker.looking = False
    change_often(world, 10_000, 250)
    late_ms = 5_000
    world.network.add(Weather(duplicates=0.5, late_ms_max=late_ms))
    world.run(10_000)
    world.heal()
    world.run(late_ms + SLACK_MS)
    world.checker.check_agreement()
    return world


def changes_are_not_sent(seed: int, member_class: type[SimMember]) -> World:
    """Bound: a verify round, which may have to be repeated by a deadline and a back-off, and the query after it."""
    world = steady_world(seed, member_class)
    world.checker.looking = False
    change_often(world, 6_000, 200)
    for client in world.sample(world.clients, 4):
        world.after(world.between(1_000, 5_000), client.disappear)
    world.run(6_000)
    world.run(world.config.verify_interval_ms + world.config.verify_timeout_ms + world.config.sync_timeout_ms)
    world.checker.check_agreement()
    world.checker.check_digests()
    return world


def datum_is_wiped(seed: int, member_class: type[SimMember]) -> World:
    """A copy vanishes behind the protocol. Bound: a verify round and the query after it."""
    world = steady_world(seed, member_class)
    member = world.any_member()
    key = world.choice([key for key, service in member.stored() if not member.owns(service.full_name)])
    world.checker.forgive(member, key)
    member.registry.upkeep.forget(key)
    world.run(world.config.verify_interval_ms + world.config.verify_timeout_ms + world.config.sync_timeout_ms)
    world.checker.check_agreement()
    return world


def member_restarts_quickly(seed: int, member_class: type[SimMember]) -> World:
    """A member returns before it left any view. No instance may be missing from a serving member."""
    world = steady_world(seed, member_class)
    world.checker.strict = True
    world.network.calm(delay_ms_max=300)
    member = world.any_member()
    world.kill(member)
    world.after(world.between(200, 2_500), lambda: world.start(member))
    world.checker.watch(15_000)
    world.checker.check_agreement()
    return world


def member_stands_still(seed: int, member_class: type[SimMember]) -> World:
    """A member misses all beats for longer than any instance may be silent. It may not drop any instance for that."""
    world = steady_world(seed, member_class)
    world.checker.strict = True
    member = world.any_member()
    member.pause()
    world.after(DELETE_TIMEOUT_MS + world.between(2_000, 10_000), lambda: world.resume(member))
    world.checker.watch(DELETE_TIMEOUT_MS + 30_000)
    world.checker.check_agreement()
    return world


def member_sleeps_for_long(seed: int, member_class: type[SimMember]) -> World:
    """A member is paused until the others have forgotten removals of that time. It may not bring the instances back."""
    world = steady_world(seed, member_class)
    member = world.any_member()
    member.pause()
    for client in world.sample(world.clients, 9):
        world.after(world.between(10_000, 20_000), client.disappear)
    kept_ms = 20_000 + DELETE_TIMEOUT_MS + world.config.tombstone_slack_ms
    world.run(kept_ms + world.between(5_000, 60_000))
    member.resume()
    world.checker.watch(30_000)
    world.checker.check_agreement()
    return world


def owner_dies(seed: int, member_class: type[SimMember]) -> World:
    """A member leaves for good. The beat times of copies may not expire the instances of its services."""
    world = steady_world(seed, member_class, services=12, clients=48)
    world.checker.strict = True
    world.kill(world.any_member())
    world.checker.watch(2 * DELETE_TIMEOUT_MS)
    world.checker.check_agreement()
    return world


def owner_dies_while_it_sends(seed: int, member_class: type[SimMember]) -> World:
    """The last writes of an owner reached only one of the others; the other one may become the new owner.

    Bound: the owner is seen to be gone, its keys are claimed and sent.
    """
    world = steady_world(seed, member_class, services=12, clients=36)
    owner = world.any_member()
    cut_off = world.choice([address for address in world.addresses if address != owner.address])
    world.network.cut(owner.address, cut_off)
    for client in world.clients:
        if owner.owns(client.service):
            world.choice((client.appear, client.disappear))()
    world.run(1_000)
    world.kill(owner)
    world.network.mend(owner.address, cut_off)
    config = world.config
    world.checker.watch(config.refused_down_ms + 2 * config.report_interval_ms + 2 * config.sync_timeout_ms)
    world.checker.check_agreement()
    world.checker.check_revisions()
    return world


def copies_come_late(seed: int, member_class: type[SimMember]) -> World:
    """A member's last sends arrive again after it left, when its services have a new owner and fewer instances."""
    world = steady_world(seed, member_class)
    member = world.any_member()
    world.network.add(Weather(duplicates=0.9, late_ms_max=9_000))
    clients = [client for client in world.clients if member.owns(client.service)]
    for client in clients:
        world.after(world.between(0, 1_000), client.appear)
    world.run(1_500)
    member.leave()
    for client in clients:
        world.after(world.between(2_700, 3_200), client.disappear)  # before its next beat
    world.run(12_000)
    world.checker.check_agreement()
    return world


def copy_waits_in_a_paused_member(seed: int, member_class: type[SimMember]) -> World:
    """A member takes a copy only when it continues; then its instances left, at an owner that is another by then."""
    world = steady_world(seed, member_class, services=12)
    names = sorted(world.addresses)
    paused = world.any_member()
    left = DistroMapper.over("", [name for name in names if name != paused.address])
    moved = [
        client
        for client in world.clients
        if DistroMapper.over("", names).map_srv(client.service) not in (paused.address, left.map_srv(client.service))
    ]
    paused.pause()
    for client in moved:
        client.appear()
    world.run(world.config.silent_down_ms + 2 * world.config.report_interval_ms)
    for client in moved:
        world.after(world.between(3_000, 4_000), client.disappear)
    world.run(10_000)
    world.resume(paused)
    world.checker.watch(2 * world.config.verify_interval_ms)
    return world


def sides_go_apart(seed: int, member_class: type[SimMember]) -> World:
    """Both sides of a partition accept writes. Bound: the members find each other and compare once."""
    world = steady_world(seed, member_class)
    world.checker.removals_are_marked = False
    faults.partition(world, 20_000)
    for client in world.sample(world.clients, 12):
        action = world.choice((client.disappear, client.disappear, client.appear))
        world.after(world.between(0, 18_000), action)
    world.run(20_000)
    world.heal()
    config = world.config
    find_ms = config.report_interval_ms + config.report_timeout_ms
    world.checker.watch(2 * find_ms + config.steady_ms + 2 * config.verify_interval_ms + config.verify_timeout_ms)
    world.checker.check_agreement()
    world.checker.check_revisions()
    return world
