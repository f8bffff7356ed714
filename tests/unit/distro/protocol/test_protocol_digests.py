"""Verify rounds with peers that compare digests: one action for all types, and what follows of its end."""

from dataclasses import replace

import pytest

from distro.members.members import MemberList
from distro.model.digest import LEAVES
from distro.model.types import (
    CAPABILITY_DIGESTS,
    CAPABILITY_VERSIONS,
    Action,
    Compare,
    DigestFindings,
    DistroKey,
    Load,
    Outcome,
    Query,
    Received,
    SyncData,
    Verify,
    Version,
)
from distro.protocol.forgetting import AGREED_ROUNDS
from distro.protocol.protocol import CALL_LOST_MS
from distro.protocol.samples import SAMPLED_KEYS_MAX, sample_after
from distro.protocol.verify_rounds import RELAY_INTERVAL_MS
from tests.support.engine import CONFIG, ME, OTHER, SELF, B, C, Engine
from tests.support.named_store import NamedStore, component

DIGESTS = frozenset({CAPABILITY_VERSIONS, CAPABILITY_DIGESTS})
LISTS = "com.alibaba.nacos.naming.iplist."


class Comparing(Engine):
    """An engine that has loaded, with a second type ``t``; its peers compare digests but for the ``earlier`` ones."""

    def __init__(self, *peers: str, earlier: tuple[str, ...] = ()) -> None:
        self.store = NamedStore()
        self.component = component(self.store)
        kinds = {peer: DIGESTS for peer in peers if peer not in earlier}
        super().__init__(*peers, kinds=kinds, more={"t": self.component})
        self.hear()
        while self.protocol.loading:
            self.end(self.tick())
        self.round()
        self.round()

    def end(self, actions: list[Action], **compared: DigestFindings) -> list[Action]:
        """End calls well; rounds that compare digests find that. Return the rounds."""
        for action in actions:
            match action:
                case Compare():
                    self.protocol.on_compare_done(action, Outcome.DELIVERED, compared, self.now_ms)
                case Verify():
                    self.protocol.on_verify_done(action, Outcome.DELIVERED, Received(), self.now_ms)
                case SyncData():
                    self.protocol.on_sync_done(action, Outcome.DELIVERED, Received(), self.now_ms)
                case Load():
                    self.protocol.on_load_done(action, Outcome.DELIVERED, [], self.now_ms)
        return [one for one in actions if isinstance(one, Compare | Verify)]

    def begin_round(self) -> list[Action]:
        """The calls of the next round, under way; all others end."""
        end_ms = self.now_ms + CONFIG.verify_interval_ms
        while self.now_ms < end_ms:
            calls = self.tick(end_ms - self.now_ms)
            if rounds := [one for one in calls if isinstance(one, Compare | Verify)]:
                return list(rounds)
            self.end(calls)
        return []

    def round(self, **compared: DigestFindings) -> list[Action]:
        """The calls of the next round; its ends find that."""
        return self.end(self.begin_round(), **compared)

    def own_keys(self, count: int) -> list[str]:
        found = (f"k{number}" for number in range(1_000))
        own = (name for name in found if self.protocol.reader.is_responsible(DistroKey("t", name)))
        return [next(own) for _ in range(count)]


def test_one_round_is_about_all_types_and_names_no_key() -> None:
    engine = Comparing(B, C)
    engine.store.put("k", Version(1, 0, ME))
    rounds = engine.round()
    deadline_ms = engine.now_ms + CONFIG.verify_timeout_ms
    assert [replace(one, sampled=range(0)) for one in rounds if isinstance(one, Compare)] == [
        Compare(peer, (LISTS, "t"), frozenset(), range(0), deadline_ms) for peer in (B, C)
    ]


