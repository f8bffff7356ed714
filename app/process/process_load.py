"""What this process and its machine are busy with, as operators are shown it."""

import os
import resource
import time


class ProcessLoad:
    """Each reading covers the time since the last one."""

    def __init__(self) -> None:
        self._seen = (time.monotonic(), 0.0)

    def read(self) -> dict[str, float]:
        """Shape: ``{"cpu": cores of this process, "load": of the machine, "mem": its used part, 0..1}``."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        now_s, used_s = time.monotonic(), usage.ru_utime + usage.ru_stime
        seen_s, seen_used_s = self._seen
        self._seen = (now_s, used_s)
        cpu = (used_s - seen_used_s) / max(now_s - seen_s, 0.001)
        return {"cpu": round(cpu, 4), "load": os.getloadavg()[0], "mem": _memory_used()}


def _memory_used() -> float:
    """The used part of the machine's memory, or -1.0 when unknown, as Nacos says it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        total, free = (int(fields[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return -1.0
    return round(1 - free / total, 4)
