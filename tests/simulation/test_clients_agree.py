"""Clients with connections in whole clusters: after faults and quiet all members know the same ones.

A failure names its seed; ``rollcall simulate --scenario clients --seed N`` shows what happened.
"""

import pytest

from app.naming.clients.client_model import ClientSnapshot
from app.naming.registry.operations import RegisterInstance
from app.replication.client_type import client_key
from app.tools.simulation.member.sim_runtime import SimMailbox
from app.tools.simulation.scenarios.scenarios import clients_agree
from app.tools.simulation.world.invariants import Broken
from app.tools.simulation.world.sim_connections import SERVICES, ConnectedMember, SimConnections
from app.tools.simulation.world.world import World
from distro.members.members_view import HANDOVER_MS
from distro.model.types import DistroKey, Version
from distro.protocol.engine_reader import EngineReader
from tests.support.thorough import usually

pytestmark = pytest.mark.simulation
SEEDS = usually(10, 30)
GROUP = 10
ONE = RegisterInstance(SERVICES[0], "10.9.1.1", 80)


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP), ids=lambda first: f"seeds {first} to {first + GROUP - 1}")
def test_members_agree_on_clients_after_the_faults(first: int) -> None:
    for seed in range(first, first + GROUP):
        clients_agree(seed)


def calm_world(seed: int = 1, member_class: type[ConnectedMember] = ConnectedMember) -> tuple[World, SimConnections]:
    world = World(seed, member_class=member_class)
    world.start_all(settle_ms=30_000)
    return world, SimConnections(world)


def connected(world: World, connections: SimConnections, index: int = 0) -> tuple[ConnectedMember, str]:
    """A client of that member with one instance, which all members know of."""
    member = world.members[world.addresses[index]]
    assert isinstance(member, ConnectedMember)
    client_id = connections.connect(member)
    assert client_id is not None
    member.connections.own.register(client_id, ONE)
    world.run(200)
    assert len(list(connections.copies(client_id))) == 3
    return member, client_id


def copy_of(world: World, client_id: str) -> tuple[ConnectedMember, ClientSnapshot]:
    """A member that holds a copy of a client, and that copy."""
    holder = world.members[world.addresses[1]]
    assert isinstance(holder, ConnectedMember)
    snapshot = holder.connections.table.snapshot(client_id)
    assert snapshot is not None
    return holder, snapshot


def test_a_connection_that_ends_is_gone_everywhere_at_once() -> None:
    world, connections = calm_world()
    member, client_id = connected(world, connections)
    for other in connections.members():
        assert SERVICES[0] in other.shown()
    connections.end(member, client_id)
    world.run(200)
    assert not list(connections.copies(client_id))
    assert not any(SERVICES[0] in other.shown() for other in connections.members())


def test_copies_stay_for_a_while_when_their_member_says_farewell() -> None:
    world, connections = calm_world()
    member, client_id = connected(world, connections)
    member.leave()
    world.run(HANDOVER_MS - 1_000)
    assert len(list(connections.copies(client_id))) == 2
    assert all(SERVICES[0] in other.shown() for other in connections.members())
    world.run(4_000)
    assert not list(connections.copies(client_id))


@pytest.mark.parametrize("orderly", [True, False])
def test_copies_stay_for_a_while_when_their_member_has_restarted(orderly: bool) -> None:
    """The member that restarted takes them, too: nobody ever misses what its clients publish."""
    world, connections = calm_world()
    member, client_id = connected(world, connections)
    if orderly:
        member.leave()
        world.run(3_000)
    else:
        world.kill(member)
        world.run(100)
    world.start(member)
    world.run(5_000)
    assert member.serving
    assert len(list(connections.copies(client_id))) == 3
    assert all(SERVICES[0] in other.shown() for other in connections.members())
    world.run(HANDOVER_MS)
    assert not list(connections.copies(client_id))
    connections.check_quiet()


def test_a_client_that_is_back_elsewhere_has_the_last_word() -> None:
    """What it says at the other member counts for the copy, too, which else would outlive its deregistration."""
    world, connections = calm_world()
    member, old_id = connected(world, connections)
    member.connections.own.batch_register(old_id, "public", SERVICES[1], [ONE, ONE._replace(port=81)])
    world.run(200)
    member.leave()
    world.run(3_000)
    new_member = world.members[world.addresses[1]]
    assert isinstance(new_member, ConnectedMember)
    new_id = connections.connect(new_member)
    assert new_id is not None
    for service in SERVICES[:2]:
        new_member.connections.own.register(new_id, ONE._replace(service=service))
        world.run(200)
        new_member.connections.own.deregister(new_id, "public", service)
        world.run(200)
    for one in connections.members():
        assert SERVICES[0] not in one.shown()
        assert [key for key, *_ in one.shown()[SERVICES[1]]] == ["10.9.1.1:81:unknown:DEFAULT"]


