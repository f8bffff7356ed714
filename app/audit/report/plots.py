"""The plots of the report, each an ``<svg>`` element: horizontal bars, and the trend over the nights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from app.audit.report.svg import COLOURS, POINTS_AN_INCH, draw, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL_CHARS_MAX = 30
SERIES_MAX = 7
"""Classes that have a colour of their own in the trend; all further classes share one."""

OTHERS = "other classes"
_WIDTH = 430
_WIDTH_TREND = 980
_HEIGHT_TREND = 330
_ROW = 20
_HEAD = 14
_LEGEND = 24


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a count, and ``late``, a count that follows it. ``whole``: the full name of a shortened ``label``."""

    label: str
    count: int
    late: int = 0
    whole: str = ""

    @property
    def name(self) -> str:
        return self.whole or self.label


@dataclass(frozen=True, slots=True)
class NightPoint:
    """One night of the trend. Shape of ``findings``: count by class."""

    night: date
    is_judged: bool
    findings: Mapping[str, int] = field(default_factory=dict)
    late: int = 0


def shorten(text: str, chars_max: int = LABEL_CHARS_MAX) -> str:
    """The text, its middle left out if it is over ``chars_max`` long: names of one kind differ at their ends."""
    if len(text) <= chars_max:
        return text
    tail = (chars_max - 1) // 2
    return f"{text[: chars_max - 1 - tail]}…{text[len(text) - tail :]}"


def draw_bars(name: str, title: str, rows: Sequence[Bar], unit: tuple[str, str]) -> str:
    """Return a bar chart as an ``<svg>`` element, the first row on top. ``unit``: the noun counted, one and many."""
    text = "; ".join(f"{row.name}: {_counted(row, unit)}" for row in rows)
    return draw(name, title, text, lambda: _bars(rows, unit))


def _counted(row: Bar, unit: tuple[str, str]) -> str:
    counted = f"{row.count:,} {unit[row.count != 1]}"
    return f"{counted} and {row.late:,} late" if row.late else counted


def _bars(rows: Sequence[Bar], unit: tuple[str, str]) -> "tuple[Figure, Mapping[str, str]]":
    has_late = any(row.late for row in rows)
    height = len(rows) * _ROW + _HEAD + (_LEGEND if has_late else 0)
    figure, axes = _figure(_WIDTH, height)
    places = range(len(rows))
    counts = [row.count for row in rows]
    drawn = axes.barh(places, counts, height=0.62, color=COLOURS["accent"], clip_on=False, label="lasting")
    hints = {}
    for number, patch in enumerate(drawn.patches):
        patch.set_gid(f"bar-{number}")
        hints[f"bar-{number}"] = plain(f"{rows[number].name}: {_counted(rows[number], unit)}")
    if has_late:
        late = [row.late for row in rows]
        axes.barh(places, late, left=counts, height=0.62, color=COLOURS["late"], clip_on=False, label="late")
        figure.legend(loc="outside upper right", ncols=2, frameon=False, handlelength=1, borderpad=0)
    longest = max(row.count + row.late for row in rows)
    for place, row in zip(places, rows, strict=True):
        said = f"{row.count:,} + {row.late:,}" if row.late else f"{row.count:,}"
        axes.annotate(said, (row.count + row.late, place), (4, 0), textcoords="offset points", va="center_baseline")
    axes.set_yticks(places, [shorten(plain(row.label)) for row in rows])
    for number, label in enumerate(axes.get_yticklabels()):
        label.set_gid(f"label-{number}")
        hints[f"label-{number}"] = plain(rows[number].name)
    # Room at the end for the count of the longest bar.
    axes.set(xlim=(0, max(longest, 1) * 1.18), ylim=(len(rows) - 0.4, -0.6), xticks=[])
    axes.tick_params(axis="y", length=0)
    axes.spines["bottom"].set_visible(False)
    return figure, hints


