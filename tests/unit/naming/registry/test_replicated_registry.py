"""What replication does with the registry: take, merge, claim, forget; and which versions come of it."""

from dataclasses import replace

import pytest

from app.naming.model.keys import AGE_MARGIN_MS, WORD_MARGIN_MS, datum_key
from app.naming.model.model import NEVER_MS, Instance, Service, StoredInstance, Tombstone
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from distro.model.types import NO_VERSION, Datum, Merged, Version

ME, OTHER = "10.0.0.1:8848~1", "10.0.0.2:8848~1"
NAME = "DEFAULT_GROUP@@orders"
KEY = datum_key("public", NAME)


@pytest.fixture
def registry() -> Registry:
    return Registry.of(ME)


def register(registry: Registry, port: int, now_ms: int, **metadata: str) -> str:
    registry.writes.register(RegisterInstance(NAME, "10.1.0.1", port, metadata=metadata), now_ms)
    return Instance("10.1.0.1", port).key


def received(
    version: Version, *stored_instances: StoredInstance, tombstones: dict[str, Tombstone] | None = None
) -> Datum:
    return Datum(KEY, version, InstanceList({one.instance.key: one for one in stored_instances}, tombstones or {}))


def stored(port: int, version: Version, beat_ms: int, **metadata: str) -> StoredInstance:
    return StoredInstance(Instance("10.1.0.1", port, service_name=NAME, metadata=metadata), version, beat_ms)


def service_of(registry: Registry) -> Service:
    found = registry.table.find(KEY)
    assert found is not None
    return found


def test_every_change_counts_and_a_registration_that_changes_nothing_does_not(registry: Registry) -> None:
    key = register(registry, 1, 0)
    assert registry.lists.version(KEY) == Version(1, 0, ME)
    register(registry, 1, 5_000)
    assert registry.lists.version(KEY) == Version(1, 0, ME)
    assert service_of(registry).stored[key].beat_ms == 5_000, "but it is a sign of life"
    register(registry, 1, 6_000, zone="a")
    service = service_of(registry)
    assert registry.writes.set_health(service, key, False, 7_000)
    registry.writes.remove("public", NAME, key, 8_000)
    assert registry.lists.version(KEY) == Version(1, 3, ME)


def test_a_change_of_health_is_no_word_of_the_client(registry: Registry) -> None:
    key = register(registry, 1, 0)
    registry.writes.set_health(service_of(registry), key, False, 7_000)
    one = service_of(registry).stored[key]
    assert (one.version, one.client_version) == (Version(1, 1, ME), Version(1, 0, ME))


def test_a_copy_is_taken_only_in_the_place_that_was_looked_at(registry: Registry) -> None:
    register(registry, 1, 0)
    datum = received(Version(2, 0, OTHER))
    assert not registry.replication.apply(datum, None, 0)
    assert registry.replication.apply(datum, Version(1, 0, ME), 0)
    assert registry.lists.version(KEY) == Version(2, 0, OTHER)


def test_a_copy_proves_no_life_but_what_was_heard_here_stays_heard(registry: Registry) -> None:
    key = register(registry, 1, 1_000)
    version = Version(1, 0, OTHER)
    registry.replication.apply(
        received(version, stored(1, version, 9_000), stored(2, version, 9_000)), Version(1, 0, ME), 9_000
    )
    one, other = service_of(registry).stored[key], service_of(registry).stored[Instance("10.1.0.1", 2).key]
    assert (one.beat_ms, one.last_confirmed_ms) == (9_000, 1_000)
    assert (other.beat_ms, other.last_confirmed_ms) == (9_000, NEVER_MS)


def test_a_word_of_the_client_is_dated_by_who_heard_of_it_first(registry: Registry) -> None:
    """The copy of a known word comes with an age that is shorter by the time under way."""
    key = register(registry, 1, 1_000)
    first, second = Version(1, 0, ME), Version(2, 0, OTHER)
    told_ms = 1_000 + WORD_MARGIN_MS
    for said, changed_ms in ((first, 1_000), (second, told_ms)):
        one = StoredInstance(Instance("10.1.0.1", 1, service_name=NAME), second, 9_000, said, None, told_ms)
        registry.replication.apply(received(second, one), registry.lists.version(KEY), 9_000)
        assert service_of(registry).stored[key].changed_ms == changed_ms


