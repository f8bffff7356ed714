"""The plots of the report, each an ``<svg>`` element: horizontal bars, and the trend over the nights."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.languages.catalogues import ENGLISH_TEXTS, N_, Texts
from app.tools.audit.report.nights import NightPoint
from app.tools.audit.report.svg import FONT_SIZE, Drawing, number, plain, ticks, width_of

LABEL_CHARS_MAX = 30
SERIES_MAX = 7
"""The number of classes with a separate colour in the trend; all further classes share one."""

OTHERS = N_("other classes")
_WIDTH = 400
_ROW = 22
_BAR = 14
_LABELS_MAX = 175
_GAP = 8
_LEGEND = 20
_MARK = 10


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
class TrendSize:
    """The size of a trend: a wide one for a page or paper, a narrow one, of fewer nights, for a phone."""

    width: int
    height: int
    dates_max: int


WIDE = TrendSize(1000, 300, 12)
NARROW = TrendSize(350, 300, 4)


def shorten(text: str, chars_max: int = LABEL_CHARS_MAX) -> str:
    """Return the text without its middle if it is over ``chars_max`` long: names of one kind differ at their ends."""
    if len(text) <= chars_max:
        return text
    tail = (chars_max - 1) // 2
    return f"{text[: chars_max - 1 - tail]}…{text[len(text) - tail :]}"


def draw_bars(name: str, title: str, rows: Sequence[Bar], texts: Texts = ENGLISH_TEXTS) -> str:
    """Return a bar chart of findings as an ``<svg>`` element, the first row on top."""
    told = "; ".join(f"{row.name}: {_counted(row, texts)}" for row in rows)
    top = _LEGEND if any(row.late for row in rows) else 0
    drawing = Drawing(name, title, told, _WIDTH, top + len(rows) * _ROW)
    labels = [_fitting(plain(row.label)) for row in rows]
    counts = [f"{row.count:,} + {row.late:,}" if row.late else f"{row.count:,}" for row in rows]
    left = max(width_of(label) for label in labels) + _GAP
    room = _WIDTH - left - max(width_of(text) for text in counts) - _GAP
    scale = room / max(1, *(row.count + row.late for row in rows))
    if top:
        _legend(drawing, [("accent", texts.gettext("lasting")), ("late", texts.gettext("late"))], left, _WIDTH)
    for place, row in enumerate(rows):
        y = top + place * _ROW + (_ROW - _BAR) / 2
        letters = y + _BAR / 2 + FONT_SIZE * 0.35
        lasting, late = row.count * scale, row.late * scale
        hint = f"{row.name}: {_counted(row, texts)}"
        drawing.text(left - _GAP, letters, labels[place], anchor="end", hint=row.name)
        if row.count:
            drawing.rect(left, y, max(1, lasting), _BAR, "accent", hint)
        if row.late:
            drawing.rect(left + lasting, y, max(1, late), _BAR, "late", hint)
        drawing.text(left + lasting + late + _GAP / 2, letters, counts[place], colour="muted")
    return drawing.markup()


def _counted(row: Bar, texts: Texts) -> str:
    counted = texts.ngettext("%(count)s finding", "%(count)s findings", row.count, count=f"{row.count:,}")
    if not row.late:
        return counted
    return texts.gettext("%(findings)s and %(count)s late", findings=counted, count=f"{row.late:,}")


def _fitting(label: str) -> str:
    """Return the label, short enough for the room of labels, however wide its letters are."""
    chars_max = LABEL_CHARS_MAX
    while width_of(short := shorten(label, chars_max)) > _LABELS_MAX and chars_max > 3:
        chars_max -= 1
    return short


def _legend(drawing: Drawing, entries: Sequence[tuple[str, str]], left: float, right: float) -> float:
    """Draw the legend from the top on, in as many lines as it needs; return where its last line ends."""
    x, y = left, 0.0
    for colour, text in entries:
        wide = _MARK + 5 + width_of(text) + 14
        if x > left and x + wide > right:
            x, y = left, y + _LEGEND
        drawing.rect(x, y + 2, _MARK, _MARK, colour)
        drawing.text(x + _MARK + 5, y + _MARK + 1, text, colour="muted")
        x += wide
    return y + _LEGEND


def draw_trend(
    name: str, title: str, nights: Sequence[NightPoint], size: TrendSize = WIDE, texts: Texts = ENGLISH_TEXTS
) -> str:
    """Return the trend as an ``<svg>`` element: lasting findings by class, one bar a night, above late ones.

    ``nights``: oldest first.
    """
    judged = [night for night in nights if night.is_judged]
    most = max(judged, key=lambda night: sum(night.findings.values()), default=None)
    values = {"first": nights[0].night, "last": nights[-1].night, "judged": len(judged)}
    text = N_("%(count)s nights from %(first)s to %(last)s, %(judged)s of them judged.")
    told = [texts.gettext(text, count=len(nights), **values)]
    if most is not None:
        count = f"{sum(most.findings.values()):,}"
        told.append(
            texts.gettext("Most lasting findings: %(count)s, in the night %(night)s.", count=count, night=most.night)
        )
        count, late = f"{sum(judged[-1].findings.values()):,}", f"{judged[-1].late:,}"
        told.append(texts.gettext("In the last judged one: %(count)s lasting, %(late)s late.", count=count, late=late))
    drawing = Drawing(name, title, " ".join(told), size.width, size.height)
    return _Trend(drawing, nights, size, texts).drawn()


def series_of(nights: Sequence[NightPoint]) -> list[tuple[str, list[int]]]:
    """Return the counts of each class by night, the class with most findings first; the last may sum up ``OTHERS``."""
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


class _Trend:
    """The trend on its drawing: legend, bars of lasting findings, and below them, if there are any, late ones."""

    def __init__(self, drawing: Drawing, nights: Sequence[NightPoint], size: TrendSize, texts: Texts) -> None:
        self._drawing, self._nights, self._size, self._texts = drawing, nights, size, texts
        self._series = [(texts.gettext(name) if name == OTHERS else name, counts) for name, counts in series_of(nights)]
        self._has_late = any(night.late for night in nights)
        self._upper = ticks(max(sum(night.findings.values()) for night in nights), 4)
        self._lower = ticks(max(night.late for night in nights), 2)
        scales = (*self._upper, *(self._lower if self._has_late else ()))
        self._left = max(width_of(f"{one:,}") for one in scales) + _GAP
        self._step = (size.width - self._left) / len(nights)
        self._bar = max(1.0, min(self._step * 0.8, 56))

    def drawn(self) -> str:
        entries = [(f"series-{place}", shorten(plain(name))) for place, (name, _) in enumerate(self._series)]
        if any(not night.is_judged for night in self._nights):
            entries.append(("gap", self._texts.gettext("not judged")))
        if self._has_late:
            entries.append(("late", self._texts.gettext(N_("late") if self._series else N_("late findings"))))
        top = _legend(self._drawing, entries, self._left, self._size.width) + 8
        bottom = self._size.height - 22
        middle = top + (bottom - top) * 0.72 if self._has_late else bottom
        self._gaps(top, bottom)
        self._axis(self._upper, top, middle)
        self._lasting(top, middle)
        if self._has_late:
            self._axis(self._lower, middle + 18, bottom)
            self._late(middle + 18, bottom)
        self._dates(bottom)
        return self._drawing.markup()

    def _x(self, place: int) -> float:
        """Return the middle of a night's bar."""
        return self._left + self._step * (place + 0.5)

    def _gaps(self, top: float, bottom: float) -> None:
        for place, night in enumerate(self._nights):
            if not night.is_judged:
                x = self._x(place) - self._step / 2
                hint = f"{night.night}: {self._texts.gettext('not judged')}"
                self._drawing.rect(x, top, self._step, bottom - top, "gap", hint)

    def _axis(self, scale: Sequence[int], top: float, bottom: float) -> None:
        for one in scale:
            y = bottom - (bottom - top) * one / scale[-1]
            self._drawing.line(self._left, y, self._size.width, y, "line")
            self._drawing.text(self._left - _GAP, y + FONT_SIZE * 0.35, f"{one:,}", anchor="end", colour="muted")

    def _lasting(self, top: float, bottom: float) -> None:
        scale = (bottom - top) / self._upper[-1]
        for place, night in enumerate(self._nights):
            y = bottom
            for colour, (name, counts) in enumerate(self._series):
                if counts[place]:
                    height = counts[place] * scale
                    y -= height
                    hint = f"{night.night}: {name} {counts[place]:,}"
                    self._drawing.rect(self._x(place) - self._bar / 2, y, self._bar, height, f"series-{colour}", hint)

    def _late(self, top: float, bottom: float) -> None:
        """Draw a line over the judged nights, which ends at a night without a verdict and begins again after it."""
        scale, steps, is_drawn = (bottom - top) / self._lower[-1], "", False
        for place, night in enumerate(self._nights):
            if night.is_judged:
                steps += f"{'L' if is_drawn else 'M'}{number(self._x(place))} {number(bottom - night.late * scale)}"
            is_drawn = night.is_judged
        self._drawing.path(steps, "late")
        for place, night in enumerate(self._nights):
            if night.is_judged and night.late:
                y = bottom - night.late * scale
                late = self._texts.gettext("%(count)s late", count=f"{night.late:,}")
                self._drawing.circle(self._x(place), y, 2.5, "late", f"{night.night}: {late}")

    def _dates(self, bottom: float) -> None:
        """Draw dates below some nights, counted from the newest, so that the newest has one."""
        count, pattern = len(self._nights), self._texts.gettext("%d %b")
        step = max(1, -(-count // self._size.dates_max))
        for place in range((count - 1) % step, count, step):
            words = self._nights[place].night.strftime(pattern)
            x, half = self._x(place), width_of(words) / 2
            x = min(x, self._size.width - half)
            self._drawing.text(max(x, half), bottom + 16, words, anchor="middle", colour="muted")
