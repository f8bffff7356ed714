"""R3 and R4 for single instances at their bounds: which removal counts, which attributes, which version they get."""

import pytest

from app.naming.model.keys import AGE_MARGIN_MS, WORD_MARGIN_MS
from app.naming.model.model import NEVER_MS, Instance, Service, StoredInstance, Tombstone
from app.naming.registry.merge import GUARD_FROM_INSTANCES, InstanceList, covers, is_removed_by, merge, shown, vanished
from distro.model.types import NO_VERSION, Version

LOW, MIDDLE, HIGH, NEW = (Version(number, 0, f"w{number}") for number in (1, 2, 3, 9))
BASE = Instance("10.0.0.1", 80)
KEY = BASE.key


def stored(
    version: Version,
    client: Version | None = None,
    *,
    beat_ms: int = 0,
    confirmed_ms: int | None = None,
    changed_ms: int | None = None,
    port: int = 80,
    **more: object,
) -> StoredInstance:
    instance = Instance("10.0.0.1", port, **more)  # type: ignore[arg-type]
    return StoredInstance(instance, version, beat_ms, client, confirmed_ms, changed_ms)


def listed(*ones: StoredInstance) -> InstanceList:
    return InstanceList({one.instance.key: one for one in ones}, {})


def gone(version: Version, at_ms: int = 0) -> InstanceList:
    return InstanceList({}, {KEY: Tombstone(version, at_ms, 90_000)})


@pytest.mark.parametrize("version", [LOW, NEW])
@pytest.mark.parametrize(("late_ms", "is_removed"), [(AGE_MARGIN_MS, True), (AGE_MARGIN_MS + 1, False)])
def test_a_removal_after_the_last_word_counts_unless_a_beat_was_certainly_heard_after_it(
    version: Version, late_ms: int, is_removed: bool
) -> None:
    one = stored(HIGH, MIDDLE, beat_ms=10**6, confirmed_ms=5_000 + late_ms, changed_ms=5_000 - AGE_MARGIN_MS - 1)
    assert is_removed_by(one, Tombstone(version, 5_000, 0)) is is_removed


@pytest.mark.parametrize("version", [LOW, NEW])
@pytest.mark.parametrize(
    ("since_ms", "is_removed"),
    [
        (-WORD_MARGIN_MS - 1, True),
        (-WORD_MARGIN_MS, None),
        (0, None),
        (WORD_MARGIN_MS, None),
        (WORD_MARGIN_MS + 1, False),
    ],
)
def test_the_later_word_counts_and_the_higher_version_where_none_is_later(
    version: Version, since_ms: int, is_removed: bool | None
) -> None:
    one = stored(HIGH, MIDDLE, confirmed_ms=NEVER_MS, changed_ms=5_000 + since_ms)
    expected = version > MIDDLE if is_removed is None else is_removed
    assert is_removed_by(one, Tombstone(version, 5_000, 0)) is expected


def test_a_state_contains_another_when_each_client_change_of_it_is_there() -> None:
    assert covers(listed(stored(HIGH, MIDDLE)), listed(stored(NEW, MIDDLE))), "health does not count"
    assert not covers(listed(stored(HIGH, LOW)), listed(stored(MIDDLE, MIDDLE)))
    assert covers(gone(MIDDLE), listed(stored(LOW)))
    assert not covers(gone(MIDDLE), listed(stored(LOW, confirmed_ms=AGE_MARGIN_MS + 1)))
    assert not covers(InstanceList({}, {}), listed(stored(LOW)))
    assert covers(listed(stored(LOW), stored(LOW, port=81)), listed(stored(LOW, port=81)))
    assert not covers(listed(stored(LOW)), listed(stored(LOW), stored(LOW, port=81)))


@pytest.mark.parametrize(
    ("finding", "late_ms", "is_there"),
    [
        ((False, True), AGE_MARGIN_MS + 1, False),
        ((False, True), AGE_MARGIN_MS, True),
        ((True, True), AGE_MARGIN_MS + 1, True),
        ((False, False), AGE_MARGIN_MS + 1, True),
        ((True, False), AGE_MARGIN_MS + 1, True),
    ],
)
def test_a_state_lacks_a_beat_that_whoever_found_the_instance_ill_did_not_hear(
    finding: tuple[bool, bool], late_ms: int, is_there: bool
) -> None:
    newer = stored(HIGH, LOW, beat_ms=5, changed_ms=0, healthy=finding[0])
    older = stored(LOW, beat_ms=5 + late_ms, changed_ms=0, healthy=finding[1])
    assert covers(listed(newer), listed(older)) is is_there


def test_a_state_contains_a_removal_by_a_change_of_that_version_or_a_later_one() -> None:
    assert covers(gone(MIDDLE), gone(MIDDLE))
    assert not covers(gone(LOW), gone(MIDDLE))
    assert covers(listed(stored(HIGH, MIDDLE)), gone(MIDDLE))
    assert not covers(listed(stored(HIGH, LOW)), gone(MIDDLE)), "a change of health is no word on it"
    assert not covers(InstanceList({}, {}), gone(LOW))
    both = InstanceList({KEY: stored(LOW)}, {KEY: Tombstone(MIDDLE, 0, 0)})
    assert covers(both, gone(MIDDLE))


