"""Notices that this process stood still, so that calls that waited meanwhile are refused (R13)."""

import logging
import math
from collections.abc import Callable
from typing import Protocol

from distro.timing.clock import boot_s

WAITED_S = 1.0
"""After this process stood still, what is read for so long may have waited in its sockets."""
WAITED_S_MAX = 15.0
"""The same while connections wait to be accepted, as the loop accepts a few in a turn."""

LOG = logging.getLogger(__name__)


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
