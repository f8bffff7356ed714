"""What the engine counts, when its calls end and begin, and what becomes of removals beside members of other kinds."""

from itertools import pairwise
from typing import Any

import pytest

from app.replication.instance_list_type import INSTANCE_LIST
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.monitor import DistroStats
from distro.model.types import (
    NO_VERSION,
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
from distro.protocol.peer_exchange import WAITING_MAX
from distro.protocol.protocol import CALL_LOST_MS, HEARTBEAT_MS, DistroProtocol
from distro.protocol.tasks import UNFIT_MS
from distro.protocol.verify_rounds import RELAY_INTERVAL_MS
from tests.support.engine import CONFIG, ME, OTHER, OWN_KIND, SELF, B, C, Engine
from tests.support.named_store import NamedStore, component

REAL_NACOS: frozenset[str] = frozenset()


def made(*peers: str, **fields: Any) -> Engine:
    engine = Engine(*peers, **fields)
    engine.load()
    return engine


def with_type(*peers: str, kinds: dict[str, frozenset[str]] | None = None, **fields: Any) -> tuple[Engine, NamedStore]:
    """An engine with a second resource type, ``t``, over a store that does as the test says."""
    store = NamedStore()
    engine = Engine(*peers, kinds=kinds, more={"t": component(store, **fields)})
    engine.hear()
    while engine.protocol.loading:
        for call in engine.tick():
            if isinstance(call, Load):
                engine.protocol.on_load_done(call, Outcome.DELIVERED, [], engine.now_ms)
            else:
                engine.protocol.on_verify_done(call, Outcome.DELIVERED, Received(), engine.now_ms)
    settle(engine)
    return engine, store


def settle(engine: Engine) -> None:
    """End the verify rounds that are due now."""
    while calls := engine.tick():
        for call in calls:
            engine.protocol.on_verify_done(call, Outcome.DELIVERED, Received(), engine.now_ms)


def only(actions: list[Any]) -> Any:
    [action] = actions
    return action


def rounds(engine: Engine, count: int, *refused: str, absent: str = "") -> None:
    """Let B end so many rounds of the type ``t``, refusing these keys; all others agree, ``absent`` never answers."""
    while count:
        for call in engine.tick(CONFIG.verify_interval_ms):
            if isinstance(call, Query):
                engine.protocol.on_query_done(call, Outcome.DELIVERED, {}, engine.now_ms)
                continue
            of_type = call.resource_type == "t"
            received = Received(dict.fromkeys(refused if of_type else (), Version(9, 9, OTHER)))
            outcome = Outcome.FAILED if call.peer == absent else Outcome.DELIVERED
            engine.protocol.on_verify_done(call, outcome, received, engine.now_ms)
            count -= of_type and call.peer == B


# --- counts ---------------------------------------------------------------------------------------


def test_sends_are_counted_with_their_keys_and_ends() -> None:
    engine = made(B, config=DistroConfig(sync_spacing_ms=0, sync_delay_ms=10))
    for number in (1, 2, 3):
        engine.write(f"DEFAULT_GROUP@@svc{number}")
    first = only(engine.tick(10))
    engine.protocol.on_sync_done(first, Outcome.DELIVERED, Received(), engine.now_ms)
    for number in (1, 2):
        engine.write(f"DEFAULT_GROUP@@svc{number}")
    second = only(engine.tick(10))
    engine.protocol.on_sync_done(second, Outcome.FAILED, Received(), engine.now_ms)
    third = only(engine.tick(CONFIG.retry_delay_ms))
    engine.protocol.on_sync_done(third, Outcome.DELIVERED, Received(), engine.now_ms)
    engine.write("DEFAULT_GROUP@@svc1")
    fourth = only(engine.tick(10_000))
    engine.protocol.on_sync_done(fourth, Outcome.REJECTED, Received(), engine.now_ms)
    stats = engine.stats
    assert (stats.sync_sent, stats.sync_keys) == (4, 3 + 2 + 1 + 1), "half of a send that failed goes first"
    assert (stats.sync_delivered, stats.sync_failed) == (2, 2)


def test_keys_for_a_peer_that_cannot_be_reached_count_as_dropped() -> None:
    engine = made(B, C)
    engine.stats.sync_dropped = 0
    first = engine.write("DEFAULT_GROUP@@svc1")
    calls = {call.peer: call for call in engine.tick()}
    assert set(calls) == {B, C}
    for number in (2, 3):
        engine.write(f"DEFAULT_GROUP@@svc{number}")
    engine.leave(B)
    assert engine.stats.sync_dropped == 2, "those that waited; the one under way ends by itself"
    engine.write("DEFAULT_GROUP@@svc4")
    engine.write("DEFAULT_GROUP@@svc5")
    assert engine.stats.sync_dropped == 4
    assert first in calls[B].keys
    engine.leave(C)
    assert engine.stats.sync_dropped == 8, "all four for another peer"


def test_queries_rounds_and_losses_are_counted() -> None:
    engine = made(B)
    sent, failed = engine.stats.verify_sent, engine.stats.verify_failed
    keys = [DistroKey(INSTANCE_LIST, f"k{number}") for number in range(3)]
    for part in (keys, keys[:2]):
        engine.protocol.fetch(B, part)
        query = only(engine.tick())
        assert isinstance(query, Query)
        engine.protocol.on_query_done(query, Outcome.DELIVERED, {}, engine.now_ms)
    assert engine.stats.query_keys == 5
    for _ in range(2):
        verify = only(engine.tick(CONFIG.verify_interval_ms))
        assert isinstance(verify, Verify)
        engine.protocol.on_verify_done(verify, Outcome.FAILED, Received(), engine.now_ms)
    assert (engine.stats.verify_sent - sent, engine.stats.verify_failed - failed) == (2, 2)


def test_pauses_are_counted() -> None:
    engine = made(B)
    for _ in range(2):
        _, next_ms = engine.protocol.tick(engine.now_ms)
        engine.now_ms = next_ms + CONFIG.pause_ms
        engine.protocol.tick(engine.now_ms)
    assert engine.stats.pauses == 0, "so late a tick may come on a busy machine"
    for _ in range(2):
        _, next_ms = engine.protocol.tick(engine.now_ms)
        engine.now_ms = next_ms + CONFIG.pause_ms + 1
        engine.protocol.tick(engine.now_ms)
    assert engine.stats.pauses == 2


def test_claims_and_forgotten_keys_are_counted() -> None:
    engine = made(B)
    keys = [
        DistroKey(INSTANCE_LIST, engine.copy(f"DEFAULT_GROUP@@c{number}", Version(1, 0, OTHER))) for number in (1, 2)
    ]
    engine.protocol.on_claim_done(keys, [], engine.now_ms, unfinished=False)
    engine.protocol.on_claim_done(keys[:1], [], engine.now_ms, unfinished=False)
    assert engine.stats.claims == 3
    assert set(only(engine.tick()).keys) == {key.key for key in keys}, "and they are sent"
    engine.protocol.on_forget_done(2)
    engine.protocol.on_forget_done(3)
    assert engine.stats.forgotten == 5


# --- ends of calls --------------------------------------------------------------------------------


def test_each_call_has_its_own_deadline() -> None:
    engine = made(B)
    config, now_ms = engine.config, engine.now_ms
    engine.write("DEFAULT_GROUP@@svc1")
    send = only(engine.tick())
    assert (type(send), send.deadline_ms) == (SyncData, now_ms + config.sync_timeout_ms)
    engine.protocol.on_sync_done(send, Outcome.DELIVERED, Received(), engine.now_ms)
    engine.protocol.fetch(B, [DistroKey(INSTANCE_LIST, "k")])
    query = only(engine.tick())
    assert (type(query), query.deadline_ms) == (Query, engine.now_ms + config.sync_timeout_ms)
    engine.protocol.on_query_done(query, Outcome.DELIVERED, {}, engine.now_ms)
    verify = only(engine.tick(config.verify_interval_ms))
    assert (type(verify), verify.deadline_ms) == (Verify, engine.now_ms + config.verify_timeout_ms)


def test_a_query_that_fails_waits_and_then_goes_before_all_else() -> None:
    engine = made(B)
    engine.protocol.fetch(B, [DistroKey(INSTANCE_LIST, "k1")])
    query = only(engine.tick())
    engine.protocol.on_query_done(query, Outcome.FAILED, {}, engine.now_ms)
    failed_ms = engine.now_ms
    assert engine.tick(CONFIG.retry_delay_ms - 1) == []
    again = only(engine.tick(1))
    assert (engine.now_ms, again.keys) == (failed_ms + CONFIG.retry_delay_ms, ("k1",))
    engine.protocol.on_query_done(again, Outcome.DELIVERED, {}, engine.now_ms)
    engine.protocol.fetch(B, [DistroKey(INSTANCE_LIST, "k3")])
    third = only(engine.tick())
    engine.protocol.on_query_done(third, Outcome.FAILED, {}, engine.now_ms)
    assert engine.tick(CONFIG.retry_delay_ms - 1) == []
    assert only(engine.tick(1)).keys == ("k3",), "the success began the waits anew"


def test_keys_that_are_too_large_together_are_fetched_in_smaller_queries_and_one_that_is_alone_is_set_aside() -> None:
    """Verify rounds name it each time; each try would move all of it."""
    engine = made(B)
    keys = [DistroKey(INSTANCE_LIST, f"k{number}") for number in range(4)]
    engine.protocol.fetch(B, keys)
    asked = []
    for _ in range(20):
        for query in engine.tick(CONFIG.retry_delay_ms):
            if isinstance(query, Query):
                asked.append(query.keys)
                outcome = Outcome.REJECTED if "k2" in query.keys else Outcome.DELIVERED
                engine.protocol.on_query_done(query, outcome, {}, engine.now_ms)
    assert {len(one) for one in asked} == {4, 2, 1}
    assert asked.count(("k2",)) == 1
    assert {key for one in asked if "k2" not in one for key in one} == {"k0", "k1", "k3"}
    assert engine.stats.keys_unfit == 1
    set_aside_ms = engine.now_ms
    engine.protocol.fetch(B, [keys[2], keys[3]])
    assert only(engine.tick()).keys == ("k3",)
    assert set_aside_ms + UNFIT_MS > engine.now_ms
    queue = engine.protocol.peers.queues[B]
    assert not queue.is_aside(keys[2], engine.now_ms + UNFIT_MS)


def test_a_key_is_fetched_and_sent_again_when_the_peer_did_not_list_this_member_yet() -> None:
    """That answer is no word about the key: it is not set aside as one that fits into no call."""
    engine = made(B)
    engine.protocol.fetch(B, [DistroKey(INSTANCE_LIST, "k")])
    query = only(engine.tick())
    engine.protocol.on_query_done(query, Outcome.FORBIDDEN, {}, engine.now_ms)
    again = only(engine.tick(CONFIG.retry_delay_ms))
    assert (type(again), again.keys) == (Query, ("k",))
    engine.protocol.on_query_done(again, Outcome.DELIVERED, {}, engine.now_ms)
    key = engine.write(engine.service_of(SELF))
    action = only(engine.tick())
    engine.protocol.on_sync_done(action, Outcome.FORBIDDEN, Received(), engine.now_ms)
    resent = only(engine.tick(CONFIG.retry_delay_ms))
    assert (type(resent), resent.keys) == (SyncData, (key,))
    assert engine.stats.keys_unfit == 0


@pytest.mark.parametrize(("stored", "is_owed"), [((1, 2), True), ((1, 1), False), ((1, 0), False)])
def test_after_a_query_the_peer_gets_what_this_run_wrote_later(stored: tuple[int, int], is_owed: bool) -> None:
    engine, store = with_type(B)
    store.put("k", Version(*stored, ME))
    engine.protocol.fetch(B, [DistroKey("t", "k")])
    query = only(engine.tick())
    engine.protocol.on_query_done(query, Outcome.DELIVERED, {"k": Version(1, 1, ME), "x": NO_VERSION}, engine.now_ms)
    assert [call.keys for call in engine.tick() if isinstance(call, SyncData)] == [("k",)] * is_owed


@pytest.mark.parametrize("loading", [True, False])
def test_a_call_whose_end_nobody_tells_is_given_up_whatever_it_is(loading: bool) -> None:
    engine = Engine(B)
    engine.hear()
    call = only(engine.tick())
    assert isinstance(call, Load)
    if not loading:
        engine.protocol.on_load_done(call, Outcome.DELIVERED, [], engine.now_ms)
        call = only(engine.tick())
        assert isinstance(call, Verify)
    failed = engine.stats.verify_failed
    assert engine.tick(call.deadline_ms + CALL_LOST_MS - 1 - engine.now_ms) == []
    assert engine.stats.calls_lost == 0
    again = engine.tick(1) or engine.tick(CONFIG.verify_interval_ms)
    assert engine.stats.calls_lost == 1
    assert engine.stats.verify_failed == failed + (not loading)
    assert type(only(again)) is type(call), "and made again"


def test_a_lost_query_is_made_again() -> None:
    engine = made(B)
    engine.protocol.fetch(B, [DistroKey(INSTANCE_LIST, "k")])
    lost = only(engine.tick())
    calls = []
    while not any(isinstance(call, Query) for call in calls):
        for call in calls:
            engine.protocol.on_verify_done(call, Outcome.DELIVERED, Received(), engine.now_ms)
        calls = engine.tick(lost.deadline_ms + CALL_LOST_MS + CONFIG.retry_delay_ms - engine.now_ms)
    assert (only(calls).keys, engine.stats.calls_lost) == (("k",), 1)
    assert engine.now_ms <= lost.deadline_ms + CALL_LOST_MS + CONFIG.retry_delay_ms


# --- rounds ---------------------------------------------------------------------------------------


def test_what_a_peer_asks_for_in_a_round_is_sent_if_this_node_speaks_for_it() -> None:
    told: list[tuple[str, str]] = []
    engine, store = with_type(B, on_verify_failed=lambda name, peer: told.append((name, peer)))
    store.put("theirs", Version(1, 0, OTHER))
    for key in ("k1", "k2"):
        store.put(key, Version(1, 0, ME))
    calls = engine.tick(CONFIG.verify_interval_ms)
    while True:
        verify = only(calls)
        if verify.resource_type == "t":
            break
        engine.protocol.on_verify_done(verify, Outcome.DELIVERED, Received(), engine.now_ms)
        calls = engine.tick()
    wanted = Received(wanted=("unknown", "theirs", "k1", "k2"))
    engine.protocol.on_verify_done(verify, Outcome.DELIVERED, wanted, engine.now_ms)
    assert engine.stats.verify_wanted == 2
    assert told == [("k1", B), ("k2", B)]
    sends = [call for call in engine.tick(5) if isinstance(call, SyncData)]
    assert [(call.resource_type, call.keys) for call in sends] == [("t", ("k1", "k2"))]


def test_a_forgettable_key_is_agreed_on_by_our_own_kind_alone() -> None:
    """Members of real Nacos name no versions, and so agree to nothing (R6)."""
    engine, store = with_type(B, C, kinds={C: REAL_NACOS})
    assert engine.protocol.members.kind(C) is MemberKind.NACOS_1
    store.put(engine.service_of(SELF), Version(1, 0, ME))
    store.forgettable.update(store.stored)
    rounds(engine, 2, absent=C)
    assert store.forgotten == []
    rounds(engine, 1, absent=C)
    assert [key for key, *_ in store.forgotten] == [engine.service_of(SELF)]
    assert engine.stats.forgotten == 1


def test_agreement_is_counted_anew_after_a_refusal() -> None:
    engine, store = with_type(B)
    key = engine.service_of(SELF)
    store.put(key, Version(1, 0, ME))
    store.forgettable.add(key)

    rounds(engine, 1)
    rounds(engine, 1, key)
    rounds(engine, 2)
    assert store.forgotten == []
    rounds(engine, 1)
    assert [name for name, *_ in store.forgotten] == [key]


def test_a_relayed_peer_gets_a_round_each_second() -> None:
    engine = made(B, C)
    view = tuple(sorted((SELF, B, C)))
    for peer, other in ((B, C), (C, B)):
        report = PeerReport(peer, MemberState.UP, OWN_KIND, {}, view, calls={SELF: 0, other: 100})
        engine.protocol.on_report(report, engine.now_ms)
    engine.protocol.tick(engine.now_ms)
    relayed = set(engine.protocol.members.relayed())
    assert relayed, "each cannot call the other"
    times: dict[str, list[int]] = {B: [], C: []}
    for _ in range(6):
        for call in engine.tick(CONFIG.verify_interval_ms):
            if isinstance(call, Verify):
                times[call.peer].append(engine.now_ms)
                engine.protocol.on_verify_done(call, Outcome.DELIVERED, Received(), engine.now_ms)
    for peer in (B, C):
        gaps = {later - earlier for earlier, later in pairwise(times[peer])}
        assert min(gaps) == (RELAY_INTERVAL_MS if peer in relayed else CONFIG.verify_interval_ms)


# --- when to come again ---------------------------------------------------------------------------


def test_the_next_tick_is_that_of_the_first_thing_due() -> None:
    engine = made(B, config=DistroConfig(sync_spacing_ms=0, sync_delay_ms=40))
    engine.tick(CONFIG.report_interval_ms + 10)
    engine.hear()
    _, idle_ms = engine.protocol.tick(engine.now_ms)
    assert idle_ms == engine.now_ms + HEARTBEAT_MS
    engine.write("DEFAULT_GROUP@@svc1")
    _, due_ms = engine.protocol.tick(engine.now_ms)
    assert due_ms == engine.now_ms + 40
    engine.now_ms = due_ms
    [send], _ = engine.protocol.tick(due_ms)
    assert engine.protocol.pending() == 1, "the call"
    engine.write("DEFAULT_GROUP@@svc2")
    assert engine.protocol.pending() == 2
    _, next_ms = engine.protocol.tick(due_ms)
    assert next_ms == due_ms + HEARTBEAT_MS, "nothing is due for a peer that is busy"
    engine.protocol.on_sync_done(send, Outcome.DELIVERED, Received(), engine.now_ms)
    assert engine.protocol.pending() == 1


def test_a_pause_of_the_slack_and_no_less_is_followed_by_a_load() -> None:
    for late_ms, loads in ((CONFIG.tombstone_slack_ms - 1, False), (CONFIG.tombstone_slack_ms, True)):
        engine = made(B)
        _, next_ms = engine.protocol.tick(engine.now_ms)
        engine.now_ms = next_ms + late_ms
        engine.protocol.tick(engine.now_ms)
        assert engine.protocol.loading is loads
        assert engine.protocol.members.serving is not loads


def test_a_load_after_a_pause_that_nobody_answers_drops_nothing() -> None:
    """All peers may be gone: what this member has is then all that there is."""
    engine = made(B)
    key = engine.copy("DEFAULT_GROUP@@svc1", Version(1, 0, OTHER))
    _, next_ms = engine.protocol.tick(engine.now_ms)
    engine.now_ms = next_ms + CONFIG.tombstone_slack_ms
    engine.gone.add(B)
    for _ in range(200):
        for call in engine.tick(CONFIG.load_retry_delay_ms):
            if isinstance(call, Load):
                engine.protocol.on_load_done(call, Outcome.REFUSED, None, engine.now_ms)
        if not engine.protocol.loading:
            break
    assert not engine.protocol.loading
    assert engine.registry.lists.version(key) == Version(1, 0, OTHER)


def test_who_leaves_reports_at_once_and_is_never_steady() -> None:
    engine = made(B)
    engine.tick(CONFIG.report_interval_ms)
    assert engine.protocol.steady(engine.now_ms)
    engine.protocol.leave(engine.now_ms)
    actions, _ = engine.protocol.tick(engine.now_ms)
    assert B in [action.peer for action in actions if isinstance(action, Report)]
    assert not engine.protocol.steady(engine.now_ms)


def test_a_standalone_node_is_responsible_for_everything_from_the_start() -> None:
    members = MemberList(SELF, CONFIG, 0, standalone=True)
    parts = {"t": component(NamedStore()), "c": component(NamedStore(), owned_by_writer=True)}
    protocol = DistroProtocol(members, ME, CONFIG, parts, DistroStats(), 0)
    assert members.serving
    assert protocol.reader.is_responsible(DistroKey("t", "any"))
    assert not protocol.ownership.is_unlisted, "there is nobody to list it"
    assert all(protocol.ownership.mapper_of(name).standalone for name in parts), (
        "it takes whatever is put, as real Nacos does"
    )
    assert not MemberList(SELF, CONFIG, 0).serving
    assert not Engine(B).protocol.members.serving, "it has to load first"


def test_every_failure_and_every_loss_counts() -> None:
    engine = made(B)
    for _ in range(2):
        engine.write("DEFAULT_GROUP@@svc1")
        send = only([call for call in engine.tick(10_000) if isinstance(call, SyncData)][:1])
        engine.protocol.on_sync_done(send, Outcome.REJECTED, Received(), engine.now_ms)
    assert engine.stats.sync_failed == 2
    for count in (3, 4):
        engine.write("DEFAULT_GROUP@@svc1")
        send = only([call for call in engine.tick(10_000) if isinstance(call, SyncData)][:1])
        engine.protocol.on_sync_done(send, Outcome.FAILED, Received(), engine.now_ms)
        assert engine.stats.sync_failed == count
    for count in (1, 2):
        began_ms = engine.now_ms
        engine.protocol.fetch(B, [DistroKey(INSTANCE_LIST, "k")])
        while engine.stats.calls_lost < count:
            engine.tick(CONFIG.report_interval_ms)
        assert engine.now_ms - began_ms >= CALL_LOST_MS
        assert engine.stats.calls_lost == count


def test_what_a_peer_cannot_send_is_fetched_beside_types_that_are_unknown_here() -> None:
    engine = made(B)
    waiting = {"unknown": {"k": Version(1, 0, OTHER)}, INSTANCE_LIST: {"k": Version(1, 0, OTHER)}}
    view = tuple(sorted((SELF, B)))
    engine.protocol.on_report(PeerReport(B, MemberState.UP, OWN_KIND, {}, view, waiting=waiting), engine.now_ms)
    query = only([call for call in engine.tick() if isinstance(call, Query)])
    assert (query.resource_type, query.keys) == (INSTANCE_LIST, ("k",))


def test_a_report_names_so_many_waiting_keys_at_most() -> None:
    engine, store = with_type(B)
    engine.gone.add(B)
    engine.tick(CONFIG.report_interval_ms)
    for number in range(WAITING_MAX + 5):
        store.put(f"k{number}", Version(1, 0, ME))
        engine.protocol.sync({DistroKey("t", f"k{number}"): None}, engine.now_ms)
    engine.tick()
    assert list(engine.protocol.reader.waiting_for(B)["t"]) == [f"k{number}" for number in range(WAITING_MAX)]


def test_a_run_has_served_once_it_wrote_a_key_that_is_no_clients() -> None:
    engine = made(B)
    engine.tick()
    assert not engine.protocol.members.served
    engine.write("DEFAULT_GROUP@@svc1")
    engine.tick()
    assert engine.protocol.members.served
    engine.tick()
    assert engine.protocol.members.served
    engine, _ = with_type(B, owned_by_writer=True)
    engine.components["t"].store.highest_own = lambda: Version(1, 0, ME)  # type: ignore[method-assign]
    engine.tick()
    assert not engine.protocol.members.served


def test_what_cannot_be_fetched_together_is_fetched_in_smaller_parts() -> None:
    """Its answer may be longer than a body may be, or take longer than a call: then no repetition would help."""
    engine = Engine(B)
    engine.load()
    keys = [DistroKey(INSTANCE_LIST, f"k{number}") for number in range(40)]
    engine.protocol.fetch(B, keys)
    asked: list[int] = []
    while len(asked) < 100 and (calls := [one for one in engine.tick(10_000) if isinstance(one, Query)]):
        query = only(calls)
        asked.append(len(query.keys))
        outcome = Outcome.DELIVERED if len(query.keys) <= 12 else Outcome.FAILED
        engine.protocol.on_query_done(query, outcome, {}, engine.now_ms)
    assert asked[:4] == [40, 20, 10, 20]
    assert asked.count(10) == 4, "what was too much is tried again, and not for ever"


def test_one_key_is_fetched_again_and_again() -> None:
    engine = Engine(B)
    engine.load()
    engine.protocol.fetch(B, [DistroKey(INSTANCE_LIST, "k")])
    for _ in range(3):
        query = only([one for one in engine.tick(10_000) if isinstance(one, Query)])
        assert query.keys == ("k",)
        engine.protocol.on_query_done(query, Outcome.FAILED, {}, engine.now_ms)


def test_what_cannot_be_sent_in_time_together_is_sent_in_smaller_parts() -> None:
    """As after a take-over, whose lists travel whole: to repeat all of them would be too late again."""
    engine = made(B)
    keys = [engine.write(f"DEFAULT_GROUP@@svc{number}") for number in range(40)]
    sent: list[int] = []
    arrived: set[str] = set()
    while len(arrived) < len(keys) and len(sent) < 100:
        [send] = [one for one in engine.tick(10_000) if isinstance(one, SyncData)][:1]
        sent.append(len(send.keys))
        fits = len(send.keys) <= 12
        arrived.update(send.keys if fits else ())
        engine.protocol.on_sync_done(send, Outcome.DELIVERED if fits else Outcome.FAILED, Received(), engine.now_ms)
    assert sent[:4] == [40, 20, 10, 20]
    assert arrived == set(keys)


def test_a_peer_that_refuses_connections_says_nothing_about_the_size_of_a_send() -> None:
    engine = made(B)
    for number in range(8):
        engine.write(f"DEFAULT_GROUP@@svc{number}")
    for _ in range(2):
        [send] = [one for one in engine.tick(10_000) if isinstance(one, SyncData)][:1]
        assert len(send.keys) == 8
        engine.protocol.on_sync_done(send, Outcome.REFUSED, Received(), engine.now_ms)
