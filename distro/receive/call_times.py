"""The times of calls between members: until when to execute one (R13), when it was sent, when its datums were applied.

A deadline is a time of the called member's clock, which refuses to execute the call later. The ages in a call count
from the time when it was sent. The kernel may deliver the bytes of a connection a minute after its sender gave up, and
a process that stood still reads all calls that came in the meantime. Clocks of members differ, so each member names
its own clock in its reports. When a report arrives, the sender's clock shows at least the time in it. A deadline by
that is never later than the caller means.
"""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from distro.model.ports import Clock
from distro.model.types import NO_VERSION, DistroKey, Received, Version

UNDER_WAY_MS_MAX = 30_000
"""A call that seems to have been under way for longer is dated back by this: no member waits longer for an answer."""
STEP_MS = 128
"""Deadlines are rounded down to a multiple of it: consecutive calls then have equal headers, parsed once."""
DRIFT_PER_MS = 1_000
"""Two clocks that are adjusted by slewing drift apart by at most one in this many ms: 500 ppm in either direction."""
LATE_IN_A_ROW_MAX = 1_000
"""After this many consecutive reports (half an hour) that all show an earlier clock, the clock was set back."""
APPLIED_MAX = 10_000
"""The most keys whose time is remembered. A datum sent after its time was forgotten counts as applied just then."""
PUSHES_MAX = 1_000
"""The most keys that wait for their push or for being reported to their member. Beyond it the oldest is dropped."""
AGE_MS_MIN = 0.5
"""A datum applied so shortly before the answer counts as applied with it, and takes no room in the answer."""
PUSH_LATE_S = 1.0
"""After this time an applied datum waits for no push any more: nothing changed for the subscribers."""

_is_time = re.compile("[0-9]{1,19}").fullmatch
"""Matches a time in ms, with no more digits than any clock shows."""


@dataclass(frozen=True, slots=True)
class _PeerClock:
    """The least lead of the clock of one run of a peer over ours, in ms; None for a run that names no clock.

    A report that waited, in a network or in a socket while this process stood still, shows too little, and so may any
    number of consecutive reports. So the fastest report counts, less the possible drift of the clocks since.
    """

    run: str = ""
    ahead_ms: int | None = None
    noted_ms: int = 0
    """When this was measured, by our clock since the boot."""
    late: int = 0
    """How many reports have shown less since."""
    late_ahead_ms: int = 0
    """The highest value among those reports."""

    def ahead_at(self, now_ms: int) -> int | None:
        if self.ahead_ms is None:
            return None
        return self.ahead_ms - (now_ms - self.noted_ms) // DRIFT_PER_MS

    def with_report(self, ahead_ms: int, now_ms: int) -> "_PeerClock":
        known_ms = self.ahead_at(now_ms)
        if known_ms is None or ahead_ms >= known_ms:
            return _PeerClock(self.run, ahead_ms, now_ms)
        late_ahead_ms = max(ahead_ms, self.late_ahead_ms) if self.late else ahead_ms
        if self.late + 1 > LATE_IN_A_ROW_MAX:
            return _PeerClock(self.run, late_ahead_ms, now_ms)
        return replace(self, late=self.late + 1, late_ahead_ms=late_ahead_ms)


_UNHEARD = _PeerClock()


class CallDeadlines:
    """Makes deadlines for calls to peers, and reads those of calls from peers. Thread-safe."""

    def __init__(self, own_writer: str, clock: Clock) -> None:
        self._own_writer = own_writer
        self._clock = clock
        self.clock_ms = clock.boot_ms
        """Returns this member's clock, as its reports name it."""
        self._clocks: dict[str, _PeerClock] = {}
        """By peer, its run and the clock of that run. Each report replaces the object, as other threads read it."""

    def stamp(self) -> str:
        """Return the stamp of a call or an answer that is made now.

        Shape: ``run ms``, with this member's run and clock.
        """
        return f"{self._own_writer} {self._clock.boot_ms()}"

    def note(self, peer: str, writer: str, clock_ms: int | None) -> None:
        """Note the clock named in a report, or None, which has just arrived from this run of the peer."""
        if clock_ms is None or not writer:
            self._clocks.setdefault(peer, _UNHEARD)
            return
        known = self._clocks.get(peer, _UNHEARD)
        if known.run != writer:
            known = _PeerClock(writer)
        now_ms = self._clock.boot_ms()
        self._clocks[peer] = known.with_report(clock_ms - now_ms, now_ms)

    def is_heard(self, peer: str) -> bool:
        """Return whether any report of the peer arrived here. Before that it is unknown whether it names a clock."""
        return peer in self._clocks

    def clock_of(self, peer: str) -> tuple[str, int] | None:
        """Return the run of a peer, and the current time of its clock, or a little less.

        None if it has named no clock.
        """
        known, now_ms = self._clocks.get(peer, _UNHEARD), self._clock.boot_ms()
        ahead_ms = known.ahead_at(now_ms)
        return None if ahead_ms is None else (known.run, now_ms + ahead_ms)

    def text(self, peer: str, left_ms: int) -> str:
        """Return the deadline of a call that is given up after ``left_ms``; empty for a peer that named no clock.

        Shape: ``run ms``, with the peer's run and clock.
        """
        known, now_ms = self._clocks.get(peer, _UNHEARD), self._clock.boot_ms()
        ahead_ms = known.ahead_at(now_ms)
        if ahead_ms is None:
            return ""
        end_ms = now_ms + left_ms + ahead_ms
        return f"{known.run} {end_ms - end_ms % STEP_MS}"

    def sent_ms(self, peer: str, text: str | None) -> int:
        """Return when a peer's call or answer was sent, by our monotonic clock. ``text``: its ``stamp``.

        Never later than now, and never earlier than the true time except for the drift of the clocks. Now, for a run of
        the peer that named no clock.
        """
        now_ms = self._clock.monotonic_ms()
        known, boot_ms = self._clocks.get(peer, _UNHEARD), self._clock.boot_ms()
        ahead_ms = known.ahead_at(boot_ms)
        writer, _, clock_ms = (text or "").rpartition(" ")
        if ahead_ms is None or writer != known.run or not _is_time(clock_ms):
            return now_ms
        age_ms = boot_ms - (int(clock_ms) - ahead_ms)
        return now_ms - min(max(age_ms, 0), UNDER_WAY_MS_MAX)

    def is_known_run(self, peer: str, text: str | None) -> bool:
        """Return whether a ``stamp`` is of the same run as the peer's last report."""
        return text is not None and self._clocks.get(peer, _UNHEARD).run == text.rpartition(" ")[0] != ""

    def left_ms(self, text: str) -> int:
        """Return for how long a call with this deadline may still be executed.

        Below 0 if it is late, or for another run.
        """
        writer, _, end = text.rpartition(" ")
        if writer != self._own_writer or not _is_time(end):
            return -1
        return int(end) - self._clock.boot_ms()


