"""As ``rules``: linked clusters in which one rule of links alone stands between them and a breach (L1 to L9)."""

from functools import partial

from app.http.server.line_streams import LASTS_S
from app.links.feed import LINGER_MS
from app.naming.model.model import BEAT_INTERVAL_MS, DELETE_TIMEOUT_MS
from app.tools.simulation.world.link_checker import SAMPLE_MS, LinkChecker, serving
from app.tools.simulation.world.linked_world import LinkedMember, LinkedWorld
from app.tools.simulation.world.world import World

HERE, THERE, SERVICES = 0, 1, 10
STEADY_MS = 40_000
"""The time until all clients have registered, and all members have found each other and are no longer young."""
MARKED_MS = 5_000
"""An instance is marked within so long after the last word of its cluster."""
CAUGHT_UP_MS = 5_000
"""A link that finds no fault any more has caught up within so long: the longest wait, a connection, a comparison."""
CUT_MS = round(LASTS_S * 1_000) + LINGER_MS + 10_000
"""A time after which the other side ends the stream, and notes no changes for the link any more: the link compares."""
GROWN, INSTANCES_MAX = "DEFAULT_GROUP@@svc0", 22


def steady_links(
    seed: int, member_class: type[LinkedMember], *, room: int | None = None, **more: str
) -> tuple[LinkedWorld, LinkChecker]:
    """Return a cluster of two that follows one of two, whose clients registered long ago.

    ``room``: the instances that links may bring. ``more``: fields of the link.
    """
    world = LinkedWorld(seed, {HERE: (THERE,)}, members=(2, 2), member_class=member_class, more=more, room=room)
    there = world.clusters[THERE]
    for number in range(2 * SERVICES):
        client = there.add_client(f"DEFAULT_GROUP@@svc{number % SERVICES}")
        there.after(there.between(1_000, 1_000 + BEAT_INTERVAL_MS), client.appear)
    checker = LinkChecker(world)
    world.start_all(settle_ms=STEADY_MS)
    checker.watch(1_000)
    return world, checker


def part_clusters(world: LinkedWorld) -> None:
    """Cut the clusters off from each other."""
    world.cut(HERE, THERE)
    world.cut(THERE, HERE)


