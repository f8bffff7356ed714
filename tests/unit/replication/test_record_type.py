"""Durable records among members: what a received record does to the held one, and what two sides become."""

import json
from dataclasses import replace
from typing import Any

import pytest

from app.naming.model.keys import WORD_MARGIN_MS
from app.naming.records.record import Record
from app.naming.records.record_keys import namespace_key, persistent_key, service_meta_key
from app.naming.records.records import KEEP_REMOVED_MS, Records
from app.replication.record_type import RECORDS, RecordCodec
from app.tools.simulation.member.disk import MemoryDisk
from distro.members.mapper import DistroMapper
from distro.model.errors import CodecError
from distro.model.monitor import DistroStats
from distro.model.ports import Component
from distro.model.types import Datum, DistroKey, Merged, Version
from distro.receive.receive import DistroReceiver
from tests.support.engine import NoEvents
from tests.support.receiver_view import StubView

KEY = namespace_key("dev")
NOW_MS = 1_000


def value(name: str) -> dict[str, str]:
    return {"name": name, "description": ""}


class Side:
    """One member's records, with the engine's view of them."""

    def __init__(self, writer: str, disk: MemoryDisk | None = None, wall_ms: int = 1_700_000_000_000) -> None:
        self.disk = disk or MemoryDisk()
        self.wall_ms = wall_ms
        self.changes: list[Record] = []
        self.records = Records(writer, self.disk, lambda: self.wall_ms, lambda: self.wall_ms, self.changes.append)
        self.records.read_disk()

    def set(self, name: str | None, key: str = KEY) -> Version:
        self.records.put_all({key: lambda _old: None if name is None else value(name)})
        return self.version(key)

    def check(self, name: str, key: str = KEY) -> Version:
        """Change the record as a health check does."""
        self.records.put_all({key: lambda _old: value(name)}, by_check=True)
        return self.version(key)

    def name(self, key: str = KEY) -> str | None:
        found = self.records.value(key)
        return None if found is None else found["name"]

    def version(self, key: str = KEY) -> Version:
        found = self.records.version(key)
        assert found is not None
        return found

    def datum(self, key: str = KEY) -> Datum:
        [datum] = self.records.datums([key])
        return datum

    def copy_from(self, other: "Side", key: str = KEY) -> bool:
        return self.records.apply(other.datum(key), self.records.version(key), NOW_MS)

    def merge(self, other: "Side", key: str = KEY) -> Merged:
        return self.records.merge(other.datum(key), NOW_MS)


@pytest.fixture
def sides() -> tuple[Side, Side]:
    """Two members that hold the same record, written by the first."""
    first, second = Side("a:1~1"), Side("b:1~1")
    first.set("common")
    assert second.copy_from(first)
    return first, second


def test_a_record_covers_itself(sides: tuple[Side, Side]) -> None:
    first, second = sides
    assert second.records.is_covered(first.datum())


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("way", ["apply", "merge"])
def test_a_record_is_held_under_the_version_of_its_datum(known: bool, way: str) -> None:
    sender, holder = Side("a:1~1"), Side("b:1~1")
    if known:
        sender.set("before")
        holder.copy_from(sender)
    sender.set("name")
    before, datum = holder.records.version(KEY), replace(sender.datum(), version=Version(7, 0, "c:1~1"))
    if way == "apply":
        assert holder.records.apply(datum, before, NOW_MS)
    else:
        assert holder.records.merge(datum, NOW_MS) is Merged.TAKEN
    assert holder.version() == Version(7, 0, "c:1~1")
    assert holder.datum().value.version == Version(7, 0, "c:1~1")


