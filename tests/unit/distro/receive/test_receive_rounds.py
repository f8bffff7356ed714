"""A receiver over a store that does as the test says: what it counts, real Nacos's rounds, and races for a key."""

import pytest

from distro.members.mapper import DistroMapper, WriterMapper
from distro.model.errors import NotInitialized
from distro.model.monitor import DistroStats
from distro.model.types import NO_VERSION, Datum, Merged, Received, Resolution, Version
from distro.receive.receive import TRIES_MAX, DistroReceiver
from distro.receive.resolve import KeyVersions, resolve
from tests.support.named_store import NamedStore, component
from tests.support.receiver_view import StubView
from tests.unit.distro.receive.test_receive import Events

SELF, B, C = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"
ME, OTHER, THIRD = f"{SELF}~1", f"{B}~1", f"{C}~1"
MAPPER = DistroMapper.over(SELF, (SELF, B, C))
KEYS: dict[str, list[str]] = {owner: [] for owner in (SELF, B, C)}
for number in range(40):
    KEYS[MAPPER.map_srv(f"k{number}")].append(f"k{number}")


class Receiver:
    """A receiver of the type ``t`` with all that it tells."""

    def __init__(self, mapper: DistroMapper = MAPPER, **fields: object) -> None:
        self.store = NamedStore()
        self.events = Events()
        self.stats = DistroStats()
        self.loading = False
        self.receiver = DistroReceiver(
            ME,
            {"t": component(self.store, **fields)},
            StubView(mapper, lambda: self.loading, lambda writer: writer.startswith((SELF, B, C))),
            self.events,
            self.stats,
        )

    def receive(self, sender: str, *datums: Datum, fetched: bool = False) -> Received:
        return self.receiver.receive("t", sender, datums, 10, fetched=fetched)

    def counts(self) -> tuple[int, int, int, int]:
        one = self.stats
        return one.received_keys, one.received_refused, one.received_failed, one.received_merged


def test_one_writers_equal_version_changes_nothing() -> None:
    version = Version(1, 1, OTHER)
    assert resolve(KeyVersions(version, version, False, True, False)).resolution is Resolution.EQUAL


def test_each_datum_counts_once_by_what_became_of_it() -> None:
    """One that is refused and one that fails stop nobody who comes after."""
    one = Receiver()
    first, second, third, *_ = KEYS[B]
    for key in (first, second):
        one.store.put(key, Version(1, 5, OTHER))
    nobody = Version(1, 0, "10.0.0.9:8848~1")
    received = one.receive(
        B,
        Datum(first, Version(1, 4, OTHER), None),
        Datum("x", nobody, None),
        Datum(second, Version(1, 3, OTHER), None),
        Datum("y", nobody, None),
        Datum(third, Version(1, 0, OTHER), None),
    )
    assert received.refused == {first: Version(1, 5, OTHER), second: Version(1, 5, OTHER)}
    assert set(received.failed) == {"x", "y"}
    assert one.store.version(third) == Version(1, 0, OTHER)
    assert one.counts() == (5, 2, 2, 0)


@pytest.mark.parametrize(
    ("merged", "synced", "claimed"),
    [(Merged.MADE, 2, 0), (Merged.TAKEN, 0, 2), (Merged.NOTHING, 0, 0)],
)
def test_what_a_merge_made_is_sent_and_what_it_took_is_claimed(merged: Merged, synced: int, claimed: int) -> None:
    one = Receiver()
    one.store.merged = merged
    keys = KEYS[SELF][:2]
    for key in keys:
        one.store.put(key, Version(1, 0, ME))
    one.receive(B, *(Datum(key, Version(1, 4, OTHER), None) for key in keys), fetched=True)
    assert one.counts() == (2, 0, 0, 2)
    taken = keys[:claimed]
    assert one.events == Events(synced=keys[:synced], claimed=taken, passed_on=[(B, key) for key in taken])


