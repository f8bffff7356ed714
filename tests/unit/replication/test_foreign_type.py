"""The resource type of foreign instances: its keys, its codec, and its store."""

import orjson
import pytest

from app.naming.model.events import ForeignChanged, ForeignWritten
from app.naming.model.foreign import STALE, Arrival, ArrivalRule, ForeignPart
from app.naming.model.keys import SIMPLE_ID
from app.naming.model.model import Instance
from app.naming.registry.foreign_table import ForeignTable
from app.naming.registry.service_table import ServiceTable
from app.replication.foreign_type import ForeignCodec, ForeignKey, ForeignStore, parse_foreign_key, removed_part
from distro.model.errors import CodecError
from distro.model.types import Datum, Merged, Version

NOW = 1_000_000
KEY = ForeignKey("dc-b", "public", "G@@orders").text()
ONE = Instance("10.0.0.1", 80, service_name="G@@orders", metadata={"a": "b"}, instance_id=SIMPLE_ID)
RULE = ArrivalRule(Arrival.FAILOVER, 2, 0.5)


def part(*instances: Instance, stale_ms: int | None = None, stated_ms: int = NOW) -> ForeignPart:
    held = {one.key: one for one in instances}
    return ForeignPart("dc-b", "there", "there:1~1", 7, held, {}, RULE, stale_ms, stated_ms)


class Member:
    """One member's store, and the table that it shows its state in."""

    def __init__(self, writer: str, instances_max: int = 10) -> None:
        self.events: list[ForeignChanged | ForeignWritten] = []
        self.table = ServiceTable(0)
        self.store = ForeignStore(writer, ForeignTable(self.table), self.events.append, lambda: NOW, 100, instances_max)


@pytest.fixture
def owner() -> Member:
    return Member("a:1~1")


def test_keys_of_any_name_are_read_back() -> None:
    for name in ("G@@orders", "G@@a#b", "G@@50%##x"):
        key = ForeignKey("dc-b", "public", name)
        assert parse_foreign_key(key.text()) == key
    for text in ("", "rollcall.foreign.x", "rollcall.foreign.a##b", "rollcall.foreign.a_b##c##d", KEY + "##x"):
        assert parse_foreign_key(text) is None


def test_a_datum_reads_back_and_its_age_travels(owner: Member) -> None:
    owner.store.put(KEY, part(ONE, stale_ms=NOW - 5_000))
    [datum] = owner.store.datums([KEY])
    body = orjson.loads(ForeignCodec().encode(datum, NOW, True))
    read = ForeignCodec().decode(KEY, body, 9_000_000)
    assert read == datum
    assert (read.value.stale_ms, read.value.stated_ms) == (9_000_000 - 5_000, 9_000_000)
    removed = Datum(KEY, datum.version, removed_part(KEY, NOW))
    assert ForeignCodec().decode(KEY, orjson.loads(ForeignCodec().encode(removed, NOW, True)), 1) == removed


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 1},
        {"origin": None},
        {"digest": "7"},
        {"arrival": "never"},
        {"weight": -1.0},
        {"healthyMin": "2"},
        {"staleAge": -1},
        {"statedAge": "x"},
        {"instances": None},
        {"instances": [{"ip": "1.2.3.4.5", "port": 1}]},
        {"kept": [{"port": 1}]},
    ],
)
def test_a_wrong_body_is_refused_by_its_field(owner: Member, wrong: dict[str, object]) -> None:
    owner.store.put(KEY, part(ONE))
    body = orjson.loads(ForeignCodec().encode(owner.store.datums([KEY])[0], NOW, True)) | wrong
    with pytest.raises(CodecError, match="version" if "version" in wrong else "|".join([*wrong, "ip", "IPv4"])):
        ForeignCodec().decode(KEY, body, NOW)


def test_a_value_reaches_another_member_and_its_readers(owner: Member) -> None:
    owner.store.put(KEY, part(ONE))
    assert owner.events == [ForeignChanged("public", "G@@orders"), ForeignWritten(KEY)]
    other = Member("b:1~1")
    [datum] = owner.store.datums([KEY])
    assert other.store.apply(datum, None, NOW)
    assert other.events == [ForeignChanged("public", "G@@orders")]
    assert other.table.names("public") == ["G@@orders"]
    assert not other.store.apply(datum, None, NOW)
    assert other.store.merge(datum, NOW) is Merged.NOTHING
    assert (other.store.claim_all([KEY], NOW), other.store.claim_all([KEY], NOW)) == ([KEY], [])
    assert owner.store.merge(other.store.datums([KEY])[0], NOW) is Merged.TAKEN
    assert owner.store.version(KEY) == Version(2, 0, "b:1~1")


