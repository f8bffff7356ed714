"""The scenarios: those of the tests' worlds, and the course of events that is built from options."""

from dataclasses import dataclass
from functools import partial

from app.naming.model.model import BEAT_INTERVAL_MS, DELETE_TIMEOUT_MS
from app.naming.model.nacos_errors import StorageError
from app.naming.records.record_keys import PersistentKey, parse_record_key
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.world import faults
from app.tools.simulation.world.sim_connections import ConnectedMember, SimConnections
from app.tools.simulation.world.world import World, settle_ms
from distro.members.members_view import HANDOVER_MS, HANDOVER_MS_MAX
from distro.model.config import DistroConfig

LIFE_MS = 90_000
"""The time from the start of the members to the heal."""
FAULTS_MS = 78_000
"""The time after the first registrations in which faults begin; the last ones end with the heal."""

COURSE_SETTLE_MS = 12_000
"""The time from the start of the members to the first fault of a course."""
FAULT_EVERY_MS = 6_000
"""The average time from the start of one fault of a course to that of the next."""
TOGETHER_MS = 1_000
"""The time for which clients that change together call one member."""


def members_of(seed: int) -> int:
    """Return the number of members: three as a rule; of ten seeds one has two members, and two have five."""
    return {7: 2, 8: 5, 9: 5}.get(seed % 10, 3)


