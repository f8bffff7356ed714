"""What pages are made of, apart from any page: curves, agreement, texts."""

import pytest

from app.http.console.api_caller import ApiRefusal
from app.http.console.cluster_facts import TYPE_NAMES, ClusterFacts, Pair
from app.http.console.curve import GAP_MS, SMALL, Point, curve_of
from app.http.console.instance_pages import metadata_of, metadata_text
from app.http.console.shown_texts import age_text, number_text
from app.languages.catalogues import ENGLISH_TEXTS
from app.replication.address_client_type import HTTP_CLIENTS
from app.replication.client_type import CLIENTS
from app.replication.foreign_type import FOREIGN
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.record_type import RECORDS

QUEUE = {"toSend": 0, "inFlight": 0, "toFetch": 0, "failing": False}
EQUAL = {"ageMs": 900, "outcome": "delivered", "compared": "digests", "keys": 3, "newerThere": 0, "lackingThere": 0}


def pair(queue: dict[str, object] | None = None, unapplied: int = 0, **round_values: object) -> Pair:
    facts = {"queue": {**QUEUE, **(queue or {})}, "unapplied": unapplied, "verify": {"t": {**EQUAL, **round_values}}}
    return Pair.of("a", "b", facts)


def test_every_resource_type_has_a_name_for_people() -> None:
    assert set(TYPE_NAMES) == {INSTANCE_LIST, FOREIGN, RECORDS, CLIENTS, HTTP_CLIENTS}


@pytest.mark.parametrize(
    ("pairs", "silent", "kind"),
    [
        ([], [], "alone"),
        ([pair()], [], "good"),
        ([pair(), pair(unapplied=2)], [], "wait"),
        ([pair(newerThere=1)], [], "wait"),
        ([pair(lackingThere=None)], [], "good"),
        ([pair(outcome="failed")], [], "wait"),
        ([Pair.of("a", "b", {"queue": QUEUE})], [], "wait"),
        ([pair({"failing": True})], [], "bad"),
        ([pair()], ["c"], "bad"),
    ],
)
def test_agreement_is_what_the_last_rounds_found(pairs: list[Pair], silent: list[str], kind: str) -> None:
    assert ClusterFacts({}, pairs, silent).agreement(ENGLISH_TEXTS)[0] == kind


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([pair(unapplied=1)], "1 change is under way."),
        ([pair(unapplied=1), pair(unapplied=1)], "2 changes are under way."),
        ([pair(newerThere=1)], "1 key differed in the last verify rounds."),
        ([pair(unapplied=2, newerThere=1)], "2 changes are under way. 1 key differed in the last verify rounds."),
    ],
)
def test_what_is_under_way_is_said_in_the_number_that_fits(pairs: list[Pair], words: str) -> None:
    assert ClusterFacts({}, pairs, []).agreement(ENGLISH_TEXTS) == ("wait", words)


def test_of_no_services_no_contents_are_said_to_be_equal() -> None:
    contents = {"parts": 8, "of": 256, "oldestAgeMs": 900}
    for is_empty, words in ((False, "they are equal"), (True, "There are no services whose contents")):
        facts = ClusterFacts({}, [pair()], [], contents=contents, is_empty=is_empty)
        assert words in facts.agreement(ENGLISH_TEXTS)[1]


def test_a_curve_is_within_its_picture_and_has_gaps() -> None:
    samples: list[Point] = [(number * 10_000, number * 37) for number in range(20)]
    samples += [(190_000 + GAP_MS + 1 + number * 10_000, 5) for number in range(3)]
    curve = curve_of(samples)
    assert curve is not None
    assert len(curve.lines) == len(curve.areas) == 2
    places = [tuple(map(float, one.split(","))) for line in curve.lines for one in line.split()]
    assert all(curve.left <= x <= curve.right and 0 <= y <= curve.bottom for x, y in places)
    assert [count for _, count in curve.rows] == [0, 200, 400, 600, 800]
    assert [age_text(ago_ms) for _, ago_ms, _ in curve.columns] == ["6 min", "3 min", "0 ms"]


@pytest.mark.parametrize("counts", [[], [1]])
def test_a_curve_needs_two_numbers(counts: list[int]) -> None:
    assert curve_of([(0, count) for count in counts]) is None
    assert curve_of([*((0, count) for count in counts), (1, None)]) is None


def test_a_curve_of_nothing_lies_on_its_base() -> None:
    curve = curve_of([(0, 0), (1, 0)])
    assert curve is not None
    assert curve.last == (curve.right, curve.bottom)


def test_a_small_picture_has_fewer_lines() -> None:
    curve = curve_of([(0, 0), (1, 740)], SMALL)
    assert curve is not None
    assert [count for _, count in curve.rows] == [0, 500, 1_000]
    assert curve.last == (curve.right, 27.8)


def test_a_curve_of_shares_has_lines_between_them() -> None:
    curve = curve_of([(0, 0.0), (1, 0.35)])
    assert curve is not None
    assert [count for _, count in curve.rows] == [0, 0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize(
    "metadata",
    [{}, {"a": "b"}, {"a": "b=c", "d": ""}, {"a=b": "c"}, {"a": " b"}, {"a": "b\nc"}, {"": "x"}, {"{": "}"}],
)
def test_metadata_comes_back_from_a_form_as_it_was(metadata: dict[str, str]) -> None:
    assert metadata_of(metadata_text(metadata), ENGLISH_TEXTS) == metadata


@pytest.mark.parametrize("text", ["a", "=b", "{", "[1]", '{"a": null}'])
def test_other_metadata_is_refused(text: str) -> None:
    with pytest.raises(ApiRefusal):
        metadata_of(text, ENGLISH_TEXTS)


def test_ages_and_numbers() -> None:
    ages = (None, 0, 999, 1_500, 12_345, 90_000, 7_200_000, 200_000_000)
    assert [age_text(age) for age in ages] == ["–", "0 ms", "999 ms", "1.5 s", "12 s", "2 min", "2 h", "2 d"]  # noqa: RUF001
    assert [number_text(one) for one in (None, 1_234_567, 1.0, 0.25)] == ["–", "1,234,567", "1", "0.25"]  # noqa: RUF001


def test_a_curve_of_zeros_has_whole_numbers_at_its_side() -> None:
    curve = curve_of([(0, 0.0), (60_000, 0.0)])
    assert curve is not None
    assert [label for _, label in curve.rows] == [0, 1]
