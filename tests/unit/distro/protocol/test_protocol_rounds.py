"""What verify rounds list, to the key, and for whose keys this node speaks."""

from itertools import pairwise
from typing import Any

import pytest

from app.replication.instance_list_type import INSTANCE_LIST
from distro.model.types import (
    DistroKey,
    FinishLoad,
    Load,
    MemberKind,
    MemberState,
    Outcome,
    PeerReport,
    Received,
    Report,
    SyncData,
    Verify,
    Version,
)
from distro.protocol.forgetting import AGREED_ROUNDS
from distro.protocol.protocol import HEARTBEAT_MS
from tests.support.engine import CONFIG, ME, OTHER, OWN_KIND, SELF, B, C, Engine
from tests.support.named_store import NamedStore, component

REAL_NACOS: frozenset[str] = frozenset()


class WithType(Engine):
    """An engine that has loaded, with a second resource type, ``t``, over a store that does as the test says."""

    def __init__(self, *peers: str, kinds: dict[str, frozenset[str]] | None = None, **fields: Any) -> None:
        self.store = NamedStore()
        super().__init__(*peers, kinds=kinds, more={"t": component(self.store, **fields)})
        self.hear()
        while self.protocol.loading:
            self.end(self.tick())
        while calls := self.tick():
            self.end(calls)

    def end(self, calls: list[Any]) -> None:
        """All calls bring what nobody asked for: nothing."""
        for call in calls:
            if isinstance(call, Verify):
                self.protocol.on_verify_done(call, Outcome.DELIVERED, Received(), self.now_ms)
            elif isinstance(call, SyncData):
                self.protocol.on_sync_done(call, Outcome.DELIVERED, Received(), self.now_ms)
            else:
                self.protocol.on_load_done(call, Outcome.DELIVERED, [], self.now_ms)

    def rounds(self) -> list[dict[str, tuple[str, ...]]]:
        """The keys of the next round of ``t``, by peer, for each tick that has some."""
        found: list[dict[str, tuple[str, ...]]] = []
        end_ms = self.now_ms + CONFIG.verify_interval_ms
        while self.now_ms < end_ms:
            calls = self.tick(end_ms - self.now_ms)
            self.end(calls)
            if of_type := {
                call.peer: call.keys for call in calls if isinstance(call, Verify) and call.resource_type == "t"
            }:
                found.append(of_type)
        return found

    def own_keys(self, count: int, before: str = "k") -> list[str]:
        """Keys of ``t`` that are this node's."""
        names = (f"{before}{number}" for number in range(10_000))
        found = (name for name in names if self.protocol.reader.is_responsible(DistroKey("t", name)))
        return [next(found) for _ in range(count)]


def test_a_key_that_is_forgotten_leaves_the_others_in_every_round() -> None:
    engine = WithType(B, C)
    first, spent, last = engine.own_keys(3)
    other = next(
        name for name in ("x0", "x1", "x2", "x3") if not engine.protocol.reader.is_responsible(DistroKey("t", name))
    )
    for name in (first, other, spent, last):
        engine.store.put(name, Version(1, 0, ME))
    engine.store.forgettable = {spent}
    for _ in range(AGREED_ROUNDS):
        assert engine.rounds() == [dict.fromkeys((B, C), (first, spent, last))]
    assert engine.rounds() == [dict.fromkeys((B, C), (first, last))]


def test_a_round_is_as_late_as_one_interval_behind_changes() -> None:
    engine = Engine(B)
    engine.load()
    name = engine.service_of(SELF)
    engine.tick(CONFIG.verify_interval_ms - 1)
    due_ms = engine.now_ms + 1
    for late_ms, kind in ((CONFIG.verify_interval_ms - 1, SyncData), (CONFIG.verify_interval_ms, Verify)):
        while engine.now_ms < due_ms + late_ms - 1_000:  # no gap is as long as a pause
            engine.now_ms += 500
            engine.write(name)
            [call] = engine.tick()
            assert isinstance(call, SyncData)
            engine.protocol.on_sync_done(call, Outcome.DELIVERED, Received(), engine.now_ms)
        engine.now_ms = due_ms + late_ms
        engine.write(name)
        [call] = engine.tick()
        assert isinstance(call, kind)
        if isinstance(call, SyncData):
            engine.protocol.on_sync_done(call, Outcome.DELIVERED, Received(), engine.now_ms)