def test_rounds_sample_the_contents_of_all_leaves_in_ten_minutes() -> None:
    engine = Comparing(B)
    began_ms, sampled = engine.now_ms, list[int]()
    while engine.now_ms - began_ms < 600_000:
        for one in engine.round():
            assert isinstance(one, Compare)
            sampled += one.sampled
    assert set(sampled) == set(range(LEAVES))
    assert len(sampled) < 1.2 * LEAVES


@pytest.mark.parametrize(("keys", "leaves"), [(100, 72), (20_000, 72), (100_000, 16), (1_000_000, 1), (9_000_000, 1)])
def test_a_round_samples_a_bounded_number_of_keys(keys: int, leaves: int) -> None:
    assert len(sample_after(0, 5_000, 600_000, keys)) == leaves
    assert leaves == 1 or leaves * keys / LEAVES <= SAMPLED_KEYS_MAX


def test_with_many_keys_a_round_of_the_engine_samples_fewer_leaves() -> None:
    few, many = Comparing(B), Comparing(B)
    for number in range(30_000):
        many.store.put(f"key {number}", Version(1, number, ME))
    many.component.digest.refresh()
    [of_few], [of_many] = few.begin_round(), many.begin_round()
    assert isinstance(of_few, Compare)
    assert isinstance(of_many, Compare)
    assert (len(of_few.sampled), len(of_many.sampled)) == (72, LEAVES * SAMPLED_KEYS_MAX // 30_000)


def test_leaves_of_a_round_that_failed_are_sampled_in_the_next_one() -> None:
    engine = Comparing(B)
    [failed] = engine.begin_round()
    assert isinstance(failed, Compare)
    engine.protocol.on_compare_done(failed, Outcome.FAILED, {}, engine.now_ms)
    [again] = engine.begin_round()
    assert isinstance(again, Compare)
    assert again.sampled == failed.sampled


@pytest.mark.parametrize("keys", [10, 24_000, 100_000, 10_000_000])
@pytest.mark.parametrize("interval_ms", [100, 5_000, 600_000, 3_600_000])
def test_a_pass_of_samples_ends_with_the_last_leaf(interval_ms: int, keys: int) -> None:
    at, seen = 0, list[int]()
    while not seen or at:
        sampled = sample_after(at, interval_ms, 600_000, keys)
        seen += sampled
        at = sampled.stop % LEAVES
    assert seen == list(range(LEAVES))


def test_a_peer_of_the_release_before_is_told_all_keys() -> None:
    engine = Comparing(B, C, earlier=(C,))
    [key] = engine.own_keys(1)
    engine.store.put(key, Version(1, 0, ME))
    rounds = [one for _ in range(6) for one in engine.round()]
    told = {(one.peer, one.resource_type): one.keys for one in rounds if isinstance(one, Verify)}
    assert told == {(C, LISTS): (), (C, "t"): (key,)}
    assert {one.peer for one in rounds if isinstance(one, Compare)} == {B}


def test_what_the_peer_has_newer_is_fetched_and_what_it_wants_is_sent() -> None:
    engine = Comparing(B)
    own, wanted, *_ = engine.own_keys(3)
    other = next(
        name for name in ("x0", "x1", "x2", "x3") if not engine.protocol.reader.is_responsible(DistroKey("t", name))
    )
    for name in (own, wanted, other):
        engine.store.put(name, Version(1, 0, ME))
    received = Received(
        {own: Version(1, 5, ME), "unknown": Version(1, 0, OTHER), other: Version(9, 0, OTHER)}, {}, (wanted,)
    )
    engine.round(t=DigestFindings(received))
    [query] = engine.tick()
    assert isinstance(query, Query)
    assert (query.resource_type, set(query.keys)) == ("t", {own, "unknown"}), "a third member's key is for that one"
    engine.protocol.on_query_done(query, Outcome.DELIVERED, {}, engine.now_ms)
    [send] = [one for one in engine.tick(10) if isinstance(one, SyncData)]
    assert wanted in send.keys
    assert engine.stats.verify_wanted == 1


def test_a_key_is_forgotten_when_all_peers_agreed_in_two_rounds_in_a_row() -> None:
    engine = Comparing(B, C)
    spent, changed = engine.own_keys(2)
    engine.store.forgettable = {spent, changed}
    for name in (spent, changed):
        engine.store.put(name, Version(1, 0, ME))
    assert AGREED_ROUNDS == 2
    engine.round(t=DigestFindings(Received(), agreed=(spent, changed)))
    engine.round(t=DigestFindings(Received(), agreed=(spent,)))
    engine.tick()
    assert [key for key, _, _ in engine.store.forgotten] == [spent]
    engine.round(t=DigestFindings(Received(), agreed=(changed,)))
    engine.tick()
    assert [key for key, _, _ in engine.store.forgotten] == [spent], "rounds that are not in a row do not count"


def test_one_peer_that_does_not_agree_keeps_a_key() -> None:
    engine = Comparing(B, C)
    [spent] = engine.own_keys(1)
    engine.store.forgettable = {spent}
    engine.store.put(spent, Version(1, 0, ME))
    for _ in range(4):
        for action in engine.begin_round():
            assert isinstance(action, Compare)
            agreed = (spent,) if action.peer == B else ()
            engine.protocol.on_compare_done(
                action, Outcome.DELIVERED, {"t": DigestFindings(Received(), agreed=agreed)}, engine.now_ms
            )
    assert not engine.store.forgotten


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.REFUSED])
def test_a_round_that_failed_is_repeated_after_a_wait(outcome: Outcome) -> None:
    engine = Comparing(B)
    [action] = engine.begin_round()
    assert isinstance(action, Compare)
    began_ms, failed = engine.now_ms, engine.stats.verify_failed
    engine.protocol.on_compare_done(action, outcome, {}, engine.now_ms)
    assert engine.stats.verify_failed == failed + 1
    [again] = engine.begin_round()
    assert isinstance(again, Compare)
    assert engine.now_ms == began_ms + CONFIG.retry_delay_ms


