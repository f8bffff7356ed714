"""Counters of the engine. Several threads add to them without a lock, so a count may occasionally be lost."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

TIMING_BOUNDS_S = (0.000_05, 0.000_1, 0.000_25, 0.001, 0.002_5, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0)
TURN_BOUNDS_S = (0.000_1, 0.000_25, 0.001, 0.002_5, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0)


@dataclass(slots=True)
class DistroStats:
    """Counts of all resource types since the start; their names are those of the metrics."""

    sync_sent: int = 0
    sync_delivered: int = 0
    sync_failed: int = 0
    sync_keys: int = 0
    sync_dropped: int = 0
    """Keys that were not sent because their peer could not be reached."""
    sync_deltas: int = 0
    """Keys that were sent as a delta: the changed entries alone (R5)."""
    received_keys: int = 0
    received_refused: int = 0
    received_merged: int = 0
    received_failed: int = 0
    received_deltas: int = 0
    """Deltas that were applied (R5)."""
    deltas_wanted_whole: int = 0
    """Deltas that did not fit the state stored here, so that the whole datum was requested."""
    reissued: int = 0
    """Keys of this node that got a new version because a peer held other values under the stored one."""
    verify_sent: int = 0
    verify_failed: int = 0
    verify_wanted: int = 0
    """Keys that a peer asked for in its answer to a verify round, and that were then sent to it."""
    verify_received: int = 0
    """Verify rounds of peers that were compared with the state stored here."""
    contents_differed: int = 0
    """Keys that a peer had in the version stored here, with other content. Their owner gives them the next version."""
    query_keys: int = 0
    """Keys that this node asked a peer for."""
    served_keys: int = 0
    """Keys that peers requested one by one, because they lacked them or suspected a difference."""
    keys_unfit: int = 0
    """Keys that could not be sent or fetched even in a separate call: too large, or unreadable."""
    calls_lost: int = 0
    """Calls to peers whose end was not reported until long after their deadline."""
    claims: int = 0
    forgotten: int = 0
    inbox_dropped: int = 0
    """Events and keys that were dropped because the mailbox was full. Verify rounds repair the loss."""
    pauses: int = 0
    """Ticks that came late because this process was not running."""
    overruns: int = 0
    """Ticks that came late although the process was running: its own work was slow."""


class TimingCounts(NamedTuple):
    """Durations by their size, as of one moment: the fields of ``Timings``."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float

    def quantile_s(self, part: float) -> float | None:
        """Return the duration that ``part`` of all do not exceed, by a straight line within its bounds.

        None without any duration. Durations above all bounds count as the last of these.
        """
        left = part * sum(self.counts)
        lower_s = 0.0
        for bound_s, count in zip(self.bounds_s, self.counts, strict=False):
            if count and left <= count:
                return lower_s + (bound_s - lower_s) * left / count
            left -= count
            lower_s = bound_s
        return self.bounds_s[-1] if self.counts[-1] else None


class Timings:
    """A histogram of durations: how many fell within each bound and above the one before it, and their sum.

    One thread adds; any thread may read. ``counts`` has one entry more than ``bounds_s``, for durations above all
    bounds.
    """

    __slots__ = ("_frozen", "bounds_s", "counts", "sum_s")

    def __init__(self, bounds_s: tuple[float, ...] = TIMING_BOUNDS_S) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0
        self._frozen: TimingCounts | None = None

    def add(self, taken_s: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(self.bounds_s, taken_s)] += 1
        self.sum_s += taken_s
        self._frozen = None

    def frozen(self) -> TimingCounts:
        """Return the counts as they are now. For the thread that adds."""
        if self._frozen is None:
            self._frozen = TimingCounts(self.bounds_s, tuple(self.counts), self.sum_s)
        return self._frozen


@dataclass(slots=True)
class PeerStats:
    """Sends to one peer since it came into the list."""

    delivered: int = 0
    failed: int = 0
    keys: int = 0
    """Keys in sends that were delivered."""
    bytes: int = 0
    """Bytes of all bodies sent to it, as they left."""
    delivered_ms: int | None = None
    """When the last send was delivered (monotonic ms)."""

    def note(self, keys: int, now_ms: int) -> None:
        """Note that a send of ``keys`` keys was delivered."""
        self.delivered += 1
        self.keys += keys
        self.delivered_ms = now_ms


class EngineTimes:
    """The engine's measurements by peer and by turn. ``peers`` has exactly the listed peers."""

    def __init__(self) -> None:
        self.peers: dict[str, PeerStats] = {}
        self.turns = Timings(TURN_BOUNDS_S)
        """The turns of the thread that owns the protocol, with their events but without waits."""
        self.turn_max_s = 0.0
        """The longest turn since the start."""
        self.actions: dict[str, Timings] = {}
        """Durations of single steps of the local actions, by name. Such a step would hold up the protocol's thread."""

    def note_turn(self, taken_s: float) -> None:
        """Count a turn."""
        self.turns.add(taken_s)
        self.turn_max_s = max(self.turn_max_s, taken_s)

    def note_action(self, name: str, taken_s: float) -> None:
        """Count a local action. There are three names."""
        if name not in self.actions:
            self.actions[name] = Timings(TURN_BOUNDS_S)
        self.actions[name].add(taken_s)

    def sent(self, peer: str, count: int) -> None:
        """Count the bytes of a body that was sent to a peer. May be called from any thread."""
        if (stats := self.peers.get(peer)) is not None:
            stats.bytes += count