@pytest.mark.parametrize(("age_ms", "changed_ms"), [(4_000, 5_000), (8_500, 1_000)])
def test_a_copy_tells_that_the_client_repeated_its_word(registry: Registry, age_ms: int, changed_ms: int) -> None:
    """The repetition has no version of its own. One that was said here, and not there, stays."""
    key = register(registry, 1, 1_000)
    first, second = Version(1, 0, ME), Version(2, 0, OTHER)
    one = StoredInstance(Instance("10.1.0.1", 1, service_name=NAME), second, 9_000, first, None, 9_000 - age_ms)
    registry.replication.apply(received(second, one), first, 9_000)
    assert service_of(registry).stored[key].changed_ms == changed_ms


def test_a_registration_that_repeats_what_is_stored_is_a_word(registry: Registry) -> None:
    """It is dated, and nothing is sent for it."""
    key = register(registry, 1, 1_000, v="1")
    version, revision = registry.lists.version(KEY), service_of(registry).revision
    assert registry.writes.register(RegisterInstance(NAME, "10.1.0.1", 1, metadata={"v": "1"}), 20_000) is None
    one = service_of(registry).stored[key]
    assert (one.changed_ms, one.beat_ms, one.client_version) == (20_000, 20_000, version)
    assert (registry.lists.version(KEY), service_of(registry).revision) == (version, revision)


@pytest.mark.parametrize("owner", [ME, OTHER])
@pytest.mark.parametrize("claims", [False, True])
def test_a_word_that_is_repeated_on_one_side_of_a_cut_is_the_later_one(owner: str, claims: bool) -> None:
    """Both sides have v=1, one is told v=2, and then the other v=1 again: whoever merges, v=1 holds."""
    sides = {ME: Registry.of(ME), OTHER: Registry.of(OTHER)}
    key = register(sides[owner], 1, 1_000, v="1")
    [datum] = sides[owner].lists.datums([KEY])
    copy = sides[OTHER if owner == ME else ME]
    parts = [replace_stored(one) for one in datum.value.stored.values()]
    assert copy.replication.apply(received(datum.version, *parts), None, 1_000)
    for writer, side in sides.items() if claims else ():
        assert side.replication.claim(KEY, 9_000) is (writer != owner)
    register(sides[OTHER], 1, 10_000, v="2")
    register(sides[ME], 1, 20_000, v="1")
    [mine], [theirs] = list(sides[ME].lists.datums([KEY])), list(sides[OTHER].lists.datums([KEY]))
    assert not sides[ME].replication.is_covered(theirs), "nobody takes the earlier word for the later one"
    for side, datum in ((sides[ME], theirs), (sides[OTHER], mine)):
        assert side.lists.version(KEY) != datum.version
        side.replication.merge(received(datum.version, *map(replace_stored, datum.value.stored.values())), 40_000)
        assert service_of(side).stored[key].instance.metadata == {"v": "1"}


def replace_stored(one: StoredInstance) -> StoredInstance:
    """The same instance as another member holds it."""
    return StoredInstance(
        one.instance, one.version, one.beat_ms, one.client_version, one.last_confirmed_ms, one.changed_ms
    )


def test_the_repetition_of_a_word_under_the_last_owner_s_version_gets_one_of_this_member(registry: Registry) -> None:
    """Else the last owner's next word, made on the other side of a cut, would be a later version of the same writer."""
    other = Registry.of(OTHER)
    register(other, 1, 1_000, v="1")
    [datum] = other.lists.datums([KEY])
    [one] = datum.value.stored.values()
    registry.replication.apply(datum, None, 1_000)
    replaced = registry.writes.register(RegisterInstance(NAME, "10.1.0.1", 1, metadata={"v": "1"}), 20_000)
    assert replaced is not None
    assert replaced.before == one.instance
    assert registry.lists.version(KEY) == Version(2, 0, ME)
    [found] = service_of(registry).stored.values()
    assert (found.client_version, found.changed_ms) == (Version(2, 0, ME), 20_000)


def test_a_node_without_peers_needs_no_version_for_that() -> None:
    other, alone = Registry.of(OTHER), Registry.of(ME, alone=True)
    register(other, 1, 1_000)
    [datum] = other.lists.datums([KEY])
    alone.replication.apply(datum, None, 1_000)
    assert alone.writes.register(RegisterInstance(NAME, "10.1.0.1", 1, metadata={}), 20_000) is None
    assert alone.lists.version(KEY) == datum.version


