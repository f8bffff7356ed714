"""R13: the deadline of a call in the clock of the member that is called, which refuses to execute the call later.

And the other way round: when a call was sent, for the ages in it, which count from then.

The kernel may deliver the bytes of a connection that its sender gave up a minute late, and a process that stood still
reads what came meanwhile. Clocks of members differ, so each names its own in its reports. When a report arrives, the
sender's clock shows at least what it names; a deadline by that is never later than what the caller means.
"""

from distro.ports import Clock

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
REPORTS_KEPT = 8
"""Of one peer. The latest of the clocks that they show counts; older ones drift."""


class CallDeadlines:
    """Makes deadlines for calls to peers, and reads those of calls from peers. Thread-safe."""

    def __init__(self, own_writer: str, clock: Clock) -> None:
        self._own_writer = own_writer
        self._clock = clock
        self._ahead: dict[str, tuple[str, tuple[int, ...]]] = {}
        """By peer: its run, and by how much its clock was ahead of ours at least, by its last reports (ms).

        Of a peer that names no clock: no run, and nothing.
        """

    def clock_ms(self) -> int:
        """This member's clock, as its reports name it."""
        return self._clock.boot_ms()

    def stamp(self) -> str:
        """When a call or an answer of this member is made. Shape: ``run ms``; its run, and its clock."""
        return f"{self._own_writer} {self._clock.boot_ms()}"

    def note(self, peer: str, writer: str, clock_ms: int | None) -> None:
        """Take the clock that a report names, or None, which has just arrived from this run of the peer."""
        if clock_ms is None or not writer:
            self._ahead.setdefault(peer, ("", ()))
            return
        run, ahead = self._ahead.get(peer, ("", ()))
        kept = ahead if run == writer else ()
        # A new tuple each time: other threads read the one that they found.
        self._ahead[peer] = (writer, (*kept, clock_ms - self._clock.boot_ms())[-REPORTS_KEPT:])

    def is_heard(self, peer: str) -> bool:
        """Whether any report of the peer arrived here: only then is it known whether it names a clock."""
        return peer in self._ahead

    def text(self, peer: str, left_ms: int) -> str:
        """The deadline of a call that is given up after ``left_ms``; empty for a peer that named no clock.

        Shape: ``run ms``; the peer's run, and its clock.
        """
        writer, ahead = self._ahead.get(peer, ("", ()))
        if not ahead:
            return ""
        end_ms = self._clock.boot_ms() + left_ms + max(ahead)
        return f"{writer} {end_ms - end_ms % STEP_MS}"

    def sent_ms(self, peer: str, text: str | None) -> int:
        """When a peer's call or answer was sent, by our monotonic clock; ``text``: its ``stamp``.

        Never later than now, and never earlier than it was but for the drift of the clocks; now for a run of the peer
        that named no clock.
        """
        now_ms = self._clock.monotonic_ms()
        run, ahead = self._ahead.get(peer, ("", ()))
        writer, _, clock_ms = (text or "").rpartition(" ")
        if not ahead or writer != run or not _is_time(clock_ms):
            return now_ms
        age_ms = self._clock.boot_ms() - (int(clock_ms) - max(ahead))
        return now_ms - min(max(age_ms, 0), UNDER_WAY_MS_MAX)

    def is_known_run(self, peer: str, text: str | None) -> bool:
        """Whether a ``stamp`` is of the run of which the peer's last report was."""
        return text is not None and self._ahead.get(peer, ("", ()))[0] == text.rpartition(" ")[0] != ""

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
