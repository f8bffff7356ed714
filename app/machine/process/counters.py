"""The node's counters, from all its parts, under the names of the metrics; one part is the load of its process."""

import os
import resource
import time
from collections.abc import Callable, Mapping

Source = Callable[[], Mapping[str, int | float]]
"""Reads the counters of one part, by name in snake_case."""


class Counters:
    """Reads all sources at each call. Sources are added before the node starts; any thread may call."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add(self, source: Source) -> None:
        """Add a source, to be read from now on."""
        self._sources.append(source)

    def by_name(self) -> dict[str, int | float]:
        """Return each counter under its own name."""
        return {name: count for source in self._sources for name, count in source().items()}

    def __call__(self) -> dict[str, int | float]:
        """Return each counter under its metric's name, in the order of the sources: ``syncSent`` for ``sync_sent``."""
        return {_camel_case(name): count for name, count in self.by_name().items()}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


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