class TestMerge:
    def test_the_later_change_by_version_wins(self, sides: tuple[Side, Side]) -> None:
        first, second = sides
        for number in range(3):
            first.set(f"first {number}")
        second.set("second")  # a takeover by its own write: one change, of the next epoch
        assert second.version() > first.version()
        assert first.merge(second) is Merged.TAKEN
        assert (first.name(), first.version()) == ("second", second.version())
        assert second.merge(first) is Merged.NOTHING

    @pytest.mark.parametrize("word", ["later", None])
    def test_of_two_sides_changes_the_later_one_holds_whatever_its_version(
        self, sides: tuple[Side, Side], word: str | None
    ) -> None:
        first, second = sides
        for number in range(3):  # a new epoch, and more changes in it
            second.set(f"second {number}")
        first.wall_ms += WORD_MARGIN_MS + 1
        first.set(word)
        assert first.version() < second.version()
        assert not first.records.is_covered(second.datum())
        highest = second.version()
        assert second.merge(first) is Merged.MADE
        assert second.name() == word
        assert second.version() > highest
        assert second.datum().value.changed == second.version()
        assert first.records.is_covered(second.datum())
        assert first.merge(second) is Merged.TAKEN
        assert (first.name(), first.version()) == (word, second.version())
        assert second.merge(first) is Merged.NOTHING

    def test_a_change_that_was_read_from_the_disk_keeps_its_time(self, sides: tuple[Side, Side]) -> None:
        first, second = sides
        second.set("early")
        second.set("early again")
        first.wall_ms += WORD_MARGIN_MS + 1
        first.set("later")
        begun_again = Side("a:1~2", first.disk, first.wall_ms + 60_000)
        assert not begun_again.records.is_covered(second.datum())
        assert second.merge(begun_again) is Merged.MADE
        assert second.name() == "later"

    def test_a_claim_alone_does_not_win_over_a_change(self, sides: tuple[Side, Side]) -> None:
        first, second = sides
        first.set("changed")
        assert second.records.claim_all([KEY], NOW_MS)
        assert second.version() > first.version()
        assert second.merge(first) is Merged.MADE
        assert second.name() == "changed"
        assert first.copy_from(second)
        assert (first.name(), first.version()) == ("changed", second.version())

    @pytest.mark.parametrize("word", ["changed", None])
    def test_health_checks_do_not_win_over_a_change(self, sides: tuple[Side, Side], word: str | None) -> None:
        first, second = sides
        first.set(word)
        second.records.claim_all([KEY], NOW_MS)
        for number in range(3):
            second.check(f"checked {number}")
        assert second.version() > first.version()
        assert second.merge(first) is Merged.MADE
        assert second.name() == word
        assert first.merge(second) is Merged.TAKEN
        assert (first.name(), first.version()) == (word, second.version())

    def test_a_change_is_not_replaced_by_a_checked_state_without_it(self, sides: tuple[Side, Side]) -> None:
        first, second = sides
        first.set("changed")
        second.check("checked")
        assert not first.records.is_covered(second.datum())
        assert not first.records.apply(second.datum(), first.version(), NOW_MS)

    def test_of_two_checks_of_one_change_the_higher_version_wins(self, sides: tuple[Side, Side]) -> None:
        first, second = sides
        first.check("checked by the first")
        second.check("checked by the second")
        assert second.version() > first.version()
        assert second.merge(first) is Merged.NOTHING
        assert first.merge(second) is Merged.TAKEN
        assert first.name() == second.name() == "checked by the second"

    def test_the_owner_that_knows_more_goes_above_a_claim(self, sides: tuple[Side, Side]) -> None:
        first, second = sides
        second.records.claim_all([KEY], NOW_MS)
        first.set("changed")
        assert first.merge(second) is Merged.MADE
        assert first.name() == "changed"
        assert first.version() > second.version()

    def test_a_removal_is_a_change_like_others(self, sides: tuple[Side, Side]) -> None:
        first, second = sides
        second.records.claim_all([KEY], NOW_MS)
        second.set(None)
        first.set("changed")
        first.merge(second)
        assert first.name() is None
        assert first.records.version(KEY) == second.version()

    def test_a_record_made_again_after_its_removal_stays(self, sides: tuple[Side, Side]) -> None:
        first, second = sides
        first.set(None)
        second.copy_from(first)
        second.set("again")
        assert first.merge(second) is Merged.TAKEN
        assert first.name() == "again"

    @pytest.mark.parametrize("first_wins", [True, False])
    def test_both_orders_of_merging_end_in_the_same_value(self, sides: tuple[Side, Side], first_wins: bool) -> None:
        first, second = sides
        first.set("first")
        second.set("second")
        if first_wins:
            first.records.claim_all([KEY], NOW_MS)
            first.merge(second)
            first.set("first again")
        assert first.merge(second) is not Merged.MADE or second.copy_from(first)
        second.merge(first)
        assert first.name() == second.name() == ("first again" if first_wins else "second")


class TestApply:
    def test_only_in_the_place_of_what_was_expected(self, sides: tuple[Side, Side]) -> None:
        first, second = sides
        seen = second.version()
        second.set("meanwhile")
        first.set("first")
        assert not second.records.apply(first.datum(), seen, NOW_MS)
        assert second.name() == "meanwhile"

    def test_a_claim_does_not_replace_a_later_change(self, sides: tuple[Side, Side]) -> None:
        """A member ended before it sent its last change; the others' claim has the higher version when it loads."""
        first, second = sides
        first.set("acknowledged, never sent")
        second.records.claim_all([KEY], NOW_MS)
        returned = Side("a:1~2", first.disk)
        assert not returned.copy_from(second)
        assert returned.name() == "acknowledged, never sent"
        assert not returned.records.is_covered(second.datum())

    def test_an_earlier_word_of_the_other_side_does_not_replace_a_later_one(self, sides: tuple[Side, Side]) -> None:
        """After a cut a member may load from the side with the higher version before it has told its own word (R14)."""
        first, second = sides
        second.records.claim_all([KEY], NOW_MS)
        second.set("earlier")
        first.wall_ms += WORD_MARGIN_MS + 1
        first.set("acknowledged, never sent")
        assert first.datum().value.changed < second.datum().value.changed
        returned = Side("a:1~2", first.disk, first.wall_ms)
        assert not returned.copy_from(second)
        assert returned.name() == "acknowledged, never sent"

    def test_a_full_disk_refuses_and_changes_nothing(self, sides: tuple[Side, Side]) -> None:
        first, second = sides
        first.set("first")
        before = second.version()
        second.disk.full = True
        with pytest.raises(CodecError, match="disk is full"):
            second.copy_from(first)
        with pytest.raises(CodecError, match="disk is full"):
            second.merge(first)
        assert not second.records.claim_all([KEY], NOW_MS)
        assert (second.name(), second.version()) == ("common", before)
        second.disk.full = False
        assert second.copy_from(first)


