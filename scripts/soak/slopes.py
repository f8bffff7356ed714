"""Samples of the members' memory and descriptors over time, and the straight line through them with its error."""

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of one member's worker."""

    at_s: float
    """Seconds since the beginning of the soak."""
    member: str
    run: int
    """Counts the member's starts."""
    rss_mb: float
    descriptors: int


def look(at_s: float, member: str, run: int, pid: int) -> Sample | None:
    """Sample a process; return None when it has just exited."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, ValueError):
        return None
    rss = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)
    return Sample(round(at_s, 1), member, run, round(rss / 1_024, 2), descriptors) if rss else None


@dataclass(frozen=True, slots=True)
class Slope:
    """A line by least squares through ``count`` points, per hour."""

    per_hour: float
    error: float
    """The standard error of ``per_hour``, estimated from the residuals."""
    mean: float
    count: int

    @property
    def surely(self) -> float:
        """The lower bound of the rise in an hour: the slope minus two standard errors."""
        return self.per_hour - 2 * self.error


def slope(points: Sequence[tuple[float, float]]) -> Slope | None:
    """Return the line through points of time in s and value; None for fewer than three points or a single time."""
    count = len(points)
    if count < 3:
        return None
    hours = [at_s / 3_600 for at_s, _ in points]
    values = [value for _, value in points]
    mean_x, mean_y = sum(hours) / count, sum(values) / count
    square = sum((x - mean_x) ** 2 for x in hours)
    if not square:
        return None
    rise = sum((x - mean_x) * (y - mean_y) for x, y in zip(hours, values, strict=True)) / square
    rest = sum((y - mean_y - rise * (x - mean_x)) ** 2 for x, y in zip(hours, values, strict=True))
    return Slope(round(rise, 4), round(math.sqrt(rest / (count - 2) / square), 4), round(mean_y, 2), count)


def member_slopes(samples: Sequence[Sample], from_s: float) -> dict[str, dict[str, dict[str, float]]]:
    """The slopes of each member's last run, from ``from_s`` on: member, ``rss_mb`` or ``descriptors``, field."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for member in sorted({one.member for one in samples}):
        own = [one for one in samples if one.member == member]
        last = [one for one in own if one.run == own[-1].run and one.at_s >= from_s]
        for name in ("rss_mb", "descriptors"):
            line = slope([(one.at_s, getattr(one, name)) for one in last])
            if line is not None:
                found.setdefault(member, {})[name] = {**asdict(line), "surely": round(line.surely, 4)}
    return found