def test_of_two_members_states_the_later_statement_of_the_other_cluster_stays(owner: Member) -> None:
    """L8: a member that took the key over, and heard nothing since, has the higher version of an older state."""
    owner.store.put(KEY, part(ONE, stated_ms=NOW - 10_000))
    other = Member("b:1~1")
    other.store.apply(owner.store.datums([KEY])[0], None, NOW)
    other.store.claim_all([KEY], NOW)
    newer = Instance("10.0.0.2", 80, service_name="G@@orders", instance_id=SIMPLE_ID)
    owner.store.put(KEY, part(ONE, newer, stated_ms=NOW - 5_000))
    [older] = other.store.datums([KEY])
    assert not owner.store.is_covered(older)
    assert owner.store.merge(older, NOW) is Merged.MADE
    [made] = owner.store.datums([KEY])
    assert (made.version, set(made.value.instances)) == (Version(3, 0, "a:1~1"), {ONE.key, newer.key})
    assert other.store.is_covered(made)
    assert other.store.merge(made, NOW) is Merged.TAKEN
    assert (owner.store.merges, other.store.merges) == ({"dc-b": 1}, {"dc-b": 1})


def test_an_owner_that_takes_an_unknown_service_of_another_member_compares_it(owner: Member) -> None:
    """It may have forgotten the service, which the other member still shows."""
    other = Member("b:1~1")
    other.store.put(KEY, part(ONE))
    assert owner.store.merge(other.store.datums([KEY])[0], NOW) is Merged.TAKEN
    assert owner.store.merges == {"dc-b": 1}


def test_a_removal_that_was_stated_later_stays(owner: Member) -> None:
    owner.store.put(KEY, part(ONE, stated_ms=NOW - 10_000))
    other = Member("b:1~1")
    other.store.apply(owner.store.datums([KEY])[0], None, NOW)
    other.store.claim_all([KEY], NOW)
    owner.store.put(KEY, None)
    assert owner.store.merge(other.store.datums([KEY])[0], NOW) is Merged.MADE
    assert owner.store.part(KEY) is None
    assert other.store.merge(owner.store.datums([KEY])[0], NOW) is Merged.TAKEN
    assert other.store.part(KEY) is None


def test_a_removal_is_remembered_and_then_forgotten(owner: Member) -> None:
    owner.store.put(KEY, part(ONE))
    owner.store.put(KEY, None)
    assert (owner.table.names("public"), owner.store.parts(), owner.store.instances) == ([], [], 0)
    assert not owner.store.is_forgettable(KEY, NOW + 100)
    assert owner.store.is_forgettable(KEY, NOW + 101)
    owner.store.forget(KEY, NOW)
    assert owner.store.version(KEY) is not None
    owner.store.forget(KEY, NOW + 101)
    assert owner.store.versions() == {}


def test_what_exceeds_the_bound_of_all_links_changes_nothing() -> None:
    member = Member("a:1~1", instances_max=1)
    assert member.store.put(KEY, part(ONE))
    assert not member.store.put(KEY, part(ONE, Instance("10.0.0.2", 80)))
    assert (member.store.instances, member.store.refused) == (1, 1)
    assert member.store.put(KEY, part(ONE, stale_ms=NOW))


def test_an_equal_state_that_became_stale_elsewhere_gets_no_new_version(owner: Member) -> None:
    owner.store.put(KEY, part(ONE, stale_ms=NOW))
    [datum] = owner.store.datums([KEY])
    same = Datum(KEY, datum.version, part(ONE, stale_ms=NOW - 3))
    assert not owner.store.reissue(same, NOW, restoring=False)
    assert owner.store.reissue(Datum(KEY, datum.version, part()), NOW, restoring=False)
    assert owner.store.reissue(Datum(KEY, Version(5, 0, "a:1~1"), part()), NOW, restoring=False)
    assert owner.store.version(KEY) == Version(6, 0, "a:1~1")
    assert all((one.metadata or {})[STALE] == "true" for one in datum.value.shown.values())
