"""Measure the audit of a small night as a separate process, in turns with another checkout.

Makes a dump with each checkout's own generator (three members, 2,000 instances, one fault of each class or none),
checks it with that checkout's command in a process of its own, and prints wall time, CPU time of all its processes, and
the peak memory of the largest.

    python -m scripts.bench.small_night --other ../before --turns 3
    python -m scripts.bench.small_night --other ../before --faults none
"""

import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--other", type=Path, help="another checkout, with an environment in .venv")
    parser.add_argument("--instances", default="2000")
    parser.add_argument("--faults", default="all=1", help="as of make_dumps (all=1); none for a night that agrees")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    # Spark's Java process is a grandchild: this process adopts it when Python has exited, and waits for it here.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    checkouts = {"this": Path.cwd(), **({"other": options.other.resolve()} if options.other else {})}
    with tempfile.TemporaryDirectory(prefix="small-night-") as folder:
        for name, checkout in checkouts.items():
            make = [python(checkout), "-m", "scripts.synthetic.make_dumps", "--instances", options.instances]
            more = ["--out", f"{folder}/{name}", "--seed", "7", "--faults", options.faults, "--date", "2026-11-21"]
            subprocess.run([*make, *more], cwd=checkout, check=True, stdout=subprocess.DEVNULL)
        taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in checkouts}
        for turn in range(options.turns):
            for name, checkout in checkouts.items():
                taken[name].append(check(checkout, f"{folder}/{name}", f"{folder}/out-{name}-{turn}"))
                wall_s, cpu_s, peak_mb = taken[name][-1]
                print(f"{name}: {wall_s:.1f} s, {cpu_s:.1f} CPU-s, {peak_mb:.0f} MB", flush=True)
    for name, turns in taken.items():
        wall_s, cpu_s, peak_mb = (statistics.median(values) for values in zip(*turns, strict=True))
        print(f"{name}, median of {len(turns)}: {wall_s:.1f} s, {cpu_s:.1f} CPU-s, {peak_mb:.0f} MB")
    return 0


def python(checkout: Path) -> str:
    return str(checkout / ".venv" / "bin" / "python")


def check(checkout: Path, dumps: str, out: str) -> tuple[float, float, float]:
    """Run one check; return seconds, CPU seconds and the peak memory in MB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.monotonic()
    process = subprocess.Popen(
        [python(checkout), "scripts/distro_check.py", "--dumps", dumps, "--out", out, "--master", "local[2]"],
        cwd=checkout,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peak_kb, wall_s = 0, 0.0
    while True:
        try:
            pid, _, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        if pid == process.pid:
            wall_s = time.monotonic() - began_s
        peak_kb = max(peak_kb, usage.ru_maxrss)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, cpu_s, peak_kb / 1024


if __name__ == "__main__":
    sys.exit(main())
