"""The one reader of the time module."""

import time
from collections.abc import Callable
from functools import partial

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_BOOTTIME exists on Linux alone."""


def monotonic_s() -> float:
    """Return monotonic time in seconds, as the time-outs of Python's library use it."""
    return time.monotonic()


boot_s: Callable[[], float] = partial(time.clock_gettime, _BOOT_CLOCK)
"""Monotonic time in seconds that counts while the machine sleeps. Read for each request, so no Python function."""


def process_ran_s() -> float:
    """Return for how long all threads of this process have run, in seconds of processor time."""
    return time.process_time()


def thread_ran_s() -> float:
    """Return for how long the calling thread has run, in seconds of processor time."""
    return time.thread_time()


class SystemClock:
    """The machine's clocks, in whole milliseconds."""

    boot_s = staticmethod(boot_s)

    def __init__(self) -> None:
        self._monotonic_ms = 0

    def monotonic_ms(self) -> int:
        """Return time that never goes back, and counts while the machine sleeps: such a sleep is a pause, too (R9).

        Calls within one millisecond get the same object: the times of a million beats are some thousand objects.
        """
        now_ms, last_ms = time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000, self._monotonic_ms
        if now_ms == last_ms:
            return last_ms
        self._monotonic_ms = now_ms
        return now_ms

    def boot_ms(self) -> int:
        """Return time that never goes back and counts while the machine sleeps, the same in all its processes."""
        return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000

    def wall_ms(self) -> int:
        """Return ms since 1970 by the machine's clock."""
        return time.time_ns() // 1_000_000
