"""Linked clusters through faults in them and between them; then heal and quiet."""

from collections.abc import Callable
from functools import partial

from app.naming.model.model import DELETE_TIMEOUT_MS
from app.tools.simulation.scenarios.scenarios import FAULTS_MS, LIFE_MS, live_randomly
from app.tools.simulation.world import faults
from app.tools.simulation.world.link_checker import LinkChecker
from app.tools.simulation.world.linked_world import NAMES, LinkedMember, LinkedWorld
from app.tools.simulation.world.network import Weather
from app.tools.simulation.world.world import World, settle_ms

LINK_SETTLE_MS = 15_000
"""How long after the members of a cluster agree its links may differ: silence is noticed, the longest back-off ends, a
comparison brings the missing services, and those kept from a young member are compared again."""
YOUNG_MS = 31_000
"""The time in which a member is young, and a bit more (L4, L5)."""
SHAPES: dict[int, tuple[dict[int, tuple[int, ...]], tuple[int, ...]]] = {
    0: ({0: (1,), 1: (0,)}, (3, 3)),
    1: ({0: (1,)}, (3, 3)),
    2: ({0: (1,), 1: (0,)}, (2, 3)),
    3: ({0: (1,), 1: (2,), 2: (0,)}, (2, 2, 2)),
    4: ({0: (1, 2), 1: (0,), 2: (0,)}, (2, 2, 2)),
    5: ({0: (1, 2, 3), 1: (0,), 2: (0,), 3: (0,)}, (2, 2, 2, 2)),
    6: ({0: (1,), 1: (2,), 2: (3,), 3: (0,)}, (2, 2, 2, 2)),
    7: ({0: (1, 2), 1: (0, 2), 2: (0, 1)}, (2, 2, 2)),
}
"""Clusters that follow each other, and their members, by the last digit of a seed: pairs, rings, stars, all."""
LinkFault = Callable[[LinkedWorld, int], None]


def links_agree(seed: int, *, member_class: type[LinkedMember] = LinkedMember) -> LinkedWorld:
    """Clusters with links, clients and all kinds of faults; then heal and quiet, and no link may show a difference."""
    follows, members = SHAPES[seed % 10 if seed % 10 in SHAPES else 0]
    world = LinkedWorld(seed, follows, members=members, member_class=member_class)
    checker = LinkChecker(world)
    first = world.clusters[0]
    for cluster in world.clusters:
        live_randomly(cluster, services=first.between(1, 5), clients=first.between(3, 10), span_ms=LIFE_MS)
    if first.chance(0.5):
        share_address(world)
    for cluster in world.clusters:
        change_at_random(cluster, first.between(0, 40))
    world.start_all(settle_ms=LIFE_MS - FAULTS_MS)
    for _ in range(first.between(1, 6)):
        fault, length_ms_max = first.choice(LINK_FAULTS)
        first.in_faults(first.between(0, FAULTS_MS), partial(fault, world, first.between(200, length_ms_max)))
    for cluster in world.clusters:
        faults.plan(cluster, FAULTS_MS, first.between(0, 5))
    checker.watch(FAULTS_MS)
    world.heal()
    checker.watch(settle_ms(first.config) + DELETE_TIMEOUT_MS + YOUNG_MS + LINK_SETTLE_MS)
    checker.check_quiet()
    for checked in (checker.checked, *(cluster.checker.checked for cluster in world.clusters)):
        world.checked.update({one.title: times for one, times in checked.items()})
    return world


def change_at_random(cluster: World, changes: int) -> None:
    """Schedule changes of clients: other attributes, a client that leaves, dies or returns."""
    for _ in range(changes):
        client = cluster.choice(cluster.clients)
        change = cluster.choice((client.appear, client.appear, client.appear, client.disappear, client.die))
        cluster.after(cluster.between(LIFE_MS - FAULTS_MS, LIFE_MS), change)


def share_address(world: LinkedWorld) -> None:
    """Have two clients of two clusters register one address of one service."""
    first = world.clusters[0]
    one, other = first.sample(world.clusters, 2)
    mine, theirs = first.choice(one.clients), first.choice(other.clients)
    theirs.register_as(mine)
    other.checker.add(theirs)


# --- faults between clusters ----------------------------------------------------------------------------


def _pairs(world: LinkedWorld) -> list[tuple[int, int]]:
    return [(number, other) for number, others in world.follows.items() for other in others]


def cut_link(world: LinkedWorld, length_ms: int) -> None:
    """Two clusters hear nothing of each other."""
    one, other = world.clusters[0].choice(_pairs(world))
    world.trace(f"cuts {NAMES[one]} from {NAMES[other]} for {length_ms} ms")
    _cut(world, [(one, other), (other, one)], length_ms)


def cut_one_way(world: LinkedWorld, length_ms: int) -> None:
    """One cluster's messages to another are lost; in the other direction they arrive."""
    first = world.clusters[0]
    one, other = first.sample(first.choice(_pairs(world)), 2)
    world.trace(f"loses all messages from {NAMES[one]} to {NAMES[other]} for {length_ms} ms")
    _cut(world, [(one, other)], length_ms)


def _cut(world: LinkedWorld, cuts: list[tuple[int, int]], length_ms: int) -> None:
    for source, target in cuts:
        world.cut(source, target)

    def mend() -> None:
        for source, target in cuts:
            world.mend(source, target)

    world.clusters[0].in_faults(length_ms, mend)


def cut_members(world: LinkedWorld, length_ms: int) -> None:
    """One member hears nothing of one member of another cluster."""
    first = world.clusters[0]
    one, other = first.choice(_pairs(world))
    source, target = first.choice(world.clusters[one].addresses), first.choice(world.clusters[other].addresses)
    world.trace(f"cuts {source} from {target} for {length_ms} ms")
    world.outer.cut(source, target)
    world.outer.cut(target, source)

    def mend() -> None:
        world.outer.mend(source, target)
        world.outer.mend(target, source)

    first.in_faults(length_ms, mend)


def restart_all(world: LinkedWorld, length_ms: int) -> None:
    """All members of one cluster end, and come back with nothing."""
    faults.power_cut(world.clusters[0].choice(world.clusters), length_ms)


def _weather(weather: Weather, what: str) -> LinkFault:
    def blow(world: LinkedWorld, length_ms: int) -> None:
        world.trace(f"{what} for {length_ms} ms")
        world.outer.add(weather)
        world.clusters[0].in_faults(length_ms, lambda: world.outer.remove(weather))

    return blow


LINK_FAULTS: tuple[tuple[LinkFault, int], ...] = (
    (cut_link, 40_000),
    (cut_link, 5_000),
    (cut_one_way, 30_000),
    (cut_one_way, 5_000),
    (cut_members, 40_000),
    (restart_all, 20_000),
    (restart_all, 2_000),
    (_weather(Weather(loss=0.2), "loses a fifth of all messages between clusters"), 20_000),
    (_weather(Weather(slow=0.3, slow_ms_max=2_000), "is sometimes slow between clusters"), 20_000),
)
"""Each kind of fault between clusters, with its greatest length."""
