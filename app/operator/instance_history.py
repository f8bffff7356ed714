"""Recent events of single instances at this member, for questions after the fact."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from app.naming.model.keys import datum_key

INSTANCES_MAX = 10_000
"""The most remembered instances. Beyond it, the one with the oldest last event is forgotten."""
ENTRIES_MAX = 8
"""The most events of one instance."""


@dataclass(frozen=True, slots=True)
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
        with self._lock:
            kept = self._kept.pop((key, instance_key), ())[1 - ENTRIES_MAX :]
            self._kept[key, instance_key] = (*kept, Happening(self._now_ms(), what))  # the latest event is at the end
            if len(self._kept) > INSTANCES_MAX:
                self._kept.popitem(last=False)

    def of(self, namespace: str, service: str, instance_key: str) -> list[Happening]:
        """Return the remembered events of an instance, the latest last."""
        with self._lock:
            return list(self._kept.get((datum_key(namespace, service), instance_key), ()))
