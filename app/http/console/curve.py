"""A curve of numbers over time as the points of an SVG, for a template; no text in it comes from a caller."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

RIGHT, TOP, BOTTOM = 8, 8, 20
GAP_MS = 150_000
"""The distance of two samples above which the node stood still between them: the curve has a gap."""
Point = tuple[int, float | None]
"""A time of the wall clock in ms, and a number; None where nothing was measured."""


class PictureSize(NamedTuple):
    """The size of a picture, about that at which it is shown, so that its labels can be read."""

    width: int
    height: int
    left: int
    """The room for the labels of the lines."""
    ticks: int
    """The most lines above the base."""


LARGE, SMALL = PictureSize(480, 160, 56, 4), PictureSize(280, 104, 52, 2)


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines, as lists of points, and the labels of both axes with their places."""

    lines: list[str]
    areas: list[str]
    rows: list[tuple[float, float]]
    columns: list[tuple[float, float, str]]
    """The place of each label, how many ms ago it was, and its alignment."""
    last: tuple[float, float]
    width: int
    height: int
    left: int
    right: int
    bottom: int


def curve_of(points: Sequence[Point], size: PictureSize = LARGE) -> Curve | None:
    """Return the curve of some numbers; None with fewer than two."""
    known = [(at_ms, value) for at_ms, value in points if value is not None]
    if len(known) < 2:
        return None
    first_ms, last_ms = known[0][0], known[-1][0]
    left, right, bottom = size.left, size.width - RIGHT, size.height - BOTTOM
    span_ms, highest = max(last_ms - first_ms, 1), max(value for _, value in known)
    step = _step(highest, size.ticks)
    count = max(int(-(-highest // step)), 1)
    top = count * step

    def x(wall_ms: int) -> float:
        return round(left + (right - left) * (wall_ms - first_ms) / span_ms, 1)

    def y(value: float) -> float:
        return round(bottom - (bottom - TOP) * value / top, 1)

    parts: list[list[tuple[int, float]]] = [[]]
    for one in known:
        if parts[-1] and one[0] - parts[-1][-1][0] > GAP_MS:
            parts.append([])
        parts[-1].append(one)
    lines = [" ".join(f"{x(at_ms)},{y(value)}" for at_ms, value in part) for part in parts]
    areas = [
        f"{x(part[0][0])},{bottom} {line} {x(part[-1][0])},{bottom}" for part, line in zip(parts, lines, strict=True)
    ]
    ago = [(0, "start"), (0.5, "middle"), (1, "end")]
    columns = [(x(int(first_ms + span_ms * at)), span_ms * (1 - at), anchor) for at, anchor in ago]
    rows = [(y(step * number), round(step * number, 6)) for number in range(count + 1)]
    last = (x(known[-1][0]), y(known[-1][1]))
    return Curve(lines, areas, rows, columns, last, size.width, size.height, left, right, bottom)


def _step(highest: float, ticks: int) -> float:
    """Return the distance of the horizontal lines, at most ``ticks``: 1, 2 or 5 times a power of ten."""
    exponent = -2 if 0 < highest < 1 else 0
    while True:
        for factor in (1, 2, 5):
            if (step := factor * 10.0**exponent) * ticks >= highest:
                return step if exponent < 0 else int(step)
        exponent += 1
