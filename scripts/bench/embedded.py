"""What a registry or a cluster in the process of a test takes: ``python -m scripts.bench.embedded``. Figures as JSON.

Each is a median in ms, of the clock on the wall and of this process's threads together: on a machine that does other
things, the second is what the first would be without them.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from app.testing import Cluster, Registry

MEMBERS = 3


class Laps:
    """Times by what was done in them."""

    def __init__(self) -> None:
        self._laps: dict[str, list[tuple[float, float]]] = {}

    def time(self, what: str, work: Callable[[], object]) -> None:
        """Do something and note its time."""
        begun_s, ran_s = time.perf_counter(), time.process_time()
        work()
        taken = (time.perf_counter() - begun_s, time.process_time() - ran_s)
        self._laps.setdefault(what, []).append(taken)

    def medians(self) -> dict[str, dict[str, float]]:
        """Shape: ``{what: {"wallMs", "cpuMs"}}``."""
        return {
            what: {
                "wallMs": round(median(wall for wall, _ in laps) * 1_000, 1),
                "cpuMs": round(median(cpu for _, cpu in laps) * 1_000, 1),
            }
            for what, laps in self._laps.items()
        }


def of_registry(laps: Laps) -> None:
    """A registry: its start, an expiry and its end."""
    registry = Registry()
    laps.time("registry: start", registry.start)
    registry.register("orders", "10.0.0.1")
    laps.time("registry: 31 s pass, one instance expires", lambda: registry.clock.advance(31))
    assert registry.instances("orders") == []
    laps.time("registry: end", registry.close)


def of_cluster(laps: Laps) -> None:
    """A cluster: its start, a change at all members, a partition, its end, and a death."""
    cluster = Cluster(MEMBERS)
    laps.time(f"cluster of {MEMBERS}: start", cluster.__enter__)
    try:
        cluster[0].register("orders", "10.0.0.1")
        laps.time("cluster: a change is at all members", lambda: cluster.wait_for_instances("orders"))
        cluster.partition(0)
        laps.time("cluster: a partition is known", cluster.settle)
        cluster.heal()
        laps.time("cluster: its end is known", cluster.settle)
        cluster.kill(0)
        laps.time("cluster: a death is known", cluster.settle)
    finally:
        laps.time("cluster: end", lambda: cluster.__exit__(None, None, None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    turns = parser.parse_args().turns
    laps = Laps()
    of_registry(Laps())  # the first one compiles schemas and patterns
    for _ in range(turns):
        of_registry(laps)
        of_cluster(laps)
    load = [sys.executable, "-c", "import app.testing, time; print(time.process_time())"]
    imported_s = float(subprocess.run(load, check=True, capture_output=True, text=True).stdout)
    print(json.dumps({**laps.medians(), "import of app.testing": {"cpuMs": round(imported_s * 1_000, 1)}}, indent=1))


if __name__ == "__main__":
    main()
