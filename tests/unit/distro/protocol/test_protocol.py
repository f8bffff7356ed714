"""What the engine decides to do, and when: one call a peer, in the order fetch, verify, send."""

from itertools import pairwise
from typing import Any

import pytest

from app.naming.registry.merge import InstanceList
from app.replication.instance_list_type import INSTANCE_LIST
from distro.members.members import PULL_INTERVAL_MS, MemberList
from distro.model.config import DistroConfig
from distro.model.monitor import DistroStats
from distro.model.ports import Component
from distro.model.types import (
    Action,
    Datum,
    DistroKey,
    Load,
    MemberKind,
    MemberState,
    Outcome,
    PeerReport,
    Query,
    Received,
    Report,
    SyncData,
    Verify,
    Version,
)
from distro.protocol.protocol import CALL_LOST_MS, HEARTBEAT_MS, DistroProtocol
from distro.protocol.tasks import REST_FROM_BYTES, STUCK_MS
from tests.support.engine import CONFIG, ME, OTHER, OWN_KIND, SELF, B, C, Engine


@pytest.fixture
def engine() -> Engine:
    made = Engine(B, C)
    made.load()
    return made


@pytest.fixture
def pair() -> Engine:
    made = Engine(B)
    made.load()
    return made


def sent(actions: list[Action]) -> dict[str, tuple[str, ...]]:
    assert all(isinstance(action, SyncData) for action in actions), actions
    return {action.peer: action.keys for action in actions if isinstance(action, SyncData)}


def only(actions: list[Action]) -> Any:
    [action] = actions
    return action


def test_a_change_leaves_at_once_for_every_peer(engine: Engine) -> None:
    key = engine.write(engine.service_of(SELF))
    assert sent(engine.tick()) == {B: (key,), C: (key,)}


def test_sends_to_a_peer_keep_their_distance_and_the_changes_between_them_go_together() -> None:
    engine = Engine(B, config=DistroConfig(sync_spacing_ms=10))
    engine.load()
    name = engine.service_of(SELF)
    key = engine.write(name)
    first = only(engine.tick())
    begun_ms = engine.now_ms
    engine.protocol.on_sync_done(first, Outcome.DELIVERED, Received(), engine.now_ms)
    for port in (100, 101):
        engine.write(name, port)
    second = only(engine.tick(1_000))
    assert isinstance(second, SyncData)
    assert (second.keys, engine.now_ms - begun_ms) == ((key,), 10)
    engine.protocol.on_sync_done(second, Outcome.DELIVERED, Received(), engine.now_ms)
    engine.now_ms += 20
    engine.write(name, 102)
    assert sent(engine.tick()) == {B: (key,)}


def test_a_peer_whose_call_lasts_gets_what_changes_when_that_ends() -> None:
    engine = Engine(B, C)
    engine.load()
    engine.write(engine.service_of(SELF))
    assert not engine.protocol.peers.is_busy(engine.now_ms)
    to_b, to_c = engine.tick()
    assert engine.protocol.peers.is_busy(engine.now_ms + STUCK_MS - 1)
    assert not engine.protocol.peers.is_busy(engine.now_ms + STUCK_MS), (
        "calls may not arrive: others are told of the keys"
    )
    engine.protocol.on_sync_done(to_b, Outcome.DELIVERED, Received(), engine.now_ms)
    assert not engine.protocol.peers.is_busy(engine.now_ms), "a change goes to one of them at once"
    engine.protocol.on_sync_done(to_c, Outcome.DELIVERED, Received(), engine.now_ms)
    for peer in (B, C):
        engine.protocol.peers.queues[peer].reachable = False
    assert not engine.protocol.peers.is_busy(engine.now_ms)


