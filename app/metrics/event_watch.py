"""The numbers of events that the members have noted, for streams that tell when there are new ones."""

import threading
import time
from collections.abc import Callable, Mapping

LOOK_EVERY_S = 2.0
"""Between two looks at the other members while there are followers, however many."""
REVISION_CHARS_MAX = 64


class EventWatch:
    """The revision of each other member's events, looked at by a thread while streams are open. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}
        self._due_s = 0.0
        self._is_looking = False

    def revisions(self, look: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        """Return the last known revisions, and have ``look`` called on a thread if that is due. Returns at once.

        ``look``: asks the other members, and returns the revisions of those that answer.
        """
        with self._lock:
            is_due = not self._is_looking and time.monotonic() >= self._due_s
            self._is_looking = self._is_looking or is_due
            known = dict(self._known)
        if is_due:
            threading.Thread(target=self._look, args=(look,), name="http-events", daemon=True).start()
        return known

    def _look(self, look: Callable[[], Mapping[str, str]]) -> None:
        found: Mapping[str, str] = {}
        try:
            found = look()
        finally:
            with self._lock:
                # A member without an answer keeps its revision: to those who follow, nothing has changed.
                self._known |= {address: told[:REVISION_CHARS_MAX] for address, told in found.items()}
                self._is_looking, self._due_s = False, time.monotonic() + LOOK_EVERY_S
