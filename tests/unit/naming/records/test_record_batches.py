"""Many records at once: claims and the end of old removals are one write to the disk, and tell no reader."""

from typing import Any

import pytest

from app.naming.model.nacos_errors import StorageError
from app.naming.records.record import Record
from app.naming.records.records import KEEP_REMOVED_MS, Records
from app.replication.record_type import RECORDS
from app.tools.simulation.member.disk import MemoryDisk
from distro.members.mapper import DistroMapper
from distro.model.errors import CodecError
from distro.model.monitor import DistroStats
from distro.model.ports import Component
from distro.model.types import Datum, DistroKey, MemberKind, Merged, Version
from distro.receive.receive import DistroReceiver
from distro.timing.sliced import STEP_STORED
from tests.support.engine import NoEvents
from tests.support.receiver_view import StubView

ME, OTHER = "a:1~1", "b:1~1"
COUNT = 1_000
OLD_MS = 1_000
NOW_MS = OLD_MS + KEEP_REMOVED_MS + 1


class CountingDisk(MemoryDisk):
    """A disk that counts its writes, each of which a real one makes durable by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, records: list[Record], offset_ms: int) -> None:
        super().write(records, offset_ms)
        self.sizes.append(len(records))

    def delete(self, keys: list[str]) -> None:
        super().delete(keys)
        self.sizes.append(-len(keys))


class Held:
    """Records as another member wrote them, half of them removals."""

    def __init__(self) -> None:
        self.disk = CountingDisk()
        version = Version(1, 4, OTHER)
        self.disk.records = {
            key: Record(key, version, version, {"x": number} if number % 2 else None, OLD_MS)
            for number, key in enumerate(f"k{number}" for number in range(COUNT))
        }
        self.told: list[Record] = []
        self.records = Records(ME, self.disk, lambda: NOW_MS, lambda: NOW_MS, self.told.append)
        self.records.read_disk()
        self.told.clear()


@pytest.fixture
def held() -> Held:
    return Held()


def test_a_thousand_records_are_claimed_by_one_write_of_which_no_reader_is_told(held: Held) -> None:
    keys = held.records.all_keys()
    values = {key: held.records.value(key) for key in keys}
    assert held.records.claim_all(keys, NOW_MS) == keys
    assert held.disk.sizes == [COUNT]
    assert held.told == []
    assert {key: held.records.value(key) for key in keys} == values
    assert set(held.records.versions().values()) == {Version(1, 4, OTHER).next(ME)}
    assert {one.changed for one in held.disk.records.values()} == {Version(1, 4, OTHER)}, "it is no client's word"
    assert held.records.claim_all(keys, NOW_MS) == []
    assert held.disk.sizes == [COUNT], "nothing to claim is nothing to write"


def test_a_disk_that_is_full_in_the_middle_leaves_a_whole_batch_as_it_was(held: Held) -> None:
    keys = held.records.all_keys()
    assert held.records.claim_all(keys[:400], NOW_MS) == keys[:400]
    held.disk.full = True
    assert held.records.claim_all(keys[400:], NOW_MS) == []
    assert held.records.forget_all(keys, NOW_MS) == 0
    own = [key for key, version in held.records.versions().items() if version.writer == ME]
    assert own == keys[:400]
    assert len(held.disk.records) == COUNT
    held.disk.full = False
    assert held.records.claim_all(keys, NOW_MS) == keys[400:]
    assert {one.version for one in held.disk.records.values()} == {Version(1, 4, OTHER).next(ME)}


def test_old_removals_are_forgotten_by_one_write_and_nothing_else_is(held: Held) -> None:
    keys = held.records.all_keys()
    assert held.records.forget_all([*keys, "unknown"], NOW_MS) == COUNT // 2
    assert held.disk.sizes == [-COUNT // 2]
    assert set(held.disk.records) == set(held.records.all_keys()) == set(keys[1::2])
    assert held.told == []
    assert held.records.forget_all(keys, NOW_MS) == 0
    assert held.disk.sizes == [-COUNT // 2]


def test_a_removal_that_is_not_old_enough_stays(held: Held) -> None:
    held.records.put_all({"k1": lambda _: None})
    assert held.records.forget_all(["k1"], NOW_MS) == 0


# --- what peers send --------------------------------------------------------------------------------


def sent(key: str, counter: int, value: dict[str, int] | None) -> Datum:
    version = Version(1, counter, OTHER)
    return Datum(key, version, Record(key, version, version, value, OLD_MS))


def apply_ten(held: Held, *, fail: bool = False) -> None:
    with held.records.grouped(held.records.all_keys()):
        for number in range(10):
            held.records.apply(sent(f"k{number}", 5, {"x": -1}), Version(1, 4, OTHER), NOW_MS)
        if fail:
            raise ZeroDivisionError


def test_what_a_peer_sends_together_is_one_write_and_is_told_when_it_is_durable(held: Held) -> None:
    datums = [sent(f"k{number}", 5, {"x": -number}) for number in range(100)]
    with held.records.grouped(held.records.all_keys()):
        for datum in datums:
            assert held.records.apply(datum, Version(1, 4, OTHER), NOW_MS)
        assert held.told == []
        assert held.records.value("k1") == {"x": 1}, "no reader sees what a crash would undo"
    assert held.disk.sizes == [100]
    assert [one.key for one in held.told] == [datum.key for datum in datums]
    assert held.records.value("k1") == {"x": -1}


def test_what_a_peer_sends_is_told_before_the_disk_has_confirmed_it_and_answered_afterwards(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer has it on its disk: subscribers need not wait for another one."""
    told_at_sync: list[int] = []
    monkeypatch.setattr(held.disk, "sync", lambda: told_at_sync.append(len(held.told)))
    monkeypatch.setattr(held.disk, "write", lambda *_: pytest.fail("it waits for the disk"))
    monkeypatch.setattr(held.disk, "write_received", lambda *_: None)
    apply_ten(held)
    assert told_at_sync == [10]


