"""What is remembered of comparisons of contents."""

import pytest

from app.operator.content_checks import (
    DIFFERENCES_MAX,
    SAMPLE_MS,
    SAMPLE_PARTS,
    ContentChecks,
    differing_in,
)
from app.rows.rows import BUCKETS, bucket_of

KEY = ("public", "DEFAULT_GROUP@@orders")
PART = bucket_of(*KEY)
BOTH = ["a", "b"]


class Bed:
    """Comparisons, with a clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.checks = ContentChecks(lambda: self.now_ms)


@pytest.fixture
def bed() -> Bed:
    return Bed()


def test_samples_keep_their_distance_and_come_to_all_parts(bed: Bed) -> None:
    seen: set[int] = set()
    for _ in range(BUCKETS // SAMPLE_PARTS):
        parts = bed.checks.begin_sample(())
        assert len(parts) == SAMPLE_PARTS
        assert bed.checks.begin_sample(()) == []
        seen |= set(parts)
        bed.now_ms += SAMPLE_MS
    assert seen == set(range(BUCKETS))


def test_a_new_suspicion_is_looked_at_once_without_waiting(bed: Bed) -> None:
    bed.checks.begin_sample(())
    assert PART in bed.checks.begin_sample([KEY])
    assert bed.checks.begin_sample([KEY]) == []
    bed.checks.suspect(*KEY)
    assert PART in bed.checks.begin_sample([KEY])


def test_a_difference_stays_until_its_part_is_compared_again(bed: Bed) -> None:
    bed.checks.note([PART], BOTH, [KEY])
    bed.now_ms += 5_000
    bed.checks.note([(PART + 1) % BUCKETS], BOTH, [])
    facts = bed.checks.facts()
    assert facts["differing"] == [{"namespaceId": KEY[0], "serviceName": KEY[1], "ageMs": 5_000}]
    assert (facts["count"], facts["parts"], facts["oldestAgeMs"]) == (1, 2, 5_000)
    bed.checks.note([PART], BOTH, [])
    assert bed.checks.facts()["count"] == 0


def test_another_member_was_not_compared_before(bed: Bed) -> None:
    bed.checks.note(range(BUCKETS), BOTH, [])
    bed.checks.note([1], ["a", "b", "c"], [])
    assert bed.checks.facts()["parts"] == 1


def test_the_difference_of_another_member_counts_unless_it_is_refuted_here(bed: Bed) -> None:
    report = {"differing": [{"namespaceId": KEY[0], "serviceName": KEY[1], "ageMs": 3_000}]}
    assert differing_in([report], bed.checks) == {KEY}
    bed.checks.note([PART], BOTH, [])
    assert differing_in([report], bed.checks) == set()
    bed.now_ms += 10_000  # by now the other member has compared later than this one
    assert differing_in([report], bed.checks) == {KEY}


@pytest.mark.parametrize("report", [{}, {"differing": 5}, {"differing": [5, {}, {"ageMs": 1, "namespaceId": 2}]}])
def test_a_report_of_something_else_is_none(bed: Bed, report: dict[str, object]) -> None:
    assert differing_in([report], bed.checks) == set()


def test_what_is_remembered_is_bounded(bed: Bed) -> None:
    bed.checks.note(range(BUCKETS), BOTH, [("public", f"g@@{number}") for number in range(DIFFERENCES_MAX + 5)])
    assert bed.checks.facts()["count"] == DIFFERENCES_MAX
