"""What the HTTP door counts, and how late its event loop is."""

from collections import deque
from dataclasses import asdict, dataclass

LAG_EVERY_S = 0.05
LAG_LATE_MS = 20.0
"""A loop that is later than this has been held up by something that does not belong on it."""
LAGS_KEPT = 1_200
"""A minute of them."""


@dataclass(slots=True)
class HttpStats:
    """Counters since the start, and what is now. Written by the loop's thread."""

    connections: int = 0
    connections_refused: int = 0
    """There were too many already."""
    requests_refused: int = 0
    """Bytes that are no request, or one over a limit."""
    pooled: int = 0
    """Calls that were answered in a pool of threads, and not on the loop."""
    pool_full: int = 0
    """Calls refused, as too many waited for a pool."""
    beats_collected: int = 0
    """Beats answered from a copy, for the owner to be told of."""
    loop_lag_max_ms: float = 0.0
    """The most by which the loop was late in the last minute."""
    loop_late: int = 0
    """How often it was late by more than ``LAG_LATE_MS``."""

    def as_dict(self) -> dict[str, int | float]:
        return asdict(self)


class LagMeter:
    """Watches how late a loop calls what is due."""

    def __init__(self, stats: HttpStats) -> None:
        self._stats = stats
        self._lags_ms: deque[float] = deque(maxlen=LAGS_KEPT)

    def next_s(self, expected_s: float, now_s: float) -> float:
        """Note a call that was due at ``expected_s``; return when to call next."""
        lag_ms = round(max(now_s - expected_s, 0.0) * 1_000, 3)
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