def live_randomly(world: World, services: int, clients: int, span_ms: int) -> None:
    """Schedule the life of each client: it appears, changes, leaves or dies, and sometimes returns."""
    for number in range(clients):
        client = world.add_client(f"DEFAULT_GROUP@@svc{number % services}")
        world.after(world.between(0, span_ms // 2), client.appear)
        for _ in range(world.between(0, 2)):
            at_ms = world.between(span_ms // 4, span_ms)
            world.after(at_ms, world.choice((client.appear, client.disappear, client.disappear, client.die)))


def change_together(world: World) -> None:
    """Make many clients change at once at one member, which forwards the calls for one owner together."""
    address = world.any_member().address
    for client in world.clients:
        if world.chance(0.8):
            client.members = [address]
            client.appear()
            world.after(TOGETHER_MS, partial(setattr, client, "members", None))


def live_durably(world: World, instances: int, span_ms: int) -> None:
    """Let two operators change each persistent instance, and checks flip the health of some."""
    for number in range(instances):
        service = f"DEFAULT_GROUP@@durable{number % 3}"
        for _ in range(2):
            operator = world.add_operator(service, f"10.2.0.{number}")
            for _ in range(world.between(1, 5)):
                say = operator.put if world.chance(0.65) else operator.remove
                world.after(world.between(1_000, span_ms), say)
    for _ in range(instances * 2):
        world.after(world.between(10_000, span_ms), lambda: flip_by_check(world))


def flip_by_check(world: World, *, parted: SimMember | None = None) -> None:
    """Let a check of one member, but not of ``parted``, flip the health of an instance that it is responsible for."""
    member = world.any_member()
    if member is parted:
        return
    keys = [key for key in member.records.versions() if _is_checked(member, key)] if member.serving else []
    if keys:
        key = world.choice(keys)
        member.disk.put(lambda: None, lambda: _flip(member, key))


def _is_checked(member: SimMember, key: str) -> bool:
    record_key = parse_record_key(key)
    is_live = isinstance(record_key, PersistentKey) and member.records.value(key) is not None
    return is_live and member.membership.responsible_durable(member.records.tag(key))


def _flip(member: SimMember, key: str) -> None:
    value, record_key = member.records.value(key), parse_record_key(key)
    if value is None or not isinstance(record_key, PersistentKey):
        return
    try:
        member.durable.set_health(
            record_key.namespace, record_key.full_name, record_key.instance_key, not value["healthy"], by_check=True
        )
    except StorageError:
        return
    member.world.marks["health flipped by a check"] += 1


def members_agree(seed: int, *, member_class: type[SimMember] = SimMember, bursts: int = 0) -> World:
    """Registrations and all kinds of faults, then heal and quiet; raises ``Broken`` when an invariant does not hold.

    ``bursts``: how often many clients change together.
    """
    config = DistroConfig(sync_delay_ms=300 if seed % 7 == 5 else 0)
    world = World(seed, members_of(seed), config=config, member_class=member_class)
    live_randomly(world, services=world.between(2, 8), clients=world.between(4, 30), span_ms=LIFE_MS)
    live_durably(world, world.between(0, 6), LIFE_MS)
    world.warm = world.chance(0.3)
    for _ in range(bursts):
        world.after(world.between(LIFE_MS // 2, LIFE_MS), partial(change_together, world))
    world.start_all(settle_ms=LIFE_MS - FAULTS_MS)
    faults.plan(world, FAULTS_MS, world.between(2, 16))
    if seed % 4 == 1:
        faults.plan(world, FAULTS_MS, world.between(1, 4), faults.NAMED["drain"])
    world.run(FAULTS_MS)
    world.heal()
    world.checker.watch(settle_ms(world.config))
    world.checker.check_agreement()
    world.checker.watch(DELETE_TIMEOUT_MS)
    world.checker.check_quiet()
    world.checker.check_digests()
    return world


def steady_world(
    seed: int,
    member_class: type[SimMember],
    *,
    members: int = 3,
    services: int = 6,
    clients: int = 18,
    config: DistroConfig | None = None,
) -> World:
    """Members and clients that found each other long ago: all instances are everywhere, and their copies are old."""
    world = World(seed, members, config=config, member_class=member_class)
    for number in range(clients):
        client = world.add_client(f"DEFAULT_GROUP@@svc{number % services}")
        world.after(world.between(1_000, 1_000 + BEAT_INTERVAL_MS), client.appear)
    world.start_all(settle_ms=60_000)
    return world


def mixed_agree(seed: int, *, member_class: type[SimMember] = SimMember) -> World:
    """Two or three members of our kind and one of real Nacos 1.4 through faults; then heal and quiet."""
    world = World(seed, 3 + seed % 2, member_class=member_class, nacos=1)
    world.checker.looking = False  # a version that a datum of Nacos gets where it is received does not identify content
    live_randomly(world, services=world.between(2, 8), clients=world.between(4, 20), span_ms=LIFE_MS)
    world.start_all(settle_ms=LIFE_MS - FAULTS_MS)
    kinds = tuple(one for one in faults.ALL if one[0] is not faults.change_lists)
    faults.plan(world, FAULTS_MS, world.between(2, 8), kinds)
    world.run(FAULTS_MS)
    world.heal()
    world.run(settle_ms(world.config) + 2 * DELETE_TIMEOUT_MS)
    world.checker.check_mixed()
    world.checker.check_digests()
    return world


def clients_agree(seed: int, *, member_class: type[ConnectedMember] = ConnectedMember) -> World:
    """Connections that come, change and go beside clients over HTTP, with all kinds of faults; then heal and quiet."""
    world = World(seed, members_of(seed), member_class=member_class)
    connections = SimConnections(world)
    live_randomly(world, services=2, clients=world.between(0, 4), span_ms=LIFE_MS)
    for _ in range(world.between(4, 30)):
        connections.live(world.between(0, LIFE_MS), LIFE_MS // 2)
    world.start_all(settle_ms=LIFE_MS - FAULTS_MS)
    faults.plan(world, FAULTS_MS, world.between(2, 16))
    world.run(FAULTS_MS)
    world.heal()
    world.run(LIFE_MS // 2 + settle_ms(world.config) + HANDOVER_MS)
    end_ms = world.now_ms + HANDOVER_MS_MAX
    while connections.are_handed_over() and world.now_ms < end_ms:  # R17: longer, while others come back
        world.run(HANDOVER_MS // 4)
    connections.check_quiet()
    world.checker.check_digests()
    return world


@dataclass(frozen=True, slots=True)
class SimCourse:
    """The ingredients of a seed's world. Random choices, which the seed determines, decide everything else."""

    members: int = 3
    span_ms: int = 60_000
    """The time from the first fault to the heal."""
    services: int = 4
    instances: int = 12
    """The number of clients, each with one instance, spread over the services."""
    records: int = 2
    """The number of persistent instances."""
    writes: int = 24
    """The number of changes after the first registrations: other attributes, a client that leaves, dies or returns."""
    faults: tuple[str, ...] = tuple(faults.NAMED)
    """Names of kinds in ``faults.NAMED``."""


def take_course(course: SimCourse, seed: int, member_class: type[SimMember]) -> World:
    """Run the course, then heal and settle; raises ``Broken`` when an invariant does not hold."""
    world = World(seed, course.members, member_class=member_class)
    span_ms = COURSE_SETTLE_MS + course.span_ms
    for number in range(course.instances):
        client = world.add_client(f"DEFAULT_GROUP@@svc{number % course.services}")
        world.after(world.between(1_000, COURSE_SETTLE_MS + course.span_ms // 3), client.appear)
    for _ in range(course.writes if course.instances else 0):
        client = world.choice(world.clients)
        change = world.choice((client.appear, client.appear, client.appear, client.disappear, client.die))
        world.after(world.between(COURSE_SETTLE_MS, span_ms), change)
    live_durably(world, course.records, span_ms)
    world.start_all(settle_ms=COURSE_SETTLE_MS)
    kinds = tuple(kind for name in course.faults for kind in faults.NAMED[name])
    if kinds:
        faults.plan(world, course.span_ms, max(course.span_ms // FAULT_EVERY_MS, 1), kinds)
    world.run(course.span_ms)
    world.heal()
    world.checker.watch(settle_ms(world.config))
    world.checker.check_agreement()
    world.checker.watch(DELETE_TIMEOUT_MS)
    world.checker.check_quiet()
    return world
