"""A night among those before it: the trend, the run of agreed nights, and the last verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from app.rows.summary import Summary, Verdict

TREND_NIGHTS_MAX = 90


@dataclass(frozen=True, slots=True)
class NightPoint:
    """One night of the trend. Shape of ``findings``: count by class."""

    night: date
    is_judged: bool
    findings: dict[str, int] = field(default_factory=dict)
    late: int = 0


@dataclass(frozen=True, slots=True)
class AgreedRun:
    """Nights that agreed, one after the other. ``without_verdict``: nights among them that were not judged."""

    nights: int
    first: str
    without_verdict: int


def agreed_run(summary: Summary, earlier: Sequence[Summary]) -> AgreedRun:
    """Return the run of agreed nights up to this one, which agreed; a night without a verdict does not end the run."""
    first, count = summary.night, 1
    for one in sorted(earlier, key=lambda one: one.night, reverse=True):
        if one.verdict is Verdict.DIVERGENT:
            break
        if one.verdict is Verdict.AGREED and one.night < summary.night:
            first, count = one.night, count + 1
    begin, end = date_of(first), date_of(summary.night)
    span = (end - begin).days + 1 if begin and end else count
    return AgreedRun(count, first, max(0, span - count))


def last_judged(summary: Summary, earlier: Sequence[Summary]) -> Summary | None:
    """Return the last night before this one that has a verdict."""
    judged = [one for one in earlier if one.verdict is not Verdict.UNJUDGED and one.night != summary.night]
    return max(judged, key=lambda one: one.night, default=None)


def points(summary: Summary, earlier: Sequence[Summary]) -> list[NightPoint]:
    """Return every night up to this one, oldest first, at most ``TREND_NIGHTS_MAX``; empty if its date is unknown.

    A night without a summary was not judged, like one whose verdict says so.
    """
    last = date_of(summary.night)
    if last is None:
        return []
    known = {night: one for one in (*earlier, summary) if (night := date_of(one.night)) and night <= last}
    first = max(min(known), last - timedelta(days=TREND_NIGHTS_MAX - 1))
    every_night = (first + timedelta(days=number) for number in range((last - first).days + 1))
    return [_point(night, known.get(night)) for night in every_night]


def _point(night: date, summary: Summary | None) -> NightPoint:
    if summary is None or summary.verdict is Verdict.UNJUDGED:
        return NightPoint(night, False)
    return NightPoint(night, True, summary.findings, sum(summary.late.values()))


def date_of(text: str) -> date | None:
    """Return the date of an ISO text; None for any other text."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