@pytest.mark.parametrize(
    ("keys", "distance_ms"),
    [(1, 10), (2, 20), (3, 30), (4, 40), (7, 40), (8, 50), (15, 50), (16, 60), (90, 60)],
)
def test_the_more_keys_a_send_has_the_longer_is_the_next_one_kept_for_more(keys: int, distance_ms: int) -> None:
    engine = Engine(B, config=DistroConfig(sync_spacing_ms=10))
    engine.load()
    engine.now_ms += -engine.now_ms % 600  # a multiple of each distance
    names = [one for one in map("DEFAULT_GROUP@@s{}".format, range(300)) if engine.protocol.mapper.responsible(one)]
    written = tuple(map(engine.write, names[:keys]))
    first = only(engine.tick())
    assert first.keys == written
    begun_ms = engine.now_ms
    engine.protocol.on_sync_done(first, Outcome.DELIVERED, Received(), engine.now_ms)
    last = engine.write(names[keys])
    assert engine.protocol.gathers_ms(begun_ms + 3) == distance_ms - 3
    second = only(engine.tick(1_000))
    assert (second.keys, engine.now_ms - begun_ms) == ((last,), distance_ms)
    assert engine.protocol.gathers_ms(engine.now_ms + 50) == 0


def test_after_a_full_send_the_rest_follows_at_the_usual_distance() -> None:
    engine = Engine(B, config=DistroConfig(sync_spacing_ms=10, batch_keys_max=3))
    engine.load()
    names = [one for one in map("DEFAULT_GROUP@@s{}".format, range(100)) if engine.protocol.mapper.responsible(one)]
    for name in names[:4]:
        engine.write(name)
    first = only(engine.tick())
    assert len(first.keys) == 3
    begun_ms = engine.now_ms
    engine.protocol.on_sync_done(first, Outcome.DELIVERED, Received(), engine.now_ms)
    assert len(only(engine.tick(1_000)).keys) == 1
    assert engine.now_ms - begun_ms == 10


@pytest.mark.parametrize(("bytes_count", "rest_ms"), [(REST_FROM_BYTES, 300), (REST_FROM_BYTES - 1, 0)])
def test_after_much_data_that_took_long_the_peer_gets_a_rest(bytes_count: int, rest_ms: int) -> None:
    """A peer that is slow with a small send is not busy with it."""
    engine = Engine(B, config=DistroConfig(sync_spacing_ms=10))
    engine.load()
    name = engine.service_of(SELF)
    engine.write(name)
    first = only(engine.tick())
    engine.protocol.times.sent(B, bytes_count)
    engine.now_ms += 150
    engine.protocol.on_sync_done(first, Outcome.DELIVERED, Received(), engine.now_ms)
    begun_ms = engine.now_ms
    key = engine.write(name, 100)
    second = only(engine.tick(2_000))
    assert (second.keys, engine.now_ms - begun_ms) == ((key,), rest_ms)
    engine.now_ms += 2_500
    engine.protocol.times.sent(B, bytes_count)
    engine.protocol.on_sync_done(second, Outcome.DELIVERED, Received(), engine.now_ms)
    begun_ms = engine.now_ms
    engine.write(name, 101)
    assert only(engine.tick(3_000)).keys == (key,)
    assert engine.now_ms - begun_ms == (1_000 if rest_ms else 0)


def test_while_a_send_is_under_way_changes_merge(pair: Engine) -> None:
    name = pair.service_of(SELF)
    key = pair.write(name)
    first = only(pair.tick())
    for port in range(100, 200):
        pair.write(name, port)
    assert pair.tick() == []
    pair.protocol.on_sync_done(first, Outcome.DELIVERED, Received(), pair.now_ms)
    second = only(pair.tick())
    assert second.keys == (key,)
    pair.protocol.on_sync_done(second, Outcome.DELIVERED, Received(), pair.now_ms)
    assert pair.tick() == []
    assert pair.protocol.pending() == 0


def test_a_slow_peer_holds_up_no_other(engine: Engine) -> None:
    name = engine.service_of(SELF)
    engine.write(name)
    to_b, _to_c = engine.tick()
    engine.write(name, 81)
    assert isinstance(to_b, SyncData)
    engine.protocol.on_sync_done(to_b, Outcome.DELIVERED, Received(), engine.now_ms)
    assert sent(engine.tick()).keys() == {to_b.peer}


def test_a_delay_widens_the_window() -> None:
    engine = Engine(B, config=DistroConfig(sync_delay_ms=300, sync_spacing_ms=0))
    engine.load()
    engine.write(engine.service_of(SELF))
    began_ms = engine.now_ms
    assert engine.tick() == []
    assert sent(engine.tick(1_000))
    assert engine.now_ms == began_ms + 300


