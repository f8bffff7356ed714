"""Measure an idle node: memory and CPU of all its processes, and the time from start to ready.

Memory is PSS (each shared page counted in part), from /proc. Prints one JSON line for a standalone node and one for a
member of three.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from scripts.support.arguments import add_port
from scripts.support.member_processes import MemberProcess, local_members, start_all

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def pss_mb(pid: int) -> float:
    """The proportional share of memory of one process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 1024


def cpu_s(pid: int) -> float:
    """The CPU time of one process since its start."""
    # After the name, which is in brackets and may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def start_times_s(members: list[MemberProcess], starts: int) -> list[float]:
    """Start all members several times; return how long each start took until the last member served."""
    times_s = []
    for start in range(starts):
        begun_s = time.perf_counter()
        start_all(members)
        times_s.append(time.perf_counter() - begun_s)
        if start < starts - 1:
            for member in members:
                member.kill_all()
    return times_s


def join_time_s(members: list[MemberProcess]) -> float:
    """Return how long the last member takes to rejoin the running ones."""
    members[-1].kill_all()
    begun_s = time.perf_counter()
    members[-1].start()
    members[-1].wait_ready()
    return time.perf_counter() - begun_s


def measure(members: list[MemberProcess], options: argparse.Namespace) -> dict[str, object]:
    """Start the members some times, let them idle, and return the cost of one member."""
    times_s = start_times_s(members, options.starts)
    joined_s = [join_time_s(members) for _ in range(options.starts)] if len(members) > 1 else []
    time.sleep(options.settle_s)
    pids = members[0].pids()
    before_s, begun_s = sum(map(cpu_s, pids)), time.perf_counter()
    time.sleep(options.idle_s)
    used_s, passed_s = sum(map(cpu_s, pids)) - before_s, time.perf_counter() - begun_s
    result: dict[str, object] = {
        "pss_mb": [round(pss_mb(pid), 1) for pid in pids],
        "pss_total_mb": round(sum(map(pss_mb, pids)), 1),
        "cpu_s_per_minute": round(used_s / passed_s * 60, 2),
        "start_to_ready_s": [round(one, 2) for one in sorted(times_s)],
        "start_to_ready_median_s": round(statistics.median(times_s), 2),
    }
    if joined_s:
        result["join_to_ready_s"] = [round(one, 2) for one in sorted(joined_s)]
    return result


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--settle-s", type=float, default=15.0, help="seconds from the last start to the first reading")
    parser.add_argument("--idle-s", type=float, default=60.0, help="seconds for which the CPU time is counted")
    add_port(parser)
    return parser.parse_args()


def main() -> int:
    """Measure a standalone node, then a member of three."""
    options = _options()
    for count in (1, 3):
        with (
            tempfile.TemporaryDirectory(prefix="rollcall-bench-") as folder,
            local_members(count, options.port, Path(folder)) as members,
        ):
            print(json.dumps({"members": count, **measure(members, options)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
