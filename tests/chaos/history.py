"""What clients were told, and what they saw: the words of each key, and the lists of each member. Monotonic s."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Outcome(Enum):
    """The end of a call as its client knows it."""

    DONE = "done"
    """Acknowledged."""
    REFUSED = "refused"
    """Answered, and not with success."""
    UNKNOWN = "unknown"
    """No answer in time."""


@dataclass(frozen=True, slots=True)
class Key:
    """An instance, or with ``durable`` a persistent one."""

    service: str
    ip: str
    durable: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A client's write through one member. ``mark`` is in the metadata that it sets; None for a deregistration."""

    mark: str | None
    member: int
    begun_s: float
    ended_s: float
    outcome: Outcome
    text: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """An instance in a list."""

    mark: str
    healthy: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """A service's list, as a member gave it; ``hosts`` by ip, None when it gave none."""

    member: int
    service: str
    begun_s: float
    ended_s: float
    hosts: Mapping[str, Seen] | None


@dataclass(slots=True)
class Beats:
    """The beats of one instance that were acknowledged, by their end, and those answered with "unknown instance"."""

    acknowledged_s: list[float] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    """Who acknowledged each."""
    unknown_s: list[float] = field(default_factory=list)

    def acknowledge(self, member: int, at_s: float) -> None:
        """Note that a member acknowledged a beat, or a registration."""
        self.acknowledged_s.append(at_s)
        self.members.append(member)

    def silent_since(self, at_s: float) -> float:
        """How long before ``at_s`` the last acknowledged beat was."""
        index = bisect_left(self.acknowledged_s, at_s)
        return at_s - self.acknowledged_s[index - 1] if index else float("inf")

    def heard_by(self, since_s: float, at_s: float) -> set[int]:
        """The members that acknowledged a beat between the two times."""
        return set(self.members[bisect_left(self.acknowledged_s, since_s) : bisect_left(self.acknowledged_s, at_s)])


@dataclass(slots=True)
class History:
    """All words and lists of a run."""

    words: dict[Key, list[Word]] = field(default_factory=lambda: defaultdict(list))
    beats: dict[Key, Beats] = field(default_factory=lambda: defaultdict(Beats))
    samples: list[Sample] = field(default_factory=list)
    lasting: dict[Key, float] = field(default_factory=dict)
    """Keys that beat all the time, with the end of their registration."""
    churning: set[str] = field(default_factory=set)
    """Services whose instances come and go until the end of the run."""
    faults: list[tuple[float, str]] = field(default_factory=list)
