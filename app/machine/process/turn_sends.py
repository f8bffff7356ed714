"""TurnSends: sends the replies that a turn of the event loop made for many connections together at its end."""

import logging
from collections.abc import Callable

LOG = logging.getLogger(__name__)
TOGETHER_MAX = 16
"""The most connections that wait: the first of them should not wait for the requests of a thousand others."""


class TurnSends:
    """The functions to call at the end of a turn, each of which sends a reply. Used on the loop's thread.

    A reply that is sent as soon as it is made wakes a waiting client for each request. Replies sent one after
    another find the client awake, which halves the cost of a short call at both sides.
    """

    __slots__ = ("_is_due", "_soon", "_waiting")

    def __init__(self, soon: Callable[[Callable[[], None]], object]) -> None:
        """``soon``: calls a function in the loop's next turn, before more is read, as ``loop.call_soon`` does."""
        self._soon = soon
        self._waiting: list[Callable[[], None]] = []
        self._is_due = False

    def add(self, send: Callable[[], None]) -> None:
        """Call ``send`` at the end of this turn, or now if enough of them wait.

        It is called once each time, and must do nothing if the connection has ended or everything has been sent.
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
        """Send everything that waits."""
        waiting, self._waiting = self._waiting, []
        for send in waiting:
            try:
                send()
            except Exception:  # the others still get their replies
                LOG.exception("a reply could not be sent")
