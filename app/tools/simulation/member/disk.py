"""The disk of a simulated member: it outlives the member's runs, takes time, can be full, and loses pending writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import orjson

from app.machine.storage.warm_log import FLUSH_MS, ReadDatums, WarmStore, decode_aged
from app.naming.model.nacos_errors import StorageError
from app.naming.records.record import Record
from app.naming.wire.datum_codec import InstanceListCodec
from app.tools.simulation.member.costs import CostMeter
from app.tools.simulation.member.sim_ports import InRun, PartWorld, Scheduler
from app.tools.simulation.member.sim_time import MemberClock
from distro.model.types import Datum

WallMs = Callable[[], int]
COST_MS_MAX = 5
"""The longest time of one write on a healthy disk."""


class MemoryDisk:
    """Keeps records as a disk would, across the ``Records`` that use it. A test can fill it up."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        """The records, with ``changed_ms`` by the wall clock."""
        self.full = False

    def read_all(self, offset_ms: int) -> Iterator[Record]:
        return iter([_moved(record, -offset_ms) for record in self.records.values()])

    def write(self, records: list[Record], offset_ms: int) -> None:
        if self.full:
            raise StorageError("the data folder does not accept the change: database or disk is full")
        self.records.update({record.key: _moved(record, offset_ms) for record in records})

    def write_received(self, records: list[Record], offset_ms: int) -> None:
        self.write(records, offset_ms)

    def sync(self) -> None:
        """Do nothing: the only copy of the records is this one."""

    def delete(self, keys: list[str]) -> None:
        if self.full:
            raise StorageError("the data folder does not accept the change: database or disk is full")
        for key in keys:
            del self.records[key]


def _moved(record: Record, by_ms: int) -> Record:
    return record if record.changed_ms is None else replace(record, changed_ms=record.changed_ms + by_ms)


class SimDisk(MemoryDisk):
    """The disk of one member, across its runs: its records, and its copy of instance lists."""

    def __init__(self) -> None:
        super().__init__()
        self.lists: dict[str, tuple[int, bytes]] = {}
        """The copy of instance lists, each with the wall clock of its time."""
        self.cost_ms_max = COST_MS_MAX
        self.refused = 0
        """The number of writes that found the disk full."""
        self.meter: CostMeter | None = None
        """The meter that its transactions are charged to; with None they cost only the time that ``DiskQueue``
        draws."""

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

    def __init__(self, world: Scheduler, disk: SimDisk, in_run: InRun) -> None:
        self._world, self._disk, self._in_run = world, disk, in_run
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
        cost_ms = self._world.between(0, self._disk.cost_ms_max)
        self._in_run(cost_ms, self._finish)

    def _finish(self) -> None:
        refused = self._disk.refused
        self._jobs[0][1]()
        self._world.marks["write refused by a full disk"] += self._disk.refused - refused
        self._jobs.popleft()
        if self._jobs:
            self._begin()

    def crash(self) -> None:
        """End the process: the write under way reached the disk or is lost; waiting writes are lost."""
        if not self._jobs:
            return
        world = self._world
        if world.chance(0.5):
            world.marks["write on disk at the end of its process"] += 1
            self._jobs[0][1]()
        else:
            world.marks["write lost with its process"] += 1
        self._jobs.clear()


class SimWarmStore(WarmStore):
    """The copy of one run's instance lists on its member's disk, in a world whose members keep one."""

    def __init__(
        self,
        disk: SimDisk,
        world: PartWorld,
        clock: MemberClock,
        in_run: InRun,
        folder: Path,
        codec: InstanceListCodec,
        read: ReadDatums,
        wall_ms: WallMs,
    ) -> None:
        super().__init__(folder, codec, read, wall_ms)
        self._copied, self._world, self._clock, self._in_run = disk.lists, world, clock, in_run
        self._lists, self._read_lists, self._now_wall_ms = codec, read, wall_ms
        self._changed: dict[str, None] = {}
        """Lists that changed since they were copied."""
        self.changed = self._note

    def _note(self, key: str) -> None:
        if self._world.warm and key not in self._changed:
            if not self._changed:
                self._in_run(FLUSH_MS, self._copy)
            self._changed[key] = None

    def _copy(self) -> None:
        rows, keys, self._changed = self._copied, list(self._changed), {}
        for key in keys:
            rows.pop(key, None)
        now_ms, wall_ms = self._clock.monotonic_ms(), self._now_wall_ms()
        for one in self._read_lists(keys):
            rows[one.key] = wall_ms, self._lists.encode(one, now_ms, True)

    def load(self, _age_ms_max: int, now_ms: int, *_known: object) -> Iterator[Datum]:
        """Return the datums of the last run, of any age."""
        rows, wall_ms = list(self._copied.items()), self._now_wall_ms()
        return (
            decode_aged(self._lists, key, orjson.loads(body), wall_ms - at_ms, now_ms) for key, (at_ms, body) in rows
        )