@pytest.mark.parametrize(("later_ms", "is_there"), [(WORD_MARGIN_MS, True), (WORD_MARGIN_MS + 1, False)])
def test_a_state_lacks_a_removal_that_was_said_later_whatever_its_version(later_ms: int, is_there: bool) -> None:
    """Two sides of a partition count versions apart: the higher one may be of the earlier word."""
    registered = stored(HIGH, HIGH, changed_ms=1_000, confirmed_ms=NEVER_MS)
    assert covers(listed(registered), gone(MIDDLE, 1_000 + later_ms)) is is_there
    assert covers(gone(HIGH, 1_000), gone(MIDDLE, 1_000 + later_ms)) is is_there


def test_of_two_removals_the_later_one_counts() -> None:
    for ours, theirs in ((gone(LOW, 5), gone(MIDDLE, 3)), (gone(MIDDLE, 3), gone(LOW, 5))):
        assert merge(ours, theirs, NEW) == gone(MIDDLE, 3)
    assert merge(gone(LOW, 1), gone(LOW, 2), NEW) == gone(LOW, 1)


@pytest.mark.parametrize("unknown", [False, True])
def test_a_removal_of_a_lower_version_that_came_certainly_later_counts_by_its_time(unknown: bool) -> None:
    first = Tombstone(MIDDLE, 3, 70_000, not unknown)
    for late_ms, expected in (
        (WORD_MARGIN_MS, first),
        (WORD_MARGIN_MS + 1, Tombstone(NEW, 4 + WORD_MARGIN_MS, 90_000, unknown)),
    ):
        second = Tombstone(LOW, 3 + late_ms, 90_000, unknown)
        for ours, theirs in ((first, second), (second, first)):
            merged = merge(InstanceList({}, {KEY: ours}), InstanceList({}, {KEY: theirs}), NEW)
            assert merged == InstanceList({}, {KEY: expected})


def test_an_instance_that_outlives_a_later_removal_gets_the_new_version() -> None:
    one = stored(LOW, beat_ms=7, confirmed_ms=AGE_MARGIN_MS + 1)
    for ours, theirs in ((listed(one), gone(MIDDLE)), (gone(MIDDLE), listed(one))):
        merged = merge(ours, theirs, NEW)
        assert merged.tombstones == {}
        found = merged.stored[KEY]
        assert (found.version, found.client_version) == (NEW, NEW)
        assert (found.beat_ms, found.last_confirmed_ms) == (7, AGE_MARGIN_MS + 1)


def test_an_instance_that_outlives_an_earlier_removal_keeps_its_version() -> None:
    merged = merge(listed(stored(HIGH, beat_ms=WORD_MARGIN_MS + 1)), gone(LOW), NEW)
    assert (merged.tombstones, merged.stored[KEY].version) == ({}, HIGH)


@pytest.mark.parametrize("since_ms", [-WORD_MARGIN_MS, 0, WORD_MARGIN_MS])
def test_in_doubt_a_merge_removes_what_another_member_removed(since_ms: int) -> None:
    """Who lives registers again with the next beat; who is gone would be listed until it expires."""
    one = stored(HIGH, beat_ms=WORD_MARGIN_MS + since_ms)
    assert merge(listed(one), gone(LOW, WORD_MARGIN_MS), NEW) == gone(NEW, WORD_MARGIN_MS)


def test_of_one_member_the_higher_version_is_the_later_word() -> None:
    """It removed the instance, and then took its registration, within the same moment."""
    removal = InstanceList({}, {KEY: Tombstone(Version(3, 0, HIGH.writer), 5, 90_000)})
    registered = Version(3, 1, HIGH.writer)
    assert merge(listed(stored(registered, beat_ms=6)), removal, NEW).stored[KEY].version == registered


def test_a_beat_long_enough_after_a_removal_outweighs_a_word_that_is_as_old_as_it() -> None:
    one = stored(HIGH, beat_ms=AGE_MARGIN_MS + 1, changed_ms=0)
    assert KEY in merge(listed(one), gone(LOW), NEW).stored


def test_a_removal_that_wins_against_a_later_version_gets_a_version_above_both() -> None:
    merged = merge(listed(stored(HIGH, beat_ms=0)), gone(LOW, AGE_MARGIN_MS + 1), NEW)
    assert merged == InstanceList({}, {KEY: Tombstone(NEW, AGE_MARGIN_MS + 1, 90_000)})
    kept = merge(listed(stored(LOW, beat_ms=0)), gone(MIDDLE, AGE_MARGIN_MS + 1), NEW)
    assert kept == gone(MIDDLE, AGE_MARGIN_MS + 1), "a removal that was the later one keeps its version"