def test_failed_sends_are_repeated_with_back_off(pair: Engine) -> None:
    key = pair.write(pair.service_of(SELF))
    waits = []
    action = only(pair.tick())
    for _ in range(7):
        pair.protocol.on_sync_done(action, Outcome.FAILED, Received(), pair.now_ms)
        began_ms = pair.now_ms
        calls = pair.tick(10_000)
        while isinstance(calls[0], Verify):
            pair.verify_all(calls)
            calls = pair.tick(10_000)
        action = only(calls)
        assert action.keys == (key,)
        waits.append(pair.now_ms - began_ms)
    assert waits == [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]


def test_what_failed_is_sent_at_once_when_the_peer_answers_again(pair: Engine) -> None:
    """A peer that others still reach is never away: no round of its return sends what it lacks."""
    key = pair.write(pair.service_of(SELF))
    action = only(pair.tick())
    for wait_ms in (250, 500, 1_000, 2_000):
        pair.protocol.on_sync_done(action, Outcome.FAILED, Received(), pair.now_ms)
        pair.protocol.on_report_done(B, Outcome.FAILED, None, pair.now_ms)
        assert pair.protocol.members.is_reachable(B)
        pair.now_ms += wait_ms
        action = next(one for one in pair.protocol.tick(pair.now_ms)[0] if isinstance(one, SyncData))
    pair.protocol.on_sync_done(action, Outcome.FAILED, Received(), pair.now_ms)
    assert not [one for one in pair.protocol.tick(pair.now_ms)[0] if isinstance(one, SyncData)]
    pair.hear(B)
    sent_again = [one for one in pair.protocol.tick(pair.now_ms)[0] if isinstance(one, SyncData)]
    assert [one.keys for one in sent_again] == [(key,)]


def test_a_batch_that_is_rejected_goes_again_key_by_key(pair: Engine) -> None:
    """One bad key fails alone: the peer says that the request is wrong, not which part of it."""
    keys = {pair.write(f"DEFAULT_GROUP@@many{number}") for number in range(3)}
    action = only(pair.tick())
    assert set(action.keys) == keys
    pair.protocol.on_sync_done(action, Outcome.REJECTED, Received(), pair.now_ms)
    seen = []
    for _ in range(3):
        action = only(pair.tick())
        seen.append(action.keys)
        pair.protocol.on_sync_done(action, Outcome.REJECTED, Received(), pair.now_ms)
    assert {key for (key,) in seen} == keys
    assert pair.tick() == []


def test_what_a_peer_refuses_is_fetched_before_anything_else(pair: Engine) -> None:
    key = pair.write(pair.service_of(SELF))
    action = only(pair.tick())
    pair.write(pair.service_of(SELF), 81)
    pair.protocol.on_sync_done(action, Outcome.DELIVERED, Received({key: Version(2, 0, OTHER)}), pair.now_ms)
    query = only(pair.tick())
    assert query == Query(B, INSTANCE_LIST, (key,), pair.now_ms + CONFIG.sync_timeout_ms)
    pair.protocol.on_query_done(query, Outcome.DELIVERED, {}, pair.now_ms)
    assert sent(pair.tick()) == {B: (key,)}


@pytest.mark.parametrize(("behind", "fetched"), [(1, False), (0, False), (-1, True)])
def test_a_refused_state_that_this_node_gave_itself_is_not_fetched(pair: Engine, behind: int, fetched: bool) -> None:
    """The peer had it from the answer to a call that it passed on, before this older datum came."""
    key = pair.write(pair.service_of(SELF))
    action = only(pair.tick())
    pair.write(pair.service_of(SELF), 81)
    own = pair.registry.lists.version(key)
    assert own is not None
    stored_there = Version(own.epoch, own.counter - behind, own.writer)
    pair.protocol.on_sync_done(action, Outcome.DELIVERED, Received({key: stored_there}), pair.now_ms)
    following = only(pair.tick())
    assert isinstance(following, Query) is fetched
    assert following.keys == (key,)


