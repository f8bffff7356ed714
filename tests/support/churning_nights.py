"""Nights of a simulated cluster that changes all the time: members restart before or between the rounds of a dump."""

from functools import partial
from typing import Any

import orjson

from app.http.api.dump_lines import dump_lines
from app.naming.registry.operations import RegisterInstance
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.scenarios.scenarios import live_randomly
from app.tools.simulation.world.sim_connections import ConnectedMember, SimConnections
from app.tools.simulation.world.world import World

GAP_MS = 15_000
BETWEEN_MEMBERS_MS = 80
"""The most time from the dump of one member to that of the next in a round."""
Round = dict[str, list[dict[str, Any]]]


def churning_night(seed: int) -> tuple[Round, Round]:
    """Return the rows of both rounds, by member: of 16 instances with beats, and 40 connections over gRPC.

    Half of the clients over HTTP die before a member restarts: orderly or not, before the first round or between both.
    """
    world = World(seed, member_class=ConnectedMember)
    connections = SimConnections(world)
    live_randomly(world, services=4, clients=16, span_ms=150_000)
    for _ in range(40):
        connections.live(world.between(0, 120_000), 40_000)
    world.start_all(settle_ms=world.between(60_000, 90_000))
    for client in world.clients:
        if world.chance(0.5):
            client.die()
    # As long as the claim of a new owner delays the removal, the last beat is older than the time-out.
    world.run(world.between(0, 25_000))
    if world.chance(0.5):
        restart(world, world.any_member(), connections)
        world.run(world.between(8_000, 20_000))
        first = _dumped(world)
        world.run(GAP_MS)
        return first, _dumped(world)
    first = _dumped(world)
    restart(world, world.any_member(), connections)
    world.run(GAP_MS)
    return first, _dumped(world)


def restart(world: World, member: SimMember, connections: SimConnections) -> None:
    """Have a member end, orderly or not, and start again a few seconds later; its clients connect to another one."""
    published = native_instances(member)
    if world.chance(0.5):
        member.leave()
    else:
        world.kill(member)
    world.after(world.between(2_000, 6_000), partial(world.start, member))
    for one in published:
        world.after(world.between(500, 5_000), partial(_come_back, world, connections, one))


def native_instances(member: SimMember) -> list[RegisterInstance]:
    """Return the instances of the clients that are connected to a member."""
    assert isinstance(member, ConnectedMember)
    names = ("ip", "port", "weight", "healthy", "enabled", "metadata")
    return [
        RegisterInstance(service, **{name: getattr(one, name) for name in names})
        for client in member.native()
        if not client.ended
        for (_, service), publication in client.published.items()
        for one in publication.instances.values()
    ]


def _come_back(world: World, connections: SimConnections, instance: RegisterInstance) -> None:
    serving = [one for one in connections.members() if one.serving]
    if serving:
        connections.come_back(world.choice(serving), instance)


def _dumped(world: World) -> Round:
    """The rows of all members, each read at a moment of its own, once all answer."""
    while not all(member.serving for member in world.members.values()):
        world.run(500)
    found: Round = {}
    for address, member in world.members.items():
        domain, cluster = member.node.domain, member.node.engine.cluster
        lines = dump_lines({}, domain.naming, domain.durable, domain.clients.table, cluster)
        found[address] = [orjson.loads(line) for line in lines][1:-1]
        world.run(world.between(1, BETWEEN_MEMBERS_MS))
    return found
