"""Nights of two linked clusters that change all the time: members restart, and the link is cut, around both rounds."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from app.http.api.dump_lines import dump_lines, linked_rows
from app.rows.rows import RowKind
from app.tools.audit.format.manifest import links_of
from app.tools.simulation.scenarios.scenarios import live_randomly
from app.tools.simulation.world.linked_world import LinkedMember, LinkedWorld
from app.tools.simulation.world.sim_connections import ConnectedMember, SimConnections
from tests.support.churning_nights import BETWEEN_MEMBERS_MS, GAP_MS, restart
from tests.support.dumps import FIRST_MS, LinkedRows, add_links, write_dump
from tests.support.thorough import THOROUGH

ACCUSED_SEEDS = (103, 108, 110)
"""Nights in which a check that ignores how long a link was silent accuses members: differs, extra and stale."""
LINKED_SEEDS = (*(range(20) if THOROUGH else (3, 12)), *ACCUSED_SEEDS)
"""The nights of a run."""
BEGIN_MS_MAX = 3_000
"""The most time between the two commands that dump the clusters."""
HEALED_MS = 6_000
"""A link that was cut shows no difference so long after it works again (docs/links.md)."""
CUT_MS_MAX = 40_000
ROUND_AT_MS = 40_000
"""The first round begins so long after the churn does."""


class LinkedConnectedMember(ConnectedMember, LinkedMember):
    """A member with connections and with links."""


class ClusterRound(NamedTuple):
    """What the members of one cluster tell in a round, by address."""

    rows: dict[str, list[dict[str, Any]]]
    brought: dict[str, LinkedRows]


LinkedNight = tuple[tuple[ClusterRound, ClusterRound], tuple[ClusterRound, ClusterRound]]
"""The first round and the second one of each cluster."""


def churning_links(seed: int) -> LinkedNight:
    """Return both rounds of two clusters that follow each other: each with beating clients and 30 connections.

    A member of each restarts, orderly or not, before the first round or between both. No silence of the link lasts from
    the first round to the second.
    """
    world = LinkedWorld(seed, {0: (1,), 1: (0,)}, member_class=LinkedConnectedMember)
    first = world.clusters[0]
    connected = []
    for cluster in world.clusters:
        live_randomly(cluster, services=4, clients=12, span_ms=150_000)
        connections = SimConnections(cluster)
        connected.append(connections)
        for _ in range(30):
            connections.live(cluster.between(0, 120_000), 40_000)
    world.start_all(settle_ms=first.between(60_000, 80_000))
    for cluster, connections in zip(world.clusters, connected, strict=True):
        for client in cluster.clients:
            if cluster.chance(0.4):
                cluster.after(cluster.between(0, 30_000), client.die)
        cluster.after(cluster.between(0, 45_000), partial(restart, cluster, cluster.any_member(), connections))
    begins_ms, ends_ms = _cut_times(world)
    first.after(begins_ms, partial(_set_link, world, cuts=True))
    first.after(ends_ms, partial(_set_link, world, cuts=False))
    world.run(ROUND_AT_MS)
    started_ms = world.now_ms
    begin_ms = [first.between(0, BEGIN_MS_MAX) for _ in world.clusters]
    rounds = []
    for _ in range(2):
        began_ms = world.now_ms
        rounds.append(_dumped(world, begin_ms, started_ms))
        world.run(began_ms + GAP_MS - world.now_ms)
    (one, other), (one_again, other_again) = rounds
    return (one, one_again), (other, other_again)


def _cut_times(world: LinkedWorld) -> tuple[int, int]:
    """Return when the link is cut and when it is mended, in ms from now."""
    first = world.clusters[0]
    second_ms = ROUND_AT_MS + GAP_MS
    begins_ms = first.between(0, second_ms)
    ends_ms = begins_ms + first.between(1_000, CUT_MS_MAX)
    if begins_ms < ROUND_AT_MS + BEGIN_MS_MAX:  # before or in the first round: the second one finds it healed
        ends_ms = min(ends_ms, second_ms - HEALED_MS)
    return begins_ms, ends_ms


def _set_link(world: LinkedWorld, *, cuts: bool) -> None:
    change = world.cut if cuts else world.mend
    change(0, 1)
    change(1, 0)


def _dumped(world: LinkedWorld, begin_ms: list[int], started_ms: int) -> list[ClusterRound]:
    """Return what all members of both clusters tell, each at a moment of its own, as soon as it answers."""
    found = [ClusterRound({}, {}) for _ in world.clusters]
    due: list[tuple[int, int, str]] = []
    for number, cluster in enumerate(world.clusters):
        at_ms = world.now_ms + begin_ms[number]
        for address in cluster.members:
            at_ms += cluster.between(1, BETWEEN_MEMBERS_MS)
            due.append((at_ms, number, address))
    while due:
        due.sort()
        at_ms, number, address = due.pop(0)
        world.run(at_ms - world.now_ms)
        member = world.clusters[number].members[address]
        if not member.serving:
            due.append((at_ms + 500, number, address))
            continue
        rows, brought = _told(member, FIRST_MS + world.now_ms - started_ms)
        found[number].rows[address], found[number].brought[address] = rows, brought
    return found


def _told(member: Any, wall_ms: int) -> tuple[list[dict[str, Any]], LinkedRows]:
    """Return the rows of a member as `rollcall dump` has them, and apart from them what its links brought."""
    domain, links = member.node.domain, member.node.services.links
    cluster = member.node.engine.cluster
    linked = linked_rows(*links.brought())
    lines = dump_lines({}, domain.naming, domain.durable, domain.clients.table, cluster, linked=linked)
    rows = [orjson.loads(line) for line in lines][1:-1]
    brought = [row for row in rows if row["kind"] == RowKind.LINKED]
    own = [row for row in rows if row["kind"] != RowKind.LINKED]
    return own, LinkedRows(links.greeting().cluster, links_of(links.carried()), brought, wall_ms)


def write_linked_night(root: Path, night: LinkedNight, ending: str = "") -> Iterator[str]:
    """Write the dumps of both clusters, whose ids get this ending; yield their folders."""
    for number, (first, second) in enumerate(night):
        folder = root / f"cluster-{number}"
        written = write_dump(folder, first.rows, second.rows)
        for place, one in zip(written, (first, second), strict=True):
            add_links(place, {address: _named(told, ending) for address, told in one.brought.items()})
        yield str(folder)


def _named(told: LinkedRows, ending: str) -> LinkedRows:
    links = [replace(one, cluster=one.cluster and one.cluster + ending) for one in told.links]
    return replace(told, cluster=told.cluster + ending, links=links)
