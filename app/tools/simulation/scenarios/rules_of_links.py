"""As ``rules``: linked clusters in which one rule of links alone stands between them and a breach (L1 to L8)."""

from dataclasses import replace
from functools import partial
from typing import Any

from app.http.server.line_streams import LASTS_S
from app.links.feed import LINGER_MS, Feed, Takes
from app.links.follower import LinkRules
from app.naming.model.model import BEAT_INTERVAL_MS, DELETE_TIMEOUT_MS, Instance, Service
from app.naming.registry.union import view_of
from app.replication.address_client_type import HTTP_CLIENTS
from app.replication.client_type import CLIENTS
from app.replication.foreign_type import FOREIGN
from app.tools.simulation.member.sim_runtime import SimMailbox
from app.tools.simulation.world.link_checker import LinkChecker, serving
from app.tools.simulation.world.linked_world import LinkedMember, LinkedWorld
from distro.model.types import DistroKey

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


# --- members without a rule -----------------------------------------------------------------------------


class FollowsItself(LinkedMember):
    link_rules = LinkRules(refuses_own=False)


class EchoingFeed(Feed):
    """Sends out what links brought, too."""

    @staticmethod
    def leaving(service: Service) -> tuple[Instance, ...]:
        return tuple(replace(one, metadata=_unlabelled(one)) for one in view_of(service).instances)


def _unlabelled(one: Instance) -> dict[str, str | None]:
    return {name: text for name, text in (one.metadata or {}).items() if not name.startswith("rollcall.")}


class Echoes(LinkedMember):
    feed_class = EchoingFeed


class Unmarked(LinkedMember):
    link_rules = LinkRules(marks_stale=False)


class AnyDelta(LinkedMember):
    link_rules = LinkRules(checks_bases=False)


class TrustsTheYoung(LinkedMember):
    link_rules = LinkRules(keeps_unsettled=False)


class BelievesLosses(LinkedMember):
    link_rules = LinkRules(doubts_losses=False)


class EmptiesServices(LinkedMember):
    link_rules = LinkRules(keeps_last=False)


class LyingFeed(Feed):
    """Sends each follower all services."""

    def since(self, place: int, takes: Takes) -> tuple[list[bytes], int] | None:
        return super().since(place, _all)

    def compare(self, held: Any, takes: Takes, bytes_max: int) -> Any:
        return super().compare(held, _all, bytes_max)


def _all(_namespace: str, _full_name: str) -> bool:
    return True


class Lies(LinkedMember):
    feed_class = LyingFeed


class TakesAll(Lies):
    link_rules = LinkRules(checks_parts=False)


class QuietMailbox(SimMailbox):
    def sync(self, key: DistroKey) -> None:
        if key.resource_type != FOREIGN:
            super().sync(key)


class KeepsToItself(LinkedMember):
    """The other members do not get the instances of a link."""

    left_out = frozenset({CLIENTS, HTTP_CLIENTS, FOREIGN})
    mailbox_class = QuietMailbox
