"""As ``rules``: worlds in which one of the rules R10 to R17, or a part of one, stands between members and a breach."""

from functools import partial
from typing import Any

from app.http.api.call import Call
from app.naming.model.keys import DEFAULT_NAMESPACE
from app.naming.model.model import DELETE_TIMEOUT_MS
from app.naming.registry.operations import RegisterInstance
from app.replication.instance_list_type import INSTANCE_LIST
from app.tools.simulation.member.engine_calls import DATUM
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.scenarios.rules import change_often
from app.tools.simulation.scenarios.scenarios import flip_by_check, steady_world
from app.tools.simulation.world.network import Weather
from app.tools.simulation.world.sim_clients import SimClient
from app.tools.simulation.world.sim_connections import ConnectedMember, SimConnections
from app.tools.simulation.world.world import World
from distro.members.members_view import HANDOVER_MS
from distro.model.config import DistroConfig
from distro.model.types import VERSION_NUMBER_MAX, Datum, Version
from distro.wire.codec import encode_frame
from distro.wire.http_agent import MEMBER_HEADER

STATUS = "overriddenServerStatus"
MANY = 4_200
"""Services, more than two slices of claims have."""


def down_ms(config: DistroConfig) -> int:
    """How long after a cut all members see, and act upon, the views of their sides."""
    return config.silent_down_ms + 3 * config.report_interval_ms


def found_ms(config: DistroConfig) -> int:
    """How long after a heal the members have compared their data, and the smaller side carries keys again."""
    find_ms = config.report_interval_ms + config.report_timeout_ms
    return 2 * find_ms + config.steady_ms + 2 * config.verify_interval_ms + config.verify_timeout_ms


def part(world: World, member: SimMember, clients: list[SimClient]) -> None:
    """Cut a member off from the others; these clients see it alone, and all other clients see the others alone."""
    others = [address for address in world.addresses if address != member.address]
    for other in others:
        _cut(world, member.address, other)
    for client in world.clients:
        for address in others if client in clients else [member.address]:
            _cut(world, client.address, address)


def _cut(world: World, one: str, other: str) -> None:
    world.network.cut(one, other)
    world.network.cut(other, one)


# --- R10


def versions_are_forged(seed: int, member_class: type[SimMember]) -> World:
    """A copy comes back under the highest version that can be written. Bound: a verify round, a query, a send."""
    world = steady_world(seed, member_class)
    world.checker.looking = False
    holder = world.any_member()
    key = world.choice([key for key, service in holder.stored() if not holder.owns(service.full_name)])
    client = next(one for one in world.clients if one.datum_key == key)
    sender = world.choice([address for address in world.addresses if address != holder.address])
    stored = next(iter(holder.registry.lists.datums([key])))
    forged = Datum(key, Version(VERSION_NUMBER_MAX, 0, f"{sender}~9"), stored.value)
    body = encode_frame([forged], holder.components[INSTANCE_LIST].codec, holder.clock.monotonic_ms(), versioned=True)
    headers = {MEMBER_HEADER.lower(): sender}
    holder.http.take(Call("PUT", DATUM, b"", headers, body, sender.partition(":")[0]), lambda _reply: None)
    config = world.config
    world.run(config.verify_interval_ms + config.verify_timeout_ms)
    client.appear()
    world.run(config.verify_interval_ms + config.verify_timeout_ms + 2 * config.sync_timeout_ms)
    world.checker.check_agreement()
    world.checker.check_revisions()
    return world


# --- R11