def test_of_what_a_round_finds_newer_only_our_keys_and_unknown_ones_are_fetched(engine: Engine) -> None:
    """A third member's key is for that one to merge: the peer may hold what it made of it while it was alone."""
    ours = engine.write(engine.service_of(SELF))
    theirs = engine.copy(engine.service_of(C), Version(1, 0, f"{C}~1"))
    for action in engine.tick():
        engine.protocol.on_sync_done(action, Outcome.DELIVERED, Received(), engine.now_ms)  # type: ignore[arg-type]
    engine.verify_all(engine.tick(CONFIG.verify_interval_ms), ours, theirs, "unknown")
    assert {action.keys for action in engine.tick() if isinstance(action, Query)} == {(ours, "unknown")}


def test_after_a_fetch_the_peer_is_owed_what_is_newer_here(pair: Engine) -> None:
    key = pair.write(pair.service_of(SELF))
    action = only(pair.tick())
    pair.protocol.on_sync_done(action, Outcome.DELIVERED, Received({key: Version(0, 5, OTHER)}), pair.now_ms)
    query = only(pair.tick())
    pair.protocol.on_query_done(query, Outcome.DELIVERED, {key: Version(0, 5, OTHER)}, pair.now_ms)
    assert sent(pair.tick()) == {B: (key,)}


def test_a_fetch_that_fails_is_repeated(pair: Engine) -> None:
    pair.protocol.fetch(B, [DistroKey(INSTANCE_LIST, "k")])
    query = only(pair.tick())
    pair.protocol.on_query_done(query, Outcome.FAILED, {}, pair.now_ms)
    assert pair.tick() == []
    assert only(pair.tick(CONFIG.retry_delay_ms)).keys == ("k",)


def test_nothing_goes_to_a_member_that_is_down_and_a_round_tells_it_all_when_it_returns(engine: Engine) -> None:
    engine.leave(B)
    key = engine.write(engine.service_of(SELF, without=B))
    assert sent(engine.tick()) == {C: (key,)}
    assert engine.stats.sync_dropped == 1
    engine.gone.clear()
    engine.hear(B)
    returned = only(engine.tick())
    assert isinstance(returned, Verify)
    assert (returned.peer, returned.keys) == (B, (key,))


def test_what_is_owed_goes_before_a_round_but_puts_it_off_for_one_interval_at_most(pair: Engine) -> None:
    """The peer would ask for keys that it is about to get; yet changes without end must not end the rounds."""
    name = pair.service_of(SELF)
    pair.tick(CONFIG.verify_interval_ms - 1)
    due_ms, sends = pair.now_ms + 1, 0
    while True:
        pair.now_ms += 500
        pair.write(name, 1_000 + sends)
        action = only(pair.tick())
        if isinstance(action, Verify):
            break
        pair.protocol.on_sync_done(action, Outcome.DELIVERED, Received(), pair.now_ms)
        sends += 1
    assert sends > 5
    assert CONFIG.verify_interval_ms <= pair.now_ms - due_ms < CONFIG.verify_interval_ms + 500


def test_a_round_to_our_own_kind_lists_what_is_not_claimed_yet(engine: Engine) -> None:
    """Else the peer would answer with every such key, and all of them would be fetched for nothing."""
    name = engine.service_of(SELF, without=B, before=B)
    key = engine.copy(name, Version(4, 2, OTHER))
    engine.tick(CONFIG.verify_interval_ms - 1_000)
    engine.leave(B)
    action = only(engine.tick(1_000))
    assert isinstance(action, Verify)
    assert (action.peer, action.keys) == (C, (key,))
    assert engine.registry.lists.version(key) == Version(4, 2, OTHER)


def test_a_round_lists_what_this_node_wrote_and_owns(engine: Engine) -> None:
    key = engine.write(engine.service_of(SELF))
    engine.write(engine.service_of(B))
    engine.copy(engine.service_of(C), Version(1, 0, f"{C}~1"))
    for action in engine.tick():
        engine.protocol.on_sync_done(action, Outcome.DELIVERED, Received(), engine.now_ms)  # type: ignore[arg-type]
    began_ms = engine.now_ms
    rounds = engine.verify_all(engine.tick(CONFIG.verify_interval_ms))
    assert engine.now_ms == began_ms + CONFIG.verify_interval_ms
    assert {action.keys for action in rounds} == {(key,)}


def test_while_loading_nothing_but_snapshots_is_asked_for() -> None:
    """R7."""
    engine = Engine(B, C)
    engine.hear()
    engine.write(engine.service_of(SELF))
    engine.copy(engine.service_of(SELF), Version(4, 0, OTHER))
    calls = engine.tick(5_000)
    assert {type(action) for action in calls} == {Load}
    assert engine.protocol.loading
    assert engine.stats.claims == 0


