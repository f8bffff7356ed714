"""A curve of numbers over time as the points of an SVG, for a template; no text in it comes from a caller."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.http.console.shown_texts import age_text
from app.operator.instance_history import CountSample

WIDTH, HEIGHT = 640, 160
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 10, 22
TICKS = 4
GAP_MS = 60_000
"""The distance of two samples above which the node stood still between them: the curve has a gap."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines, as lists of points, and the labels of both axes with their places."""

    lines: list[str]
    areas: list[str]
    rows: list[tuple[float, int]]
    columns: list[tuple[float, str, str]]
    """The place, text and alignment of each label."""
    last: tuple[float, float]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    bottom: int = HEIGHT - BOTTOM


def curve_of(samples: Sequence[CountSample]) -> Curve | None:
    """Return the curve of the instances; None with fewer than two samples."""
    if len(samples) < 2:
        return None
    first_ms, last_ms = samples[0].wall_ms, samples[-1].wall_ms
    span_ms = max(last_ms - first_ms, 1)
    step = _step(max(one.instances for one in samples))
    top = max(-(-max(one.instances for one in samples) // step), 1) * step

    def x(wall_ms: int) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (wall_ms - first_ms) / span_ms, 1)

    def y(count: int) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / top, 1)

    parts: list[list[CountSample]] = [[]]
    for one in samples:
        if parts[-1] and one.wall_ms - parts[-1][-1].wall_ms > GAP_MS:
            parts.append([])
        parts[-1].append(one)
    lines = [" ".join(f"{x(one.wall_ms)},{y(one.instances)}" for one in part) for part in parts]
    base = HEIGHT - BOTTOM
    areas = [
        f"{x(part[0].wall_ms)},{base} {line} {x(part[-1].wall_ms)},{base}"
        for part, line in zip(parts, lines, strict=True)
    ]
    ago = [(0, "start"), (0.5, "middle"), (1, "end")]
    columns = [
        (x(int(first_ms + span_ms * at)), f"{age_text(span_ms * (1 - at))} ago" if at < 1 else "now", anchor)
        for at, anchor in ago
    ]
    rows = [(y(step * number), step * number) for number in range(top // step + 1)]
    return Curve(lines, areas, rows, columns, (x(last_ms), y(samples[-1].instances)))


def _step(highest: int) -> int:
    """Return the distance of the horizontal lines, at most ``TICKS``: 1, 2 or 5 times a power of ten."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if step * factor * TICKS >= highest:
                return step * factor
        step *= 10