class TestForgetting:
    def test_a_removal_is_kept_for_seven_days(self, sides: tuple[Side, Side]) -> None:
        first, _ = sides
        first.set(None)
        first.wall_ms += KEEP_REMOVED_MS
        assert not first.records.is_forgettable(KEY, NOW_MS)
        first.wall_ms += 1
        assert first.records.is_forgettable(KEY, NOW_MS)
        first.records.forget(KEY, NOW_MS)
        assert first.records.version(KEY) is None
        assert Side("a:1~2", first.disk).records.versions() == {}

    def test_what_is_there_is_never_spent(self, sides: tuple[Side, Side]) -> None:
        first, _ = sides
        first.wall_ms += 10 * KEEP_REMOVED_MS
        assert not first.records.is_forgettable(KEY, NOW_MS)

    def test_absence_drops_nothing(self, sides: tuple[Side, Side]) -> None:
        """After a long pause a member loads again: a write that nobody else has is no less acknowledged."""
        first, _ = sides
        first.records.forget(KEY, NOW_MS, absent=True)
        assert first.name() == "common"

    def test_a_disk_that_fails_keeps_it(self, sides: tuple[Side, Side]) -> None:
        first, _ = sides
        first.set(None)
        first.disk.full = True
        first.records.forget(KEY, NOW_MS)
        assert first.records.version(KEY) is not None


def test_a_member_loads_what_is_newer_and_keeps_what_only_it_has() -> None:
    """kill -9 of a writer: the peer took over with what it had; both states meet when the writer loads."""
    old, peer = Side("a:1~1"), Side("b:1~1")
    keys = [namespace_key(f"n{number}") for number in range(3)]
    for key in keys:
        old.set("first", key)
        peer.copy_from(old, key)
    old.set("unsent", keys[0])
    for key in keys:
        peer.records.claim_all([key], NOW_MS)
    peer.set("newer", keys[1])
    back = Side("a:1~2", old.disk)
    component = Component(back.records, RecordCodec(), agent=None)  # type: ignore[arg-type]
    receiver = DistroReceiver(
        "a:1~2",
        {RECORDS: component},
        StubView(
            DistroMapper.over("a:1", ("a:1", "b:1"), False),
            lambda: True,
            lambda writer: writer.startswith(("a:1~", "b:1~")),
        ),
        NoEvents(),
        DistroStats(),
    )
    receiver.load(RECORDS, peer.records.datums(keys), NOW_MS, "10.0.0.2:8848")
    assert [back.name(key) for key in keys] == ["unsent", "newer", "first"]
    # The owner, whoever it is, then makes one state of both.
    assert peer.merge(back, keys[0]) is Merged.MADE
    assert peer.name(keys[0]) == "unsent"