def link_leads_to_itself(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """The servers of a link are members of the own cluster: nothing may come of it."""
    world = LinkedWorld(seed, {HERE: (HERE,)}, members=(2,), member_class=member_class)
    client = world.clusters[HERE].add_client("DEFAULT_GROUP@@svc")
    world.clusters[HERE].after(1_000, client.appear)
    checker = LinkChecker(world)
    world.start_all(settle_ms=STEADY_MS)
    checker.check_nothing_foreign(HERE)
    return world


def links_form_a_chain(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """A cluster follows another one, which follows a third: what the third one has may not come to the first."""
    world = LinkedWorld(seed, {0: (1,), 1: (2,)}, members=(2, 2, 2), member_class=member_class)
    for cluster in world.clusters:
        for number in range(4):
            cluster.after(cluster.between(1_000, 6_000), cluster.add_client(f"DEFAULT_GROUP@@svc{number}").appear)
    checker = LinkChecker(world)
    world.start_all(settle_ms=15_000)
    checker.watch(5_000)
    return world


def link_is_cut(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """Bound: all is marked as stale ``MARKED_MS`` after the cut, and nothing ``CAUGHT_UP_MS`` after its end."""
    world, checker = steady_links(seed, member_class)
    part_clusters(world)
    checker.watch(MARKED_MS)
    checker.check_marked(HERE, THERE)
    checker.watch(world.clusters[HERE].between(1_000, 30_000))
    world.outer.heal()
    checker.watch(CAUGHT_UP_MS)
    checker.check_link(HERE, THERE)
    return world


def links_bring_too_much(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """A service grows beyond what links may bring, and is refused; others shrink, and there is room for it again.

    Bound: the first change of the service then has the link compare, as it does not have the base of that change.
    """
    world, checker = steady_links(seed, member_class, room=INSTANCES_MAX)
    there = world.clusters[THERE]
    first = next(client for client in there.clients if client.service == GROWN)
    others = [client for client in there.clients if client.service != GROWN]
    for _ in range(5):
        there.add_client(GROWN).appear()
        checker.watch(500)
    refused = sum(member.node.domain.foreign.refused for member in world.clusters[HERE].members.values())
    if not refused:
        raise checker.broken("nothing was refused")
    for client in there.sample(others, 4):
        client.disappear()
    checker.watch(2_000)
    first.appear()
    checker.watch(CAUGHT_UP_MS)
    checker.check_link(HERE, THERE)
    return world


def other_cluster_restarts_empty(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """All members of the other cluster end at once, and come back without any list. Nothing living may be missing."""
    world, checker = steady_links(seed, member_class)
    there = world.clusters[THERE]
    for member in list(there.members.values()):
        there.kill(member)
        there.after(there.between(500, 3_000), partial(there.start, member))
    checker.watch(30_000)
    checker.check_none_empty(HERE, THERE)
    return world


def clients_return_with_the_link(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """A link is cut for long. In the meantime all clients of the other cluster expire, as it does not hear them either.

    They return shortly after the link. Even so, the link must not show empty services.
    """
    world, checker = steady_links(seed, member_class)
    there = world.clusters[THERE]
    part_clusters(world)
    checker.watch(CUT_MS)
    cuts = [(client.address, address) for client in there.clients for address in there.addresses]
    for cut in cuts:
        there.network.cut(*cut)
    checker.watch_nothing(DELETE_TIMEOUT_MS + 2 * BEAT_INTERVAL_MS)
    if any(member.shows(client) for member in serving(there) for client in there.clients):
        raise checker.broken("a client has not expired")
    world.outer.heal()
    checker.watch_nothing(there.between(CAUGHT_UP_MS, 2 * CAUGHT_UP_MS))
    checker.check_none_empty(HERE, THERE)
    for cut in cuts:
        there.network.mend(*cut)
    checker.watch_nothing(3 * BEAT_INTERVAL_MS)
    checker.check_none_empty(HERE, THERE)
    return world


def link_is_silent_for_too_long(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """A link is cut for longer than it retains anything. No service may be empty for that."""
    world, checker = steady_links(seed, member_class, retainMs="10000")
    part_clusters(world)
    checker.watch_nothing(world.clusters[HERE].between(15_000, 40_000))
    checker.check_none_empty(HERE, THERE)
    return world


def other_cluster_lies(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """The other cluster sends all services, also those that the link does not choose."""
    world, checker = steady_links(seed, member_class, services="svc0,svc1")
    for member in serving(world.clusters[HERE]):
        keys = [key for key, _ in member.node.domain.foreign.parts() if not key.endswith(("svc0", "svc1"))]
        if keys:
            raise checker.broken(f"{member.address} took {keys[0]}, which its link does not choose")
    return world


def carrying_member_ends(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """A member here ends. The others show what it followed, from the first moment on, and follow it further."""
    world, checker = steady_links(seed, member_class)
    here, there = world.clusters[HERE], world.clusters[THERE]
    checker.check_link(HERE, THERE)
    part_clusters(world)
    dead = here.any_member()
    here.kill(dead)
    checker.watch(here.between(1_000, 20_000))
    checker.check_none_empty(HERE, THERE)
    world.outer.heal()
    for at_ms in range(0, 5_000, 500):
        there.after(at_ms, there.choice(there.clients).appear)
    checker.watch(25_000)
    here.start(dead)
    checker.watch(30_000)
    checker.check_link(HERE, THERE)
    return world


def owners_disagree(seed: int, member_class: type[LinkedMember]) -> tuple[LinkedWorld, LinkChecker, LinkedMember]:
    """Two members part, and one of them hears nothing of the other cluster either. Then they meet again.

    Bound: nothing that the other one heard in the meantime is missing then. Return also the member that heard nothing.
    """
    world, checker = steady_links(seed, member_class)
    here, there = world.clusters[HERE], world.clusters[THERE]
    deaf = here.any_member()
    assert isinstance(deaf, LinkedMember)
    others = [(here.network, one) for one in here.addresses if one != deaf.address]
    for network, other in (*others, *((world.outer, one) for one in there.addresses)):
        network.cut(other, deaf.address)
        network.cut(deaf.address, other)
    there.after(1_000, partial(_register_more, there, SERVICES // 2))
    checker.watch(there.between(18_000, 25_000))
    here.heal()
    checker.watch(2_000)
    return world, checker, deaf


def later_states_meet_higher_ones(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """A member that heard nothing has the higher versions of older states."""
    return owners_disagree(seed, member_class)[0]


def silent_owner_ends(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """A member that heard nothing marks all as stale, meets the other one, and ends.

    Bound: the other one shows nothing as stale ``CAUGHT_UP_MS`` later.
    """
    world, checker, deaf = owners_disagree(seed, member_class)
    world.clusters[HERE].kill(deaf)
    checker.watch(CAUGHT_UP_MS)
    for member in serving(world.clusters[HERE]):
        for key, part in member.node.domain.foreign.parts():
            if part.stale_ms is not None:
                raise checker.broken(f"{member.address} shows {key} as stale, whose cluster it hears")
    return world


def lines_wait_in_a_paused_member(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """A member is paused, and reads old lines then. Nothing that the other one heard in the meantime may be missing."""
    world, checker = steady_links(seed, member_class)
    here, there = world.clusters[HERE], world.clusters[THERE]
    member = here.any_member()
    member.pause()
    for client in there.clients[:SERVICES]:
        there.after(50, client.appear)
    there.after(9_000, partial(_register_more, there, SERVICES))
    checker.watch(here.between(22_000, 28_000))
    here.resume(member)
    checker.watch(10_000)
    return world


def carrying_members_restart(seed: int, member_class: type[LinkedMember]) -> LinkedWorld:
    """Members that register local instances at a Nacos are killed, and come back. No instance may be missing there."""
    more = {"kind": "nacos", "direction": "out"}
    world = LinkedWorld(seed, {HERE: (THERE,)}, members=(4, 1), member_class=member_class, more=more)
    here, checker = world.clusters[HERE], LinkChecker(world)
    for number in range(2 * SERVICES):
        client = here.add_client(f"DEFAULT_GROUP@@svc{number % SERVICES}")
        here.after(here.between(1_000, 1_000 + BEAT_INTERVAL_MS), client.appear)
    world.start_all(settle_ms=STEADY_MS)
    for member in here.sample(list(here.members.values()), 2):
        here.kill(member)
        _watch_nacos(world, checker, here.between(1_000, 15_000))
        here.start(member)
        _watch_nacos(world, checker, 15_000)
    return world


def _watch_nacos(world: LinkedWorld, checker: LinkChecker, span_ms: int) -> None:
    """Let the world run, and check that a Nacos has all that is registered in the first cluster."""
    here = world.clusters[HERE]
    members = [one for one in here.members.values() if isinstance(one, LinkedMember)]
    for _ in range(span_ms // SAMPLE_MS):
        world.run(SAMPLE_MS)
        sides = [one for member in members for one in member.nacos_sides if one.is_open]
        found = {(name[1], address[:2]) for side in sides for name, rows in side.registered.items() for address in rows}
        for client in here.clients:
            if (client.service, (client.ip, client.port)) not in found:
                raise checker.broken(f"the Nacos has no instance {client.address} of {client.service}")


def _register_more(cluster: World, services: int) -> None:
    for number in range(services):
        cluster.add_client(f"DEFAULT_GROUP@@svc{number}").appear()
