"""Durable records: their keys, and changes that are on disk before they are seen. Merging has its tests elsewhere."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.naming.model.nacos_errors import InvalidParam, StorageError
from app.naming.records import records
from app.naming.records.record import Record, Value
from app.naming.records.record_keys import (
    LINK_PREFIX,
    NAMESPACE_PREFIX,
    SWITCHES_KEY,
    LinkKey,
    NamespaceKey,
    PersistentKey,
    ServiceMetaKey,
    SwitchesKey,
    link_key,
    namespace_key,
    parse_record_key,
    persistent_key,
    record_tag,
    service_meta_key,
)
from app.naming.records.records import SAID_AGAIN_MS, Records
from app.tools.simulation.member.disk import MemoryDisk
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, Datum, Merged, Version

WRITER = "a:1~1"


class Kept:
    """Records, what they told of their changes, and a clock."""

    def __init__(self, disk: MemoryDisk | None = None, writer: str = WRITER, *, alone: bool = False) -> None:
        self.disk = disk or MemoryDisk()
        self.told: list[Record] = []
        self.now_ms = 1_000
        self.records = Records(writer, self.disk, self.clock_ms, self.clock_ms, self.told.append, alone=alone)

    def clock_ms(self) -> int:
        return self.now_ms

    def put(self, key: str, value: Value | None) -> list[str]:
        return self.records.put_all({key: lambda _: value})


# --- keys -----------------------------------------------------------------------------------------

names = st.text("abzAZ019@.:_-", min_size=1, max_size=12)
namespaces = st.text(min_size=1, max_size=12).filter(lambda text: "##" not in text and not text.endswith("#"))


@given(namespaces, names, st.text(min_size=1, max_size=12))
def test_a_key_tells_what_it_is_of(namespace: str, name: str, instance: str) -> None:
    assert parse_record_key(persistent_key(namespace, name, instance)) == PersistentKey(namespace, name, instance)
    assert parse_record_key(service_meta_key(namespace, name)) == ServiceMetaKey(namespace, name)
    assert parse_record_key(namespace_key(namespace)) == NamespaceKey(namespace)


def test_the_key_of_an_instance_may_hold_what_parts_names() -> None:
    assert parse_record_key(persistent_key("ns", "g@@s", "a##b##c")) == PersistentKey("ns", "g@@s", "a##b##c")


def test_a_namespace_that_is_called_like_a_kind() -> None:
    key = persistent_key("ephemeral.x", "g@@s", "10.0.0.1:80:unknown:DEFAULT")
    assert parse_record_key(key) == PersistentKey("ephemeral.x", "g@@s", "10.0.0.1:80:unknown:DEFAULT")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "x",
        NAMESPACE_PREFIX,
        LINK_PREFIX,
        service_meta_key("", "g@@s"),
        service_meta_key("ns", ""),
        service_meta_key("a##b", "g@@s"),
        persistent_key("ns", "g@@s", ""),
        persistent_key("ns", "", "x"),
        "com.alibaba.nacos.naming.iplist.ephemeral.public##g@@s",
    ],
)
def test_keys_of_nothing(key: str) -> None:
    assert parse_record_key(key) is None


def test_all_of_a_service_has_one_owner() -> None:
    assert record_tag(service_meta_key("ns", "g@@s")) == record_tag(persistent_key("ns2", "g@@s", "x")) == "g@@s"
    assert record_tag(SWITCHES_KEY) == SWITCHES_KEY
    assert record_tag(namespace_key("ns")) == namespace_key("ns")
    assert record_tag(link_key("a")) == record_tag(link_key("b")), "one limit for all links"
    assert parse_record_key(link_key("a")) == LinkKey("a")
    assert parse_record_key(SWITCHES_KEY) == SwitchesKey()


# --- changes --------------------------------------------------------------------------------------


def test_a_change_is_on_disk_told_and_read() -> None:
    kept = Kept()
    assert kept.put("a", {"x": 1}) == ["a"]
    version = NO_VERSION.next(WRITER)
    record = Record("a", version, version, {"x": 1}, 1_000, 1_000)
    assert kept.told == [record]
    assert kept.disk.records == {"a": record}
    assert kept.records.value("a") == {"x": 1}
    assert kept.records.versions() == {"a": version}
    assert [datum.value for datum in kept.records.datums(["a", "zz"])] == [record]
    assert kept.records.changed_wall_ms("a") == 1_000


def test_each_change_has_a_higher_version() -> None:
    kept = Kept()
    versions = []
    for value in ({"x": 1}, {"x": 2}, None, {"x": 3}):
        kept.put("a", value)
        versions.append(kept.records.version("a"))
    assert versions == sorted(set(versions))
    again = Kept(kept.disk, "a:1~2")
    again.records.read_disk()
    again.put("a", {"x": 4})
    assert again.records.version("a") > versions[-1], "the next run of the member goes on above"


def test_what_changes_nothing_is_not_written() -> None:
    kept = Kept()
    kept.put("a", {"x": 1})
    assert kept.put("a", {"x": 1}) == []
    assert kept.put("zz", None) == [], "a removal of what is not there"
    assert len(kept.told) == 1


def test_a_removal_is_remembered() -> None:
    kept = Kept()
    kept.put("a", {"x": 1})
    kept.put("a", None)
    assert kept.records.value("a") is None
    assert kept.records.changed_wall_ms("a") is None
    assert kept.disk.records["a"].value is None
    assert kept.records.put_all({"a": lambda _: None}, force=True) == ["a"], "by force also what is not there"
    assert kept.records.put_all({"b": lambda _: None}, force=True) == ["b"]


def test_several_at_once_see_the_values_before() -> None:
    kept = Kept()
    seen: list[Value | None] = []

    def change(value: Value) -> Callable[[Value | None], Value | None]:
        def apply(old: Value | None) -> Value | None:
            seen.append(old)
            return value

        return apply

    kept.put("a", {"x": 1})
    assert kept.records.put_all({"a": change({"x": 2}), "b": change({"x": 3})}) == ["a", "b"]
    assert seen == [{"x": 1}, None]


@pytest.mark.parametrize("failure", [StorageError("full"), InvalidParam("not allowed")])
def test_all_or_none(failure: Exception) -> None:
    kept = Kept()
    kept.put("a", {"x": 1})

    def fails(_: Value | None) -> Value | None:
        if isinstance(failure, InvalidParam):
            raise failure
        kept.disk.full = True
        return {"x": 9}

    with pytest.raises(type(failure)):
        kept.records.put_all({"a": lambda _: {"x": 2}, "b": fails})
    assert kept.records.value("a") == kept.disk.records["a"].value == {"x": 1}
    assert kept.records.value("b") is None
    assert len(kept.told) == 1
    kept.disk.full = False
    assert kept.put("a", {"x": 3}) == ["a"], "the lock was given back"


def test_the_disk_is_read_at_the_start() -> None:
    first = Kept()
    first.put("a", {"x": 1})
    first.put("b", {"x": 1})
    first.put("b", None)
    again = Kept(first.disk)
    assert again.records.read_disk() == 2
    assert {record.key: record.value for record in again.told} == {"a": {"x": 1}, "b": None}
    assert again.records.versions() == first.records.versions()


@pytest.mark.parametrize(("age_ms", "changed_ms"), [(400, 49_600), (0, 50_000), (-1, None)])
def test_the_age_of_what_is_read_is_known_unless_the_clock_went_back(age_ms: int, changed_ms: int | None) -> None:
    first = Kept()
    first.put("a", {"x": 1})
    again = Records(WRITER, first.disk, lambda: first.now_ms + age_ms, lambda: 50_000, lambda _record: None)
    again.read_disk()
    [datum] = again.datums(["a"])
    assert datum.value.changed_ms == changed_ms


@pytest.mark.parametrize("ahead_ms", [-600_000, 600_000])
def test_the_age_of_what_another_member_wrote_is_known_after_a_restart_whatever_its_clock(ahead_ms: int) -> None:
    first = Kept()
    version = NO_VERSION.next("b:1~1")
    record = Record("a", version, version, {"x": 1}, first.now_ms + ahead_ms, first.now_ms - 300)
    assert first.records.merge(Datum("a", version, record), first.now_ms) is Merged.TAKEN
    again = Records(WRITER, first.disk, lambda: first.now_ms + 400, lambda: 50_000, lambda _record: None)
    again.read_disk()
    [datum] = again.datums(["a"])
    assert datum.value.changed_ms == 50_000 - 700
    assert datum.value.changed_wall_ms == first.now_ms + ahead_ms, "as its writer tells it"


def test_what_has_no_time_has_none_after_a_restart() -> None:
    first = Kept()
    version = NO_VERSION.next("b:1~1")
    first.records.merge(Datum("a", version, Record("a", version, version, {"x": 1}, 1_000)), first.now_ms)
    again = Kept(first.disk)
    again.records.read_disk()
    [datum] = again.records.datums(["a"])
    assert datum.value.changed_ms is None


def test_what_is_there_by_prefix() -> None:
    kept = Kept()
    for key in ("p.b", "p.a", "q.a", "p.c"):
        kept.put(key, {"x": 1})
    kept.put("p.c", None)
    assert [record.key for record in kept.records.live("p.")] == ["p.a", "p.b"]


def test_what_is_forgotten_was_never_there() -> None:
    kept = Kept()
    kept.put("a", {"x": 1})
    kept.records.forget("a", 0)
    kept.records.forget("zz", 0)
    assert kept.records.version("a") is None
    assert not kept.disk.records
    assert [record.value for record in kept.told] == [{"x": 1}, None]


@pytest.mark.parametrize("key", ["a", "removed", "unknown"])
def test_a_key_is_read_as_set_removed_or_unknown(key: str) -> None:
    kept = Kept()
    kept.put("a", {"x": 1})
    kept.put("removed", {"x": 1})
    kept.put("removed", None)
    assert kept.records.record(key) == (kept.disk.records["a"] if key == "a" else None)
    assert kept.records.is_empty(key) is (key == "removed")
    assert (kept.records.content(key) is None) is (key == "unknown")
    assert kept.records.version(key) == (kept.disk.records[key].version if key in kept.disk.records else None)


def test_the_content_of_a_record_is_that_of_its_value_and_its_change() -> None:
    """Members compare it: it is the same where the same change is stored, and another for any other value."""
    kept, other = Kept(), Kept(writer="b:1~1")
    kept.put("a", {"x": 1})
    [datum] = kept.records.datums(["a"])
    other.records.merge(datum, 1_000)
    first = kept.records.content("a")
    assert first is not None
    assert first == other.records.content("a")
    assert first[0] == datum.version
    contents = {first[1]}
    for value in ({"x": 2}, {"x": 1}, None):
        kept.put("a", value)
        found = kept.records.content("a")
        assert found is not None
        assert found[0] == kept.records.version("a")
        contents.add(found[1])
    assert len(contents) == 4
    alike = Kept()
    alike.put("a", {"x": 9})
    assert alike.records.version("a") == first[0]
    assert alike.records.content("a") != first, "another value under the same version"


def test_each_record_that_a_call_changed_is_told_with_the_value_before() -> None:
    written: list[tuple[str, Value | None, Value | None]] = []
    clock_ms = 1_000
    records = Records(
        WRITER,
        MemoryDisk(),
        lambda: clock_ms,
        lambda: clock_ms,
        lambda _record: None,
        on_written=lambda *change: written.append(change),
    )
    records.put_all({"a": lambda _: {"x": 1}, "b": lambda _: {"x": 2}})
    records.put_all({"a": lambda _: {"x": 3}})
    records.put_all({"a": lambda _: {"x": 4}}, by_check=True)
    clock_ms += SAID_AGAIN_MS
    assert records.put_all({"a": lambda _: {"x": 4}}, said=["a"]) == ["a"], "stated again: written, yet no change"
    records.put_all({"a": lambda _: None})
    assert written == [
        ("a", None, {"x": 1}),
        ("b", None, {"x": 2}),
        ("a", {"x": 1}, {"x": 3}),
        ("a", {"x": 4}, None),
    ]


# --- words that change nothing ------------------------------------------------------------------------


@pytest.mark.parametrize("value", [{"x": 1}, None])
def test_what_a_client_says_again_counts_from_then(value: Value | None) -> None:
    """The other side of a partition may have heard something else in between."""
    kept = Kept()
    kept.put("a", {"x": 1})
    kept.put("a", value)
    first = kept.records.version("a")
    kept.now_ms += SAID_AGAIN_MS - 1
    assert kept.records.put_all({"a": lambda _: value}, said=["a"]) == [], "a call that is repeated"
    assert kept.records.put_all({"a": lambda _: value}) == []
    kept.now_ms += 1
    assert kept.records.put_all({"a": lambda _: value}, said=["a"]) == ["a"]
    record = kept.disk.records["a"]
    assert (record.value, record.changed, record.changed_ms) == (value, record.version, kept.now_ms)
    assert first is not None
    assert record.version > first


def test_a_removal_of_an_unknown_key_is_kept_if_a_client_asked_for_it() -> None:
    kept = Kept()
    assert kept.records.put_all({"a": lambda _: None}, said=["a"]) == ["a"]
    assert kept.disk.records["a"].value is None
    alone = Kept(alone=True)
    assert alone.records.put_all({"a": lambda _: None}, said=["a"]) == []
    assert not alone.disk.records


def test_removals_of_unknown_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "UNKNOWN_REMOVED_MAX", 3)
    kept = Kept()
    for name in ("a", "b", "c", "d", "e"):
        kept.records.put_all({name: lambda _: None}, said=[name])
        if name == "a":
            kept.put("a", {"x": 1})
            kept.put("a", None)
    assert sorted(kept.disk.records) == ["a", "c", "d", "e"], "a was there meanwhile"
    assert sorted(kept.records.versions()) == sorted(kept.disk.records)


def test_a_removal_that_the_disk_does_not_forget_is_forgotten_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "UNKNOWN_REMOVED_MAX", 1)
    kept = Kept()
    delete, refused = kept.disk.delete, []

    def refuse(keys: list[str]) -> None:
        refused.extend(keys)
        raise StorageError("the data folder does not accept the change")

    kept.records.put_all({"a": lambda _: None}, said=["a"])
    monkeypatch.setattr(kept.disk, "delete", refuse)
    kept.records.put_all({"b": lambda _: None}, said=["b"])
    assert refused == ["a"]
    assert sorted(kept.records.versions()) == sorted(kept.disk.records) == ["a", "b"]
    monkeypatch.setattr(kept.disk, "delete", delete)
    kept.records.put_all({"c": lambda _: None}, said=["c"])
    assert sorted(kept.records.versions()) == sorted(kept.disk.records) == ["c"]


# --- one version, two values ----------------------------------------------------------------------


def test_a_peer_with_another_value_under_the_version_is_answered_with_a_new_version() -> None:
    """On disk, and without a new word: no client said anything."""
    kept = Kept()
    kept.put("k", {"a": 1})
    [datum] = kept.records.datums(["k"])
    stored: Record = datum.value
    assert kept.records.reissue(datum, 0, restoring=True) is False
    other = Datum("k", datum.version, Record("k", datum.version, datum.version, {"a": 2}, 1))
    kept.told.clear()
    assert kept.records.reissue(other, 0, restoring=False) is True
    [after] = kept.records.datums(["k"])
    assert after.version == datum.version.next(WRITER)
    assert (after.value.value, after.value.changed) == ({"a": 1}, stored.changed)
    assert kept.told == [], "readers see what they saw"
    assert next(iter(Kept(kept.disk).disk.read_all(0))).version == after.version
    assert kept.records.reissue(other, 0, restoring=False) is False, "a late answer"
    assert kept.records.reissue(Datum("unknown", NO_VERSION, stored), 0, restoring=True) is False


def test_a_version_of_this_run_that_it_did_not_give_is_followed_by_a_new_epoch() -> None:
    kept = Kept()
    kept.put("k", {"a": 1})
    [mine] = kept.records.datums(["k"])
    given = Version(mine.version.epoch, 1_000, WRITER)
    told = Record("k", given, given, {"a": 2}, 1)
    assert kept.records.reissue(Datum("k", given, told), 0, restoring=False) is True
    [after] = kept.records.datums(["k"])
    assert (after.version, after.value.value) == (given.next_epoch(WRITER), {"a": 1})
    assert kept.records.reissue(Datum("unknown", given, told), 0, restoring=False) is True
    assert (kept.records.value("unknown"), kept.records.version("unknown")) == (None, given.next_epoch(WRITER))


def test_of_one_writer_the_later_state_is_taken_whatever_is_said_of_its_word() -> None:
    kept = Kept()
    first, later = Version(1, 1_000, "other"), Version(2, 0, "other")
    forged = Record("k", first, first, {"a": 2}, 1, changed_ms=10**6)
    assert kept.records.apply(Datum("k", first, forged), None, 0)
    assert kept.records.apply(Datum("k", later, Record("k", later, Version(1, 0, "other"), {"a": 1}, 1)), first, 0)
    assert kept.records.value("k") == {"a": 1}


def test_a_full_disk_fails_the_key() -> None:
    kept = Kept()
    kept.put("k", {"a": 1})
    [datum] = kept.records.datums(["k"])
    kept.disk.full = True
    with pytest.raises(CodecError):
        kept.records.reissue(
            Datum("k", datum.version, Record("k", datum.version, datum.version, None, 1)), 0, restoring=False
        )
    assert kept.records.version("k") == datum.version