def test_rounds_that_take_longer_than_their_interval_put_no_send_off() -> None:
    engine = Engine(B)
    engine.load()
    name = engine.service_of(SELF)
    engine.tick(CONFIG.verify_interval_ms - 1)
    kinds: list[type[Any]] = []
    while kinds.count(Verify) < 4 and len(kinds) < 100:
        engine.write(name)
        calls = [call for call in engine.tick() if isinstance(call, Verify | SyncData)]
        kinds += map(type, calls)
        ended_ms = engine.now_ms + 2 * CONFIG.verify_interval_ms
        while calls and engine.now_ms < ended_ms and isinstance(calls[0], Verify):
            engine.now_ms += 500  # no gap is as long as a pause
            engine.hear(B)
            engine.tick()
        for call in calls:
            if isinstance(call, Verify):
                engine.protocol.on_verify_done(call, Outcome.FAILED, Received(), engine.now_ms)
            else:
                engine.protocol.on_sync_done(call, Outcome.DELIVERED, Received(), engine.now_ms)
        engine.now_ms += 500
    assert kinds.count(Verify) == 4
    assert (Verify, Verify) not in set(pairwise(kinds)), "a key that waits is sent between two of them"


def test_what_is_passed_on_comes_beside_the_own_keys() -> None:
    engine = Engine(B, C)
    engine.load()
    own = engine.write(engine.service_of(SELF))
    theirs = Version(1, 0, f"{C}~1~x")
    copy = engine.copy(engine.service_of(C), theirs)
    for call in engine.tick():
        engine.protocol.on_sync_done(call, Outcome.DELIVERED, Received(), engine.now_ms)  # type: ignore[arg-type]
    view = tuple(sorted((SELF, B, C)))
    for peer, other in ((B, C), (C, B)):
        report = PeerReport(peer, MemberState.UP, OWN_KIND, {}, view, calls={SELF: 0, other: 100})
        engine.protocol.on_report(report, engine.now_ms)
    rounds = {one.peer: one for one in engine.tick(2 * CONFIG.verify_interval_ms) if isinstance(one, Verify)}
    assert set(rounds[B].keys) == {own, copy}
    assert engine.protocol.rights.may_send(INSTANCE_LIST, B, copy, theirs)
    assert not engine.protocol.rights.may_send(INSTANCE_LIST, C, copy, theirs)


# --- whose keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("owned_by_writer", "is_ours"), [(True, True), (False, False)])
def test_of_types_owned_by_writers_a_member_speaks_for_all_its_runs(owned_by_writer: bool, is_ours: bool) -> None:
    engine = WithType(B, owned_by_writer=owned_by_writer)
    assert engine.protocol.reader.speaks_for("t", SELF, Version(1, 0, f"{SELF}~former")) is is_ours
    assert not engine.protocol.reader.speaks_for("t", B, Version(1, 0, OTHER))
    assert engine.protocol.reader.speaks_for("t", B, Version(1, 0, ME)), "this run wrote it"


@pytest.mark.parametrize("taken", [True, False])
def test_keys_are_spread_over_members_of_real_nacos_where_these_take_them(taken: bool) -> None:
    kinds = {MemberKind.OWN, MemberKind.NACOS_1} if taken else {MemberKind.OWN}
    engine = WithType(B, C, kinds={C: REAL_NACOS}, taken_by=frozenset(kinds))
    assert engine.protocol.ownership.mapper_of("t").servers == ((SELF, B, C) if taken else (SELF, B))
    assert engine.protocol.ownership.mapper_of(INSTANCE_LIST).servers == (SELF, B, C)


def test_while_it_loads_a_node_looks_after_its_snapshots_in_time() -> None:
    engine = Engine(B, config=CONFIG)
    engine.protocol.tick(engine.now_ms)
    engine.hear()
    _, next_ms = engine.protocol.tick(engine.now_ms)
    assert CONFIG.load_retry_delay_ms < HEARTBEAT_MS
    assert next_ms <= engine.now_ms + CONFIG.load_retry_delay_ms


# --- members in whose list this one is not --------------------------------------------------------------


def refuse(engine: Engine, peer: str) -> None:
    """The peer answers a report that this member is not in its list."""
    engine.protocol.on_report_done(peer, Outcome.REJECTED, None, engine.now_ms)


