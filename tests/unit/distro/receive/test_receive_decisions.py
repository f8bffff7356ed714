"""The decisions of a receiver as an observer hears them: the versions, the rule, the reason and the outcome."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from distro.members.mapper import DistroMapper
from distro.model.monitor import DistroStats
from distro.model.ports import DistroObserver
from distro.model.types import NO_VERSION, Datum, DistroKey, Merged, Received, Version
from distro.receive.receive import DistroReceiver, VerifyScope
from tests.support.named_store import NamedStore, component
from tests.support.receiver_view import StubView
from tests.unit.distro.receive.test_receive import Events
from tests.unit.distro.receive.test_receive_rounds import KEYS, MAPPER, ME, OTHER, SELF, THIRD, B, C

Decision = tuple[str, str, Version, Version | None, str, str, str]


class Hearing(DistroObserver):
    """Keeps all that it hears."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.had_had: list[tuple[str, dict[str, Version], dict[str, Version]]] = []
        self.rounds: list[tuple[str, str, int, list[str], Received]] = []
        self.dropped: list[tuple[DistroKey, str]] = []

    def decided(
        self, key: DistroKey, sender: str, received: Version, stored: Version | None, rule: str, reason: str, done: str
    ) -> None:
        assert key.resource_type == "t"
        self.decisions.append((key.key, sender, received, stored, rule, reason, done))

    def had(self, resource_type: str, received: Mapping[str, Version], stored: Mapping[str, Version]) -> None:
        self.had_had.append((resource_type, dict(received), dict(stored)))

    def compared(self, resource_type: str, source: str, equal: int, wanted: Collection[str], answer: Received) -> None:
        self.rounds.append((resource_type, source, equal, list(wanted), answer))

    def forgot(self, key: DistroKey, reason: str) -> None:
        self.dropped.append((key, reason))


class Deltas:
    """Applies a delta to the state that it is of; ``changes`` is what comes in between."""

    def __init__(self, store: NamedStore) -> None:
        self.store = store
        self.changes: list[Version] = []

    def apply_delta(self, delta: Datum, _now_ms: int) -> bool:
        if self.changes:
            self.store.put(delta.key, self.changes.pop(0))
            return False
        if self.store.version(delta.key) != delta.base:
            return False
        self.store.put(delta.key, delta.version)
        return True


class Heard:
    """A receiver of the type ``t`` that an observer hears."""

    def __init__(self, mapper: DistroMapper = MAPPER, **fields: Any) -> None:
        self.store, self.events, self.stats, self.hearing = NamedStore(), Events(), DistroStats(), Hearing()
        self.deltas, self.loading = Deltas(self.store), False
        self.receiver = DistroReceiver(
            ME,
            {"t": component(self.store, deltas=self.deltas, **fields)},
            StubView(mapper, lambda: self.loading, lambda writer: writer.startswith((SELF, B, C))),
            self.events,
            self.stats,
            observer=self.hearing,
        )

    def receive(self, sender: str, datum: Datum, *, fetched: bool = False) -> Decision:
        self.receiver.receive("t", sender, [datum], 10, fetched=fetched)
        [decision] = self.hearing.decisions
        return decision


OURS, THEIRS = KEYS[SELF][0], KEYS[B][0]
OLD, NEW, OF_ANOTHER = Version(1, 4, OTHER), Version(1, 5, OTHER), Version(1, 9, THIRD)


@pytest.mark.parametrize(
    ("key", "stored", "version", "rule", "reason", "done"),
    [
        (THEIRS, None, NEW, "R3", "the key is unknown here", "applied"),
        (THEIRS, OLD, NEW, "R3", "it is later, by the same writer", "applied"),
        (THEIRS, NEW, NEW, "R3", "it is the version that is stored", "kept"),
        (THEIRS, NEW, OLD, "R3", "it is earlier, by the same writer", "refused"),
        (THEIRS, OLD, OF_ANOTHER, "R3", "another writer's version is higher", "applied"),
        (THEIRS, OF_ANOTHER, OLD, "R3", "another writer's version is lower", "refused"),
        (THEIRS, None, NO_VERSION, "R8", "it has no version, and its sender owns the key or it is unknown here",
         "applied"),
        (OURS, OLD, OF_ANOTHER, "R4", "this member owns the key, and another wrote it: that state may be old",
         "to be fetched"),
        (OURS, OLD, NO_VERSION, "R8", "it has no version, and this member owns the key",
         "merged; the stored state already has all of it"),
    ],
)  # fmt: skip
def test_a_decision_on_a_datum(
    key: str, stored: Version | None, version: Version, rule: str, reason: str, done: str
) -> None:
    one = Heard()
    if stored is not None:
        one.store.put(key, stored)
    assert one.receive(B, Datum(key, version, None)) == (key, B, version, stored, rule, reason, done)


def test_a_higher_version_that_lacks_changes_is_refused() -> None:
    one = Heard()
    one.store.put(THEIRS, OLD)
    one.store.uncovered.add(THEIRS)
    why = ("R3", "another writer's version is higher", "refused, as it lacks changes that are stored")
    assert one.receive(B, Datum(THEIRS, OF_ANOTHER, None)) == (THEIRS, B, OF_ANOTHER, OLD, *why)
    assert one.store.version(THEIRS) == OLD