def test_what_the_disk_does_not_confirm_is_not_acknowledged(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise StorageError("the disk is broken")

    monkeypatch.setattr(held.disk, "sync", fail)
    with pytest.raises(CodecError, match="the disk is broken"):
        apply_ten(held)


def test_a_state_that_is_made_of_two_waits_for_the_disk(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else has it."""
    monkeypatch.setattr(held.disk, "write_received", lambda *_: pytest.fail("it is no member's state"))
    held.records.put_all({"k1": lambda _: {"x": 2}})
    version = Version(9, 9, OTHER)
    earlier = Record("k1", version, Version(1, 3, OTHER), {"x": 3}, OLD_MS)
    assert held.records.merge(Datum("k1", version, earlier), NOW_MS) is Merged.MADE


def test_of_a_group_that_the_disk_does_not_take_nothing_is_stored(held: Held) -> None:
    held.disk.full = True
    with pytest.raises(CodecError, match="full"):
        apply_ten(held)
    assert {held.records.version(f"k{number}") for number in range(10)} == {Version(1, 4, OTHER)}
    assert held.told == []
    held.disk.full = False
    held.records.merge(sent("k1", 6, {"x": 9}), NOW_MS)
    assert held.records.value("k1") == {"x": 9}, "there is no group any more"


def test_a_key_that_comes_twice_in_a_group_is_decided_by_its_last_state(held: Held) -> None:
    with held.records.grouped(held.records.all_keys()):
        assert held.records.apply(sent("k1", 6, {"x": 6}), Version(1, 4, OTHER), NOW_MS)
        assert not held.records.apply(sent("k1", 5, {"x": 5}), Version(1, 4, OTHER), NOW_MS)
        held.records.merge(sent("k1", 5, {"x": 5}), NOW_MS)
    assert held.records.version("k1") == Version(1, 6, OTHER)


def test_an_error_within_a_group_ends_it_without_a_trace(held: Held) -> None:
    with pytest.raises(ZeroDivisionError):
        apply_ten(held, fail=True)
    assert held.records.version("k1") == Version(1, 4, OTHER)
    assert held.disk.sizes == []


@pytest.mark.parametrize("loading", [False, True])
def test_a_receiver_stores_many_records_by_few_writes_and_tells_those_that_the_disk_refused(
    held: Held, loading: bool
) -> None:
    taken_by = frozenset({MemberKind.OWN})
    nothing: Any = None
    parts = {RECORDS: Component(held.records, nothing, nothing, taken_by=taken_by)}
    mapper = DistroMapper.over("a:1", ["b:1"])
    receiver = DistroReceiver(ME, parts, StubView(mapper, lambda: loading), NoEvents(), DistroStats())
    datums = [sent(f"k{number}", 5, {"x": -number}) for number in range(COUNT)]
    if loading:
        assert receiver.load(RECORDS, datums, NOW_MS, "b:1") == COUNT
    else:
        received = receiver.receive(RECORDS, "b:1", datums, NOW_MS)
        assert (received.refused, received.failed) == ({}, {})
    assert held.disk.sizes == [STEP_STORED] * (COUNT // STEP_STORED)
    held.disk.full = True
    again = [sent(f"k{number}", 6, {"x": number}) for number in range(COUNT)]
    if loading:
        assert receiver.load(RECORDS, again, NOW_MS, "b:1") == 0
    else:
        assert set(receiver.receive(RECORDS, "b:1", again, NOW_MS).failed) == {one.key for one in again}
    assert set(held.records.versions().values()) == {Version(1, 5, OTHER)}


class Looking(NoEvents):
    """Notes the version under which a key is stored when the engine is told of it."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self.claimed: dict[str, Version | None] = {}
        self.synced: dict[str, Version | None] = {}

    def claim(self, key: DistroKey, source: str | None = None) -> None:
        self.claimed[key.key] = self._records.version(key.key)

    def sync(self, key: DistroKey) -> None:
        self.synced[key.key] = self._records.version(key.key)


def test_the_engine_is_told_of_a_group_when_it_is_stored_as_it_looks_at_once_whose_version_that_is(held: Held) -> None:
    """Told before, it finds its own earlier state, takes that for claimed, and no other member gets the new one."""
    own = held.records.claim_all(["k1", "k3", "k5"], NOW_MS)
    assert len(own) == 3
    nothing: Any = None
    events = Looking(held.records)
    receiver = DistroReceiver(
        ME,
        {RECORDS: Component(held.records, nothing, nothing, taken_by=frozenset({MemberKind.OWN}))},
        StubView(DistroMapper.over("a:1", ["a:1"])),
        events,
        DistroStats(),
    )
    newer = Version(9, 0, OTHER)
    later = Datum("k1", newer, Record("k1", newer, newer, None, NOW_MS))
    earlier = Datum("k3", newer, Record("k3", newer, Version(1, 3, OTHER), {"x": -3}, OLD_MS - 1))
    received = receiver.receive(RECORDS, "b:1", [later, earlier], NOW_MS, fetched=True)
    assert (received.refused, received.failed) == ({}, {})
    assert held.disk.sizes[-1] == 2, "one write of both"
    assert events.claimed == {"k1": newer}
    assert events.synced == {"k3": newer.next(ME)}
    held.disk.full = True
    even_newer = Version(10, 0, OTHER)
    assert receiver.receive(
        RECORDS,
        "b:1",
        [Datum("k5", even_newer, Record("k5", even_newer, even_newer, None, NOW_MS))],
        NOW_MS,
        fetched=True,
    ).failed
    assert "k5" not in events.claimed, "it was not stored"
