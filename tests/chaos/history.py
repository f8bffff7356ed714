"""What clients were told, and what they saw: the words of each key, and the lists of each member. Monotonic s."""

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
    LEFT = "left"
    """The client let its connection go: its member withdraws what it published, if it notices that."""


@dataclass(frozen=True, slots=True)
class Key:
    """An instance, or with ``durable`` a persistent one."""

    service: str
    ip: str
    durable: bool = False

    def __str__(self) -> str:
        return f"{self.service} {self.ip}"


@dataclass(frozen=True, slots=True)
class Word:
    """A client's write through one member. ``mark`` is in the metadata that it sets; None for a withdrawal."""

    mark: str | None
    member: int
    begun_s: float
    ended_s: float
    outcome: Outcome
    text: str = ""
    """What a refusal said, or why there was no answer."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A beat or registration that a member acknowledged; it was heard between the two times."""

    member: int
    begun_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """An instance in a list."""

    mark: str
    healthy: bool
    rest: str = ""
    """Its weight, its metadata and whether it is enabled, as text."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A service's list, as a member gave it; ``hosts`` by ip, None when it gave none."""

    member: int
    service: str
    begun_s: float
    ended_s: float
    hosts: Mapping[str, Seen] | None


@dataclass(slots=True)
class History:
    """All words and lists of a run.

    The client of a key says one thing at a time: its words and beats are in the order in which they began, and none
    begins before the one before it ended.
    """

    words: dict[Key, list[Word]] = field(default_factory=lambda: defaultdict(list))
    beats: dict[Key, list[Beat]] = field(default_factory=lambda: defaultdict(list))
    """Those that were acknowledged."""
    unknown_beats: int = 0
    """Beats of lasting instances that were answered with "unknown instance"."""
    samples: list[Sample] = field(default_factory=list)
    last: list[Sample] = field(default_factory=list)
    """The lists of all members at the end of the run, when nothing is said or changes any more."""
    lasting: set[Key] = field(default_factory=set)
    """Instances that beat from their registration to the end of the run."""
    connected: set[Key] = field(default_factory=set)
    """Instances that clients with connections publish: they live as long as the connection, and need no beats."""
    late: set[Key] = field(default_factory=set)
    """Instances that were registered through one side near the end of a cut, and soon removed through the other."""
    stood_still: list[tuple[float, float]] = field(default_factory=list)
    """The times, from and to, in which the clients themselves stood still, as the machine had no time for them."""
    churning: set[str] = field(default_factory=set)
    """Services whose instances come and go until near the end of the run."""