def test_a_client_leaves_for_good_while_its_member_restarts_and_another_one_is_apart() -> None:
    """R15: the one that was apart hears of the next run and of the withdrawal in one, and keeps no copy of the former.

    It would for 40 s: a client that is back says no more, and its member had a contact just now.
    """
    world, connections = calm_world()
    member, _old_id = connected(world, connections)
    apart = world.members[world.addresses[2]]
    assert isinstance(apart, ConnectedMember)
    for other in world.addresses[:2]:
        world.network.cut(apart.address, other)
        world.network.cut(other, apart.address)
    world.run(6_000)
    world.kill(member)
    world.run(2_000)
    world.start(member)
    world.run(10_000)
    new_id = connections.connect(member)
    assert new_id is not None
    member.connections.own.register(new_id, ONE)
    world.run(200)
    member.connections.own.deregister(new_id, ONE.namespace, ONE.service)
    world.run(3_000)
    assert SERVICES[0] in apart.shown()
    world.network.heal()
    world.run(5_000)
    assert not any(SERVICES[0] in other.shown() for other in connections.members())


def test_a_client_that_came_back_before_its_member_was_known_to_leave() -> None:
    world, connections = calm_world()
    member, old_id = connected(world, connections)
    later, new_id = connected_to_two(world, connections)
    world.run(200)
    member.leave()
    world.run(3_000)
    for one in connections.members():
        copy = one.connections.table.client(old_id)
        assert copy is not None
        assert ("public", SERVICES[0]) not in copy.published
    later.connections.own.deregister(new_id, "public", SERVICES[0])
    world.run(200)
    assert not any(SERVICES[0] in one.shown() for one in connections.members())


def handed_over(world: World, connections: SimConnections) -> tuple[ConnectedMember, str, list[ConnectedMember]]:
    """The first member left, its client has published at the second; those two, and the members that go on."""
    member, _ = connected(world, connections)
    member.leave()
    world.run(3_000)
    later, new_id = connected_to_two(world, connections)
    world.run(200)
    return later, new_id, [one for one in connections.members() if one is not member]


def test_a_client_that_moves_once_more_is_not_missed_meanwhile() -> None:
    world, connections = calm_world()
    later, new_id, left = handed_over(world, connections)
    connections.end(later, new_id)
    world.run(2_000)
    assert all(SERVICES[0] in one.shown() for one in left)
    last = world.members[world.addresses[2]]
    assert isinstance(last, ConnectedMember)
    last_id = connections.connect(last)
    assert last_id is not None
    last.connections.own.register(last_id, ONE)
    world.run(3_000)
    assert all(SERVICES[0] in one.shown() for one in left)
    last.connections.own.deregister(last_id, "public", SERVICES[0])
    world.run(200)
    assert not any(SERVICES[0] in one.shown() for one in left)
    # What else it had published goes with the hand-over.
    world.run(HANDOVER_MS)
    assert not list(connections.copies(new_id))


def test_a_client_that_moves_twice_to_one_member_is_known_by_its_last_word() -> None:
    world, connections = calm_world()
    later, new_id, left = handed_over(world, connections)
    connections.end(later, new_id)
    _, last_id = connected_to_two(world, connections)
    later.connections.own.deregister(last_id, "public", SERVICES[0])
    world.run(200)
    assert not any(SERVICES[0] in one.shown() for one in left)


def test_a_client_that_ends_after_its_move_is_gone_when_the_hand_over_is_over() -> None:
    world, connections = calm_world()
    later, new_id, left = handed_over(world, connections)
    connections.end(later, new_id)
    world.run(HANDOVER_MS)
    assert not list(connections.copies(new_id))
    assert not any(SERVICES[0] in one.shown() for one in left)


def test_copies_go_when_their_member_is_listed_no_more() -> None:
    world, connections = calm_world()
    member, client_id = connected(world, connections)
    world.kill(member)
    for other in connections.members():
        left = [one for one in world.addresses if one != member.address]
        other.mailbox.put(lambda protocol, now_ms, left=left: protocol.replace_members(left, now_ms))
    world.run(HANDOVER_MS - 1_000)
    assert len(list(connections.copies(client_id))) == 2
    world.run(4_000)
    assert not list(connections.copies(client_id))


def test_copies_of_a_dead_member_expire() -> None:
    world, connections = calm_world()
    member, client_id = connected(world, connections)
    world.kill(member)
    world.run(170_000)
    assert len(list(connections.copies(client_id))) == 2
    world.run(20_000)
    assert not list(connections.copies(client_id))


def test_a_member_away_for_longer_than_copies_live_takes_all_again() -> None:
    world, connections = calm_world()
    _, client_id = connected(world, connections)
    away = world.members[world.addresses[2]]
    assert isinstance(away, ConnectedMember)
    world.kill(away)
    _, later_id = connected_to_two(world, connections)
    world.run(400_000)
    world.start(away)
    world.run(10_000)
    assert {client_id, later_id} <= set(away.connections.table.ids())
    assert not away.native()
    connections.check_quiet()


def connected_to_two(world: World, connections: SimConnections) -> tuple[ConnectedMember, str]:
    member = world.members[world.addresses[1]]
    assert isinstance(member, ConnectedMember)
    client_id = connections.connect(member)
    assert client_id is not None
    member.connections.own.register(client_id, ONE)
    return member, client_id


