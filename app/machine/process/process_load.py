"""CPU and memory of this process and its machine, for metrics and operators."""

import os
import resource
import time


class ProcessLoad:
    """Measures the load. Each reading covers the time since the previous one."""

    def __init__(self) -> None:
        self._seen = (time.monotonic(), 0.0)

    def read(self) -> dict[str, float]:
        """Return ``{"cpu": cores used by this process, "load": of the machine, "mem": its used share, 0..1}``."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        now_s, used_s = time.monotonic(), usage.ru_utime + usage.ru_stime
        seen_s, seen_used_s = self._seen
        self._seen = (now_s, used_s)
        cpu = (used_s - seen_used_s) / max(now_s - seen_s, 0.001)
        return {"cpu": round(cpu, 4), "load": os.getloadavg()[0], "mem": _memory_used()}


def _memory_used() -> float:
    """Return the used share of the machine's memory; -1.0 if unknown, as in Nacos."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        total, free = (int(fields[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return -1.0
    return round(1 - free / total, 4)