def test_a_member_that_nobody_lists_says_so_until_one_does() -> None:
    engine = Engine(B, C)
    assert not engine.protocol.ownership.is_unlisted
    engine.hear()
    refuse(engine, B)
    assert not engine.protocol.ownership.is_unlisted, "the other does"
    refuse(engine, C)
    assert engine.protocol.ownership.is_unlisted
    refuse(engine, C)
    assert engine.protocol.ownership.is_unlisted
    engine.hear(C)
    assert not engine.protocol.ownership.is_unlisted


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_load_waits_for_a_peer_that_is_yet_to_list_this_member(is_listed: bool) -> None:
    engine = Engine(B, C)
    engine.hear(B)
    end_ms = engine.now_ms + CONFIG.load_wait_ms_max + HEARTBEAT_MS
    while engine.now_ms < end_ms:
        actions, _ = engine.protocol.tick(engine.now_ms)
        for action in actions:
            match action:
                case Report(peer=peer) if peer == B:
                    engine.hear(B)
                case Report() if not is_listed:
                    refuse(engine, C)
                case Report():
                    engine.protocol.on_report_done(C, Outcome.FAILED, None, engine.now_ms)
                case Load(peer=peer):
                    keys, outcome = ([], Outcome.DELIVERED) if peer == B else (None, Outcome.FAILED)
                    engine.protocol.on_load_done(action, outcome, keys, engine.now_ms)
                case FinishLoad():
                    engine.local.run(action, engine.now_ms)(engine.protocol, engine.now_ms)
                case Verify():
                    engine.verify_all([action])
        engine.now_ms += 100
    assert engine.protocol.loading is not is_listed


# --- parts of a round that fail --------------------------------------------------------------------


def next_part(engine: WithType, outcome: Outcome, wait_ms: int = CONFIG.verify_interval_ms) -> tuple[int, str]:
    """End the next part of a round so; return the ms until it was sent, and its type."""
    begun_ms = engine.now_ms
    [call] = engine.tick(wait_ms)
    assert isinstance(call, Verify)
    engine.protocol.on_verify_done(call, outcome, Received(), engine.now_ms)
    return engine.now_ms - begun_ms, call.resource_type


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.REFUSED])
def test_a_part_that_failed_is_sent_again_after_waits_that_double(outcome: Outcome) -> None:
    """A peer that is reached again lacks what it would have found: it does not wait for the next round."""
    engine = WithType(B)
    _, first = next_part(engine, outcome)
    assert next_part(engine, Outcome.DELIVERED) == (0, "t" if first != "t" else INSTANCE_LIST)
    first_ms = CONFIG.retry_delay_ms
    assert next_part(engine, outcome) == (first_ms, first)
    assert next_part(engine, outcome) == (2 * first_ms, first)
    assert next_part(engine, Outcome.DELIVERED) == (4 * first_ms, first)
    waited_ms, _ = next_part(engine, Outcome.DELIVERED)
    assert waited_ms == CONFIG.verify_interval_ms - 7 * first_ms, "then comes the next round"
    next_part(engine, Outcome.DELIVERED)
    _, again = next_part(engine, outcome)
    next_part(engine, Outcome.DELIVERED)
    assert next_part(engine, Outcome.DELIVERED) == (first_ms, again), "after a success the waits begin anew"


def test_the_next_round_takes_the_place_of_what_waits() -> None:
    engine = WithType(B)
    sent: list[str] = []
    for _ in range(20):
        sent.append(next_part(engine, Outcome.FAILED)[1])
    assert abs(sent.count("t") - sent.count(INSTANCE_LIST)) <= 1, "neither keeps the other from its turn"


def test_a_part_that_is_wrong_is_not_sent_again() -> None:
    engine = WithType(B)
    next_part(engine, Outcome.REJECTED)
    next_part(engine, Outcome.REJECTED)
    waited_ms, _ = next_part(engine, Outcome.DELIVERED)
    assert waited_ms == CONFIG.verify_interval_ms


def test_a_peer_that_went_gets_no_part_again_and_a_whole_round_when_it_is_back() -> None:
    engine = WithType(B, C)
    calls = engine.tick(CONFIG.verify_interval_ms)
    [to_b] = [call for call in calls if isinstance(call, Verify) and call.peer == B]
    engine.protocol.on_verify_done(to_b, Outcome.FAILED, Received(), engine.now_ms)
    engine.end([call for call in calls if call is not to_b])
    engine.leave(B)
    end_ms = engine.now_ms + CONFIG.verify_interval_ms - 1
    while engine.now_ms < end_ms:
        calls = engine.tick(end_ms - engine.now_ms)
        engine.end(calls)
        assert not [call for call in calls if call.peer == B]
    engine.gone.clear()
    engine.hear(B)
    types = set()
    while calls := engine.tick():
        types |= {call.resource_type for call in calls if isinstance(call, Verify) and call.peer == B}
        engine.end(calls)
    assert types == {"t", INSTANCE_LIST}