def test_a_node_alone_in_its_list_is_up_at_once_and_a_standalone_one_does_nothing() -> None:
    alone = Engine()
    assert alone.tick() == []
    assert not alone.protocol.loading
    members = MemberList(SELF, CONFIG, 0, standalone=True)
    protocol = DistroProtocol(members, ME, CONFIG, {}, DistroStats(), 0)
    assert not protocol.loading
    assert protocol.steady(0)
    assert protocol.tick(10) == ([], 10 + HEARTBEAT_MS)


def test_a_key_is_claimed_when_the_view_was_steady_for_a_report_period(engine: Engine) -> None:
    """R2: of what another wrote, once, and then it is sent."""
    engine.verify_all(engine.tick(CONFIG.verify_interval_ms))
    name = engine.service_of(SELF, without=B, before=B)
    key = engine.copy(name, Version(4, 2, OTHER))
    engine.leave(B)
    assert engine.protocol.mapper.responsible(name)
    assert engine.tick(CONFIG.report_interval_ms - 1) == []
    assert engine.registry.lists.version(key) == Version(4, 2, OTHER)
    assert sent(engine.tick(1)) == {C: (key,)}
    assert engine.registry.lists.version(key) == Version(5, 0, ME)


def test_contested_keys_are_claimed_at_most_once_in_a_while(pair: Engine) -> None:
    name = pair.service_of(SELF)
    pair.tick(CONFIG.report_interval_ms)
    key = pair.copy(name, Version(4, 2, OTHER))
    claimed_ms = []
    for epoch in (4, 6, 8):
        pair.protocol.claim_later(DistroKey(INSTANCE_LIST, key), 0)
        calls = pair.tick(10_000)
        while not isinstance(calls[0], SyncData):
            pair.verify_all(calls)
            calls = pair.tick(10_000)
        claimed_ms.append(pair.now_ms)
        assert pair.registry.lists.version(key) == Version(epoch + 1, 0, ME)
        pair.protocol.on_sync_done(only(calls), Outcome.DELIVERED, Received(), pair.now_ms)
        pair.registry.replication.apply(
            Datum(key, Version(epoch + 2, 0, OTHER), InstanceList({}, {})), pair.registry.lists.version(key), 0
        )
    assert [after - before for before, after in pairwise(claimed_ms)] == [CONFIG.claim_interval_ms] * 2


def test_what_the_owner_fetched_is_passed_on_before_its_claim(engine: Engine) -> None:
    """R16: only ownership waits. The peer that it came from has it."""
    engine.verify_all(engine.tick(CONFIG.verify_interval_ms))
    engine.protocol.leave(engine.now_ms)  # so that nothing is claimed
    key, version = engine.copy(engine.service_of(SELF), Version(4, 2, OTHER)), Version(4, 2, OTHER)
    assert not engine.protocol.rights.may_send(INSTANCE_LIST, C, key, version)
    engine.protocol.claim_later(DistroKey(INSTANCE_LIST, key), engine.now_ms, B)
    assert sent(engine.tick()) == {C: (key,)}
    assert engine.protocol.rights.may_send(INSTANCE_LIST, C, key, version)
    assert not engine.protocol.rights.may_send(INSTANCE_LIST, C, key, Version(4, 3, OTHER)), (
        "that one is its writer's to send"
    )


def test_who_leaves_claims_nothing(pair: Engine) -> None:
    pair.tick(CONFIG.report_interval_ms)
    pair.protocol.leave(pair.now_ms)
    key = pair.copy(pair.service_of(SELF), Version(4, 2, OTHER))
    pair.protocol.claim_later(DistroKey(INSTANCE_LIST, key), 0)
    pair.verify_all(pair.tick(CONFIG.verify_interval_ms))
    assert pair.registry.lists.version(key) == Version(4, 2, OTHER)


