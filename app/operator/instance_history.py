"""What happened lately to single instances at this member, for questions that come after the fact."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from app.naming.model.keys import datum_key

INSTANCES_MAX = 10_000
"""Instances that are remembered; beyond it the one to which something happened the longest ago is forgotten."""
ENTRIES_MAX = 8
"""Of one instance."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to an instance here."""

    at_ms: int
    """Monotonic."""
    what: str


class InstanceHistory:
    """The last happenings of instances, by datum key and instance key. Thread-safe; memory only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], tuple[Happening, ...]] = OrderedDict()

    def note(self, key: str, instance_key: str, what: str, now_ms: int) -> None:
        """Keep what happened to an instance now."""
        with self._lock:
            kept = self._kept.pop((key, instance_key), ())[1 - ENTRIES_MAX :]
            self._kept[key, instance_key] = (*kept, Happening(now_ms, what))  # the latest last
            if len(self._kept) > INSTANCES_MAX:
                self._kept.popitem(last=False)

    def of(self, namespace: str, service: str, instance_key: str) -> list[Happening]:
        """What is remembered of an instance, the latest last."""
        with self._lock:
            return list(self._kept.get((datum_key(namespace, service), instance_key), ()))
