"""The memory of this process against its bound, looked at each second: what is to be refused near it."""

import ctypes
import logging
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LOG = logging.getLogger(__name__)
WATCH_MS = 1_000
LEVELS = (0.85, 0.92)
"""The parts of the bound from which on new services, and new instances as well, are refused."""
BACK = 0.05
"""A level ends so much of the bound below where it begins, or each new service would switch it."""
UNLIMITED_BYTES = 1 << 60
"""Version 1 has a number near 2^63 for no limit."""
CGROUP, CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
STATM = Path("/proc/self/statm")
MIB = 1 << 20


def cgroup_bytes(cgroup: Path = CGROUP, root: Path = CGROUPS) -> int:
    """The least limit of memory of this process's control group and those above it, of version 2 or 1; 0 for none."""
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
    """The limits at a path below ``root`` and above it; in a container, where the path may not exist, of the root."""
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
    """The memory of this process that is in use now (RSS); 0 where the system does not tell."""
    try:
        return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def trim_memory() -> None:
    """Have the C library give free memory back to the system, where it can: glibc keeps what large objects took."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class MemoryWatch:
    """For the naming timer: tells a change of the level, from 0 to the number of ``LEVELS``."""

    def __init__(
        self,
        memory_mb: int,
        on_level: Callable[[int], None],
        used: Callable[[], int] = resident_bytes,
        of_cgroup: Callable[[], int] = cgroup_bytes,
    ) -> None:
        """``memory_mb``: the bound; 0 for that of the control group, if there is one."""
        self.bound_bytes = memory_mb * MIB or of_cgroup()
        self.used_bytes = 0
        self.level = 0
        self._on_level = on_level
        self._used = used

    def tick(self, now_ms: int) -> int:
        """Look at the memory; return when to come again (monotonic ms)."""
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
            LOG.info("memory: %d of %d MiB: new services and instances are taken again", used, bound)
            return
        what = ("new services", "new services and instances")[level - 1]
        LOG.warning("memory: %d of %d MiB are in use: %s are refused", used, bound, what)

    def counters(self) -> dict[str, int]:
        """The level, and the bytes in use and of the bound (0: none), under names of metrics in snake_case."""
        return {
            "limit_memory_level": self.level,
            "limit_memory_used_bytes": self.used_bytes,
            "limit_memory_bound_bytes": self.bound_bytes,
        }