def test_after_a_pause_nothing_is_acted_on_before_a_report_got_through(pair: Engine) -> None:
    """R9: the others may have gone on without this node."""
    pair.verify_all(pair.tick(CONFIG.verify_interval_ms))
    assert pair.protocol.steady(pair.now_ms)
    _, next_ms = pair.protocol.tick(pair.now_ms)
    pair.now_ms = next_ms + CONFIG.pause_ms + 1
    actions, _ = pair.protocol.tick(pair.now_ms)
    assert [action.peer for action in actions if isinstance(action, Report)] == [B], "it reports at once"
    assert pair.protocol.mapper.servers == (SELF, B), "silence of the others proves nothing"
    assert not pair.protocol.steady(pair.now_ms + CONFIG.report_interval_ms)
    pair.hear()
    assert not pair.protocol.steady(pair.now_ms), "and the view counts as new"
    assert pair.protocol.steady(pair.now_ms + CONFIG.report_interval_ms)
    assert not pair.protocol.loading


def test_a_pause_in_which_removals_may_be_forgotten_is_followed_by_a_load(pair: Engine) -> None:
    key = pair.copy(pair.service_of(B), Version(1, 0, OTHER))
    kept = pair.copy(pair.service_of(SELF), Version(1, 0, OTHER))
    _, next_ms = pair.protocol.tick(pair.now_ms)
    pair.now_ms = next_ms + CONFIG.tombstone_slack_ms
    calls = pair.tick()
    assert pair.protocol.loading
    assert not pair.protocol.members.serving
    load = only(calls)
    assert isinstance(load, Load)
    pair.protocol.on_load_done(load, Outcome.DELIVERED, [kept], pair.now_ms)
    pair.verify_all(pair.tick())
    assert (pair.registry.lists.version(key), pair.registry.lists.version(kept)) == (None, Version(1, 0, OTHER))


def test_a_spent_key_goes_when_all_peers_agreed_twice(engine: Engine) -> None:
    """R6: after the first round they may only have asked for it."""
    name = engine.service_of(SELF)
    key = engine.write(name)
    engine.registry.writes.remove("public", name, "10.1.0.1:80:unknown:DEFAULT", engine.now_ms)
    for action in engine.tick():
        engine.protocol.on_sync_done(action, Outcome.DELIVERED, Received(), engine.now_ms)  # type: ignore[arg-type]
    service = engine.registry.table.find(key)
    assert service is not None
    service.tombstones.clear()
    service.changed_ms = engine.now_ms - CONFIG.tombstone_slack_ms - 1
    for _ in range(2):
        assert {action.keys for action in engine.verify_all(engine.tick(10_000))} == {(key,)}
    assert {action.keys for action in engine.verify_all(engine.tick(10_000))} == {()}
    assert engine.registry.lists.version(key) is None
    assert engine.stats.forgotten == 1


def test_a_peer_that_refuses_a_spent_key_keeps_it_from_being_forgotten(pair: Engine) -> None:
    name = pair.service_of(SELF)
    key = pair.write(name)
    pair.registry.writes.remove("public", name, "10.1.0.1:80:unknown:DEFAULT", pair.now_ms)
    pair.protocol.on_sync_done(only(pair.tick()), Outcome.DELIVERED, Received(), pair.now_ms)
    service = pair.registry.table.find(key)
    assert service is not None
    service.tombstones.clear()
    service.changed_ms = pair.now_ms - CONFIG.tombstone_slack_ms - 1
    for _ in range(4):
        pair.verify_all(pair.tick(10_000), key)
        query = only(pair.tick())
        pair.protocol.on_query_done(query, Outcome.DELIVERED, {}, pair.now_ms)
    assert pair.registry.lists.version(key) is not None


def test_a_member_that_left_the_list_is_owed_nothing(engine: Engine) -> None:
    engine.write(engine.service_of(SELF))
    calls = engine.tick()
    engine.protocol.replace_members([SELF, B], engine.now_ms)
    for action in calls:
        assert isinstance(action, SyncData)
        engine.protocol.on_sync_done(action, Outcome.FAILED, Received(), engine.now_ms)
    later = engine.tick(CONFIG.retry_delay_ms)
    assert {action.peer for action in later} == {B}


