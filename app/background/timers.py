"""The naming-timer thread: calls periodic tasks when they are due."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from distro.model.ports import Clock

LOG = logging.getLogger(__name__)
Tick = Callable[[int], int]
"""Does the due work of a task. Takes the monotonic time in ms, and returns when to be called again."""
RETRY_MS = 1_000
BREATH_MS = 1
"""The pause between two calls of a tick that has more work at once, so that other threads run in between."""


class TimerWait:
    """The wait of a timer's thread between two turns. Ended by time, by an early turn, or by the end of the timer."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._is_over = self._is_woken = False

    def wait(self, timeout_s: float) -> bool:
        """Wait. Return whether the timer has ended."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_over or self._is_woken, timeout_s)
            self._is_woken = False
            return self._is_over

    def wake(self) -> None:
        """Begin the next turn now."""
        with self._condition:
            self._is_woken = True
            self._condition.notify_all()

    def set(self) -> None:
        """End the thread."""
        with self._condition:
            self._is_over = True
            self._condition.notify_all()


class NamingTimer:
    """The thread that calls all ticks. A tick that raises is logged, and called again after ``RETRY_MS``."""

    def __init__(self, clock: Clock, ticks: Sequence[Tick]) -> None:
        self._clock = clock
        self._due: dict[Tick, int] = dict.fromkeys(ticks, 0)
        self._stopped = TimerWait()
        self._catching_up: deque[threading.Event] = deque()
        """Events that are set when no task is due any more."""
        self._thread = threading.Thread(target=self._run, name="naming-timer", daemon=False)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stopped.wait(wait_s):
            for tick, due_ms in self._due.items():
                now_ms = self._clock.monotonic_ms()
                if due_ms <= now_ms:
                    self._due[tick] = self._call(tick, now_ms)
            left_ms = min(self._due.values(), default=RETRY_MS) - self._clock.monotonic_ms()
            wait_s = max(left_ms, BREATH_MS) / 1_000
            while self._catching_up and left_ms > 0:
                self._catching_up.popleft().set()

    def catch_up(self, timeout_s: float) -> bool:
        """Make the thread run all tasks that are due after the clock was put forward. Return whether that is done."""
        done = threading.Event()
        self._catching_up.append(done)
        self._stopped.wake()
        return done.wait(timeout_s)

    def _call(self, tick: Tick, now_ms: int) -> int:
        try:
            return tick(now_ms)
        except Exception:
            LOG.exception("a periodic task failed unexpectedly")
            return now_ms + RETRY_MS

    def stop(self, timeout_s: float) -> bool:
        """End the thread. Return whether it ended within ``timeout_s``. May be called twice."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()
