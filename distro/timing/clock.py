"""The one reader of the time module."""

import time
from collections.abc import Callable
from functools import partial

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux alone has the first."""


def monotonic_s() -> float:
    """Monotonic time in seconds, as time-outs of Python's library have it."""
    return time.monotonic()


boot_s: Callable[[], float] = partial(time.clock_gettime, _BOOT_CLOCK)
"""Monotonic time in seconds that counts while the machine sleeps. Asked for with each request: no call of Python's."""


def process_ran_s() -> float:
    """For how long all threads of this process have run, in seconds of the processors."""
    return time.process_time()


class SystemClock:
    """The machine's clocks, in whole milliseconds."""

    def __init__(self) -> None:
        self._monotonic_ms = 0

    def monotonic_ms(self) -> int:
        """Time that never goes back, and counts while the machine sleeps: that is a pause, too (R9).

        Calls within one millisecond get the same object: the times of a million beats are some thousand in memory.
        """
        now_ms, last_ms = time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000, self._monotonic_ms
        if now_ms == last_ms:
            return last_ms
        self._monotonic_ms = now_ms
        return now_ms

    def boot_ms(self) -> int:
        """Time that never goes back and counts while the machine sleeps, the same in all processes of the machine."""
        return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000

    def wall_ms(self) -> int:
        """Ms since 1970 by the machine's clock."""
        return time.time_ns() // 1_000_000
