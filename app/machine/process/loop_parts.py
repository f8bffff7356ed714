"""The begin and the end of a turn of the event loop.

At its begin ``LoopPauses`` notices whether the process stood still. At its end ``TurnSends`` sends the replies together
that the turn made for many connections.
"""

import logging
import math
from collections.abc import Callable
from typing import Protocol

from distro.timing.clock import boot_s

LOG = logging.getLogger(__name__)
WAITED_S = 1.0
"""After this process stood still, what is read for so long may have waited in its sockets."""
WAITED_S_MAX = 15.0
"""The same while connections wait to be accepted, as the loop accepts a few in a turn."""
TOGETHER_MAX = 16
"""The most connections that wait: the first of them should not wait for the requests of a thousand others."""


class PauseStats(Protocol):
    """Where the watch shows that calls may have waited."""

    stood_still: bool


class LoopPauses:
    """The event loop's watch for pauses of its process. All calls come from the loop's thread."""

    __slots__ = ("_awake_s", "_on_pause", "_pause_s", "_ran_s", "_stats", "_waited_until_max_s", "_waited_until_s")

    def __init__(
        self,
        stats: PauseStats,
        pause_ms: int,
        on_pause: Callable[[], None],
        awake_s: Callable[[], float] = boot_s,
    ) -> None:
        """``pause_ms``: a loop that did not run for longer stood still. ``on_pause``: called then; returns at once.

        ``awake_s``: a clock that counts a sleep of the machine too (the loop's does not).
        """
        self._stats = stats
        self._pause_s = pause_ms / 1_000
        self._on_pause = on_pause
        self._awake_s = awake_s
        self._ran_s = math.inf
        """When the loop last ran; the first ``ran`` begins the watch."""
        self._waited_until_s = self._waited_until_max_s = 0.0

    def check(self) -> None:
        """Notice a pause; call it before anything that came meanwhile is executed."""
        now_s = self._awake_s()
        if now_s - self._ran_s <= self._pause_s:
            return
        self._ran_s = now_s
        if not self._stats.stood_still:
            LOG.warning("this process stood still; calls that waited are refused")
        self._stats.stood_still = True
        self._waited_until_s = now_s + WAITED_S
        self._waited_until_max_s = now_s + WAITED_S_MAX
        self._on_pause()

    def ran(self, is_waiting: Callable[[], bool]) -> None:
        """Note that the loop runs; let calls be executed again once all that waited in the sockets is read.

        ``is_waiting``: returns whether connections wait to be accepted; asked after a pause alone.
        """
        self.check()
        self._ran_s = now_s = self._awake_s()
        if not self._stats.stood_still:
            return
        if is_waiting():
            self._waited_until_s = min(now_s + WAITED_S, self._waited_until_max_s)
        if now_s >= self._waited_until_s:
            self._stats.stood_still = False


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
