"""The watch over this node's machine: free descriptors, room on the disk, a steady wall clock."""

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LOG = logging.getLogger(__name__)
LOOK_MS = 1_000
CLOCK_STEP_MS = 2_000
"""A wall clock that moved by more than this against the monotonic one was set; NTP slews by 0.5 ms a second."""
DISK_LOW_BYTES = 64 * 1024 * 1024
DISK_LOW_PART = 0.05
"""The disk is low on room below ``DISK_LOW_BYTES``, or on a small disk below this part of it."""
NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})


@dataclass(slots=True)
class MachineStats:
    """The findings since the start, and of the last check."""

    wall_clock_steps: int = 0
    """The number of times that the wall clock was set, forward or back."""
    wall_clock_step_ms: int = 0
    """The last change of the wall clock; negative if it went back."""
    descriptors_used_up: int = 0
    """Checks that found no free descriptor, for this process or on the machine."""
    disk_free_bytes: int = -1
    """Room for this process on the disk of the data folder; -1 if it cannot be read."""
    disk_low: int = 0
    """1 while there is little room on that disk."""
    disk_readonly: int = 0
    """1 while that file system is mounted read-only."""


class MachineWatch:
    """Checks once a second, on the naming timer. Logs each fault once when it begins and once when it ends."""

    def __init__(self, data_dir: Path, wall_ms: Callable[[], int]) -> None:
        self.stats = MachineStats()
        self._data_dir = data_dir
        self._wall_ms = wall_ms
        self._offset_ms: int | None = None
        """The wall clock minus the monotonic one, at the last check."""
        self._without_descriptor = False
        self._disk_fault = ""

    def tick(self, now_ms: int) -> int:
        """Check everything. ``now_ms``: the monotonic time, which counts while the machine sleeps."""
        self._look_at_clock(now_ms)
        self._look_at_descriptors()
        self._look_at_disk()
        return now_ms + LOOK_MS

    def _look_at_clock(self, now_ms: int) -> None:
        offset_ms = self._wall_ms() - now_ms
        before_ms, self._offset_ms = self._offset_ms, offset_ms
        if before_ms is None or abs(offset_ms - before_ms) < CLOCK_STEP_MS:
            return
        self.stats.wall_clock_steps += 1
        self.stats.wall_clock_step_ms = step_ms = offset_ms - before_ms
        LOG.warning(
            "the wall clock was set %s by %.1f s; beats and time-outs use another clock and are not affected",
            "forward" if step_ms > 0 else "back",
            abs(step_ms) / 1_000,
        )

    def _look_at_descriptors(self) -> None:
        try:
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
            self.stats.descriptors_used_up += 1
            if not self._without_descriptor:
                whose = "this process" if error.errno == errno.EMFILE else "the machine"
                LOG.warning(
                    "all descriptors of %s are used up: new connections are closed, existing ones continue", whose
                )
            self._without_descriptor = True
            return
        if self._without_descriptor:
            LOG.warning("file descriptors are free again")
        self._without_descriptor = False

    def _look_at_disk(self) -> None:
        stats = self.stats
        try:
            found = os.statvfs(self._data_dir)
        except OSError as error:
            stats.disk_free_bytes = -1
            self._note_disk(f"cannot be inspected: {error.strerror}")
            return
        stats.disk_free_bytes = found.f_bavail * found.f_frsize
        low_bytes = min(DISK_LOW_BYTES, int(found.f_blocks * found.f_frsize * DISK_LOW_PART))
        stats.disk_readonly = int(bool(found.f_flag & os.ST_RDONLY))
        stats.disk_low = int(stats.disk_free_bytes < low_bytes)
        if stats.disk_readonly:
            self._note_disk("is on a file system that is mounted read-only")
        else:
            self._note_disk("is on a disk that is nearly full" if stats.disk_low else "")

    def _note_disk(self, fault: str) -> None:
        """Log a fault that begins, changes or ends."""
        if fault == self._disk_fault:
            return
        self._disk_fault = fault
        if fault:
            LOG.warning(
                "data folder %s %s (%d bytes free): durable changes may fail, everything else continues",
                self._data_dir,
                fault,
                self.stats.disk_free_bytes,
            )
        else:
            LOG.warning("data folder %s has room again, %d bytes", self._data_dir, self.stats.disk_free_bytes)
