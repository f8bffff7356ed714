"""Counters of the HTTP frontend, and the lag of its event loop."""

from collections import deque
from dataclasses import dataclass

from distro.model.monitor import Timings

LAG_EVERY_S = 0.05
LAG_LATE_MS = 20.0
"""The largest lag of a free loop: a loop that is later was kept busy by work that does not belong on it."""
LAGS_KEPT = 1_200
"""The measurements of one minute."""


@dataclass(slots=True)
class HttpStats:
    """Counters since the start, and the connections now. Written by the loop's thread."""

    connections: int = 0
    connections_refused: int = 0
    """Connections closed at once, because there were too many."""
    requests_refused: int = 0
    """Requests that were malformed, too slow or over a limit."""
    pages_refused: int = 0
    """Refused requests of browsers that a page of another site may have caused; also in ``requests_refused``."""
    pooled: int = 0
    """Calls answered in a pool of threads, and not on the loop."""
    pool_full: int = 0
    """Calls refused, because too many waited for a pool."""
    beats_collected: int = 0
    """Beats answered from a copy, and sent to the owner in a batch."""
    loop_lag_max_ms: float = 0.0
    """The largest lag of the loop (ms) in the last minute."""
    too_late: int = 0
    """Writes and beats refused, because they were given up or may have waited while this process stood still."""
    stood_still: bool = False
    """This process went on a moment ago after it had stood still: what is read now may have waited."""
    loop_late: int = 0
    """Measurements with a lag of more than ``LAG_LATE_MS``."""


class LagMeter:
    """Measures by how much an event loop is late with its timers."""

    def __init__(self, stats: HttpStats, lags: Timings | None = None) -> None:
        """``lags``: gets every measurement."""
        self._stats = stats
        self._all = lags or Timings()
        self._lags_ms: deque[float] = deque(maxlen=LAGS_KEPT)

    def next_s(self, expected_s: float, now_s: float) -> float:
        """Count a timer that was due at ``expected_s`` and ran at ``now_s``; return when the next one is due."""
        lag_ms = round(max(now_s - expected_s, 0.0) * 1_000, 3)
        self._all.add(max(now_s - expected_s, 0.0))
        lags = self._lags_ms
        leaves_ms = lags[0] if len(lags) == lags.maxlen else -1.0
        lags.append(lag_ms)
        stats = self._stats
        if lag_ms >= stats.loop_lag_max_ms:
            stats.loop_lag_max_ms = lag_ms
        elif leaves_ms >= stats.loop_lag_max_ms:
            stats.loop_lag_max_ms = max(lags)
        if lag_ms > LAG_LATE_MS:
            stats.loop_late += 1
        return now_s + LAG_EVERY_S
