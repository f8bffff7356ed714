"""R13: the deadline of a call in the clock of the called member, which refuses to execute the call later.

And the reverse: the time when a call was sent, from which the ages in it count.

The kernel may deliver the bytes of a connection a minute after its sender gave up, and a process that stood still
reads all that came meanwhile. Clocks of members differ, so each member names its own clock in its reports. When a
report arrives, the sender's clock shows at least the time in it. A deadline by that is never later than the caller
means.
"""

import re
from dataclasses import dataclass, replace

from distro.model.ports import Clock

UNDER_WAY_MS_MAX = 30_000
"""A call that seems to have been under way for longer is dated back by this: no member waits longer for an answer."""
STEP_MS = 128
"""Deadlines are rounded down to a multiple of it: consecutive calls then have equal headers, parsed once."""
DRIFT_PER_MS = 1_000
"""Two clocks that are adjusted by slewing drift apart by at most one in this many ms: 500 ppm in either direction."""
LATE_IN_A_ROW_MAX = 1_000
"""After this many consecutive reports (half an hour) that all show an earlier clock, the clock was set back."""


_is_time = re.compile("[0-9]{1,19}").fullmatch
"""Matches a time in ms, with no more digits than any clock shows."""


@dataclass(frozen=True, slots=True)
class _PeerClock:
    """The least by which the clock of one run of a peer is ahead of ours, in ms; None for a run that names no clock.

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

        Never later than now, and never earlier than the true time but for the drift of the clocks. Now, for a run of
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
