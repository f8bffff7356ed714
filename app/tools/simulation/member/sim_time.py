"""The time of one run of a member: its clocks and its event loop, by the time of the world."""

from __future__ import annotations

import math
from collections.abc import Callable

from app.tools.simulation.member.sim_ports import InRun, Scheduler

WALL_MS = 1_800_000_000_000
"""The time of day at which worlds begin."""


class MemberClock:
    """One run's clocks: monotonic ones begin at any value; wall clocks differ and jump."""

    def __init__(self, world: Scheduler, start_ms: int, wall_ms: int) -> None:
        self._world = world
        self._start_ms = self._boot_ms = start_ms
        self._wall_ms = wall_ms

    def monotonic_ms(self) -> int:
        return self._start_ms + self._world.now_ms

    def boot_ms(self) -> int:
        return self._boot_ms + self._world.now_ms

    def boot_s(self) -> float:
        return self.boot_ms() / 1_000

    def wall_ms(self) -> int:
        return WALL_MS + self._wall_ms + self._world.now_ms

    def world_ms(self, monotonic_ms: int) -> int:
        return monotonic_ms - self._start_ms

    def jump(self, wall_ms: int) -> None:
        """Set the wall clock again."""
        self._wall_ms += wall_ms


class SimLoop:
    """The event loop of one run of a member, in virtual time."""

    def __init__(self, clock: MemberClock, in_run: InRun) -> None:
        """``in_run``: does work of this run after so many ms."""
        self._clock = clock
        self._in_run = in_run

    def time(self) -> float:
        return self._clock.monotonic_ms() / 1_000

    def call_soon(self, work: Callable[..., object], *args: object) -> SimTimer:
        return self.call_later(0, work, *args)

    call_soon_threadsafe = call_soon

    def call_later(self, delay_s: float, work: Callable[..., object], *args: object) -> SimTimer:
        timer = SimTimer()

        def run() -> None:
            if not timer.cancelled:
                work(*args)

        self._in_run(math.ceil(delay_s * 1_000), run)
        return timer


class SimTimer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
