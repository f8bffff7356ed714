"""TurnWatch: the time that the turns of the engine's thread take: counted, and the slow ones named in the log."""

import logging
from collections.abc import Callable

from distro.model.monitor import EngineTimes

LOG = logging.getLogger(__name__)
SLOW_S = 0.05
"""No turn may take longer with 100,000 services (R11)."""
WAITED_S = 1.0
"""A slow turn that did little itself waited for a processor or a lock: while a machine starts several members, turns of
0.2 s do. So long a wait is worth a line all the same."""
LOG_INTERVAL_S = 10.0
NAMED_PARTS = 3

Part = str | Callable[..., object]
"""A part of a turn: in words, or the event itself."""


class TurnWatch:
    """The parts of the present turn, and how long each took. For the engine's thread alone."""

    def __init__(self, times: EngineTimes, clock_s: Callable[[], float], ran_s: Callable[[], float]) -> None:
        """``ran_s``: the processor time of the calling thread, which is the engine's."""
        self._times = times
        self._clock_s, self._ran_s = clock_s, ran_s
        self._begun_s = self._at_s = clock_s()
        self._ran_before_s = 0.0
        self._parts: list[tuple[float, Part]] = []
        self._logged_s: float | None = None
        self._unlogged = 0

    def begin(self) -> None:
        """A turn begins."""
        self._begun_s = self._at_s = self._clock_s()
        self._ran_before_s = self._ran_s()
        self._parts.clear()

    def did(self, part: Part) -> float:
        """The turn has done this since it began, or since the part before; return its seconds so far."""
        now_s = self._clock_s()
        self._parts.append((now_s - self._at_s, part))
        self._at_s = now_s
        return now_s - self._begun_s

    def end(self) -> None:
        """The turn is over: count it, and log a slow one, but not more often than once in ``LOG_INTERVAL_S``.

        A slow turn worked for longer than ``SLOW_S``, or waited for longer than ``WAITED_S``.
        """
        now_s = self._clock_s()
        taken_s = now_s - self._begun_s
        self._times.note_turn(taken_s)
        if taken_s <= SLOW_S:
            return
        worked_s = self._ran_s() - self._ran_before_s
        if worked_s <= SLOW_S and taken_s <= WAITED_S:
            return
        if self._logged_s is not None and now_s - self._logged_s < LOG_INTERVAL_S:
            self._unlogged += 1
            return
        slowest = sorted(self._parts, key=lambda part: -part[0])[:NAMED_PARTS]
        told = ", ".join(f"{name_of(part)} {part_s * 1_000:.0f} ms" for part_s, part in slowest)
        more = f"; {self._unlogged} more since the last such line" if self._unlogged else ""
        text = "a turn of the engine took %.0f ms, %.0f ms of it at work: %s%s"
        LOG.warning(text, taken_s * 1_000, worked_s * 1_000, told or "nothing", more)
        self._logged_s, self._unlogged = now_s, 0


def name_of(part: Part) -> str:
    """A part of a turn in words; an event by the calls that it makes on the protocol."""
    if isinstance(part, str):
        return part
    code = getattr(part, "__code__", None)
    return " ".join(code.co_names) if code is not None and code.co_names else getattr(part, "__name__", "an event")
