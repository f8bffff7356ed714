"""R13: the deadline of a call in the clock of the member that is called, which refuses to execute the call later.

And the other way round: when a call was sent, for the ages in it, which count from then.

The kernel may deliver the bytes of a connection that its sender gave up a minute late, and a process that stood still
reads what came meanwhile. Clocks of members differ, so each names its own in its reports. When a report arrives, the
sender's clock shows at least what it names; a deadline by that is never later than what the caller means.
"""

from dataclasses import dataclass, replace

from distro.model.ports import Clock

DEADLINE_HEADER = "Rollcall-Deadline"
"""Request header among our own kind: the text that ``CallDeadlines.text`` makes."""
RELAY_HEADER = "Rollcall-Relay"
"""Request header among our own kind: the call is for another member, which the sender cannot call itself (R12)."""
CLOCK_HEADER = "Rollcall-Clock"
"""Header of datums among our own kind, in requests and answers: the text that ``CallDeadlines.stamp`` makes."""
UNDER_WAY_MS_MAX = 30_000
"""A call that seems to have been under way for longer is dated so long ago: no member waits so long for an answer."""
STEP_MS = 128
"""Deadlines are rounded down to it, so that calls in a row have equal headers, which are parsed once."""
DRIFT_PER_MS = 1_000
"""Clocks that are set by slewing gain at most one of so many ms on each other, with 500 ppm in either direction."""
LATE_IN_A_ROW_MAX = 1_000
"""Reports that all show an earlier clock than those before: beyond so many, half an hour of them, the clock was set."""


@dataclass(frozen=True, slots=True)
class _PeerClock:
    """By how much the clock of one run of a peer is ahead of ours at least (ms); ``None`` for a run that names none.

    A report that waited, in a network or in a socket while this process stood still, shows too little, as may any
    number of them in a row. So what the quickest one showed counts, less what the clocks may have drifted since.
    """

    run: str = ""
    ahead_ms: int | None = None
    noted_ms: int = 0
    """When that was known, by our clock since the boot."""
    late: int = 0
    """How many reports have shown less since."""
    late_ahead_ms: int = 0
    """The most that those showed."""

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
        self._clocks: dict[str, _PeerClock] = {}
        """By peer, its run and that run's clock; another object after each report, as other threads read them."""

    def clock_ms(self) -> int:
        """This member's clock, as its reports name it."""
        return self._clock.boot_ms()

    def stamp(self) -> str:
        """When a call or an answer of this member is made. Shape: ``run ms``; its run, and its clock."""
        return f"{self._own_writer} {self._clock.boot_ms()}"

    def note(self, peer: str, writer: str, clock_ms: int | None) -> None:
        """Take the clock that a report names, or None, which has just arrived from this run of the peer."""
        if clock_ms is None or not writer:
            self._clocks.setdefault(peer, _UNHEARD)
            return
        known = self._clocks.get(peer, _UNHEARD)
        if known.run != writer:
            known = _PeerClock(writer)
        now_ms = self._clock.boot_ms()
        self._clocks[peer] = known.with_report(clock_ms - now_ms, now_ms)

    def is_heard(self, peer: str) -> bool:
        """Whether any report of the peer arrived here: only then is it known whether it names a clock."""
        return peer in self._clocks

    def clock_of(self, peer: str) -> tuple[str, int] | None:
        """The run of a peer, and what its clock shows now, or showed a moment ago; None while it has named none."""
        known, now_ms = self._clocks.get(peer, _UNHEARD), self._clock.boot_ms()
        ahead_ms = known.ahead_at(now_ms)
        return None if ahead_ms is None else (known.run, now_ms + ahead_ms)

    def text(self, peer: str, left_ms: int) -> str:
        """The deadline of a call that is given up after ``left_ms``; empty for a peer that named no clock.

        Shape: ``run ms``; the peer's run, and its clock.
        """
        known, now_ms = self._clocks.get(peer, _UNHEARD), self._clock.boot_ms()
        ahead_ms = known.ahead_at(now_ms)
        if ahead_ms is None:
            return ""
        end_ms = now_ms + left_ms + ahead_ms
        return f"{known.run} {end_ms - end_ms % STEP_MS}"

    def sent_ms(self, peer: str, text: str | None) -> int:
        """When a peer's call or answer was sent, by our monotonic clock; ``text``: its ``stamp``.

        Never later than now, and never earlier than it was but for the drift of the clocks; now for a run of the peer
        that named no clock.
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
        """Whether a ``stamp`` is of the run of which the peer's last report was."""
        return text is not None and self._clocks.get(peer, _UNHEARD).run == text.rpartition(" ")[0] != ""

    def is_over(self, text: str) -> bool:
        """Whether a call with this deadline may not be executed any more: it is late, or for another run."""
        return self.left_ms(text) < 0

    def left_ms(self, text: str) -> int:
        """How long a call with this deadline may still be executed; below 0 when it is late, or for another run."""
        writer, _, end = text.rpartition(" ")
        is_ours = writer == self._own_writer and _is_time(end)
        return int(end) - self._clock.boot_ms() if is_ours else -1


def _is_time(text: str) -> bool:
    """Whether it is a time in ms, of no more digits than any clock shows."""
    return text.isascii() and text.isdecimal() and len(text) < 20
