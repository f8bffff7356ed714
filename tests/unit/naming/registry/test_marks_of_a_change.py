"""What each change of a list leaves beside the change: a higher revision, and the time of the next health check."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.naming.model.keys import datum_key
from app.naming.model.model import (
    BEAT_TIMEOUT_MS,
    DELETE_TIMEOUT_MS,
    Change,
    Instance,
    Publication,
    Service,
    StoredInstance,
    Tombstone,
)
from app.naming.registry.list_state import TOMBSTONE_SLACK_MS
from app.naming.registry.list_upkeep import TOMBSTONES_PER_WAIT_MS
from app.naming.registry.local_writes import REMOVED_AGAIN_MS
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import Beat, ChangeMetadata, PatchInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX
from distro.model.types import NO_VERSION, Datum, Merged, Version

ME, OTHER = "10.0.0.1:8848~1", "10.0.0.2:8848~1"
NAME, LONG_MS = "G@@orders", 10**9
KEY = datum_key("public", NAME)


def key_of(port: int) -> str:
    return Instance("10.1.0.1", port).key


class Bed:
    """A registry with one service of two instances, which was changed a few times, and whose check is far off."""

    def __init__(self, guard_ms: int = 0) -> None:
        self.registry = Registry.of(ME, guard_ms=guard_ms)
        for port in (80, 81, 82, 83):
            self.registry.writes.register(RegisterInstance(NAME, "10.1.0.1", port), 0)
        for port in (82, 83):
            self.registry.writes.remove("public", NAME, key_of(port), 0)
        self.service.due_ms = LONG_MS

    @property
    def service(self) -> Service:
        found = self.registry.table.find(KEY)
        assert found is not None
        return found

    def received(self, version: Version, *ports: int) -> Datum:
        ones = [StoredInstance(Instance("10.1.0.1", port, service_name=NAME), version, 0) for port in ports]
        return Datum(KEY, version, InstanceList({one.instance.key: one for one in ones}, {}))


@pytest.fixture
def bed() -> Bed:
    return Bed()


NEXT = Version(1, 6, ME)
CHANGES: dict[str, Callable[[Bed], Any]] = {
    "register": lambda bed: bed.registry.writes.register(RegisterInstance(NAME, "10.1.0.1", 90), 100),
    "full beat": lambda bed: bed.registry.writes.put_from_beat(Beat(NAME, "10.1.0.1", 90, full=True), 100),
    "patch": lambda bed: bed.registry.writes.patch(PatchInstance(NAME, "10.1.0.1", 80, weight=2.0), 100),
    "metadata": lambda bed: bed.registry.writes.set_metadata(
        "public", NAME, key_of(80), ChangeMetadata({"a": "b"}), 100
    ),
    "health": lambda bed: bed.registry.writes.set_health(bed.service, key_of(80), False, 100),
    "health of a copy": lambda bed: bed.registry.writes.take_health(bed.service, {"10.1.0.1:80": False}),
    "remove": lambda bed: bed.registry.writes.remove("public", NAME, key_of(80), 100),
    "remove unknown": lambda bed: bed.registry.writes.remove("public", NAME, key_of(99), 100),
    "empty": lambda bed: bed.registry.writes.empty("public", NAME, 100),
    "apply": lambda bed: bed.registry.replication.apply(
        bed.received(Version(9, 0, OTHER), 80), bed.service.version, 100
    ),
    "change": lambda bed: bed.registry.replication.take_change(Change(KEY, key_of(80), NEXT, None, None), 100),
    "claim": lambda bed: (
        setattr(bed.service, "version", Version(9, 0, OTHER)) or bed.registry.replication.claim(KEY, 100)
    ),
    "publish": lambda bed: bed.registry.table.publish("public", NAME, "c", Publication({}, False, 0, NO_VERSION), 100),
    "persistent": lambda bed: bed.registry.table.set_persistent("public", NAME, "k", Instance("10.1.0.1", 95), 100),
    "description": lambda bed: bed.registry.table.set_meta("public", NAME, None, 100),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_raises_the_revision(bed: Bed, change: Callable[[Bed], Any]) -> None:
    """Views and copies of a lower one are out of date."""
    before = bed.service.revision
    assert before > 2
    change(bed)
    assert bed.service.revision > before


def test_a_forgotten_list_raises_the_revision_of_what_is_left(bed: Bed) -> None:
    bed.registry.table.set_persistent("public", NAME, "k", Instance("10.1.0.1", 95), 0)
    before = bed.service.revision
    bed.registry.upkeep.forget(KEY)
    assert bed.service.revision > before
    assert (bed.service.due_ms, bed.service.version) == (0, NO_VERSION)


def test_retained_instances_that_go_raise_the_revision() -> None:
    bed = Bed(guard_ms=500)
    bed.registry.replication.apply(bed.received(Version(9, 0, OTHER)), bed.service.version, 100)
    assert bed.service.retained.keys() == {key_of(80), key_of(81)}
    assert bed.registry.lists.held_back == 1
    before = bed.service.revision
    assert not bed.registry.upkeep.drop_retained(bed.service, 599)
    assert bed.registry.upkeep.drop_retained(bed.service, 600)
    assert bed.service.revision > before
    assert not bed.registry.upkeep.drop_retained(bed.service, 601)


@pytest.mark.parametrize(
    ("change", "due_ms"),
    [
        ("register", 100 + BEAT_TIMEOUT_MS + 1),
        ("full beat", 100 + BEAT_TIMEOUT_MS + 1),
        ("health", DELETE_TIMEOUT_MS + 1),
        ("health of a copy", 0),
        ("remove", 100 + DELETE_TIMEOUT_MS + TOMBSTONE_SLACK_MS + 1),
        ("remove unknown", 100 + DELETE_TIMEOUT_MS + TOMBSTONE_SLACK_MS + 1),
        ("empty", 0),
        ("apply", 0),
        ("claim", 0),
    ],
)
def test_a_change_brings_the_check_forward_to_its_time(bed: Bed, change: str, due_ms: int) -> None:
    CHANGES[change](bed)
    assert bed.service.due_ms == due_ms


def test_one_that_is_healthy_again_is_due_by_its_first_time_out(bed: Bed) -> None:
    bed.registry.writes.set_health(bed.service, key_of(80), False, 0)
    bed.service.due_ms, bed.service.claimed_ms = LONG_MS, 50
    assert bed.registry.writes.set_health(bed.service, key_of(80), True, 100)
    assert bed.service.due_ms == 50 + BEAT_TIMEOUT_MS + 1
    assert not bed.registry.writes.set_health(bed.service, key_of(80), True, 100)
    assert not bed.registry.writes.set_health(bed.service, key_of(99), True, 100)
    assert not bed.registry.writes.set_health(bed.service, key_of(80), False, 100, beat_ms=7), "it beat meanwhile"


def test_health_that_real_nacos_reports_is_taken_for_each_instance() -> None:
    registry = Registry.of(ME)
    count = 2 * COPIED_UNDER_LOCK_MAX + 1
    for port in range(1, count + 1):
        registry.writes.register(RegisterInstance(NAME, "10.1.0.1", port), 0)
    service = registry.table.find(KEY)
    assert service is not None
    version = service.version
    assert not registry.writes.take_health(service, {"10.1.0.1:1": True, "10.9.9.9:1": False})
    assert registry.writes.take_health(service, {f"10.1.0.1:{port}": False for port in range(1, count + 1)})
    assert not any(one.instance.healthy for one in service.stored.values())
    assert service.version == version, "the owner raises it"


def test_a_repeated_removal_of_an_unknown_instance_is_a_change_after_a_while(bed: Bed) -> None:
    unknown = key_of(99)
    assert bed.registry.writes.remove("public", NAME, unknown, 100) == (KEY, None, unknown)
    assert bed.registry.writes.remove("public", NAME, unknown, 100 + REMOVED_AGAIN_MS - 1) is None
    assert bed.registry.writes.remove("public", NAME, unknown, 100 + REMOVED_AGAIN_MS) == (KEY, None, unknown)
    tombstone = bed.service.tombstones[unknown]
    assert (tombstone.at_ms, tombstone.unknown) == (100 + REMOVED_AGAIN_MS, True)


def test_a_registration_again_keeps_the_id_and_the_health(bed: Bed) -> None:
    bed.registry.writes.set_health(bed.service, key_of(80), False, 50)
    old = bed.service.stored[key_of(80)].instance
    version = bed.service.version
    assert bed.registry.writes.register(RegisterInstance(NAME, "10.1.0.1", 80), 100) is None
    assert bed.service.version == version
    assert (bed.service.stored[key_of(80)].beat_ms, bed.service.stored[key_of(80)].last_confirmed_ms) == (100, 100)
    assert bed.registry.writes.register(RegisterInstance(NAME, "10.1.0.1", 80, weight=2.0), 200) == (
        KEY,
        old,
        key_of(80),
    )
    changed = bed.service.stored[key_of(80)].instance
    assert (changed.healthy, changed.instance_id, changed.weight) == (False, old.instance_id, 2.0)


def test_tombstones_go_when_their_time_is_over_and_tell_when_the_next_one_is(bed: Bed) -> None:
    bed.service.tombstones = {
        "a": Tombstone(NEXT, 0, 100),
        "b": Tombstone(NEXT, 50, 100),
        "c": Tombstone(NEXT, 0, 300),
    }
    assert bed.registry.upkeep.prune_tombstones(bed.service, 100) == 101
    assert bed.service.tombstones.keys() == {"a", "b", "c"}
    assert bed.registry.upkeep.prune_tombstones(bed.service, 101) == 151
    assert bed.service.tombstones.keys() == {"b", "c"}
    assert bed.registry.upkeep.prune_tombstones(bed.service, 151) == 301
    assert bed.registry.upkeep.prune_tombstones(bed.service, 301) > LONG_MS
    assert bed.service.tombstones == {}


def test_an_empty_list_is_forgettable_after_the_slack(bed: Bed) -> None:
    bed.service.stored, bed.service.tombstones, bed.service.changed_ms = {}, {}, 1_000
    at_ms = bed.registry.upkeep.forgettable_at_ms(bed.service)
    assert at_ms == 1_000 + TOMBSTONE_SLACK_MS + 1
    assert not bed.registry.upkeep.is_forgettable(KEY, at_ms - 1)
    assert bed.registry.upkeep.is_forgettable(KEY, at_ms)
    assert not bed.registry.upkeep.is_forgettable("x", at_ms)
    bed.service.tombstones = {"a": Tombstone(NEXT, 0, 100)}
    assert not bed.registry.upkeep.is_forgettable(KEY, at_ms)


# --- one change of another member (R5) -------------------------------------------------------------


def one_change(
    key: int, version: Version, stored: StoredInstance | None = None, tombstone: Tombstone | None = None
) -> Change:
    return Change(KEY, key_of(key), version, stored, tombstone, alone=True)


def stored_one(port: int, version: Version, beat_ms: int) -> StoredInstance:
    return StoredInstance(Instance("10.1.0.1", port, service_name=NAME), version, beat_ms)


def test_a_change_of_a_known_instance_keeps_the_beats_that_were_heard_here(bed: Bed) -> None:
    old = bed.service.stored[key_of(80)]
    old.beat_ms, old.last_confirmed_ms = 700, 600
    assert bed.registry.replication.take_change(one_change(80, NEXT, stored_one(80, NEXT, 300)), 100)
    new = bed.service.stored[key_of(80)]
    assert (new.beat_ms, new.last_confirmed_ms, bed.service.version) == (700, 600, NEXT)
    assert bed.service.due_ms == 700 + BEAT_TIMEOUT_MS + 1


def test_a_change_that_brings_an_instance_takes_its_tombstone_away(bed: Bed) -> None:
    assert key_of(82) in bed.service.tombstones
    assert bed.registry.replication.take_change(one_change(82, NEXT, stored_one(82, NEXT, 300)), 100)
    assert key_of(82) not in bed.service.tombstones
    assert bed.service.due_ms == 300 + BEAT_TIMEOUT_MS + 1


def test_a_change_that_removes_an_instance_leaves_its_tombstone_until_it_is_due(bed: Bed) -> None:
    assert bed.registry.replication.take_change(one_change(80, NEXT, tombstone=Tombstone(NEXT, 40, 500)), 100)
    assert key_of(80) not in bed.service.stored
    assert bed.service.tombstones[key_of(80)] == Tombstone(NEXT, 40, 500)
    assert bed.service.due_ms == 40 + 500 + 1
    assert bed.service.changed_ms == 100


@pytest.mark.parametrize("version", [Version(1, 5, ME), Version(1, 7, ME), Version(2, 6, ME), Version(1, 6, OTHER)])
def test_a_change_that_is_not_the_next_one_is_left(bed: Bed, version: Version) -> None:
    assert bed.service.version == Version(1, 5, ME)
    before = bed.service.revision
    assert not bed.registry.replication.take_change(one_change(80, version, tombstone=Tombstone(version, 40, 500)), 100)
    assert (bed.service.revision, bed.service.version) == (before, Version(1, 5, ME))
    assert key_of(80) in bed.service.stored


@pytest.mark.parametrize(("unknown", "hidden"), [(True, True), (False, False)])
def test_a_removal_of_what_nobody_knew_makes_no_service_that_readers_see(unknown: bool, hidden: bool) -> None:
    registry, first = Registry.of(ME), Version(1, 0, OTHER)
    change = one_change(80, first, tombstone=Tombstone(first, 40, 500, unknown))
    assert registry.replication.take_change(change, 100)
    service = registry.table.find(KEY)
    assert service is not None
    assert service.hidden is hidden
    assert not registry.replication.take_change(Change("no key", "k", first, None, None), 100)
    for version in (Version(1, 1, OTHER), Version(2, 0, OTHER)):
        assert not Registry.of(ME).replication.take_change(one_change(80, version), 100), "earlier changes are missing"
    not_alone = replace(change, alone=False)
    assert not Registry.of(ME).replication.take_change(not_alone, 100), (
        "real Nacos gave the list before its first version"
    )


def test_the_first_change_of_a_list_that_was_registered_is_seen() -> None:
    registry, first = Registry.of(ME), Version(1, 0, OTHER)
    assert registry.replication.take_change(one_change(80, first, stored_one(80, first, 300)), 100)
    service = registry.table.find(KEY)
    assert service is not None
    assert not service.hidden
    assert registry.table.names("public") == [NAME]
    removed = Version(1, 1, OTHER)
    assert registry.replication.take_change(
        one_change(80, removed, tombstone=Tombstone(removed, 40, 500, unknown=True)), 100
    )
    assert not service.dropped, "it was known"


# --- lists of other members ------------------------------------------------------------------------


def test_a_list_that_takes_the_place_of_another_brings_its_clusters_to_those_that_were(bed: Bed) -> None:
    version = Version(9, 0, OTHER)
    one = StoredInstance(Instance("10.1.0.1", 80, "EAST", service_name=NAME), version, 0)
    datum = Datum(KEY, version, InstanceList({one.instance.key: one}, {}))
    before = bed.service.version
    assert not bed.registry.replication.apply(datum, Version(1, 1, ME), 100)
    assert bed.registry.replication.apply(datum, before, 100)
    assert bed.service.clusters == {"DEFAULT", "EAST"}
    assert bed.registry.lists.highest_own() == before, "it is another's"
    assert bed.service.claimed_ms == 0


def test_an_own_state_that_comes_back_counts_as_given_and_its_time_outs_begin_anew(bed: Bed) -> None:
    bed.registry.replication.apply(bed.received(Version(9, 0, OTHER), 80), bed.service.version, 100)
    assert bed.registry.replication.apply(bed.received(Version(10, 0, ME), 80), Version(9, 0, OTHER), 200)
    assert bed.registry.lists.highest_own() == Version(10, 0, ME)
    assert bed.service.claimed_ms == 200
    assert bed.registry.replication.apply(bed.received(Version(10, 1, ME), 80), Version(10, 0, ME), 300)
    assert bed.service.claimed_ms == 200, "it was this run's already"


def test_a_removed_service_is_listed_again_only_with_an_instance(bed: Bed) -> None:
    bed.registry.table.set_meta("public", NAME, None, 0)
    bed.registry.writes.empty("public", NAME, 0)
    assert bed.service.hidden
    bed.registry.replication.apply(bed.received(Version(9, 0, OTHER)), bed.service.version, 100)
    assert bed.service.hidden
    bed.registry.replication.apply(bed.received(Version(9, 1, OTHER), 80), bed.service.version, 100)
    assert not bed.service.hidden


def test_each_time_that_instances_are_retained_is_counted() -> None:
    bed = Bed(guard_ms=500)
    for counter in (0, 2):
        bed.registry.replication.apply(bed.received(Version(9, counter, OTHER)), bed.service.version, 100)
        bed.registry.replication.apply(bed.received(Version(9, counter + 1, OTHER), 80, 81), bed.service.version, 100)
        assert bed.service.retained == {}
    assert bed.registry.lists.held_back == 2


def test_the_removal_of_an_expired_instance_is_kept_from_now_on(bed: Bed) -> None:
    bed.service.stored[key_of(80)].beat_ms = 1_000
    assert bed.registry.writes.remove("public", NAME, key_of(80), 31_001, 7) is None
    before = bed.service.stored[key_of(80)].instance
    assert bed.registry.writes.remove("public", NAME, key_of(80), 31_001, 1_000) == (KEY, before, key_of(80))
    tombstone = bed.service.tombstones[key_of(80)]
    assert (tombstone.at_ms, tombstone.keep_ms) == (1_000, DELETE_TIMEOUT_MS + TOMBSTONE_SLACK_MS + 30_001)


def test_many_old_tombstones_go_at_once_and_many_young_ones_are_looked_at_later(bed: Bed) -> None:
    old = {f"o{number}": Tombstone(NEXT, 0, 100) for number in range(2 * COPIED_UNDER_LOCK_MAX + 1)}
    young = {f"y{number}": Tombstone(NEXT, 0, 103) for number in range(10 * TOMBSTONES_PER_WAIT_MS)}
    bed.service.tombstones = old | young
    assert bed.registry.upkeep.prune_tombstones(bed.service, 101) == 101 + 10
    assert bed.service.tombstones.keys() == young.keys()


def test_a_list_begins_above_what_was_forgotten_and_no_sooner(bed: Bed) -> None:
    bed.service.version = Version(20, 3, OTHER)
    bed.registry.upkeep.forget(KEY)
    bed.registry.writes.register(RegisterInstance(NAME, "10.1.0.1", 80), 100)
    assert bed.service.version == Version(21, 0, ME)
    other = "G@@other"
    bed.registry.replication.apply(
        Datum(datum_key("public", other), Version(2, 0, OTHER), InstanceList({}, {})), None, 0
    )
    bed.registry.writes.register(RegisterInstance(other, "10.1.0.1", 80), 100)
    assert bed.registry.lists.version(datum_key("public", other)) == Version(3, 0, ME), "a known list goes by its own"


def test_a_list_that_real_nacos_gave_begins_above_what_was_forgotten_too(bed: Bed) -> None:
    """Other members may still have the key under a version of this run, and would take no lower one."""
    bed.service.version = Version(1, 9, ME)
    bed.registry.upkeep.forget(KEY)
    bed.registry.replication.apply(bed.received(Version(0, 1, OTHER), 80), None, 100)
    assert bed.registry.replication.claim(KEY, 100)
    assert bed.service.version == Version(2, 0, ME)
    bed.service.version = Version(7, 9, ME)
    bed.registry.upkeep.forget(KEY)
    assert bed.registry.replication.merge(bed.received(NO_VERSION, 80, 81), 100) is Merged.MADE
    assert bed.service.version == Version(8, 0, ME)


def test_any_datum_knows_all_of_a_list_that_is_unknown_here(bed: Bed) -> None:
    assert Registry.of(ME).replication.is_covered(bed.received(Version(9, 0, OTHER)))
    assert not bed.registry.replication.is_covered(bed.received(Version(9, 0, OTHER)))


def test_the_bound_of_the_time_outs_is_that_of_all_instances_until_the_last_is_gone(bed: Bed) -> None:
    short = {"preserved.heart.beat.timeout": "3000"}
    bed.registry.writes.register(RegisterInstance(NAME, "10.1.0.1", 80, metadata=short), 0)
    bed.registry.writes.register(RegisterInstance(NAME, "10.1.0.1", 90), 0)
    assert bed.service.shortest_timeout_ms == 3_000
    for port in (80, 81, 90):
        bed.registry.writes.remove("public", NAME, key_of(port), 0)
    bed.registry.writes.register(RegisterInstance(NAME, "10.1.0.1", 90), 0)
    assert bed.service.shortest_timeout_ms == BEAT_TIMEOUT_MS


def test_the_health_of_a_copy_is_set_past_an_instance_whose_health_is_fixed(bed: Bed) -> None:
    fixed = bed.service.stored[key_of(80)]
    bed.service.stored[key_of(80)] = StoredInstance(replace(fixed.instance, marked=True), fixed.version, 0)
    assert bed.registry.writes.take_health(bed.service, {"10.1.0.1:80": False, "10.1.0.1:81": False})
    assert [one.instance.healthy for one in bed.service.stored.values()] == [True, False]


def test_the_oldest_removal_is_forgotten_beyond_the_bound(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.naming.registry.list_state.TOMBSTONES_PER_SERVICE_MAX", 3)
    assert list(bed.service.tombstones) == [key_of(82), key_of(83)]
    bed.registry.writes.remove("public", NAME, key_of(80), 100)
    assert list(bed.service.tombstones) == [key_of(82), key_of(83), key_of(80)]
    bed.registry.writes.remove("public", NAME, key_of(81), 100)
    assert list(bed.service.tombstones) == [key_of(83), key_of(80), key_of(81)]
