"""The clock of embedded nodes: the machine's clock plus the time that a test has let pass."""

import threading
from collections.abc import Callable
from contextlib import suppress

from app.tools.embedded.errors_of_use import UseError
from distro.timing.clock import SystemClock

STEP_MS_MAX = 1_000
"""The longest step: after a longer one a node takes its process for paused, and gives instances the time again (R9)."""
CATCH_UP_S = 60.0
"""The time-out for the work that one step makes due: a few milliseconds, and over 10 s on a very busy machine."""

CatchUp = Callable[[float], bool]
"""Does all work that is due by the clock, within some seconds; returns whether it is done."""


class ClockAhead:
    """A clock that runs by itself, and that ``advance`` puts forward at once. Thread-safe."""

    def __init__(self) -> None:
        self._machine = SystemClock()
        self._ahead_ms = 0
        self._step_ms = STEP_MS_MAX
        self._lock = threading.Lock()
        """Held while time passes, so that of two calls one comes after the other."""
        self._followers: list[CatchUp] = []

    # --- what nodes read -------------------------------------------------------------------------

    def monotonic_ms(self) -> int:
        """Return a time that never goes back."""
        return self._machine.monotonic_ms() + self._ahead_ms

    def boot_ms(self) -> int:
        """Return the same time, as the members of a cluster send it to each other."""
        return self._machine.boot_ms() + self._ahead_ms

    def boot_s(self) -> float:
        """Return the same time in seconds."""
        return self._machine.boot_s() + self._ahead_ms / 1_000

    def wall_ms(self) -> int:
        """Return the ms since 1970."""
        return self._machine.wall_ms() + self._ahead_ms

    # --- what tests do ---------------------------------------------------------------------------

    @property
    def ahead_s(self) -> float:
        """The seconds that it is ahead of the machine's clock."""
        return self._ahead_ms / 1_000

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass, in steps of at most one; in each step the nodes do the work that is due.

        When it returns, the nodes have noticed missing beats and removed instances, and the changes are on their way
        to subscribers and members.

        Raises:
            UseError: the seconds are negative, or a node does not follow.
        """
        if not seconds >= 0:
            raise UseError(f"advance({seconds}): time only moves forward; give the seconds that are to pass")
        left_ms = round(seconds * 1_000)
        with self._lock:
            while left_ms > 0:
                step_ms = min(left_ms, self._step_ms)
                self._ahead_ms += step_ms
                left_ms -= step_ms
                self._settle()

    def _settle(self) -> None:
        for catch_up in list(self._followers):
            # A node that ends in the meantime has nothing to catch up with.
            if not catch_up(CATCH_UP_S) and catch_up in self._followers:
                raise UseError(f"a node did not catch up within {CATCH_UP_S:.0f} s; its log may say why")

    def follow(self, catch_up: CatchUp, pause_ms: int) -> None:
        """Have a node do its due work in each step from now on; ``pause_ms``: the step that it takes for a pause."""
        self._step_ms = min(self._step_ms, max(pause_ms // 2, 1))
        self._followers.append(catch_up)

    def unfollow(self, catch_up: CatchUp) -> None:
        """Let a node end. May be called twice."""
        with suppress(ValueError):
            self._followers.remove(catch_up)
