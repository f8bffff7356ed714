"""TurnSends: what a turn of the event loop has made for many connections leaves in one go, when all is read."""

import logging
from collections.abc import Callable

LOG = logging.getLogger(__name__)
TOGETHER_MAX = 16
"""So many connections wait at most: the first of them should not wait for the requests of a thousand others."""


class TurnSends:
    """What is to be sent at the end of a turn, as functions that send it. Used on the loop's thread.

    A reply that is sent as soon as it is made wakes a client that waits for it, for each request anew. Sent one behind
    another they find it awake, which halves what a quick call costs here and there.
    """

    __slots__ = ("_is_due", "_soon", "_waiting")

    def __init__(self, soon: Callable[[Callable[[], None]], object]) -> None:
        """``soon``: has a function called in the loop's next turn, before more is read, as ``loop.call_soon``."""
        self._soon = soon
        self._waiting: list[Callable[[], None]] = []
        self._is_due = False

    def add(self, send: Callable[[], None]) -> None:
        """Have ``send`` called at the end of this turn, or now where enough of them wait.

        It is called once each time, and must do nothing where the connection has ended or all was sent meanwhile.
        """
        waiting = self._waiting
        waiting.append(send)
        if len(waiting) >= TOGETHER_MAX:
            self.send()
        elif not self._is_due:
            self._is_due = True
            self._soon(self._at_turn)

    def _at_turn(self) -> None:
        self._is_due = False
        self.send()

    def send(self) -> None:
        """Send all that waits."""
        waiting, self._waiting = self._waiting, []
        for send in waiting:
            try:
                send()
            except Exception:  # the others have their replies all the same
                LOG.exception("a reply could not be sent")
