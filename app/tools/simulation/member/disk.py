"""The disk of a simulated member: it outlives the member's runs, takes time, can be full, and loses pending writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.naming.records.record import Record
from app.tools.simulation.member.costs import CostMeter
from app.tools.simulation.member.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from app.tools.simulation.member.member import SimMember

COST_MS_MAX = 5
"""The longest time of one write on a healthy disk."""


class SimDisk(MemoryDisk):
    """The records of one member, across its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.cost_ms_max = COST_MS_MAX
        self.refused = 0
        """The number of writes that found the disk full."""
        self.meter: CostMeter | None = None
        """The meter that its transactions are charged to; with None they cost only what ``DiskQueue`` draws."""

    def write(self, records: list[Record], offset_ms: int) -> None:
        self._count()
        self._charge(len(records))
        super().write(records, offset_ms)

    def delete(self, keys: list[str]) -> None:
        self._count()
        self._charge(len(keys))
        super().delete(keys)

    def empty(self) -> None:
        self.full = False

    def hurry(self) -> None:
        self.cost_ms_max = COST_MS_MAX

    @property
    def is_slow(self) -> bool:
        return self.cost_ms_max > COST_MS_MAX

    def _charge(self, records: int) -> None:
        if self.meter is not None and records:
            self.meter.charge(self.meter.model.transaction_us)
            self.meter.charge(self.meter.model.record_us, records)

    def _count(self) -> None:
        self.refused += self.full


class DiskQueue:
    """The writes of one run that wait for the disk, one after the other: the slowest possible order."""

    def __init__(self, member: SimMember) -> None:
        self._member = member
        self._jobs: deque[tuple[Callable[[], None], Callable[[], None]]] = deque()

    @property
    def is_busy(self) -> bool:
        return bool(self._jobs)

    def put(self, begin: Callable[[], None], finish: Callable[[], None]) -> None:
        """Call ``begin`` when it is the write's turn, and ``finish``, which writes, after the disk's delay."""
        self._jobs.append((begin, finish))
        if len(self._jobs) == 1:
            self._begin()

    def _begin(self) -> None:
        self._jobs[0][0]()
        cost_ms = self._member.world.between(0, self._member.record_disk.cost_ms_max)
        self._member.in_run(cost_ms, self._finish)

    def _finish(self) -> None:
        refused = self._member.record_disk.refused
        self._jobs[0][1]()
        self._member.world.marks["write refused by a full disk"] += self._member.record_disk.refused - refused
        self._jobs.popleft()
        if self._jobs:
            self._begin()

    def crash(self) -> None:
        """End the process: the write under way reached the disk or is lost; waiting writes are lost."""
        if not self._jobs:
            return
        world = self._member.world
        if world.chance(0.5):
            world.marks["write on disk at the end of its process"] += 1
            self._jobs[0][1]()
        else:
            world.marks["write lost with its process"] += 1
        self._jobs.clear()
