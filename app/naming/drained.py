"""Instances that an operator drained: their clients keep beating, and must not bring them back."""

from collections import OrderedDict
from threading import Lock

KEPT_MS = 60_000
"""How long a drained instance is remembered after the last beat that was ignored for it."""
DRAINED_MAX = 50_000

DrainedKey = tuple[str, str, str]
"""Namespace, full service name, instance key."""


class DrainedInstances:
    """The instances that were recently drained. Thread-safe. A registration makes an instance an ordinary one again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._until_ms: OrderedDict[DrainedKey, int] = OrderedDict()
        self.any = False
        """True if there are any. Checked for each registration."""

    def add(self, key: DrainedKey, now_ms: int) -> None:
        """Ignore the beats of an instance from now on. Beyond ``DRAINED_MAX`` the oldest is forgotten."""
        with self._lock:
            self.any = True
            self._until_ms[key] = now_ms + KEPT_MS
            self._until_ms.move_to_end(key)
            while len(self._until_ms) > DRAINED_MAX or next(iter(self._until_ms.values())) < now_ms:
                self._until_ms.popitem(last=False)

    def ignores(self, key: DrainedKey, now_ms: int) -> bool:
        """Return whether to ignore the beat of an instance that is not stored, but answer it.

        Each such beat prolongs this.
        """
        with self._lock:
            until_ms = self._until_ms.get(key)
            if until_ms is None:
                return False
            if until_ms < now_ms:
                self._drop(key)
                return False
            self._until_ms[key] = now_ms + KEPT_MS
            self._until_ms.move_to_end(key)
            return True

    def forget(self, key: DrainedKey) -> None:
        """Make the instance an ordinary one again: it was registered."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: DrainedKey) -> None:
        self._until_ms.pop(key, None)
        self.any = bool(self._until_ms)
