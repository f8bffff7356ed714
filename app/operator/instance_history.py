"""Memories for questions after the fact.

Recent events of single instances, and the numbers of services and instances of the last hour, for a curve.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from app.naming.model.keys import datum_key
from distro.model.types import value

INSTANCES_MAX = 10_000
"""The most remembered instances. Beyond it, the one with the oldest last event is forgotten."""
ENTRIES_MAX = 8
"""The most events of one instance."""


@value
class Happening:
    """One event of an instance at this member."""

    at_ms: int
    """Monotonic time in ms."""
    what: str


class InstanceHistory:
    """The last events of instances, by datum key and instance key. Thread-safe; in memory only."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """``now_ms``: a monotonic clock."""
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], tuple[Happening, ...]] = OrderedDict()

    def note(self, key: str, instance_key: str, what: str = "deregistered by a call") -> None:
        """Record an event of an instance, at the current time."""
        instance = key, instance_key
        with self._lock:
            happening = Happening(self._now_ms(), what)
            known = self._kept.pop(instance, None)
            # The instance with the latest event is at the end.
            self._kept[instance] = (happening,) if known is None else (*known[1 - ENTRIES_MAX :], happening)
            if len(self._kept) > INSTANCES_MAX:
                self._kept.popitem(last=False)

    def of(self, namespace: str, service: str, instance_key: str) -> list[Happening]:
        """Return the remembered events of an instance, the latest last."""
        with self._lock:
            return list(self._kept.get((datum_key(namespace, service), instance_key), ()))


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
