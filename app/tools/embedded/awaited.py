"""Waiting for a node's expected state, which is checked after each change there, and a few times a second."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from app.tools.embedded.errors_of_use import WaitOver

LOOK_S = 0.02
"""The time between two looks, for changes without an event, such as an acknowledgement."""
T = TypeVar("T")


class ChangeSignal:
    """Wakes waiting threads when something has changed. Thread-safe."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    def note(self, _event: object) -> None:
        """Note that something has changed. Never waits for long."""
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def wait_until(self, look: Callable[[], T], timeout_s: float, *, expected: str, shown: Callable[[], object]) -> T:
        """Return the result of ``look``, as soon as that counts as true.

        Raises:
            WaitOver: it does not within ``timeout_s``; the text has ``expected`` and the result of ``shown``.
        """
        end_s = time.monotonic() + timeout_s
        while True:
            with self._condition:
                seen = self._count
            if found := look():
                return found
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise WaitOver(f"waited {timeout_s:g} s in vain for {expected}; there is: {shown()}")
            with self._condition:
                if self._count == seen:
                    self._condition.wait(min(left_s, LOOK_S))