def test_it_never_sleeps_longer_than_a_pause_may_go_unnoticed(pair: Engine) -> None:
    pair.verify_all(pair.tick(CONFIG.verify_interval_ms))
    for _ in range(50):
        actions, next_ms = pair.protocol.tick(pair.now_ms)
        assert pair.now_ms <= next_ms <= pair.now_ms + HEARTBEAT_MS
        for action in actions:
            if isinstance(action, Verify):
                pair.verify_all([action])
            else:
                pair.hear()
        pair.now_ms = max(next_ms, pair.now_ms + 1)


# --- links of which one direction fails (R12) -----------------------------------------------------


def tells(engine: Engine, peer: str, **fields: Any) -> PeerReport:
    """A report of a peer of our own kind that serves."""
    view = tuple(sorted((SELF, *engine.peers)))
    return PeerReport(peer, MemberState.UP, OWN_KIND, {}, view, **fields)


def test_what_cannot_be_sent_is_named_to_the_peer_until_it_has_it(pair: Engine) -> None:
    key = pair.write(pair.service_of(SELF))
    pair.gone.add(B)
    send = only(pair.tick())
    assert pair.protocol.reader.waiting_for(B) == {}, "nothing failed yet"
    pair.tick(CONFIG.report_interval_ms)
    assert pair.protocol.reader.waiting_for(B) == {INSTANCE_LIST: {key: pair.registry.lists.version(key)}}, (
        "also while it is sent"
    )
    pair.protocol.on_sync_done(send, Outcome.FAILED, Received(), pair.now_ms)
    other = pair.write(pair.service_of(SELF) + "x")
    pair.tick()
    assert set(pair.protocol.reader.waiting_for(B)[INSTANCE_LIST]) == {key, other}
    pair.gone.clear()
    pair.hear(B)
    [again] = [one for one in pair.tick(CONFIG.retry_delay_ms) if isinstance(one, SyncData)]
    pair.protocol.on_sync_done(again, Outcome.DELIVERED, Received(), pair.now_ms)
    pair.tick()
    assert pair.protocol.reader.waiting_for(B) == {}


def test_what_a_call_that_hangs_may_not_have_brought_is_named_though_reports_arrive(pair: Engine) -> None:
    """A connection that was open before the cut may carry reports where no new one can be made."""
    key = pair.write(pair.service_of(SELF))
    send = only(pair.tick())
    pair.hear(B)
    pair.tick(STUCK_MS - 1)
    assert pair.protocol.reader.waiting_for(B) == {}
    pair.tick(1)
    assert pair.protocol.reader.waiting_for(B) == {INSTANCE_LIST: {key: pair.registry.lists.version(key)}}
    pair.protocol.on_sync_done(send, Outcome.DELIVERED, Received(), pair.now_ms)
    pair.tick()
    assert pair.protocol.reader.waiting_for(B) == {}


def test_what_a_peer_cannot_send_is_fetched_unless_it_is_here(pair: Engine) -> None:
    here, newer, older = Version(3, 0, OTHER), Version(3, 1, OTHER), Version(2, 9, OTHER)
    keys = {name: pair.copy(f"DEFAULT_GROUP@@{name}", here) for name in ("same", "newer", "older")}
    unknown = "com.alibaba.nacos.naming.iplist.ephemeral.public##DEFAULT_GROUP@@unknown"
    waiting = {keys["same"]: here, keys["newer"]: newer, keys["older"]: older, unknown: older}
    pair.protocol.on_report_done(B, Outcome.DELIVERED, tells(pair, B, waiting={INSTANCE_LIST: waiting}), pair.now_ms)
    query = only([action for action in pair.tick() if not isinstance(action, Verify)])
    assert isinstance(query, Query)
    assert (query.peer, set(query.keys)) == (B, {keys["newer"], unknown})
    pair.protocol.on_report_done(B, Outcome.DELIVERED, tells(pair, B, waiting={"other type": waiting}), pair.now_ms)


def test_reports_come_often_to_a_peer_whose_own_do_not_arrive(pair: Engine) -> None:
    pair.protocol.on_report(tells(pair, B, calls={SELF: 0}), pair.now_ms)
    begun_ms, times = pair.now_ms, []
    while pair.now_ms < begun_ms + 4 * CONFIG.report_interval_ms:
        actions, next_ms = pair.protocol.tick(pair.now_ms)
        for action in actions:
            if isinstance(action, Report):
                times.append(pair.now_ms)
                answer = tells(pair, B, calls={SELF: pair.now_ms - begun_ms})
                pair.protocol.on_report_done(B, Outcome.DELIVERED, answer, pair.now_ms)
        pair.now_ms = max(next_ms, pair.now_ms + 1)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps[0] == CONFIG.report_interval_ms
    assert gaps[-1] == PULL_INTERVAL_MS


