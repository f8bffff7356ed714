"""What drills make of what they saw."""

import pytest

from scripts.support.verdicts import Absences, Measured, table


@pytest.mark.parametrize(
    ("value", "at_most", "breach"),
    [(0, 0, False), (1, 0, True), (1.5, 1.5, False), (7, None, False), ("none", None, False), ("none", 3, True)],
)
def test_more_than_allowed_is_a_breach(value: float | str, at_most: float | None, breach: bool) -> None:
    assert Measured("figure", value, at_most).is_breach is breach


def test_a_table_marks_each_breach() -> None:
    rows = [Measured("lists", 12), Measured("missing", 2, 0), Measured("empty", 0, 0)]
    assert table(rows).splitlines()[2:] == [
        "| lists | 12 |  |  |",
        "| missing | 2 | 0 | BREACH |",
        "| empty | 0 | 0 |  |",
    ]


def test_an_absence_lasts_until_the_next_whole_list_of_that_place() -> None:
    found = Absences()
    found.note("a", "orders", {"x"}, 10.0)
    found.note("b", "orders", [], 10.5)
    found.note("a", "orders", {"x", "y"}, 11.0)
    found.note("a", "orders", [], 12.5)
    found.note("a", "orders", {"x"}, 20.0)
    found.note("a", "orders", [], 20.5)
    assert (found.answers, found.instances, found.longest_s) == (3, {"x", "y"}, 2.5)
    assert len(found.examples) == 2


def test_an_absence_that_never_ends_lasts_until_it_was_last_seen() -> None:
    found = Absences()
    for now_s in (1.0, 2.0, 4.0):
        found.note("a", "orders", {"x"}, now_s)
    assert found.longest_s == 3.0