class AppliedTimes:
    """The times of keys that Rollcall members wrote.

    Thread-safe. No call takes longer when there are many keys.
    """

    def __init__(
        self,
        now_s: Callable[[], float] | None = None,
        is_pushed: Callable[[DistroKey], bool] = lambda _key: False,
    ) -> None:
        """``now_s``: the time in s, by the clock of the callers' ms; None if their ms are precise enough.

        ``is_pushed``: returns whether this node has subscribers to the content of a key; called after the datum was
        applied.
        """
        self._now_s = now_s
        self._is_pushed = is_pushed
        self._lock = threading.Lock()
        self._applied: dict[tuple[str, str], tuple[Version, float]] = {}
        """The version that was applied last, and when."""
        self._unpushed: dict[DistroKey, tuple[str, float]] = {}
        """Keys applied and not yet pushed: the member that sent the datum, and when it was applied."""
        self._last_push: dict[DistroKey, float] = {}
        """The last pushes that no key waited for: the push of a datum may come before the datum is noted as applied."""
        self._pushed: dict[tuple[str, DistroKey], float] = {}
        """The ms from application to push, for keys that are still to be reported to a member."""

    def time_s(self, now_ms: int) -> float:
        """Return the current time in s, which was ``now_ms`` when the caller read the clock."""
        return now_ms / 1_000 if self._now_s is None else self._now_s()

    def note(self, key: DistroKey, version: Version, sender: str, begun_s: float, now_ms: int) -> None:
        """Note that this node has just applied the sender's datum, having begun at ``begun_s``.

        ``now_ms``: as for ``time_s``.
        """
        if not version.writer:  # of real Nacos
            return
        at_s = self.time_s(now_ms)
        is_pushed = self._is_pushed(key)
        with self._lock:
            self._applied.pop(key, None)  # the latest goes to the end
            self._applied[key] = version, at_s
            if len(self._applied) > APPLIED_MAX:
                del self._applied[next(iter(self._applied))]
            if not is_pushed:
                return
            if (pushed_s := self._last_push.get(key, begun_s - 1)) >= begun_s:
                self._tell(sender, key, pushed_s - at_s)
            elif key not in self._unpushed or at_s - self._unpushed[key][1] > PUSH_LATE_S:
                self._unpushed[key] = sender, at_s
                _bound(self._unpushed)

    def pushed(self, key: DistroKey, at_s: float) -> None:
        """Note that subscribers are being sent the current content of the key."""
        with self._lock:
            if (waiting := self._unpushed.pop(key, None)) is None:
                self._last_push.pop(key, None)  # the latest goes to the end
                self._last_push[key] = at_s
                _bound(self._last_push)
            else:
                self._tell(waiting[0], key, at_s - waiting[1])

    def _tell(self, sender: str, key: DistroKey, took_s: float) -> None:
        self._pushed[sender, key] = round(max(took_s, 0.0) * 1_000, 1)
        _bound(self._pushed)

    def ages_ms(self, resource_type: str, versions: Mapping[str, Version], now_ms: int) -> dict[str, float]:
        """Return how many ms ago this node took states of these keys that contain the versions.

        Leaves out keys that were taken just now, and keys whose time is not known any more.
        """
        now_s, applied = self.time_s(now_ms), self._applied
        ages_ms: dict[str, float] = {}
        for name, version in versions.items():
            had, at_s = applied.get((resource_type, name)) or (NO_VERSION, now_s)  # as a DistroKey, which costs more
            if (age_ms := (now_s - at_s) * 1_000) >= AGE_MS_MIN and had.has_had(version):
                ages_ms[name] = round(age_ms, 1)
        return ages_ms

    def with_pushes(self, received: Received, sender: str, resource_type: str) -> Received:
        """Return the answer to a member, with the pushes that were not yet reported to it."""
        if not self._pushed:
            return received
        with self._lock:
            told = [(to, key) for to, key in self._pushed if to == sender and key.resource_type == resource_type]
            return replace(received, pushed_ms={at[1].key: self._pushed.pop(at) for at in told})


def _bound(entries: dict[Any, Any]) -> None:
    if len(entries) > PUSHES_MAX:
        del entries[next(iter(entries))]
