"""Parts of a service as values: an instance's own times, a change of health, and what a new service begins with."""

from dataclasses import replace

import pytest

from app.naming.model.keys import SIMPLE_ID
from app.naming.model.model import (
    BEAT_TIMEOUT_MS,
    DURATION_DIGITS_MAX,
    SHORTEST_TIMEOUT_MS,
    Instance,
    Publication,
    Service,
    StoredInstance,
    preserved_ms,
)
from distro.model.types import NO_VERSION, Version

FIRST, SECOND, THIRD = (Version(1, counter, "10.0.0.1:8848~1") for counter in range(3))


@pytest.mark.parametrize(
    ("text", "read_ms"),
    [
        ("1000", 1_000),
        ("0", 0),
        ("9" * DURATION_DIGITS_MAX, 10**DURATION_DIGITS_MAX - 1),
        ("9" * (DURATION_DIGITS_MAX + 1), 7),
        ("-1", 7),
        ("1.5", 7),
        ("\u0661", 7),
        ("", 7),
        (None, 7),
    ],
)
def test_a_time_in_metadata_is_plain_digits(text: str | None, read_ms: int) -> None:
    assert preserved_ms({"wait": text}, "wait", 7) == read_ms
    assert preserved_ms({}, "wait", 7) == preserved_ms(None, "wait", 7) == 7


@pytest.mark.parametrize(
    ("metadata", "shortest_ms"),
    [
        (None, SHORTEST_TIMEOUT_MS),
        ({"zone": "a"}, SHORTEST_TIMEOUT_MS),
        ({"preserved.heart.beat.timeout": "3000"}, 3_000),
        ({"preserved.ip.delete.timeout": "4000"}, 4_000),
        ({"preserved.heart.beat.timeout": "90000", "preserved.ip.delete.timeout": "80000"}, 80_000),
        ({"preserved.ip.delete.timeout": "80000"}, BEAT_TIMEOUT_MS),
    ],
)
def test_the_health_check_comes_with_the_first_time_out(metadata: dict[str, str] | None, shortest_ms: int) -> None:
    one = Instance("10.1.0.1", 80, metadata=metadata)
    assert StoredInstance(one, FIRST, 0).shortest_timeout_ms == shortest_ms


@pytest.mark.parametrize("given", [SIMPLE_ID, "10.1.0.1#80#c1#g@@s"], ids=["mark", "text"])
def test_an_instance_id_that_follows_from_the_rest_is_made_when_it_is_read(given: str) -> None:
    one = Instance("10.1.0.1", 80, "c1", "g@@s", instance_id=given)
    assert one.instance_id == "10.1.0.1#80#c1#g@@s"
    assert one.instance_id is not one.instance_id, "it is not kept"
    ill = replace(one, healthy=False)
    assert ill.instance_id == one.instance_id
    assert ill.instance_id is not ill.instance_id
    assert replace(ill, healthy=True) == one


@pytest.mark.parametrize("given", [None, "", "7", "10.1.0.1#80#c2#g@@s"])
def test_any_other_instance_id_is_kept_as_it_is(given: str | None) -> None:
    one = Instance("10.1.0.1", 80, "c1", "g@@s", instance_id=given)
    assert one.instance_id is given
    assert replace(one, cluster_name="c2").instance_id == given
    assert Instance("10.1.0.1", 80).instance_id is None


def test_what_was_rendered_of_an_instance_is_kept_and_is_no_part_of_its_value() -> None:
    one, equal = Instance("10.1.0.1", 80), Instance("10.1.0.1", 80)
    one.keep_shown(True, False, b"{}")
    assert one.shown == (True, False, b"{}")
    assert one == equal
    assert equal.shown is None


def test_another_health_leaves_the_beats_and_the_last_change_of_the_client() -> None:
    stored = StoredInstance(Instance("10.1.0.1", 80), SECOND, 5_000, FIRST, 4_000, 3_000)
    changed = stored.with_health(False, THIRD)
    assert (changed.instance.healthy, changed.version) == (False, THIRD)
    assert (changed.client_version, changed.changed_ms) == (FIRST, 3_000)
    assert (changed.beat_ms, changed.last_confirmed_ms) == (5_000, 4_000)
    assert stored.instance.healthy


def test_an_instance_carries_on_the_later_beats_of_the_one_it_replaced() -> None:
    one = StoredInstance(Instance("10.1.0.1", 80), FIRST, 2_000, None, 1_000)
    for old in ((1_999, 999), (2_001, 999), (2_001, 1_001)):
        one.carry_beat(StoredInstance(one.instance, FIRST, old[0], None, old[1]))
        assert (one.beat_ms, one.last_confirmed_ms) == (max(2_000, old[0]), max(1_000, old[1]))


@pytest.mark.parametrize(("word", "carried_ms"), [(FIRST, 3_000), (SECOND, 2_000)])
def test_an_instance_carries_on_the_repetition_of_its_own_word(word: Version, carried_ms: int) -> None:
    one = StoredInstance(Instance("10.1.0.1", 80), SECOND, 2_000, word)
    for said_ms in (1_000, 3_000):
        one.carry_beat(StoredInstance(one.instance, FIRST, 2_000, FIRST, None, said_ms))
    assert one.changed_ms == carried_ms


def test_publications_say_the_same_whenever_they_were_made() -> None:
    one = Instance("10.1.0.1", 80)
    publication = Publication({one.key: one}, False, 1, FIRST)
    assert publication.says_the_same(Publication({one.key: one}, False, 2, SECOND))
    assert not publication.says_the_same(Publication({one.key: one}, True, 1, FIRST))
    assert not publication.says_the_same(Publication({}, False, 1, FIRST))


def test_a_new_service_is_checked_at_once_and_seen_by_readers() -> None:
    service = Service("public", "G@@orders", 5_000)
    assert service.due_ms == service.retained_until_ms == service.revision == 0
    assert (service.changed_ms, service.claimed_ms, service.version) == (5_000, 5_000, NO_VERSION)
    assert not service.hidden
    assert not service.dropped
    service.due_ms = 100
    for due_ms, expected_ms in ((101, 100), (99, 99)):
        service.expect(due_ms)
        assert service.due_ms == expected_ms


def test_bytes_that_were_counted_before_are_not_counted_again() -> None:
    one = Instance("10.0.0.1", 80, metadata={"k": "vv"})
    assert StoredInstance(one, FIRST, 0).counted_bytes == 3
    assert StoredInstance(one, FIRST, 0, counted_bytes=7).counted_bytes == 7