def owner_of_many_dies(seed: int, member_class: type[SimMember]) -> World:
    """A claim takes 2 ms, and there are thousands. No member may take that for a pause, nor another member for dead.

    Bound: the owner is seen to be gone, its keys are claimed and sent.
    """
    world = World(seed, member_class=member_class)
    world.checker.looking = False
    world.start_all(settle_ms=15_000)
    for number in range(MANY):
        service = f"DEFAULT_GROUP@@many{number}"
        owner = next(one for one in world.members.values() if one.owns(service))
        owner.naming.register(RegisterInstance(service, "10.3.0.1", 80))
    world.run(3_000)
    dead = world.any_member()
    world.kill(dead)
    left = world.running()
    world.marks.clear()
    for member in left:
        member.claim_ms = 2
    config = world.config
    world.run(config.refused_down_ms + 2 * config.report_interval_ms + 2 * MANY // len(world.addresses))
    for member in left:
        if member.stats.pauses or len(member.protocol.mapper.servers) != len(left):
            raise world.checker.broken(f"{member.address} paused, or sees {member.protocol.mapper.servers} only")
        if any(version.writer.startswith(f"{dead.address}~") for version in member.registry.lists.versions().values()):
            raise world.checker.broken(f"{member.address} has keys of the dead member")
    assert world.marks["further slice of claims"] >= len(left), "the keys do not fill more than one slice"
    world.checker.check_agreement()
    return world


# --- R12


def two_members_hear_a_third_alone(seed: int, member_class: type[SimMember]) -> World:
    """A link is cut, and one member reaches both ends. All have one view, and one state soon after each change."""
    world = steady_world(seed, member_class, services=12)
    one, other = world.sample(world.addresses, 2)
    _cut(world, one, other)
    world.run(down_ms(world.config) + world.config.steady_ms)
    change_often(world, 10_000, 500)
    world.run(10_000 + 2 * world.config.verify_interval_ms)
    world.checker.check_agreement()
    world.checker.check_revisions()
    return world


def owner_cannot_be_called(seed: int, member_class: type[SimMember]) -> World:
    """A client's only member cannot call the owner, whose own calls arrive. Its write is done all the same.

    Bound: one call that is not answered, the report after it, and another call.
    """
    world = steady_world(seed, member_class)
    client = world.choice(world.clients)
    owner = next(one for one in world.members.values() if one.owns(client.service))
    entry = world.choice([address for address in world.addresses if address != owner.address])
    world.network.block(entry, owner.address)
    client.members = [entry]
    world.run(down_ms(world.config))
    client.appear()
    world.run(world.config.report_interval_ms + 2 * world.config.report_timeout_ms + 3_000)
    if not client.registered:
        raise world.checker.broken(f"{client.address} cannot register at {entry}, which cannot call {owner.address}")
    return world


def member_is_alone(seed: int, member_class: type[SimMember]) -> World:
    """A member hears neither the others nor their clients. It drops no instance whose beats they got."""
    world = steady_world(seed, member_class)
    world.checker.strict = True
    part(world, world.any_member(), [])
    world.run(down_ms(world.config) + 2 * DELETE_TIMEOUT_MS)
    return world


# --- R13


def calls_come_late(seed: int, member_class: type[SimMember]) -> World:
    """A kernel keeps abandoned calls for half a minute: none of them may be executed."""
    world = steady_world(seed, member_class)
    change_often(world, 20_000, 200)
    world.network.add(Weather(loss=0.3, kept=1.0, kept_ms_max=30_000))
    world.run(20_000)
    world.heal()
    world.run(30_000)
    return world


def calls_wait_in_a_paused_member(seed: int, member_class: type[SimMember]) -> World:
    """Clients give up their calls to a member that stands still, and go elsewhere; it reads them when it continues."""
    world = steady_world(seed, member_class)
    world.checker.looking = False
    world.checker.in_order = True
    member = world.any_member()
    member.pause()
    change_often(world, 5_000, 200)
    world.after(6_000, lambda: world.resume(member))
    world.run(9_000)
    return world


# --- R14


def check_follows_a_cut(seed: int, member_class: type[SimMember]) -> World:
    """One side of a cut accepts an operator's write; the other side, which took the keys over, checks health."""
    world = steady_world(seed, member_class)
    operators = [world.add_operator(f"DEFAULT_GROUP@@durable{number}", f"10.2.0.{number}") for number in range(12)]
    for operator in operators:
        operator.put()
    world.run(5_000)
    member = world.any_member()
    part(world, member, [])
    world.run(down_ms(world.config))
    for operator in operators:
        operator.members = [member.address]
        if world.chance(0.5):
            operator.put()
        else:
            operator.remove()
    for _ in range(60):
        world.after(world.between(1_000, 5_000), partial(flip_by_check, world, parted=member))
    world.run(6_000)
    world.heal()
    world.run(found_ms(world.config) + 2 * world.config.sync_timeout_ms)
    world.checker.check_records()
    return world


# --- R15


def removal_is_unheard_of(seed: int, member_class: type[SimMember]) -> World:
    """Clients register on one side of a cut, and deregister on the other, which does not know them.

    No member of the other side may show them after the heal, though their last beat is a few seconds old.
    """
    world = steady_world(seed, member_class)
    member = world.any_member()
    part(world, member, [])
    world.run(down_ms(world.config) + world.config.steady_ms)
    rest = [address for address in world.addresses if address != member.address]
    clients = [world.add_client(f"DEFAULT_GROUP@@svc{number}") for number in range(6)]
    for client in clients:
        client.members = [member.address]
        client.appear()
    world.run(9_500)  # the last beat is clearly before the deregistration
    for client in clients:
        client.members = rest
        client.disappear()
    world.run(1_500)
    world.heal()
    for _ in range(120):
        world.run(250)
        for address in rest:
            for client in clients:
                if world.members[address].shows(client):
                    raise world.checker.broken(f"{address} still lists {client.address}, which deregistered there")
    return world


def silence_is_on_one_side(seed: int, member_class: type[SimMember]) -> World:
    """A member that hears no beats expires all instances. No member that heard beats drops any for that."""
    world = steady_world(seed, member_class)
    part(world, world.any_member(), [])
    world.run(down_ms(world.config) + DELETE_TIMEOUT_MS + 10_000)
    world.heal()
    world.checker.strict = True
    world.run(found_ms(world.config))
    world.checker.check_agreement()
    return world


# --- R16


def members_restart_apart(seed: int, member_class: type[SimMember]) -> World:
    """During a cut all members end and start, and take writes: no run has seen one of the other side, nor missed it.

    After the heal the side that is alone waits, and takes over nothing at once.
    """
    world = steady_world(seed, member_class, services=20, clients=40)
    member = world.any_member()
    clients = world.clients[::4]
    part(world, member, clients)
    world.run(down_ms(world.config))
    for one in world.members.values():
        world.kill(one)
    world.run(3_000)
    for one in world.members.values():
        world.start(one)
    world.run(world.config.load_wait_ms_max + 500)
    for client in world.clients:
        client.appear()
    world.run(2_500)
    world.heal()
    far = {client.datum_key for client in world.clients if client not in clients and client.registered}
    for _ in range(world.config.steady_ms // 2 // 250):
        world.run(250)
        for other in world.members.values():
            taken = [key for key in far if str(_writer(other, key)).startswith(f"{member.address}~")]
            if taken and other is not member:
                raise world.checker.broken(f"{member.address} took {taken} over, and {other.address} has the claim")
    return world


def _writer(member: SimMember, key: str) -> str | None:
    version = member.registry.lists.version(key)
    return version.writer if version is not None else None


# --- what a member refuses by its own will


def members_refuse_beats(seed: int, member_class: type[SimMember]) -> World:
    """An operator sets a status with which members refuse beats: all of them, or one that its clients alone know.

    No instance may be dropped for that, in the meantime or afterwards.
    """
    world = steady_world(seed, member_class)
    world.checker.strict = True
    members = world.running() if seed % 2 else [world.any_member()]
    if len(members) == 1:
        for client in world.clients:
            client.members = [members[0].address]
    for member in members:
        member.durable.update_switch(STATUS, world.choice(("DOWN", "READ_ONLY")), here_only=True)
    world.checker.watch(2 * DELETE_TIMEOUT_MS)
    for member in members:
        member.durable.update_switch(STATUS, "null", here_only=True)
    world.checker.watch(DELETE_TIMEOUT_MS)
    world.checker.check_agreement()
    return world


# --- R17


def clients_are_sent_away(seed: int, member_class: type[ConnectedMember]) -> World:
    """A member leaves, and its clients connect to others. No member may show a moment without what they publish."""
    world = World(seed, member_class=member_class)
    connections = SimConnections(world)
    world.start_all(settle_ms=30_000)
    member: Any = world.any_member()
    instances = [RegisterInstance(f"DEFAULT_GROUP@@kept{number}", f"10.9.2.{number}", 80) for number in range(8)]
    for one in instances:
        client_id = connections.connect(member)
        assert client_id is not None
        member.connections.own.register(client_id, one)
    world.run(1_000)
    targets = [one for one in connections.members() if one is not member]
    member.leave()
    for one in instances:
        world.after(world.between(100, 8_000), partial(connections.come_back, world.choice(targets), one))
    world.after(12_000, lambda: world.start(member))
    for _ in range((HANDOVER_MS + 15_000) // 250):
        world.run(250)
        for other in connections.members():
            for one in instances if other.serving else ():
                view = other.naming.service_view(DEFAULT_NAMESPACE, one.service)
                if view is None or not view.instances:
                    raise world.checker.broken(f"{other.address} has no instance of {one.service}")
    connections.check_quiet()
    return world
