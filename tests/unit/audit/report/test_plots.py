"""Plots as drawings: where their bars and letters are."""

import re
from datetime import date, timedelta
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from app.rows.summary import Summary, Verdict, unjudged
from app.tools.audit.report.nights import NightPoint, agreed_run
from app.tools.audit.report.plots import NARROW, WIDE, Bar, TrendSize, draw_bars, draw_trend
from app.tools.audit.report.svg import plain, ticks

FIRST = date(2026, 11, 1)


def nights(*findings: dict[str, int] | None, late: int = 0) -> list[NightPoint]:
    """A night for each, which was not judged where it is None."""
    return [
        NightPoint(FIRST + timedelta(days=number), one is not None, one or {}, late if one else 0)
        for number, one in enumerate(findings)
    ]


def drawn(markup: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(markup).iter(tag))


def side(element: ElementTree.Element, name: str) -> float:
    return float(element.get(name) or "nan")


@pytest.mark.parametrize(
    ("highest", "count_max", "wanted"),
    [
        (0, 4, [0, 1]),
        (1, 4, [0, 1]),
        (3, 4, [0, 1, 2, 3]),
        (15, 4, [0, 5, 10, 15]),
        (17, 4, [0, 5, 10, 15, 20]),
        (9_999, 4, [0, 5_000, 10_000]),
        (10_001, 2, [0, 10_000, 20_000]),
    ],
)
def test_axes_have_few_round_numbers(highest: int, count_max: int, wanted: list[int]) -> None:
    assert ticks(highest, count_max) == wanted


def test_bars_are_as_long_as_their_counts_and_stay_inside() -> None:
    markup = draw_bars("b", "Bars", [Bar("a", 300, 100), Bar("名" * 60, 150), Bar("c" * 60, 0, 40)])
    bars = [one for one in drawn(markup, "rect") if side(one, "height") == 14]
    assert [round(side(one, "width") / side(bars[0], "width"), 2) for one in bars] == [1, 0.33, 0.5, 0.13]
    assert side(bars[1], "x") == pytest.approx(side(bars[0], "x") + side(bars[0], "width"), abs=0.2)
    width = float((ElementTree.fromstring(markup).get("viewBox") or "").split()[2])
    assert all(side(one, "x") + side(one, "width") < width - 10 for one in bars), "the counts have room behind them"
    labels = [one for one in drawn(markup, "text") if one.get("text-anchor") == "end"]
    assert len({side(one, "x") for one in labels}) == 1
    assert side(labels[0], "x") < side(bars[0], "x")
    assert ["".join(one.itertext()) for one in drawn(markup, "text")].count("300 + 100") == 1
    assert "a: 300 findings and 100 late" in markup


def test_few_are_seen_beside_many() -> None:
    markup = draw_bars("b", "Bars", [Bar("a", 1_000_000), Bar("b", 1)])
    assert [side(one, "width") >= 1 for one in drawn(markup, "rect")] == [True, True]


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_a_trend_stacks_its_classes_by_night(size: TrendSize) -> None:
    markup = draw_trend("t", "Trend", nights({"MISSING": 3, "EXTRA": 1}, None, {"EXTRA": 1}, late=2), size)
    bars = [one for one in drawn(markup, "rect") if one.get("fill", "").startswith("var(--series") and len(one)]
    hints = [one[0].text for one in bars]
    assert sorted(hints, key=str) == ["2026-11-01: EXTRA 1", "2026-11-01: MISSING 3", "2026-11-03: EXTRA 1"]
    lower, upper, alone = sorted(bars, key=lambda one: (side(one, "x"), -side(one, "y")))
    assert side(upper, "y") + side(upper, "height") == pytest.approx(side(lower, "y"), abs=0.2)
    assert side(lower, "height") == pytest.approx(3 * side(upper, "height"), abs=0.2)
    assert side(alone, "y") + side(alone, "height") == pytest.approx(side(lower, "y") + side(lower, "height"), abs=0.2)
    (gap,) = [one for one in drawn(markup, "rect") if len(one) and one[0].text == "2026-11-02: not judged"]
    assert side(lower, "x") < side(gap, "x") < side(alone, "x")
    (line,) = drawn(markup, "path")
    assert re.findall("[ML]", line.get("d", "")) == ["M", "M"], "the line does not go on over a night without a verdict"


def test_the_newest_night_has_its_date_and_dates_do_not_meet() -> None:
    markup = draw_trend("t", "Trend", nights(*[{"MISSING": 1}] * 90))
    dates = [one for one in drawn(markup, "text") if re.fullmatch(r"\d\d \w{3}", "".join(one.itertext()))]
    assert "".join(dates[-1].itertext()) == "29 Jan"
    places = [side(one, "x") for one in dates]
    assert min(after - before for before, after in pairwise(places)) > 45


def test_a_drawing_has_no_marks_that_turn_writing() -> None:
    assert plain("a\n\tb\u202ec\x1b") == "a b\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}"


def night(number: int, verdict: Verdict = Verdict.AGREED) -> Summary:
    return Summary(str(FIRST + timedelta(days=number)), verdict, "")


class TestAgreedRun:
    def test_a_night_that_diverged_ends_it(self) -> None:
        run = agreed_run(night(5), [night(4), night(1), night(2, Verdict.DIVERGENT), night(3)])
        assert (run.nights, run.first, run.without_verdict) == (3, "2026-11-04", 0)

    def test_nights_without_a_verdict_are_told_and_not_counted(self) -> None:
        run = agreed_run(night(5), [night(1), night(2), unjudged("2026-11-04", "no dump")])
        assert (run.nights, run.first, run.without_verdict) == (3, "2026-11-02", 2)

    def test_the_first_night_is_alone(self) -> None:
        run = agreed_run(night(5), [])
        assert (run.nights, run.first, run.without_verdict) == (1, "2026-11-06", 0)