@pytest.mark.parametrize(
    ("merged", "done"),
    [
        (Merged.NOTHING, "merged; the stored state already has all of it"),
        (Merged.TAKEN, "merged, and it has all that is stored: applied"),
        (Merged.MADE, "merged into a new state of this member"),
    ],
)
def test_a_merge_says_how_it_ended(merged: Merged, done: str) -> None:
    one = Heard()
    one.store.put(OURS, OLD)
    one.store.merged = merged
    why = ("R4", "this member owns the key, and fetched another writer's state", done)
    assert one.receive(C, Datum(OURS, OF_ANOTHER, None), fetched=True) == (OURS, C, OF_ANOTHER, OLD, *why)


def test_a_version_that_cannot_be_is_not_taken() -> None:
    nobody = Version(1, 0, "10.0.0.9:8848~1")
    [*facts, reason, done] = Heard().receive(B, Datum(THEIRS, nobody, None))
    assert (facts, done) == ([THEIRS, B, nobody, None, "R10"], "not taken")
    assert reason == f"field 'version' is of no member: {nobody.to_text()}"


def test_datums_that_bring_nothing_new_are_told_together() -> None:
    one = Heard()
    one.store.put(THEIRS, NEW)
    sent = {THEIRS: OLD, OURS: NEW}
    one.receiver.receive_known("t", sent, 10)
    assert one.hearing.had_had == [("t", sent, {THEIRS: NEW})]


# --- deltas --------------------------------------------------------------------------------------

NEXT = Version(1, 6, OTHER)


@pytest.mark.parametrize(
    ("stored", "reason", "done", "is_applied"),
    [
        (NEW, "it is a delta of the state that is stored", "delta applied", True),
        (OLD, "the delta is not of the state that is stored", "asked for whole", False),
        (NEXT, "a state of the delta's version was here before", "kept", False),
        (None, "the delta is not of the state that is stored", "asked for whole", False),
    ],
)
def test_a_decision_on_a_delta(stored: Version | None, reason: str, done: str, is_applied: bool) -> None:
    one = Heard()
    if stored is not None:
        one.store.put(THEIRS, stored)
    delta = Datum(THEIRS, NEXT, None, base=NEW)
    assert one.receive(B, delta) == (THEIRS, B, NEXT, stored, "R5", reason, done)
    assert one.stats.received_deltas == is_applied
    assert one.stats.deltas_wanted_whole == (done == "asked for whole")
    assert (one.store.version(THEIRS) == NEXT) is (done != "asked for whole")


def test_a_delta_is_tried_again_after_a_change_from_elsewhere() -> None:
    one = Heard()
    one.store.put(THEIRS, OLD)
    one.deltas.changes = [NEW]
    decision = one.receive(B, Datum(THEIRS, NEXT, None, base=NEW))
    assert decision[3:] == (NEW, "R5", "it is a delta of the state that is stored", "delta applied")
    assert one.store.version(THEIRS) == NEXT


def test_a_delta_that_claims_a_key_of_this_member_is_wanted_whole() -> None:
    one = Heard()
    one.store.put(OURS, NEW)
    received = one.receiver.receive("t", B, [Datum(OURS, Version(2, 0, THIRD), None, base=NEW)], 10)
    assert received.wanted == (OURS,)
    assert one.store.version(OURS) == NEW
    assert one.events == Events()


# --- snapshots and rounds ------------------------------------------------------------------------


def test_a_datum_of_a_snapshot() -> None:
    one = Heard()
    one.loading = True
    one.store.put(OURS, OLD)
    assert one.receiver.load("t", [Datum(OURS, NEW, None), Datum(THEIRS, NEW, None)], 10, B) == 2
    why = ("R7", "the highest one loaded stays", "loaded")
    assert one.hearing.decisions == [(OURS, B, NEW, OLD, *why), (THEIRS, B, NEW, None, *why)]


def test_a_delta_in_a_snapshot_fails_alone() -> None:
    one = Heard()
    one.loading = True
    assert one.receiver.load("t", [Datum(OURS, NEXT, None, base=NEW), Datum(THEIRS, NEW, None)], 10, B) == 1
    assert one.stats.received_failed == 1
    assert [key for key, *_ in one.hearing.decisions] == [THEIRS]


def test_a_round_and_the_keys_that_it_drops() -> None:
    one = Heard()
    first, second, third, fourth, *_ = KEYS[B]
    for key in (first, second, fourth):
        one.store.put(key, NEW)
    one.store.forgettable.add(fourth)
    answer = one.receiver.verify("t", B, {first: NEW, second: OLD, third: NEW}, 10)
    assert answer == Received({second: NEW}, fetching=1)
    assert one.hearing.rounds == [("t", B, 1, [third], answer)]
    assert one.hearing.dropped == [(DistroKey("t", fourth), "its owner names it no more")]
    assert one.stats.forgotten == 1


def test_a_round_tells_who_has_the_same_keys_but_for_those_that_differ() -> None:
    compared: list[tuple[list[str], list[str], int]] = []
    equal: list[tuple[list[str], int]] = []
    one = Heard(
        on_compared=lambda members, apart, now_ms: compared.append((list(members), sorted(apart), now_ms)),
        on_verified=lambda keys, now_ms: equal.append((list(keys), now_ms)),
    )
    first, second, third, *_ = KEYS[B]
    for key in (first, second):
        one.store.put(key, NEW)
    told = {first: NEW, second: OLD, third: NEW}
    scope = VerifyScope([first, second], frozenset(), [C], is_whole=True, same_view=True)
    one.receiver.verify("t", B, told, 10, scope)
    one.receiver.verify("t", B, told, 11, replace(scope, is_whole=False))
    assert compared == [([B, C], sorted([second, third]), 10)]
    assert equal == [([first], 10), ([first], 11)]