def test_a_claim_restarts_the_clocks_once(registry: Registry) -> None:
    registry.replication.apply(received(Version(3, 7, OTHER), stored(1, Version(3, 7, OTHER), 0)), None, 100)
    assert registry.replication.claim(KEY, 5_000)
    assert (registry.lists.version(KEY), service_of(registry).claimed_ms) == (Version(4, 0, ME), 5_000)
    assert not registry.replication.claim(KEY, 6_000), "it is ours already"
    register(registry, 2, 7_000)
    assert (registry.lists.version(KEY), service_of(registry).claimed_ms) == (Version(4, 1, ME), 5_000)


def test_the_first_write_after_another_writer_is_a_claim(registry: Registry) -> None:
    registry.replication.apply(received(Version(3, 7, OTHER)), None, 100)
    register(registry, 1, 5_000)
    assert (registry.lists.version(KEY), service_of(registry).claimed_ms) == (Version(4, 0, ME), 5_000)


@pytest.mark.parametrize("lower", [True, False])
def test_a_merge_that_brings_nothing_new(registry: Registry, lower: bool) -> None:
    """What is lower leaves no trace; what is higher and knows as much takes the place, so that nobody counts on."""
    register(registry, 1, 0)
    register(registry, 2, 0)
    ours = next(registry.lists.datums([KEY]))
    version = Version(1, 0, "10.0.0.0:8848~1") if lower else Version(2, 0, OTHER)
    parts = [StoredInstance(one.instance, one.version, one.beat_ms) for one in ours.value.stored.values()]
    merged = registry.replication.merge(received(version, *parts[: 1 if lower else 2]), 10)
    assert merged is (Merged.NOTHING if lower else Merged.TAKEN)
    assert registry.lists.version(KEY) == (ours.version if lower else version)


def test_a_merge_with_the_same_list_changes_nothing(registry: Registry) -> None:
    register(registry, 1, 0)
    [ours] = registry.lists.datums([KEY])
    parts = [StoredInstance(one.instance, one.version, one.beat_ms) for one in ours.value.stored.values()]
    assert registry.replication.merge(received(ours.version, *parts), 10) is Merged.NOTHING
    assert registry.lists.version(KEY) == ours.version


def test_a_merge_with_another_list_of_the_same_version_is_above_both(registry: Registry) -> None:
    register(registry, 1, 0)
    [ours] = registry.lists.datums([KEY])
    parts = [StoredInstance(one.instance, one.version, one.beat_ms) for one in ours.value.stored.values()]
    datum = received(ours.version, *parts, stored(2, Version(1, 0, OTHER), 0))
    assert registry.replication.merge(datum, 10) is Merged.MADE
    assert registry.lists.version(KEY) == ours.version.next(ME)


def test_a_datum_of_no_list_is_not_taken(registry: Registry) -> None:
    version = Version(1, 0, OTHER)
    for key in ("no key", datum_key("public", "")):
        assert not registry.replication.apply(Datum(key, version, InstanceList({}, {})), None, 0)
        assert registry.replication.merge(Datum(key, version, InstanceList({}, {})), 0) is Merged.NOTHING
    assert registry.table.services() == []


@pytest.mark.parametrize("version", [Version(1, 0, "0"), Version(5, 3, OTHER)])
def test_a_merge_of_two_that_each_knew_more_is_above_both(registry: Registry, version: Version) -> None:
    register(registry, 1, 0)
    ours = registry.lists.version(KEY)
    assert ours is not None
    assert registry.replication.merge(received(version, stored(2, version, 0)), 10) is Merged.MADE
    merged = registry.lists.version(KEY)
    assert merged is not None
    assert merged > ours
    assert merged > version
    assert merged.writer == ME
    assert len(service_of(registry).stored) == 2


def test_an_expiry_loses_against_a_beat_that_its_health_check_did_not_know(registry: Registry) -> None:
    key = register(registry, 1, 0)
    service_of(registry).stored[key].beat_ms = service_of(registry).stored[key].last_confirmed_ms = 50_000
    tombstone = Tombstone(Version(2, 5, OTHER), 20_000, 90_000)
    assert (
        registry.replication.merge(received(Version(2, 5, OTHER), tombstones={key: tombstone}), 60_000) is Merged.MADE
    )
    assert key in service_of(registry).stored


@pytest.mark.parametrize(("beat_ms", "stays"), [(20_000, False), (20_000 + 2 * AGE_MARGIN_MS, True)])
def test_a_deregistration_elsewhere_holds_against_older_beats(registry: Registry, beat_ms: int, stays: bool) -> None:
    key = register(registry, 1, 0)
    service_of(registry).stored[key].beat_ms = service_of(registry).stored[key].last_confirmed_ms = beat_ms
    tombstone = Tombstone(Version(2, 5, OTHER), 20_000, 90_000)
    registry.replication.merge(received(Version(2, 5, OTHER), tombstones={key: tombstone}), 60_000)
    assert (key in service_of(registry).stored) is stays