def test_a_late_state_is_fetched_unless_it_answers_a_query() -> None:
    one = Receiver()
    key = KEYS[SELF][0]
    one.store.put(key, Version(1, 0, ME))
    one.receiver.receive("t", B, [Datum(key, Version(1, 4, OTHER), None)], 10)
    assert one.counts() == (1, 0, 0, 0)
    assert one.events == Events(fetched=[(B, key)])


def test_states_without_versions_get_counters_of_their_own_that_rise() -> None:
    """R8; a claim takes the next epoch, which is above."""
    one = Receiver()
    key = KEYS[B][0]
    one.receive(B, Datum(key, NO_VERSION, "first"))
    assert one.store.version(key) == Version(0, 1, B)
    one.store.put(key, Version(3, 7, OTHER))
    one.receive(B, Datum(key, NO_VERSION, "second"))
    assert one.store.stored[key] == Datum(key, Version(3, 8, B), "second")


def test_a_key_that_changes_at_every_try_fails_after_so_many() -> None:
    one = Receiver()
    key = KEYS[B][0]
    one.store.refusals = TRIES_MAX - 1
    assert one.receive(B, Datum(key, Version(1, 0, OTHER), None)) == Received()
    one.store.refusals = TRIES_MAX
    received = one.receive(B, Datum(key, Version(1, 1, OTHER), None))
    assert set(received.failed) == {key}
    assert one.store.version(key) == Version(1, 0, OTHER)


def test_a_snapshot_adds_what_is_higher_and_passes_over_the_rest() -> None:
    one = Receiver()
    one.loading = True
    one.store.put("a", Version(1, 5, OTHER), "ours")
    one.store.put("b", Version(1, 5, OTHER), "ours")
    one.store.put("c", Version(1, 5, OTHER), "ours")
    snapshot = [
        Datum("a", Version(1, 5, OTHER), "same"),
        Datum("b", NO_VERSION, "none"),
        Datum("x", Version(1, 0, "10.0.0.9:8848~1"), "of nobody"),
        Datum("y", Version(1, 0, "10.0.0.9:8848~1"), "of nobody"),
        Datum("c", Version(1, 6, OTHER), "higher"),
        Datum("d", Version(1, 0, OTHER), "new"),
        Datum("e", NO_VERSION, "of real Nacos"),
    ]
    assert one.receiver.load("t", snapshot, 0, B) == 3
    values = {key: datum.value for key, datum in one.store.stored.items()}
    assert values == {"a": "ours", "b": "ours", "c": "higher", "d": "new", "e": "of real Nacos"}
    assert one.store.version("e") == Version(0, 1, B)
    assert one.stats.received_failed == 2


def test_a_round_goes_through_all_keys_whatever_comes_first() -> None:
    one = Receiver()
    equal, older, newer, *gone = KEYS[B]
    for key in (equal, older, newer, *gone):
        one.store.put(key, Version(1, 5, OTHER))
    one.store.forgettable = {gone[0], gone[1]}
    listed = {equal: Version(1, 5, OTHER), newer: Version(1, 6, OTHER), older: Version(1, 4, OTHER)}
    received = one.receiver.verify("t", B, listed, 77)
    assert received.refused == {key: Version(1, 5, OTHER) for key in (older, *gone[2:])}
    assert one.events == Events(fetched=[(B, newer)])
    assert one.store.forgotten == [(gone[0], 77, False), (gone[1], 77, False)]
    assert one.stats.forgotten == 2


