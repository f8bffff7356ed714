"""Operators' changes of instances: records beside what is registered, put over it when readers look."""

from collections.abc import Callable

import pytest

from app.naming.limits.admission import Admission, NamingLimits
from app.naming.model.events import Event, RecordChanged, ServiceChanged
from app.naming.model.model import Instance, Publication
from app.naming.model.nacos_errors import InvalidParam, LimitReached, NotFound, ServiceMissing, WeightRefused
from app.naming.model.override import Override
from app.naming.records.durable_service import DurableService
from app.naming.records.override_expiry import CUT_OFF_TIMES, UNSEEN_TIMES, Expired, ExpiryGate, OverrideExpiry
from app.naming.records.projection import Projection
from app.naming.records.record import Record
from app.naming.records.record_keys import OverrideKey, override_key, parse_record_key, record_tag
from app.naming.records.record_values import check_record, override_of, value_of_override
from app.naming.records.records import Records
from app.naming.registry.operations import ChangeMetadata, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.union import view_of
from app.replication.record_type import RecordCodec
from app.tools.simulation.member.disk import MemoryDisk
from distro.model.types import NO_VERSION, Datum, Merged

NAME, KEY = "g@@s", "10.0.0.1:80:unknown:DEFAULT"
RECORD = override_key("public", NAME, KEY)
ONE = RegisterInstance(NAME, "10.0.0.1", 80, metadata={"zone": "a", "k": "v"}, weight=3.0)
INSTANCE = Instance("10.0.0.1", 80, service_name=NAME, weight=3.0, metadata={"zone": "a", "k": "v"})
EXPIRY_MS = 60_000


