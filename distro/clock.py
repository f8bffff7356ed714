"""The one reader of the time module."""

import time


def monotonic_s() -> float:
    """For deadlines of library calls, which take seconds."""
    return time.monotonic()


class SystemClock:
    """The machine's clocks, in whole milliseconds."""

    def __init__(self) -> None:
        self._monotonic_ms = 0

    def monotonic_ms(self) -> int:
        """One object for all who ask in the same millisecond: a million beats are some thousand numbers in memory."""
        now_ms, last_ms = time.monotonic_ns() // 1_000_000, self._monotonic_ms
        if now_ms == last_ms:
            return last_ms
        self._monotonic_ms = now_ms
        return now_ms

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
