"""The memory of this process against its limit, checked each second, and the level of refusals near the limit."""

import ctypes
import logging
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LOG = logging.getLogger(__name__)
WATCH_MS = 1_000
LEVELS = (0.85, 0.92)
"""The parts of the limit from which on new services, and then also new instances, are refused."""
BACK = 0.05
"""A level ends this share of the limit below its start. Otherwise each new service would switch it."""
UNLIMITED_BYTES = 1 << 60
"""Cgroup version 1 has a number near 2^63 for no limit."""
CGROUP, CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
STATM = Path("/proc/self/statm")
MIB = 1 << 20


def cgroup_bytes(cgroup: Path = CGROUP, root: Path = CGROUPS) -> int:
    """Return the lowest memory limit of this process's control group and its parents, version 2 or 1; 0 for none."""
    try:
        lines = cgroup.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return 0
    limits = []
    for line in lines:
        _, first, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if not first or not second:
            continue
        if not controllers:
            limits += _limits_up(root, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits_up(root / "memory", path, "memory.limit_in_bytes")
    return min(limits, default=0)


def _limits_up(root: Path, path: str, name: str) -> list[int]:
    """Return the limits at a path below ``root`` and above it.

    In a container, where the path may be missing, the root's.
    """
    found = []
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for depth in range(len(parts), -1, -1):
        try:
            text = root.joinpath(*parts[:depth], name).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdecimal() and 0 < int(text) < UNLIMITED_BYTES:
            found.append(int(text))
    return found


def resident_bytes(statm: Path = STATM) -> int:
    """Return the memory in use by this process (RSS); 0 if the system does not report it."""
    try:
        return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def trim_memory() -> None:
    """Make the C library give free memory back to the system if it can: glibc keeps the memory of large objects."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class MemoryWatch:
    """A task of the naming timer: reports each change of the level, from 0 to the number of ``LEVELS``."""

    def __init__(
        self,
        memory_mb: int,
        on_level: Callable[[int], None],
        used: Callable[[], int] = resident_bytes,
        of_cgroup: Callable[[], int] = cgroup_bytes,
    ) -> None:
        """``memory_mb``: the limit; 0 for the limit of the control group, if there is one."""
        self.bound_bytes = memory_mb * MIB or of_cgroup()
        self.used_bytes = 0
        self.level = 0
        self._on_level = on_level
        self._used = used

    def tick(self, now_ms: int) -> int:
        """Read the memory in use. Return when to call again (monotonic ms)."""
        if self.bound_bytes:
            self.used_bytes = self._used()
            level = self._level_of(self.used_bytes / self.bound_bytes)
            if level != self.level:
                self._log(level)
                self.level = level
                self._on_level(level)
        return now_ms + WATCH_MS

    def _level_of(self, part: float) -> int:
        reached = sum(part >= level for level in LEVELS)
        kept = sum(part >= level - BACK for level in LEVELS[: self.level])
        return max(reached, kept)

    def _log(self, level: int) -> None:
        used, bound = self.used_bytes // MIB, self.bound_bytes // MIB
        if not level:
            LOG.info("memory: %d of %d MiB: new services and instances are accepted again", used, bound)
            return
        what = ("new services", "new services and instances")[level - 1]
        LOG.warning("memory: %d of %d MiB are in use: %s are refused", used, bound, what)

    def counters(self) -> dict[str, int]:
        """Return the level, and the bytes in use and of the limit (0: none), under names of metrics in snake_case."""
        return {
            "limit_memory_level": self.level,
            "limit_memory_used_bytes": self.used_bytes,
            "limit_memory_bound_bytes": self.bound_bytes,
        }
