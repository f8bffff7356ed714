"""How long changes take from their writer to a peer: stamps of the changes that the peer lacks, and its answers.

Times are seconds on the writer's own clock; a peer tells ages and durations alone, as no two clocks agree.
"""

import enum
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from types import MappingProxyType

from distro.model.monitor import Timings
from distro.model.types import DistroKey, Outcome, Received

LOG = logging.getLogger(__name__)
CONVERGENCE_BOUNDS_S = (
    *(0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.01, 0.015, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
STUCK_S = 3.0
"""A change that a peer has lacked for so long is logged: a send is given up after that time by default."""
PUSHES_AWAITED_MAX = 1_000
"""Keys whose way to a peer is remembered until the peer tells when it pushed them; beyond it the oldest is dropped."""
OLDEST_EXACT_MAX, OLDEST_AGE_MS = 64, 1_000
"""Up to so many changes the oldest is looked for in each tick, beyond that once in so long: a look reads them all."""


class Cause(enum.Enum):
    """Why a peer does not have a change yet."""

    UNREACHABLE = "unreachable"
    """It is DOWN, starting, or of unknown kind: nothing is sent to it. Its changes are not counted in the meantime."""
    FAILING = "failing"
    """Sends fail, or the one under way is late."""
    REFUSED = "refused"
    """It answered, but did not take the change: it knows another state, or cannot read this one."""
    QUEUE = "queue"
    """The change waits behind others."""


@dataclass(frozen=True, slots=True)
class VerifyRound:
    """The last comparison with a peer of one resource type."""

    ended_ms: int
    """Monotonic."""
    outcome: Outcome
    what: str
    """``digests``; with a member of an earlier release ``versions``, with real Nacos ``checksums``."""
    compared: int
    """Keys that were reported one by one."""
    newer_there: int
    """Keys that the peer has in another or a newer state."""
    lacking_there: int | None
    """Keys that the peer lacks or has in an older state; None if it does not tell."""


@dataclass(slots=True)
class PeerTrace:
    """The changes that one peer lacks, each key with the time of the oldest of them: at most one entry for a key.

    The thread that owns the protocol changes it and reads it.
    """

    own_writer: str
    """This run of this node, as versions name it."""
    applied: Timings = field(default_factory=lambda: Timings(CONVERGENCE_BOUNDS_S))
    """From the write of a change to its being applied at the peer, failed sends included."""
    pushed: Timings = field(default_factory=lambda: Timings(CONVERGENCE_BOUNDS_S))
    """From the write to the peer's push to its own subscribers; of changes that it had subscribers for."""
    not_counted: int = 0
    """Changes that were dropped or made while the peer is unreachable, since it became so."""
    rounds: Mapping[str, VerifyRound] = field(default_factory=lambda: MappingProxyType({}))
    """The last verify round of each resource type. Replaced, never changed."""
    _waiting: dict[DistroKey, float] = field(default_factory=dict)
    _in_flight: dict[DistroKey, float] = field(default_factory=dict)
    """Changes in the send that is under way."""
    _refused: dict[DistroKey, float] = field(default_factory=dict)
    _took_s: dict[DistroKey, float] = field(default_factory=dict)
    """From write to applied, of the latest changes."""
    _oldest: tuple[DistroKey, float, bool] | None = None
    """The oldest change as of ``_oldest_ms``."""
    _oldest_ms: int = 0
    _told: dict[Cause, None] = field(default_factory=dict)
    """Causes that the log named for a change that is stuck still."""

    def changed(self, key: DistroKey, at_s: float) -> None:
        """Note a change; one that is noted already is older, and stays."""
        self._waiting.setdefault(key, at_s)

    def begun(self, keys: Iterable[DistroKey]) -> None:
        """Note that these keys are sent now, as they are when they are read: that is after each change noted so far."""
        for key in keys:
            stamps = [one for one in (self._waiting.pop(key, None), self._refused.pop(key, None)) if one is not None]
            if stamps:
                self._in_flight[key] = min(stamps)

    def failed(self) -> None:
        """Note that the send under way did not arrive: its changes wait again, older than any later ones."""
        self._waiting = {**self._waiting, **self._in_flight}
        self._in_flight = {}

    def rejected(self) -> None:
        """Note that the peer takes the send under way in no way: its changes wait for the next of their keys."""
        self._refused.update(self._in_flight)
        self._in_flight = {}

    def answered(self, received: Received, ended_s: float, is_ours: Callable[[DistroKey], bool]) -> None:
        """Take the answer to the send under way, which came at ``ended_s``.

        ``is_ours``: whether this node still speaks for the key; the changes of another are its new writer's to trace.
        """
        in_flight, self._in_flight = self._in_flight, {}
        wanted = frozenset(received.wanted)
        for key, stamp in in_flight.items():
            if not is_ours(key):
                continue
            refused = received.refused.get(key.key)
            age_ms = received.ages_ms.get(key.key, 0.0)
            # Of one writer the peer has a later state than was sent: it overtook the send.
            is_other = refused is not None and refused.writer != self.own_writer
            if is_other or key.key in received.failed or key.key in wanted or age_ms is None:
                self._refused[key] = stamp
            else:
                self._apply(key, stamp, ended_s - age_ms / 1_000)

    def served(self, keys: Iterable[DistroKey], at_s: float) -> None:
        """Note that the peer fetched these keys: what changed before that it has."""
        self._arrived([key for key in keys if key in self], at_s, at_s)

    def agreed(self, resource_type: str, begun_s: float, ended_s: float, has: Callable[[str], bool]) -> None:
        """Note that the peer holds this node's versions, as compared from ``begun_s`` on, of the keys that it ``has``.

        An answer at ``ended_s`` is the first that is known of it: the change may have been there for longer.
        """
        known = (*self._waiting, *self._refused)
        self._arrived([key for key in known if key.resource_type == resource_type and has(key.key)], begun_s, ended_s)

    def take_over(self, is_ours: Callable[[DistroKey], bool]) -> None:
        """Drop what the peer refused and another member has become the writer of, whose own change it is now."""
        for key in [key for key in self._refused if not is_ours(key)]:
            del self._refused[key]

    def leave_out(self, keys: Iterable[DistroKey]) -> None:
        """Drop these keys: the peer does not take them any more."""
        for key in keys:
            self._waiting.pop(key, None)
            self._refused.pop(key, None)

    def drop(self) -> None:
        """Drop all, as the peer cannot be reached: it is compared when it is back, and fetches the missing keys."""
        self.not_counted += self.unapplied()
        for part in (self._waiting, self._in_flight, self._refused):
            part.clear()

    def __contains__(self, key: DistroKey) -> bool:
        return key in self._waiting or key in self._in_flight or key in self._refused

    def told_pushes(self, pushed_ms: Mapping[str, float], resource_type: str) -> None:
        """Take from an answer how long after they were applied there the peer pushed changes of its keys."""
        for name, delay_ms in pushed_ms.items():
            took_s = self._took_s.pop(DistroKey(resource_type, name), None)
            if took_s is not None:
                self.pushed.add(took_s + delay_ms / 1_000)

    def unapplied(self) -> int:
        """Return how many changes the peer lacks, as far as known."""
        return len(self._waiting) + len(self._in_flight) + len(self._refused)

    def oldest(self) -> tuple[DistroKey, float, bool] | None:
        """Return the oldest change that the peer lacks: its key, when it was written, and if it was refused."""
        found: list[tuple[DistroKey, float, bool]] = []
        for part in (self._waiting, self._in_flight, self._refused):
            if part:
                key, stamp = min(part.items(), key=itemgetter(1))
                found.append((key, stamp, part is self._refused))
        return min(found, key=itemgetter(1), default=None)

    def oldest_lately(self, now_ms: int) -> tuple[DistroKey, float, bool] | None:
        """Return ``oldest`` as it is now, or, where many changes wait, as it was within ``OLDEST_AGE_MS``."""
        count = self.unapplied()
        if not count:
            return None
        if count <= OLDEST_EXACT_MAX or self._oldest is None or now_ms - self._oldest_ms >= OLDEST_AGE_MS:
            self._oldest, self._oldest_ms = self.oldest(), now_ms
        return self._oldest

    def log_stuck(self, peer: str, cause: Cause, now_s: float) -> None:
        """Tell the log of a change that is stuck, once for each cause, and when none is any more."""
        oldest = self.oldest()
        if oldest is not None and now_s - oldest[1] >= STUCK_S:
            if cause not in self._told:
                self._told[cause] = None
                key, age_s = oldest[0], now_s - oldest[1]
                text = "%s has lacked a change of %s for %.1f s: %s; it lacks %d changes"
                LOG.warning(text, peer, key.key, age_s, cause.value, self.unapplied())
        elif self._told and cause is not Cause.UNREACHABLE:
            self._told.clear()
            LOG.info("%s has every change older than %.0f s again", peer, STUCK_S)

    def log_unreachable(self, peer: str) -> None:
        """Log once the number of changes that are not counted, as the peer is unreachable."""
        if Cause.UNREACHABLE in self._told or (oldest := self.oldest()) is None:
            return
        self._told[Cause.UNREACHABLE] = None
        text = "%s lacks %d changes, the oldest of %s, and is unreachable: it is compared when it is back"
        LOG.warning(text, peer, self.unapplied(), oldest[0].key)

    def _arrived(self, keys: Collection[DistroKey], until_s: float, applied_s: float) -> None:
        for key in keys:
            for part in (self._waiting, self._in_flight, self._refused):
                stamp = part.get(key)
                if stamp is not None and stamp <= until_s:
                    del part[key]
                    self._apply(key, stamp, applied_s)

    def _apply(self, key: DistroKey, stamp: float, applied_s: float) -> None:
        took_s = max(applied_s - stamp, 0.0)
        self.applied.add(took_s)
        self._took_s.pop(key, None)  # the latest last
        self._took_s[key] = took_s
        if len(self._took_s) > PUSHES_AWAITED_MAX:
            del self._took_s[next(iter(self._took_s))]