def test_what_one_side_alone_has_stays_as_it_is() -> None:
    mine, other = stored(LOW), stored(MIDDLE, port=81)
    merged = merge(listed(mine), listed(other), NEW)
    assert merged.stored == {mine.instance.key: mine, other.instance.key: other}
    assert list(merged.stored) == [mine.instance.key, other.instance.key]


def test_what_has_no_version_gets_the_new_one() -> None:
    found = merge(listed(), listed(stored(NO_VERSION, beat_ms=3)), NEW).stored[KEY]
    assert (found.version, found.client_version, found.beat_ms) == (NEW, NEW, 3)
    for changed_ms, kept_ms in ((NEVER_MS, 3), (2, 2)):
        found = merge(listed(), listed(stored(NO_VERSION, beat_ms=3, changed_ms=changed_ms)), NEW).stored[KEY]
        assert found.changed_ms == kept_ms


def test_an_instance_that_only_heard_of_beats_is_the_same_object_still() -> None:
    """A beat may be written into it at any time."""
    mine = stored(MIDDLE, LOW, beat_ms=5, confirmed_ms=1)
    found = merge(listed(mine), listed(stored(LOW, LOW, beat_ms=4, confirmed_ms=4)), NEW).stored[KEY]
    assert found is mine
    assert (found.beat_ms, found.last_confirmed_ms) == (5, 4)


@pytest.mark.parametrize(
    ("mine", "other", "weight", "version"),
    [
        ((LOW, LOW, 9), (MIDDLE, MIDDLE, 0), 2.0, MIDDLE),
        ((MIDDLE, MIDDLE, 0), (LOW, LOW, 9), 1.0, MIDDLE),
        ((HIGH, LOW, 9), (MIDDLE, MIDDLE, 0), 2.0, NEW),
        ((MIDDLE, MIDDLE, 0), (HIGH, LOW, 9), 1.0, NEW),
        ((MIDDLE, LOW, 5), (HIGH, LOW, 4), 1.0, NEW),
        ((HIGH, LOW, 4), (MIDDLE, LOW, 5), 2.0, NEW),
        ((MIDDLE, LOW, 5), (HIGH, LOW, 5), 2.0, HIGH),
        ((HIGH, LOW, 5), (HIGH, LOW, 5), 1.0, HIGH),
    ],
)
def test_of_two_sides_the_later_client_change_counts_then_the_later_beat(
    mine: tuple[Version, Version, int], other: tuple[Version, Version, int], weight: float, version: Version
) -> None:
    """The outcome has a version of its own unless one side has both, the attributes and the higher version."""
    one = stored(mine[0], mine[1], beat_ms=mine[2], confirmed_ms=mine[2] - 1, weight=1.0)
    two = stored(other[0], other[1], beat_ms=other[2], confirmed_ms=other[2] - 1, weight=2.0)
    found = merge(listed(one), listed(two), NEW).stored[KEY]
    assert (found.instance.weight, found.version) == (weight, version)
    assert found.client_version == (mine[1] if weight == 1.0 else other[1])
    assert found.beat_ms == max(mine[2], other[2])
    assert found.last_confirmed_ms == max(mine[2], other[2]) - 1


# --- the guard ------------------------------------------------------------------------------------


def instances(count: int) -> dict[str, Instance]:
    return {one.key: one for one in (Instance("10.0.0.1", port) for port in range(1, count + 1))}


def left(shown_ones: dict[str, Instance], count: int) -> InstanceList:
    return InstanceList({key: StoredInstance(one, LOW, 0) for key, one in list(shown_ones.items())[:count]}, {})


@pytest.mark.parametrize(
    ("size", "stay", "are_held"),
    [
        (1, 0, True),
        (3, 1, False),
        (3, 0, True),
        (GUARD_FROM_INSTANCES - 1, 0, True),
        (GUARD_FROM_INSTANCES, 2, False),
        (GUARD_FROM_INSTANCES, 1, True),
        (5, 2, True),
        (5, 3, False),
        (5, 5, False),
        (0, 0, False),
    ],
)
def test_all_or_more_than_half_of_many_are_held(size: int, stay: int, are_held: bool) -> None:
    before = instances(size)
    lost = dict(list(before.items())[stay:]) if are_held else {}
    assert vanished(before, left(before, stay)) == lost


def test_who_was_removed_by_a_tombstone_is_not_held_nor_counted() -> None:
    before = instances(6)
    first, second, *_ = before
    value = left(before, 0)
    value.tombstones.update({first: Tombstone(LOW, 0, 0), second: Tombstone(LOW, 0, 0)})
    assert vanished(before, value).keys() == before.keys() - {first, second}
    value.stored.update(left(dict(list(before.items())[2:]), 2).stored)
    assert vanished(before, value) == {}, "half of the four that are left"


def test_held_instances_are_shown() -> None:
    service = Service("public", "G@@a", 0)
    service.stored[KEY] = stored(LOW)
    service.retained = instances(2)
    assert shown(service) == {KEY: service.stored[KEY].instance} | instances(2)