class Member:
    """A member's domain on a disk."""

    def __init__(self, disk: MemoryDisk | None = None, run: str = "a:1~1", limits: NamingLimits | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.now_ms = 1_000
        self.events: list[Event] = []
        self.registry = Registry.of(run, admission=Admission(limits))
        projection = Projection(self.registry.table, lambda: 0, self.events.append)
        self.records = Records(
            run, self.disk, lambda: 1_000, lambda: self.now_ms, projection.on_record, check_record=check_record
        )
        self.durable = DurableService(
            self.records, projection, self.registry.table, self.registry.writes, lambda: 0, self.events.append
        )
        self.overrides = self.durable.overrides
        self.records.read_disk()

    def register(self, command: RegisterInstance = ONE) -> "Member":
        self.registry.writes.register(command, self.now_ms)
        return self

    def publish(self, instance: Instance = INSTANCE, client: str = "c") -> Publication:
        publication = Publication({instance.key: instance}, False, 1, NO_VERSION)
        self.registry.table.publish("public", NAME, client, publication, 0)
        return publication

    def one(self) -> Instance:
        service = self.registry.table.get("public", NAME)
        assert service is not None
        [one] = view_of(service).instances
        return one

    def datum(self) -> Datum:
        [datum] = self.records.datums([RECORD])
        return datum


def attributes(one: Instance) -> tuple[float, bool, object]:
    return one.weight, one.enabled, one.metadata


def test_the_key_of_a_change_has_the_owner_of_its_service() -> None:
    assert parse_record_key(RECORD) == OverrideKey("public", NAME, KEY)
    assert record_tag(RECORD) == NAME
    assert parse_record_key("rollcall.override.public##g@@s") is None


@pytest.mark.parametrize(
    "override",
    [
        Override(),
        Override(2.0),
        Override(enabled=False),
        Override(0.0, True, {"a": "b"}),
        Override(metadata={"a": None}),
    ],
)
def test_a_change_is_read_as_it_was_written(override: Override) -> None:
    assert override_of(value_of_override(override)) == override


@pytest.mark.parametrize(
    ("value", "field"),
    [({"weight": "2"}, "weight"), ({"enabled": 1}, "enabled"), ({"metadata": []}, "metadata"), ({"weight": None}, "")],
)
def test_a_record_that_is_no_change_is_refused_by_its_field(value: dict[str, object], field: str) -> None:
    if not field:
        assert override_of(value) == Override()
        return
    with pytest.raises(InvalidParam, match=f"field '{field}' of an override"):
        check_record(RECORD, value)


@pytest.mark.parametrize("source", ["listed", "published", "persistent"])
def test_readers_see_the_change_over_each_source_and_the_source_stays(source: str) -> None:
    member = Member()
    if source == "listed":
        member.register()
    elif source == "published":
        member.publish()
    else:
        member.durable.register(ONE._replace(ephemeral=False))
    member.overrides.change("public", NAME, KEY, weight=7.0, enabled=False, metadata={"zone": "b", "by": "ops"})
    assert attributes(member.one()) == (7.0, False, {"zone": "b", "k": "v", "by": "ops"})
    service = member.registry.table.get("public", NAME)
    assert service is not None
    sources = [
        *[one.instance for one in service.stored.values()],
        *service.persistent.values(),
        *[one for publication in (service.published or {}).values() for one in publication.instances.values()],
    ]
    assert [attributes(one) for one in sources] == [(3.0, True, {"zone": "a", "k": "v"})]


def test_a_change_is_told_to_members_and_pushed_to_subscribers() -> None:
    member = Member().register()
    member.events.clear()
    member.overrides.change("public", NAME, KEY, enabled=False)
    assert member.events == [ServiceChanged("public", NAME), RecordChanged(RECORD)]


def test_a_partial_change_leaves_what_it_does_not_name() -> None:
    member = Member().register()
    member.overrides.change("public", NAME, KEY, metadata={"a": "1"})
    assert attributes(member.one()) == (3.0, True, {"zone": "a", "k": "v", "a": "1"})
    member.overrides.change("public", NAME, KEY, enabled=False)
    member.overrides.change("public", NAME, KEY, metadata={"b": "2"})
    assert attributes(member.one()) == (3.0, False, {"zone": "a", "k": "v", "b": "2"})


def test_a_whole_change_replaces_the_one_before() -> None:
    member = Member().register()
    member.overrides.change("public", NAME, KEY, metadata={"a": "1"})
    member.overrides.replace("public", NAME, KEY, Override(2.0, True))
    assert attributes(member.one()) == (2.0, True, {"zone": "a", "k": "v"})
    member.overrides.replace("public", NAME, KEY, Override())
    assert attributes(member.one()) == (3.0, True, {"zone": "a", "k": "v"})
    assert member.overrides.records() == []


def test_single_keys_of_metadata_are_set_and_removed() -> None:
    member = Member().register()
    member.overrides.change_metadata("public", NAME, [KEY], ChangeMetadata(put={"a": "1", "k": "w"}))
    assert member.one().metadata == {"zone": "a", "k": "w", "a": "1"}
    member.overrides.change_metadata("public", NAME, [KEY], ChangeMetadata(remove=frozenset({"a", "k", "zone"})))
    assert member.one().metadata == {"zone": "a", "k": "v"}
    assert member.overrides.find("public", NAME, KEY) is None


def test_a_removal_of_what_nobody_set_leaves_no_record() -> None:
    member = Member().register()
    member.overrides.change_metadata("public", NAME, [KEY], ChangeMetadata(remove=frozenset({"zone"})))
    assert member.records.all_keys() == []


def test_the_change_outlives_a_registration_anew_and_a_restart() -> None:
    member = Member().register()
    member.overrides.change("public", NAME, KEY, enabled=False)
    member.registry.writes.remove("public", NAME, KEY, 1_000)
    member.register(ONE._replace(weight=5.0))
    assert attributes(member.one()) == (5.0, False, {"zone": "a", "k": "v"})
    again = Member(member.disk, "a:1~2")
    again.register()
    assert attributes(again.one()) == (3.0, False, {"zone": "a", "k": "v"})
    again.publish(client="other")
    assert not again.one().enabled


def test_an_instance_that_is_yet_to_come_is_changed_as_a_whole_only() -> None:
    member = Member().register(ONE._replace(ip="10.0.0.2"))
    with pytest.raises(NotFound, match="no matched ip found!"):
        member.overrides.change("public", NAME, KEY, weight=2.0)
    member.overrides.replace("public", NAME, KEY, Override(2.0))
    assert member.one().ip == "10.0.0.2", "no second instance"
    member.register()
    service = member.registry.table.get("public", NAME)
    assert service is not None
    assert [one.weight for one in view_of(service).instances] == [3.0, 2.0]


def test_what_does_not_exist_is_named() -> None:
    member = Member()
    with pytest.raises(ServiceMissing, match="service not found, namespace: public, service: g@@s"):
        member.overrides.replace("public", NAME, KEY, Override(2.0))
    with pytest.raises(NotFound, match="no ips found for cluster DEFAULT in service g@@s"):
        member.overrides.change("public", NAME, KEY, weight=2.0)


@pytest.mark.parametrize("weight", [-1.0, 10_001.0, float("nan")])
def test_a_weight_out_of_range_is_refused(weight: float) -> None:
    member = Member().register()
    with pytest.raises(WeightRefused, match=r"0\.0 to 10000\.0"):
        member.overrides.change("public", NAME, KEY, weight=weight)
    with pytest.raises(WeightRefused):
        member.overrides.replace("public", NAME, KEY, Override(weight))
    assert attributes(member.one()) == attributes(INSTANCE)


@pytest.mark.parametrize("limits", [NamingLimits(overrides=1), NamingLimits(instances_per_service=2)])
def test_changes_are_bounded_and_known_ones_may_still_change(limits: NamingLimits) -> None:
    member = Member(limits=limits).register()
    member.overrides.replace("public", NAME, KEY, Override(2.0))
    others = [f"10.0.0.{last}:80:unknown:DEFAULT" for last in range(2, 5)]
    with pytest.raises(LimitReached, match=r"refused by rollcall\.limit\.\w+=\d: there are \d changes of instances"):
        member.overrides.change_metadata("public", NAME, others, ChangeMetadata(put={"a": "b"}))
    member.overrides.replace("public", NAME, KEY, Override(4.0))
    assert member.one().weight == 4.0


def test_a_batch_beyond_the_limit_changes_nothing() -> None:
    member = Member(limits=NamingLimits(overrides=1)).register().register(ONE._replace(ip="10.0.0.2"))
    both = [KEY, "10.0.0.2:80:unknown:DEFAULT"]
    with pytest.raises(LimitReached):
        member.overrides.change_metadata("public", NAME, both, ChangeMetadata(put={"a": "1"}))
    assert member.overrides.records() == []


def test_its_metadata_counts_in_all_metadata() -> None:
    member = Member(limits=NamingLimits(metadata_bytes=30)).register()
    held = member.registry.table.counts_held
    before = held.metadata_bytes
    member.overrides.change("public", NAME, KEY, metadata={"ab": "cd"})
    assert (held.metadata_bytes - before, held.overrides) == (4, 1)
    with pytest.raises(LimitReached, match="metadataBytes"):
        member.overrides.change("public", NAME, KEY, metadata={"ab": "x" * 40})
    member.overrides.drop("public", NAME, [KEY])
    assert (held.metadata_bytes, held.overrides) == (before, 0)


def test_it_goes_with_its_service() -> None:
    member = Member().register()
    member.overrides.change("public", NAME, KEY, enabled=False)
    member.durable.remove_service("public", NAME)
    assert member.overrides.records() == []


def test_a_removed_instance_of_a_hidden_service_comes_back_under_its_change() -> None:
    member = Member().register()
    member.overrides.change("public", NAME, KEY, enabled=False)
    member.durable.remove_service("public", NAME)
    member.register()
    assert member.one().enabled
    member.overrides.change("public", NAME, KEY, weight=9.0)
    assert member.one().weight == 9.0


def test_the_change_may_come_before_its_service() -> None:
    source, member = Member().register(), Member(run="b:1~1")
    source.overrides.change("public", NAME, KEY, enabled=False)
    codec, now_ms = RecordCodec(), 1_000
    body = {"key": RECORD, "version": source.datum().version.to_text(), "changed": source.datum().version.to_text()}
    body |= {"value": {"enabled": False}, "changedMs": 1_000}
    assert member.records.apply(codec.decode(RECORD, body, now_ms), None, now_ms)
    assert member.registry.table.service_count() == 0, "a change makes no service"
    member.register()
    assert not member.one().enabled


def test_of_two_sides_the_later_change_holds_as_a_whole() -> None:
    one, other = Member().register(), Member(run="b:1~1").register()
    one.overrides.change("public", NAME, KEY, enabled=False)
    other.overrides.change("public", NAME, KEY, weight=9.0)
    other.records.merge(one.datum(), 1_000)
    one.records.merge(other.datum(), 1_000)
    assert attributes(one.one()) == attributes(other.one())
    assert one.one().weight == 9.0


def test_the_end_of_a_change_does_not_win_over_a_later_change() -> None:
    one, other = Member().register(), Member(run="b:1~1").register()
    one.overrides.change("public", NAME, KEY, enabled=False)
    other.records.apply(one.datum(), None, 1_000)
    other.records.claim_all([RECORD], 1_000)
    other.overrides.drop("public", NAME, [KEY])  # it no longer hears of the instance
    one.now_ms += 5_000
    one.overrides.change("public", NAME, KEY, weight=9.0)
    assert other.records.merge(one.datum(), 1_000) is not Merged.NOTHING
    assert attributes(other.one()) == (9.0, False, {"zone": "a", "k": "v"})


def gate(*, may: bool = True, has_all: bool = True, owns: Callable[[str], bool] = lambda _: True) -> ExpiryGate:
    return ExpiryGate(may, has_all, owns)


class Upkeep:
    """A member whose changes are looked at every five seconds."""

    def __init__(self) -> None:
        self.member = Member().register()
        self.member.overrides.change("public", NAME, KEY, enabled=False)
        self.expiry = OverrideExpiry(self.member.registry.table, EXPIRY_MS)
        self.now_ms = 0

    def gone(self) -> "Upkeep":
        self.expiry.find(self.now_ms, 0, gate())
        self.member.registry.writes.remove("public", NAME, KEY, 1_000)
        return self

    def dropped_after_ms(self, most_ms: int, asked: ExpiryGate | None = None) -> int | None:
        """Return after what time the change is dropped; None for not within ``most_ms``."""
        begun_ms = self.now_ms
        while self.now_ms - begun_ms < most_ms:
            self.now_ms += 5_000
            if found := self.expiry.find(self.now_ms, 0, asked or gate()):
                assert found == [Expired("public", NAME, (KEY,))]
                return self.now_ms - begun_ms
        return None


def test_a_change_is_dropped_a_minute_after_its_instance() -> None:
    assert Upkeep().gone().dropped_after_ms(10 * EXPIRY_MS) == EXPIRY_MS + 5_000


def test_a_change_of_a_living_instance_stays() -> None:
    assert Upkeep().dropped_after_ms(2 * CUT_OFF_TIMES * EXPIRY_MS) is None


def test_an_instance_that_is_back_in_time_keeps_its_change() -> None:
    upkeep = Upkeep().gone()
    assert upkeep.dropped_after_ms(EXPIRY_MS - 5_000) is None
    publication = upkeep.member.publish()
    assert upkeep.dropped_after_ms(2 * EXPIRY_MS) is None
    upkeep.member.registry.table.withdraw("public", NAME, "c", publication, 0)
    assert upkeep.dropped_after_ms(10 * EXPIRY_MS) == EXPIRY_MS + 5_000


def test_an_instance_that_this_run_never_had_gets_longer() -> None:
    upkeep = Upkeep()
    upkeep.member.registry.writes.remove("public", NAME, KEY, 1_000)
    assert upkeep.dropped_after_ms(CUT_OFF_TIMES * EXPIRY_MS) == UNSEEN_TIMES * EXPIRY_MS + 10_000


@pytest.mark.parametrize("asked", [gate(may=False), gate(owns=lambda _: False)])
def test_only_the_owner_with_a_steady_view_drops_a_change(asked: ExpiryGate) -> None:
    upkeep = Upkeep().gone()
    assert upkeep.dropped_after_ms(10 * EXPIRY_MS, asked) is None
    assert upkeep.dropped_after_ms(5_000) == 5_000, "the time of absence counted"


def test_while_a_member_is_down_a_change_stays_for_an_hour() -> None:
    upkeep = Upkeep().gone()
    assert upkeep.dropped_after_ms(2 * CUT_OFF_TIMES * EXPIRY_MS, gate(has_all=False)) == (
        CUT_OFF_TIMES * EXPIRY_MS + 5_000
    )


def test_after_a_partition_the_minute_begins_anew_as_the_instance_may_live_on_the_other_side() -> None:
    upkeep = Upkeep().gone()
    assert upkeep.dropped_after_ms(2 * EXPIRY_MS, gate(has_all=False)) is None
    assert upkeep.dropped_after_ms(10 * EXPIRY_MS) == EXPIRY_MS + 10_000


def test_a_member_that_comes_and_goes_keeps_a_change_for_an_hour_at_most() -> None:
    upkeep = Upkeep().gone()
    while upkeep.dropped_after_ms(5_000, gate(has_all=False)) is None and upkeep.dropped_after_ms(5_000) is None:
        assert upkeep.now_ms <= CUT_OFF_TIMES * EXPIRY_MS
    assert upkeep.now_ms > CUT_OFF_TIMES * EXPIRY_MS


def test_the_time_in_which_the_process_stood_still_does_not_count() -> None:
    upkeep = Upkeep().gone()
    upkeep.expiry.find(5_000, 0, gate())
    assert upkeep.expiry.find(100_000, 95_000, gate()) == []
    assert upkeep.expiry.find(100_000 + EXPIRY_MS + 1, 0, gate()) != []


def test_a_dropped_change_is_a_removal_that_no_client_stated() -> None:
    member = Member().register()
    member.overrides.change("public", NAME, KEY, enabled=False)
    changed: Record = member.datum().value
    member.overrides.drop("public", NAME, [KEY])
    removed: Record = member.datum().value
    assert (removed.value, removed.changed) == (None, changed.changed)
    assert member.one().enabled
