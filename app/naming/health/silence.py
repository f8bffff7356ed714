"""The silence of instances as the health check counts it: since the last beat or the claim, less pauses."""

from app.naming.model.model import BEAT_INTERVAL_MS, NEVER_MS, Service
from distro.model.types import Version

PAUSES_REMEMBERED = 16
RETURN_MS = BEAT_INTERVAL_MS + 1_000
"""After the return of a member, the beats that are sent to it are known here within this time."""
CLOSED_MS_MAX = 60_000
"""How long a dump excuses a health check that may not run, or is late: one that never runs must show in the audit."""


class Silence:
    """The times that silence is counted from. The health check's thread writes them; any thread reads."""

    __slots__ = (
        "behind_ms",
        "closed_since_ms",
        "cut_off_since_ms",
        "expected_ms",
        "opened_ms",
        "pause_ms",
        "pauses",
        "refused_ms",
        "returned_ms",
    )

    def __init__(self) -> None:
        self.pause_ms = 2_000
        """A tick that is later than this was paused."""
        self.pauses: list[tuple[int, int]] = []
        """When each of the last pauses ended, and its length."""
        self.expected_ms: int | None = None
        """The time of the next tick."""
        self.cut_off_since_ms: int | None = None
        self.returned_ms = NEVER_MS
        self.behind_ms = 0
        self.refused_ms = NEVER_MS
        self.closed_since_ms: int | None = None
        """Since when nothing may be checked; None if it may."""
        self.opened_ms = NEVER_MS
        """When checks were last allowed after they were not, as after a change of the members."""

    def note_pause(self, now_ms: int) -> bool:
        """Note a pause if this tick is late. Return whether an older pause was forgotten for it."""
        if self.expected_ms is not None and now_ms - self.expected_ms > self.pause_ms:
            return self.add_pause(now_ms, now_ms - self.expected_ms)
        return False

    def add_pause(self, now_ms: int, length_ms: int) -> bool:
        """Note a pause that ends now. Return whether an older one was forgotten for it, and counts as silence again."""
        self.pauses.append((now_ms, length_ms))
        if len(self.pauses) <= PAUSES_REMEMBERED:
            return False
        del self.pauses[:-PAUSES_REMEMBERED]
        return True

    def follow_gate(self, now_ms: int, *, may_check: bool) -> None:
        """Note whether anything may be checked now."""
        if not may_check:
            self.closed_since_ms = now_ms if self.closed_since_ms is None else self.closed_since_ms
        elif self.closed_since_ms is not None:
            self.closed_since_ms, self.opened_ms = None, now_ms

    def paused_ms(self, since_ms: int) -> int:
        """Return the length of the pauses that ended since then."""
        return sum([length for resumed_ms, length in self.pauses if since_ms < resumed_ms])

    def counted_ms(self, service: Service, beat_ms: int, now_ms: int) -> int:
        """Return how long an instance has sent no beat, without this process's pauses (R9).

        In a service that was taken over the time counts from the claim: beats went to the former owner before. Time in
        which a member refuses beats on purpose does not count either.
        """
        since_ms = max(beat_ms, service.claimed_ms, self.refused_ms)
        return now_ms - since_ms - self.paused_ms(since_ms)

    def judged_ms(self, service: Service, version: Version, writer: str, beat_ms: int, now_ms: int) -> int:
        """Return the counted silence without the time in which the health check may not judge the instance yet.

        ``version``: of the instance list; ``writer``: this run of this member. Of a list that this member owns and has
        not claimed yet, the time counts from the change that made it the owner.
        """
        until_ms = now_ms
        if self.cut_off_since_ms is not None and beat_ms < self.cut_off_since_ms:
            until_ms = min(until_ms, self.cut_off_since_ms)
        if beat_ms < self.returned_ms and now_ms < self.returned_ms + RETURN_MS:
            until_ms = min(until_ms, self.returned_ms)
        for stopped_ms, slack_ms in ((self.closed_since_ms, 0), (self.expected_ms, self.pause_ms)):
            if stopped_ms is not None and slack_ms < now_ms - stopped_ms <= CLOSED_MS_MAX:
                until_ms = min(until_ms, stopped_ms)
        ours_ms = service.claimed_ms if version.writer == writer else self.opened_ms
        since_ms = max(beat_ms, ours_ms, self.refused_ms)
        return max(until_ms - since_ms - self.paused_ms(since_ms) - self.behind_ms, 0)