@pytest.mark.parametrize("beat_ms", [10_000, 30_000])
def test_the_health_holds_that_was_found_by_who_heard_last(registry: Registry, beat_ms: int) -> None:
    """A member that was alone heard nobody, and counted all of them ill under a new epoch."""
    key = register(registry, 1, 0)
    ours = service_of(registry).stored[key]
    ours.beat_ms = ours.last_confirmed_ms = 20_000
    ill = StoredInstance(replace(ours.instance, healthy=False), Version(2, 5, OTHER), beat_ms, ours.client_version)
    registry.replication.merge(received(Version(2, 5, OTHER), ill), 40_000)
    merged = service_of(registry).stored[key]
    assert merged.instance.healthy is (beat_ms < 20_000)
    assert merged.client_version == Version(1, 0, ME)
    assert merged.version >= Version(2, 5, OTHER)


def test_an_expired_instance_is_remembered_from_its_last_beat_for_as_long_as_any_other(registry: Registry) -> None:
    key = register(registry, 1, 0)
    assert registry.writes.remove("public", NAME, key, 30_000, beat_ms=0)
    tombstone = service_of(registry).tombstones[key]
    assert tombstone.at_ms == 0
    assert tombstone.at_ms + tombstone.keep_ms == 30_000 + 30_000 + 60_000
    registry.upkeep.prune_tombstones(service_of(registry), 120_000)
    assert service_of(registry).tombstones
    registry.upkeep.prune_tombstones(service_of(registry), 120_001)
    assert not service_of(registry).tombstones


def test_a_key_that_was_forgotten_begins_above_its_old_versions(registry: Registry) -> None:
    registry.replication.apply(received(Version(7, 3, OTHER)), None, 0)
    registry.upkeep.forget(KEY)
    assert registry.lists.version(KEY) is None
    register(registry, 1, 10)
    version = registry.lists.version(KEY)
    assert version is not None
    assert version > Version(7, 3, OTHER)


def test_what_comes_without_versions_gets_those_of_its_datum(registry: Registry) -> None:
    """Members of our own kind could not read it otherwise."""
    registry.replication.apply(received(Version(1, 1, OTHER), stored(1, NO_VERSION, 0)), None, 0)
    assert {one.version for one in service_of(registry).stored.values()} == {Version(1, 1, OTHER)}
    assert registry.replication.merge(received(NO_VERSION, stored(2, NO_VERSION, 0)), 10) is Merged.MADE
    assert {one.version for one in service_of(registry).stored.values()} == {
        Version(1, 1, OTHER),
        registry.lists.version(KEY),
    }


# --- removals of what is unknown here (R15) -------------------------------------------------------


def test_a_deregistration_of_an_unknown_instance_removes_it_where_it_is_known(registry: Registry) -> None:
    """Registered on one side of a cut, deregistered on the other: after the heal it is gone."""
    other = Registry.of(OTHER)
    key = register(other, 1, 1_000)
    assert registry.writes.remove("public", NAME, key, 10_000) == (KEY, None, key)
    [removal], [there] = list(registry.lists.datums([KEY])), list(other.lists.datums([KEY]))
    assert removal.value.tombstones[key].unknown
    assert registry.replication.merge(there, 20_000) is not Merged.NOTHING
    assert service_of(registry).stored == {}
    assert other.replication.merge(removal, 20_000) is not Merged.NOTHING
    assert service_of(other).stored == {}


@pytest.mark.parametrize(("apart_ms", "holds"), [(WORD_MARGIN_MS + 1, "later"), (0, "higher")])
def test_of_two_sides_words_the_later_one_holds_whatever_its_version(
    registry: Registry, apart_ms: int, holds: str
) -> None:
    """The sides of a partition count versions apart; where times have no order, the version decides."""
    other = Registry.of(OTHER)
    for number in range(3):
        register(other, 1, 10_000, word=f"{number}")
    register(other, 1, 10_000, word="higher")
    key = register(registry, 1, 10_000 + apart_ms, word="later")
    theirs = next(other.lists.datums([KEY]))
    assert registry.replication.is_covered(theirs) is (holds == "higher")
    assert registry.replication.merge(theirs, 20_000) is not Merged.NOTHING or holds == "higher"
    assert service_of(registry).stored[key].instance.metadata == {"word": holds}
    assert other.replication.is_covered(next(registry.lists.datums([KEY])))


