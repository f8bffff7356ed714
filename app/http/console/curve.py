"""A curve of numbers over time as the points of an SVG, for a template; no text in it comes from a caller."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.http.console.shown_texts import age_text

WIDTH, HEIGHT = 640, 160
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 10, 22
TICKS = 4
GAP_MS = 150_000
"""The distance of two samples above which the node stood still between them: the curve has a gap."""
Point = tuple[int, float | None]
"""A time of the wall clock in ms, and a number; None where nothing was measured."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines, as lists of points, and the labels of both axes with their places."""

    lines: list[str]
    areas: list[str]
    rows: list[tuple[float, float]]
    columns: list[tuple[float, str, str]]
    """The place, text and alignment of each label."""
    last: tuple[float, float]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    bottom: int = HEIGHT - BOTTOM


def curve_of(points: Sequence[Point], now_ms: int | None = None, gap_ms: int = GAP_MS) -> Curve | None:
    """Return the curve of some numbers; None with fewer than two. ``now_ms``: the right end, if not the last point."""
    known = [(at_ms, value) for at_ms, value in points if value is not None]
    if len(known) < 2:
        return None
    first_ms, last_ms = known[0][0], max(now_ms or 0, known[-1][0])
    span_ms, highest = max(last_ms - first_ms, 1), max(value for _, value in known)
    step = _step(highest)
    count = max(int(-(-highest // step)), 1)
    top = count * step

    def x(wall_ms: int) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (wall_ms - first_ms) / span_ms, 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top, 1)

    parts: list[list[tuple[int, float]]] = [[]]
    for one in known:
        if parts[-1] and one[0] - parts[-1][-1][0] > gap_ms:
            parts.append([])
        parts[-1].append(one)
    lines = [" ".join(f"{x(at_ms)},{y(value)}" for at_ms, value in part) for part in parts]
    base = HEIGHT - BOTTOM
    areas = [f"{x(part[0][0])},{base} {line} {x(part[-1][0])},{base}" for part, line in zip(parts, lines, strict=True)]
    ago = [(0, "start"), (0.5, "middle"), (1, "end")]
    columns = [
        (x(int(first_ms + span_ms * at)), f"{age_text(span_ms * (1 - at))} ago" if at < 1 else "now", anchor)
        for at, anchor in ago
    ]
    rows = [(y(step * number), round(step * number, 6)) for number in range(count + 1)]
    return Curve(lines, areas, rows, columns, (x(known[-1][0]), y(known[-1][1])))


def _step(highest: float) -> float:
    """Return the distance of the horizontal lines, at most ``TICKS``: 1, 2 or 5 times a power of ten."""
    exponent = -2 if highest < 1 else 0
    while True:
        for factor in (1, 2, 5):
            if (step := factor * 10.0**exponent) * TICKS >= highest:
                return step if exponent < 0 else int(step)
        exponent += 1