def test_a_member_that_stood_still_does_not_take_its_copies_for_expired() -> None:
    world, connections = calm_world()
    _, client_id = connected(world, connections)
    still = world.members[world.addresses[1]]
    assert isinstance(still, ConnectedMember)
    still.pause()
    world.run(200_000)
    world.resume(still)
    world.run(60_000)
    assert client_id in still.connections.table.ids()
    assert not still.dropped
    connections.check_quiet()


def test_a_member_removes_the_clients_that_it_forgot_itself() -> None:
    """A peer that knows nothing of the restart holds a copy of the run before: asked for, it turns out to be gone."""
    world, connections = calm_world()
    member, client_id = connected(world, connections)
    holder, snapshot = copy_of(world, client_id)
    world.kill(member)
    world.start(member)
    world.run(10_000)
    old = Version(1, 7, f"{member.address}~unknown")
    snapshot = type(snapshot)(old, snapshot.info, snapshot.state)
    holder.connections.copies.forget(client_id)
    assert holder.connections.copies.take(snapshot, client_id, holder.connections.table.version(client_id))
    world.run(HANDOVER_MS + 12_000)
    assert not list(connections.copies(client_id))


def test_what_one_peer_missed_is_added_there_after_a_failed_verify() -> None:
    """One peer knows nothing of a client: the next verify round finds it, and the owner sends it there alone."""
    world, connections = calm_world()
    member, client_id = connected(world, connections)
    peer, other = (world.members[one] for one in world.addresses[1:])
    assert isinstance(peer, ConnectedMember)
    assert isinstance(other, ConnectedMember)
    assert not member.verify_failed
    peer.connections.copies.forget(client_id, absent=True)  # as if it had never heard of it
    other_version = other.connections.table.version(client_id)
    world.run(6_000)
    assert member.verify_failed == [(client_key(client_id), peer.address)]
    assert peer.connections.table.version(client_id) == other_version
    connections.check_quiet()


def test_a_removal_of_an_earlier_run_is_sent_by_the_next() -> None:
    """The member that lost its memory learnt of the removal again, by its load; a peer missed it, and is told."""
    world, connections = calm_world()
    member, client_id = connected(world, connections)
    holder, snapshot = copy_of(world, client_id)
    connections.end(member, client_id)
    world.run(200)
    world.kill(member)
    world.start(member)
    world.run(10_000)
    assert member.connections.table.is_removed(client_id)
    # A late copy of the first message reaches one that restarted, too, and knows nothing of that run's end.
    world.kill(holder)
    world.start(holder)
    world.run(10_000)
    holder.connections.copies.forget(client_id)
    assert holder.connections.copies.take(snapshot, client_id, None)
    world.run(12_000)
    assert not list(connections.copies(client_id))


class Unconfirmed(ConnectedMember):
    """Nobody notes that copies are confirmed."""

    confirms = False
    expiry_ms = 20_000


class Confirmed(ConnectedMember):
    expiry_ms = 20_000


@pytest.mark.parametrize(("member_class", "stay"), [(Confirmed, True), (Unconfirmed, False)])
def test_copies_live_because_they_are_confirmed(member_class: type[ConnectedMember], stay: bool) -> None:
    world, connections = calm_world(member_class=member_class)
    _, client_id = connected(world, connections)
    world.run(100_000)
    dropped = [one for member in connections.members() for one in member.dropped]
    assert (not dropped) is stay
    assert len(list(connections.copies(client_id))) == 3, "each drop is found by the next verify round"


class ForgetfulMember(ConnectedMember):
    """Nothing is remembered of clients that are gone."""

    def build(self) -> None:
        super().build()
        self.connections.table.remember = lambda _id, _version, _now_ms: None  # type: ignore[method-assign]


def test_the_check_notices_when_removals_are_not_remembered() -> None:
    """Then nothing is sent of them, and late requests bring clients back."""
    with pytest.raises(Broken):
        forget_removals()


def forget_removals() -> None:
    for seed in range(40):
        clients_agree(seed, member_class=ForgetfulMember)


class NoTombstonesMember(ConnectedMember):
    """A member does not say of clients of its last run that they are gone."""

    def build(self) -> None:
        super().build()
        self.connections.copies.add_tombstone = lambda _id, _seen: False  # type: ignore[method-assign]


def test_the_check_notices_copies_of_a_run_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two things end them: their member itself, and the others, who hear of its restart. Without both they stay."""
    monkeypatch.setattr(EngineReader, "has_left", lambda _self, _writer: False)
    with pytest.raises(Broken):
        remember_nothing()


def remember_nothing() -> None:
    for seed in range(20):
        clients_agree(seed, member_class=NoTombstonesMember)


class LosingMailbox(SimMailbox):
    def sync(self, key: DistroKey) -> None:
        if self.member.world.chance(0.5):
            super().sync(key)


class Silent(ConnectedMember):
    """Of half of what its clients change a member tells nobody."""

    mailbox_class = LosingMailbox


@pytest.mark.parametrize("seed", range(5))
def test_verify_rounds_find_what_was_never_sent(seed: int) -> None:
    clients_agree(seed, member_class=Silent)