def test_a_member_between_two_passes_on_what_one_of_them_wrote(engine: Engine) -> None:
    name = engine.service_of(C)
    copy = engine.copy(name, Version(1, 0, f"{C}~1"))
    engine.protocol.on_report(tells(engine, B, calls={SELF: 0, C: 100}), engine.now_ms)
    engine.protocol.on_report(tells(engine, C, calls={SELF: 0, B: 100}), engine.now_ms)
    rounds = {one.peer: one for one in engine.tick(2 * CONFIG.verify_interval_ms) if isinstance(one, Verify)}
    assert copy in rounds[B].keys
    assert copy not in rounds[C].keys
    assert engine.protocol.rights.may_send(INSTANCE_LIST, B, copy, Version(1, 0, f"{C}~1"))
    assert not engine.protocol.rights.may_send(INSTANCE_LIST, C, copy, Version(1, 0, f"{C}~1"))


def test_a_call_that_never_ends_is_given_up_and_its_late_end_is_nobodys(pair: Engine) -> None:
    key = pair.write(pair.service_of(SELF))
    lost = only(pair.tick())
    assert pair.tick(lost.deadline_ms + CALL_LOST_MS - 1 - pair.now_ms) == [], "one call of data at a time"
    again = only(pair.tick(CONFIG.retry_delay_ms + 1))
    while isinstance(again, Verify):
        pair.verify_all([again])
        again = only(pair.tick(10_000))
    assert (type(again), again.keys) == (SyncData, (key,))
    assert pair.stats.calls_lost == 1
    pair.protocol.on_sync_done(lost, Outcome.DELIVERED, Received(), pair.now_ms)
    assert pair.tick() == [], "the second one is still under way"
    pair.protocol.on_sync_done(again, Outcome.DELIVERED, Received(), pair.now_ms)
    assert pair.stats.sync_delivered == 1


def test_a_call_from_before_a_pause_ends_soon_after_it(pair: Engine) -> None:
    pair.write(pair.service_of(SELF))
    sent_before = only(pair.tick())
    pair.now_ms += 40_000
    pair.protocol.tick(pair.now_ms)
    assert (pair.stats.pauses, pair.stats.calls_lost) == (1, 0)
    pair.protocol.on_sync_done(sent_before, Outcome.FAILED, Received(), pair.now_ms)
    assert pair.stats.sync_failed == 1


class OwnVersions:
    """A store of which only the highest own version counts."""

    def highest_own(self) -> Version:
        return Version(1, 1, ME)

    def versions(self) -> dict[str, Version]:
        return {}


@pytest.mark.parametrize(
    ("kind", "owned_by_writer", "served"),
    [(MemberKind.OWN, False, True), (MemberKind.OWN, True, False), (MemberKind.NACOS_2, False, False)],
)
def test_a_member_has_served_when_it_wrote_what_others_could_write_too(
    kind: MemberKind, owned_by_writer: bool, served: bool
) -> None:
    """R16: a member that has just started has nothing that anybody could have changed apart from it."""
    store: Any = OwnVersions()
    other = Component(store, store, store, taken_by=frozenset({kind}), owned_by_writer=owned_by_writer)
    engine = Engine(B, more={"other": other})
    engine.tick()
    assert engine.protocol.members.served is served


def test_a_peer_that_knows_nothing_of_a_key_that_it_was_asked_for_gets_it(engine: Engine) -> None:
    key = engine.write(engine.service_of(SELF))
    for action in engine.tick():
        engine.protocol.on_sync_done(action, Outcome.DELIVERED, Received(), engine.now_ms)  # type: ignore[arg-type]
    engine.protocol.fetch(B, [DistroKey(INSTANCE_LIST, key)])
    query = only(engine.tick(1_000))
    assert isinstance(query, Query)
    engine.protocol.on_query_done(query, Outcome.DELIVERED, {}, engine.now_ms)
    assert sent(engine.tick(10)) == {B: (key,)}
