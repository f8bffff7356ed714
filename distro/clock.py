"""The one reader of the time module."""

import time


def monotonic_s() -> float:
    """For deadlines of library calls, which take seconds."""
    return time.monotonic()


class SystemClock:
    """The machine's clocks, in whole milliseconds."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
