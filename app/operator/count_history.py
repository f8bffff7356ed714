"""The numbers of services and instances at this node during the last hour, in memory, for a curve."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

SAMPLE_MS = 10_000
SAMPLES_MAX = 360
"""An hour of samples."""


@dataclass(frozen=True, slots=True)
class CountSample:
    """The numbers that readers saw at one time of the wall clock."""

    wall_ms: int
    services: int
    instances: int


class CountHistory:
    """Samples, the oldest first. One thread takes them; any thread reads."""

    def __init__(self, totals: Callable[[], tuple[int, int]], wall_ms: Callable[[], int]) -> None:
        """``totals``: the numbers of services and instances, as ``ServiceTable.totals``."""
        self._totals = totals
        self._wall_ms = wall_ms
        self._samples: deque[CountSample] = deque(maxlen=SAMPLES_MAX)

    def tick(self, now_ms: int) -> int:
        """Take a sample. Return when to take the next."""
        self._samples.append(CountSample(self._wall_ms(), *self._totals()))
        return now_ms + SAMPLE_MS

    def samples(self) -> list[CountSample]:
        """Return all samples, the oldest first."""
        return list(self._samples)

    def latest(self) -> CountSample | None:
        """Return the last sample; None before the first."""
        samples = self._samples
        return samples[-1] if samples else None