def test_an_instance_that_beats_here_is_not_taken_for_ill(registry: Registry) -> None:
    """Whoever found it ill heard no beat; the state is refused, so that its sender fetches what is known here."""
    key = register(registry, 1, 0)
    ours = service_of(registry).stored[key]
    ours.beat_ms = ours.last_confirmed_ms = 20_000
    ill = StoredInstance(replace(ours.instance, healthy=False), Version(2, 5, OTHER), 1_000, ours.client_version)
    datum = received(Version(2, 5, OTHER), ill)
    assert not registry.replication.is_covered(datum)
    ours.beat_ms = ours.last_confirmed_ms = 1_000
    assert registry.replication.is_covered(datum)


def test_an_instance_that_beat_after_such_a_deregistration_stays(registry: Registry) -> None:
    other = Registry.of(OTHER)
    key = register(other, 1, 1_000)
    registry.writes.remove("public", NAME, key, 10_000)
    register(other, 1, 10_000 + WORD_MARGIN_MS + 1)
    assert registry.replication.merge(next(other.lists.datums([KEY])), 20_000) is not Merged.NOTHING
    assert list(service_of(registry).stored) == [key]


def test_a_deregistration_after_an_expiry_counts_from_its_own_time(registry: Registry) -> None:
    key = register(registry, 1, 1_000)
    registry.writes.remove("public", NAME, key, 32_000, beat_ms=1_000)
    assert registry.writes.remove("public", NAME, key, 50_000) == (KEY, None, key)
    tombstone = service_of(registry).tombstones[key]
    assert (tombstone.at_ms, tombstone.unknown, tombstone.version) == (50_000, False, registry.lists.version(KEY))
    assert registry.writes.remove("public", NAME, key, 50_000 + WORD_MARGIN_MS - 1) is None, "it was just said"


def test_readers_see_no_service_that_only_such_deregistrations_made(registry: Registry) -> None:
    registry.writes.remove("public", NAME, Instance("10.1.0.1", 1).key, 10_000)
    other = Registry.of(OTHER)
    [removal] = registry.lists.datums([KEY])
    assert other.replication.apply(removal, None, 10_000)
    for one in (registry, other):
        assert one.table.names("public") == []
        assert one.table.namespaces() == []
    register(other, 2, 11_000)
    assert other.table.names("public") == [NAME]


def test_the_number_of_such_services_is_bounded(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.naming.registry.local_writes.MADE_BY_REMOVAL_MAX", 3)
    for number in range(5):
        registry.writes.remove("public", f"DEFAULT_GROUP@@s{number}", Instance("10.1.0.1", 1).key, number)
    assert sorted(registry.lists.versions()) == [
        datum_key("public", f"DEFAULT_GROUP@@s{number}") for number in (2, 3, 4)
    ]


def test_one_that_was_beyond_the_bound_repeats_no_version_and_no_revision(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.naming.registry.local_writes.MADE_BY_REMOVAL_MAX", 1)
    for port in (1, 2, 3):
        registry.writes.remove("public", NAME, Instance("10.1.0.1", port).key, 0)
    seen, version = service_of(registry), registry.lists.version(KEY)
    highest = seen.revision
    registry.writes.remove("public", "DEFAULT_GROUP@@other", Instance("10.1.0.1", 1).key, 0)
    assert registry.lists.version(KEY) is None
    assert seen.revision > highest, "copies that are under way see that it changed"
    register(registry, 1, 0)
    again = registry.lists.version(KEY)
    assert version is not None
    assert again is not None
    assert again > version
    assert service_of(registry).revision > seen.revision


def test_a_member_alone_remembers_no_removal_of_what_it_does_not_know() -> None:
    alone = Registry.of(ME, alone=True)
    assert alone.writes.remove("public", NAME, Instance("10.1.0.1", 1).key, 0) is None
    assert alone.table.service_count() == 0


def test_an_expiry_elsewhere_is_not_taken_for_a_later_word_where_a_beat_was_heard(registry: Registry) -> None:
    key = register(registry, 1, 1_000)
    other = Registry.of(OTHER)
    other.replication.apply(next(registry.lists.datums([KEY])), None, 1_000)
    other.writes.remove("public", NAME, key, 32_000, beat_ms=1_000)
    [expired] = other.lists.datums([KEY])
    assert expired.version > Version(1, 0, ME)
    assert registry.replication.is_covered(expired), "nobody heard of it"
    assert Registry.of(OTHER).replication.is_covered(expired), "an unknown list has no change"
    register(registry, 1, 30_000)
    assert not registry.replication.is_covered(expired)