def test_a_peer_that_rejects_it_is_asked_again_in_the_next_round() -> None:
    engine = Comparing(B)
    [action] = engine.begin_round()
    assert isinstance(action, Compare)
    began_ms = engine.now_ms
    engine.protocol.on_compare_done(action, Outcome.REJECTED, {}, engine.now_ms)
    [again] = engine.begin_round()
    assert isinstance(again, Compare)
    assert engine.now_ms == began_ms + CONFIG.verify_interval_ms


def test_a_round_whose_end_is_not_told_is_given_up() -> None:
    engine = Comparing(B)
    [action] = engine.begin_round()
    assert isinstance(action, Compare)
    while engine.now_ms < action.deadline_ms + CALL_LOST_MS:
        assert not engine.tick(500)[:1] or engine.now_ms >= action.deadline_ms + CALL_LOST_MS
    assert engine.stats.calls_lost == 1


def test_what_is_passed_on_is_compared_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Comparing(B, C)
    monkeypatch.setattr(MemberList, "relayed", lambda _self: {B: frozenset({C})})
    [first] = [one for one in engine.round() if isinstance(one, Compare) and one.peer == B]
    assert first.relayed == {C}
    began_ms = engine.now_ms
    [second] = engine.round()
    assert isinstance(second, Compare)
    assert (second.peer, engine.now_ms) == (B, began_ms + RELAY_INTERVAL_MS)


def test_the_view_has_another_name_when_it_changes() -> None:
    engine = Comparing(B, C)
    before = engine.protocol.reader.view.view_id
    engine.leave(C)
    assert engine.protocol.reader.view.view_id != before
    rounds = [one for one in engine.tick() if isinstance(one, Compare)]
    assert [one.peer for one in rounds] == [B], "a round begins with the view: only now are its keys named (R16)"
    assert Comparing(B, C).protocol.reader.view.view_id == before
    assert SELF in engine.protocol.mapper.servers