def draw_trend(name: str, title: str, nights: Sequence[NightPoint]) -> str:
    """Return the trend as an ``<svg>`` element: lasting findings by class, one bar a night, above late ones.

    ``nights``: oldest first.
    """
    judged = [night for night in nights if night.is_judged]
    most = max(judged, key=lambda night: sum(night.findings.values()), default=None)
    text = f"{len(nights)} nights from {nights[0].night} to {nights[-1].night}, {len(judged)} of them judged. "
    if most is not None:
        text += f"Most lasting findings: {sum(most.findings.values()):,}, in the night {most.night}. "
        text += f"In the last judged one: {sum(judged[-1].findings.values()):,} lasting, {judged[-1].late:,} late."
    return draw(name, title, text, lambda: _trend(nights))


def series_of(nights: Sequence[NightPoint]) -> list[tuple[str, list[int]]]:
    """The counts of each class by night, the class with most findings first; the last may be ``OTHERS``, a sum."""
    totals: dict[str, int] = {}
    for night in nights:
        for name, count in night.findings.items():
            totals[name] = totals.get(name, 0) + count
    ranked = sorted((name for name, count in totals.items() if count), key=lambda name: (-totals[name], name))
    own = ranked if len(ranked) <= SERIES_MAX + 1 else ranked[:SERIES_MAX]
    series = [(name, [night.findings.get(name, 0) for night in nights]) for name in own]
    if rest := ranked[len(own) :]:
        series.append((OTHERS, [sum(night.findings.get(name, 0) for name in rest) for night in nights]))
    return series


def _trend(nights: Sequence[NightPoint]) -> "tuple[Figure, Mapping[str, str]]":
    figure, (upper, lower) = _figure(
        _WIDTH_TREND, _HEIGHT_TREND, nrows=2, sharex=True, gridspec_kw={"height_ratios": (3, 1)}
    )
    places = range(len(nights))
    bottoms = [0] * len(nights)
    hints = {}
    for number, (name, counts) in enumerate(series_of(nights)):
        shown = [place for place in places if counts[place]]
        drawn = upper.bar(
            shown,
            [counts[place] for place in shown],
            bottom=[bottoms[place] for place in shown],
            width=0.8,
            color=COLOURS[f"series-{number}"],
            clip_on=False,
            label=shorten(plain(name)),
        )
        for place, patch in zip(shown, drawn.patches, strict=True):
            patch.set_gid(f"bar-{number}-{place}")
            hints[f"bar-{number}-{place}"] = plain(f"{nights[place].night}: {name} {counts[place]:,}")
        bottoms = [below + count for below, count in zip(bottoms, counts, strict=True)]
    late = [night.late if night.is_judged else float("nan") for night in nights]
    lower.plot(places, late, color=COLOURS["late"], marker=".", linewidth=1.5, clip_on=False)
    gaps = [place for place in places if not nights[place].is_judged]
    for axes in (upper, lower):
        for place in gaps:
            axes.axvspan(place - 0.5, place + 0.5, color=COLOURS["gap"], linewidth=0, zorder=0)
    if gaps:
        upper.plot(gaps, [0] * len(gaps), "x", color=COLOURS["ink"], clip_on=False, label="not judged")
    _finish_trend(figure, upper, lower, nights, max(bottoms))
    return figure, hints


def _finish_trend(figure: "Figure", upper: "Axes", lower: "Axes", nights: Sequence[NightPoint], highest: int) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    for axes, top, label in ((upper, highest, "lasting"), (lower, max(night.late for night in nights), "late")):
        axes.set_ylim(0, max(top, 1) * 1.05)
        axes.set_ylabel(label)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4 if axes is upper else 2, integer=True))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.grid(axis="y", color=COLOURS["line"], linewidth=0.6)
        axes.set_axisbelow(True)
    step = max(1, -(-len(nights) // 12))
    # Counted from the newest, which so has its date.
    places = range((len(nights) - 1) % step, len(nights), step)
    lower.set_xticks(places, [f"{nights[place].night:%d %b}" for place in places])
    lower.set_xlim(-0.6, len(nights) - 0.4)
    if upper.get_legend_handles_labels()[0]:
        figure.legend(loc="outside upper left", ncols=5, frameon=False, handlelength=1, borderpad=0)


def _figure(width: int, height: int, **layout: Any) -> tuple["Figure", Any]:
    """A figure of this size in the units of its drawing, in which letters are ``FONT_SIZE`` high."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / POINTS_AN_INCH, height / POINTS_AN_INCH), layout="constrained")
    return figure, figure.subplots(**layout)
