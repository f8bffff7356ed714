"""Measurements of a drill, their limits, and a table of both."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from scripts.support import tables


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure; a value above its bound, if any, is a breach."""

    what: str
    value: float | str
    at_most: float | None = None

    @property
    def is_breach(self) -> bool:
        if self.at_most is None:
            return False
        return isinstance(self.value, str) or self.value > self.at_most


def table(rows: Iterable[Measured]) -> str:
    """The rows in Markdown, each breach marked."""
    return tables.table(
        ("", "measured", "allowed", ""),
        (
            (
                row.what,
                row.value if isinstance(row.value, str) else f"{row.value:g}",
                "" if row.at_most is None else f"{row.at_most:g}",
                "BREACH" if row.is_breach else "",
            )
            for row in rows
        ),
    )


@dataclass(slots=True)
class Absences:
    """Instances that were missing in lists, which are read repeatedly in several places."""

    answers: int = 0
    """Number of incomplete lists."""
    instances: set[str] = field(default_factory=set)
    """All instances that were ever missing."""
    longest_s: float = 0.0
    """From an incomplete list to the next complete one of that service in that place, or to the last one."""
    examples: list[str] = field(default_factory=list)
    _since_s: dict[tuple[str, str], float] = field(default_factory=dict)

    def note(self, where: str, service: str, missing: Collection[str], now_s: float) -> None:
        """Record the instances that a list of a service lacked; none if it was complete."""
        place = where, service
        if not missing:
            if place in self._since_s:
                self.longest_s = max(self.longest_s, now_s - self._since_s.pop(place))
            return
        self.answers += 1
        self.instances.update(missing)
        if place not in self._since_s:
            self.examples.append(f"{now_s:.2f} s, {where}, {service}: {len(missing)} missing, {min(missing)} first")
        self.longest_s = max(self.longest_s, now_s - self._since_s.setdefault(place, now_s))