def test_rounds_of_peers_and_the_keys_that_they_ask_for_are_counted() -> None:
    one = Receiver()
    first, second, *_ = KEYS[SELF]
    for key in (first, second):
        one.store.put(key, Version(1, 5, ME))
    one.receiver.verify("t", B, {}, 0)
    one.receiver.verify_checksums("t", C, {}, 0)
    assert one.stats.verify_received == 2
    one.receiver.serve("t", None)
    assert one.stats.served_keys == 0, "a snapshot repairs nothing"
    one.receiver.serve("t", [first, second, "unknown"])
    one.receiver.serve("t", [first])
    assert one.stats.served_keys == 3
    one.loading = True
    for verify in (one.receiver.verify, one.receiver.verify_checksums):
        with pytest.raises(NotInitialized):
            verify("t", B, {}, 0)
    assert one.stats.verify_received == 2


def test_a_round_without_anything_to_fetch_asks_for_nothing() -> None:
    one = Receiver()
    one.store.put(KEYS[B][0], Version(1, 5, OTHER))
    asked: list[str] = []
    one.events.fetch = lambda peer, _keys: asked.append(peer)  # type: ignore[method-assign]
    one.receiver.verify("t", B, one.store.versions(), 0)
    one.receiver.verify_checksums("t", B, {KEYS[B][0]: "None"}, 0)
    assert asked == []


def test_what_is_owned_by_its_writer_is_asked_for_in_the_answer() -> None:
    equal: list[tuple[list[str], int]] = []
    one = Receiver(
        WriterMapper.over(SELF, (SELF, B, C)),
        owned_by_writer=True,
        on_verified=lambda keys, now_ms: equal.append((list(keys), now_ms)),
    )
    one.store.put("same", Version(1, 1, OTHER))
    listed = {"new": Version(1, 0, OTHER), "same": Version(1, 1, OTHER)}
    assert one.receiver.verify("t", B, listed, 5) == Received(wanted=("new",), fetching=0)
    assert (equal, one.events) == ([(["same"], 5)], Events())


# --- rounds of real Nacos (R8) --------------------------------------------------------------------


def test_a_checksum_that_differs_is_fetched_except_of_our_keys() -> None:
    one = Receiver()
    equal, differs, unknown = KEYS[B][:3]
    one.store.put(equal, Version(0, 1, B), "sum")
    one.store.put(differs, Version(0, 1, B), "sum")
    one.store.put(KEYS[SELF][0], Version(1, 0, ME), "sum")
    checksums = {equal: "sum", differs: "other", unknown: "sum", KEYS[SELF][0]: "other"}
    one.receiver.verify_checksums("t", B, checksums, 0)
    assert one.events == Events(fetched=[(B, differs), (B, unknown)])
    assert one.stats.forgotten == 0


def test_a_key_goes_when_its_owner_left_it_out_of_two_rounds_in_a_row() -> None:
    one = Receiver()
    kept, again, gone, gone_too = KEYS[B][:4]
    for key in (kept, again, gone, gone_too):
        one.store.put(key, Version(0, 1, B), "sum")
    theirs, ours = KEYS[C][0], KEYS[SELF][0]
    one.store.put(theirs, Version(0, 1, C), "sum")
    one.store.put(ours, Version(1, 0, ME), "sum")
    one.receiver.verify_checksums("t", B, {kept: "sum"}, 1)
    assert one.store.forgotten == []
    one.receiver.verify_checksums("t", C, {theirs: "sum"}, 2)
    one.receiver.verify_checksums("t", B, {kept: "sum", again: "sum"}, 3)
    assert sorted(one.store.forgotten) == sorted([(gone, 3, True), (gone_too, 3, True)])
    assert one.stats.forgotten == 2
    one.receiver.verify_checksums("t", B, {kept: "sum"}, 4)
    assert set(one.store.stored) == {kept, again, theirs, ours}, "it was named in between"


def test_a_member_that_left_is_not_remembered_by_the_keys_that_it_left_out() -> None:
    one = Receiver()
    one.store.put(KEYS[B][0], Version(0, 1, B), "sum")
    for source in (B, "10.9.9.9:8848", C):
        one.receiver.verify_checksums("t", source, {}, 1)
    assert one.receiver._absent.keys() == {B, C}
