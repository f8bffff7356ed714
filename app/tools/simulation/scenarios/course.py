"""A course of events built from options: sizes, a length, and the kinds of faults that may happen."""

from dataclasses import dataclass

from app.naming.model.model import DELETE_TIMEOUT_MS
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.world import faults
from app.tools.simulation.world.operators import live_durably
from app.tools.simulation.world.world import World, settle_ms

SETTLE_MS = 12_000
"""The time from the start of the members to the first fault."""
FAULT_EVERY_MS = 6_000
"""The average time from the start of one fault to that of the next."""


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


def take(course: SimCourse, seed: int, member_class: type[SimMember]) -> World:
    """Run the course, then heal and settle; raises ``Broken`` when an invariant does not hold."""
    world = World(seed, course.members, member_class=member_class)
    span_ms = SETTLE_MS + course.span_ms
    for number in range(course.instances):
        client = world.add_client(f"DEFAULT_GROUP@@svc{number % course.services}")
        world.after(world.between(1_000, SETTLE_MS + course.span_ms // 3), client.appear)
    for _ in range(course.writes if course.instances else 0):
        client = world.choice(world.clients)
        change = world.choice((client.appear, client.appear, client.appear, client.disappear, client.die))
        world.after(world.between(SETTLE_MS, span_ms), change)
    live_durably(world, course.records, span_ms)
    world.start_all(settle_ms=SETTLE_MS)
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