class TestCodec:
    def round_trip(self, record: Record) -> Record:
        codec = RecordCodec()
        body = json.loads(codec.encode(Datum(record.key, record.version, record), NOW_MS, True))
        found: Record = codec.decode(record.key, body, NOW_MS).value
        return found

    @pytest.mark.parametrize(
        ("key", "stored"),
        [
            (KEY, value("Entwicklung ü")),
            (KEY, None),
            (
                service_meta_key("public", "g@@s"),
                {"protectThreshold": 0.5, "metadata": {"k": "v"}},
            ),
            (
                persistent_key("public", "g@@s", "1.2.3.4:80:unknown:DEFAULT"),
                {"ip": "1.2.3.4", "port": 80, "clusterName": "DEFAULT"},
            ),
        ],
    )
    @pytest.mark.parametrize("changed_ms", [None, NOW_MS, NOW_MS - 5_000])
    def test_a_record_travels_whole(self, key: str, stored: dict[str, Any] | None, changed_ms: int | None) -> None:
        record = Record(key, Version(3, 1, "a:1~2"), Version(2, 7, "b:1~1"), stored, 1_700_000_000_123, changed_ms)
        back = self.round_trip(record)
        assert (back, back.changed_ms) == (record, changed_ms)

    @pytest.mark.parametrize(
        ("field", "wrong"),
        [
            ("version", None),
            ("version", "x"),
            ("changed", "1.2"),
            ("value", []),
            ("value", {"name": 1, "description": ""}),
            ("value", {"name": "n"}),
            ("changedMs", -1),
            ("changedMs", "1"),
            ("changedMs", True),
            ("changedMs", 1 << 60),
            ("changedAge", -1),
            ("changedAge", "1"),
        ],
    )
    def test_what_could_not_be_read_later_is_refused_now(self, field: str, wrong: object) -> None:
        body = {"version": "1.0.a:1~1", "changed": "1.0.a:1~1", "value": value("n"), "changedMs": 5, field: wrong}
        with pytest.raises(CodecError):
            RecordCodec().decode(KEY, body, NOW_MS)

    @pytest.mark.parametrize(
        "key",
        [
            "rollcall.namespace.",
            "rollcall.namespace.dev\nforged line",
            f"rollcall.namespace.{'a' * 129}",
            "com.alibaba.nacos.naming.domains.meta.public",
            "com.alibaba.nacos.naming.iplist.ephemeral.public##g@@s",
            "com.alibaba.nacos.naming.iplist.public##g@@s",
            "else",
        ],
    )
    def test_a_key_of_no_kind_is_refused(self, key: str) -> None:
        body = {"version": "1.0.a:1~1", "changed": "1.0.a:1~1", "value": None, "changedMs": 5}
        with pytest.raises(CodecError):
            RecordCodec().decode(key, body, NOW_MS)

    def test_an_instance_under_another_ones_key_is_refused(self) -> None:
        body = {
            "version": "1.0.a:1~1",
            "changed": "1.0.a:1~1",
            "value": {"ip": "1.2.3.4", "port": 80, "clusterName": "DEFAULT"},
            "changedMs": 5,
        }
        with pytest.raises(CodecError, match="does not match its key"):
            RecordCodec().decode(persistent_key("public", "g@@s", "1.2.3.4:81:unknown:DEFAULT"), body, NOW_MS)


def test_keys_of_one_service_have_one_owner() -> None:
    side = Side("a:1~1")
    keys = [service_meta_key("n", "g@@s"), persistent_key("n", "g@@s", "1.1.1.1:1:unknown:DEFAULT")]
    assert {side.records.tag(key) for key in keys} == {"g@@s"}
    assert side.records.tag(KEY) == KEY
    assert DistroKey(RECORDS, KEY).resource_type == "rollcall.records"


def test_a_version_of_this_run_that_it_never_gave_to_the_key_is_refused() -> None:
    """Though it gave a higher one to another key, which it claimed (R10)."""
    side, peer, other = Side("a:1~1"), Side("b:1~1"), namespace_key("other")
    side.set("kept")
    peer.set("claimed", other)
    assert side.copy_from(peer, other)
    side.records.claim_all([other], NOW_MS)
    own = side.version()
    forged = Version(own.epoch, own.counter + 1_000_000, own.writer)
    assert forged < side.records.highest_own()
    component = Component(side.records, RecordCodec(), agent=None)  # type: ignore[arg-type]
    receiver = DistroReceiver(
        "a:1~1",
        {RECORDS: component},
        StubView(
            DistroMapper.over("a:1", ("a:1", "b:1"), False),
            lambda: False,
            lambda writer: writer.startswith(("a:1~", "b:1~")),
        ),
        NoEvents(),
        DistroStats(),
    )
    received = receiver.receive(RECORDS, "b:1", [Datum(KEY, forged, Record(KEY, forged, forged, None, 5))], NOW_MS)
    assert "did not assign it" in received.failed[KEY]
    assert side.name() == "kept"


def test_the_password_of_a_checker_is_not_taken_from_a_peer() -> None:
    """A member of an earlier release has it still, and sends it."""
    checker = {"type": "MYSQL", "user": "u", "pwd": "geheim", "cmd": "select 1"}
    cluster = {"healthChecker": checker, "checkPort": 80, "useInstancePort": True, "metadata": {}}
    body = {
        "version": "1.1.a:1~1",
        "changed": "1.1.a:1~1",
        "changedMs": 5,
        "value": {"protectThreshold": 0.5, "metadata": {}, "clusters": {"DEFAULT": cluster}},
    }
    datum = RecordCodec().decode(service_meta_key("public", "DEFAULT_GROUP@@a"), body, NOW_MS)
    taken = datum.value.value["clusters"]["DEFAULT"]
    assert taken == cluster | {"healthChecker": checker | {"pwd": ""}}
    assert b"geheim" not in RecordCodec().encode(datum, NOW_MS, True)
