"""Members that hold very many keys: work over all keys must not hold up the engine's thread."""

from dataclasses import dataclass, replace

from app.naming.model.keys import DEFAULT_CLUSTER, DEFAULT_NAMESPACE, datum_key, instance_key
from app.naming.model.model import Instance, StoredInstance
from app.naming.records.record import Record
from app.naming.records.record_keys import persistent_key
from app.naming.registry.merge import InstanceList
from app.replication.record_type import RECORDS
from app.tools.simulation.member.costs import CostModel
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.world.invariants import Invariant
from app.tools.simulation.world.world import World
from distro.model.config import DistroConfig
from distro.model.types import Datum, Version

TICK_MS_MAX = 50
COSTS = CostModel()
NEVER_MS = 1 << 40
INSTANCE_MS_MAX = 3_600_000
"""A time so long that nothing expires in the meantime, as no client beats here."""


@dataclass(frozen=True, slots=True)
class LargeSizes:
    """The sizes of the members' data."""

    members: int = 3
    services: int = 100_000
    records: int = 10_000


def grow(
    sizes: LargeSizes,
    seed: int,
    member_class: type[SimMember],
    *,
    rounds: bool = True,
    tick_ms_max: int = TICK_MS_MAX,
) -> World:
    """Fill members; one dies, its keys are taken over, it comes back and loads all; and no tick may be long.

    ``rounds``: with verify rounds; without them only the other work of a tick shows.
    """
    config = DistroConfig() if rounds else replace(DistroConfig(), verify_interval_ms=NEVER_MS)
    costed = type(f"Costed{member_class.__name__}", (member_class,), {"costs": COSTS})
    world = World(seed, sizes.members, member_class=costed, config=config)
    world.checker.looking = False
    world.start_all(settle_ms=15_000)
    fill(world, sizes)
    world.checker.tick_ms_max = tick_ms_max
    world.run(2 * config.verify_interval_ms if rounds else 2_000)
    dead = world.any_member()
    world.kill(dead)
    world.run(config.refused_down_ms + 2 * config.report_interval_ms + 10_000)
    _check_taken_over(world, dead)
    world.start(dead)
    world.run(config.load_timeout_ms + 10_000)
    if dead.protocol.loading:
        raise world.checker.broken(f"{dead.address} has not loaded", Invariant.VIEWS)
    return world


def fill(world: World, sizes: LargeSizes) -> None:
    """Give all members the same lists and records, as if these had been there for long."""
    members = list(world.members.values())
    mapper = members[0].protocol.mapper
    writers = {member.address: member.writer for member in members}
    for number in range(sizes.services):
        service = f"DEFAULT_GROUP@@many{number}"
        key = datum_key(DEFAULT_NAMESPACE, service)
        version = Version(1, 0, writers[mapper.map_srv(service)])
        name = instance_key("10.3.0.1", 80, DEFAULT_CLUSTER)
        instance = Instance("10.3.0.1", 80, service_name=service, instance_id=name)
        for member in members:
            beat_ms = member.clock.monotonic_ms() + INSTANCE_MS_MAX
            value = InstanceList({name: StoredInstance(instance, version, beat_ms)}, {})
            member.registry.replication.apply(Datum(key, version, value), None, member.clock.monotonic_ms())
    for number in range(sizes.records):
        name = persistent_key(DEFAULT_NAMESPACE, f"DEFAULT_GROUP@@kept{number}", "10.4.0.1:80:unknown:DEFAULT")
        tag = members[0].records.tag(name)
        version = Version(1, 0, writers[mapper.map_srv(tag)])
        for member in members:
            now_ms = member.clock.monotonic_ms()
            record = Record(name, version, version, None, member.clock.wall_ms(), now_ms)
            member.components[RECORDS].store.apply(Datum(name, version, record), None, now_ms)
    for member in members:
        member.keys.touched.clear()
        member.longest_tick_ms = 0.0


def _check_taken_over(world: World, dead: SimMember) -> None:
    for member in world.running():
        left = [
            key
            for store in (member.registry.lists, member.records)
            for key, version in store.versions().items()
            if version.writer == dead.writer
        ]
        if left:
            text = f"{member.address} still has {len(left)} keys written by the dead member, such as {left[0]}"
            raise world.checker.broken(text, Invariant.WRITER, left[0])
