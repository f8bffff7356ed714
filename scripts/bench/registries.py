"""Measure three members of Rollcall, r-nacos and Nacos 3 side by side: the figures of the README's table.

In each turn every kind is started, measured and stopped, one after the other, so that only one of them runs at a time.
Measured are the time from start until all three serve, how long a change takes to become visible at the other two
(``convergence``), the CPU time of a light beat and of a list of 10 instances at one member (all processes of all
members added up), and the memory of a member with 1,000 instances (PSS). Prints a Markdown table of the medians.

    python -m scripts.bench.registries --rnacos PATH
"""

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from scripts.bench import convergence
from scripts.bench.http import sampled, say
from scripts.bench.idle import pss_mb
from scripts.bench.load import MODES, LoadError, Wrk, fill, find_wrk
from scripts.bench.peers import CannotStart, Target, nacos, our_cluster, rnacos_cluster
from scripts.support.arguments import add_port
from scripts.support.member_processes import CONTEXT_PATH

CONNECTIONS = 32
CHANGES = 150
FIGURES = {
    "a change shows at the other members, p50": "ms",
    "the same, p99": "ms",
    "CPU time of a beat": "µs",
    "CPU time of a list of 10 instances": "µs",
    "memory of a member": "MB",
    "start of three members": "s",
}
Start = Callable[[int, Path], AbstractContextManager[Target]]


def measured(start: Start, wrk: Wrk, options: argparse.Namespace) -> tuple[str, list[float]]:
    """Start three members and return their name, and the values of ``FIGURES``."""
    with tempfile.TemporaryDirectory(prefix="rollcall-bench-") as folder:
        begun_s = time.monotonic()
        with start(options.port, Path(folder)) as target:
            started_s = time.monotonic() - begun_s
            costs = [cost_us(target, mode, wrk, options) for mode in ("beat", "list10")]
            changes = argparse.Namespace(
                services=32, hosts=0, rate=0, changes=CHANGES, gap_s=0.05, timeout_s=options.timeout_s
            )
            found: dict[str, Any] = convergence.measure(
                [f"http://{one}{CONTEXT_PATH}" for one in target.addresses], changes
            )
            if found["lost"] or found["refused"]:
                say(f"{target.name}: {found['lost']} changes were not seen in time, {found['refused']} were refused")
            memory_mb = sum(map(pss_mb, target.pids())) / len(target.addresses)
            times_ms = [math.nan if found[name] is None else found[name] for name in ("p50_ms", "p99_ms")]
            return target.name, [*times_ms, *costs, memory_mb, started_s]


def cost_us(target: Target, name: str, wrk: Wrk, options: argparse.Namespace) -> float:
    """The CPU time of a request at the first member, in µs, after a run that makes a Java machine fast."""
    mode = MODES[name]
    fill(target.addresses, mode)
    wrk.run(target.addresses[0], mode, CONNECTIONS, options.break_in_s)
    fill(target.addresses, mode)
    return sampled(target, mode, wrk, CONNECTIONS, options.seconds).cpu_us


def table(samples: dict[str, list[list[float]]]) -> str:
    """The medians as a table of Markdown, a column for each kind."""
    lines = [f"| | {' | '.join(samples)} |", "|---" * (len(samples) + 1) + "|"]
    for number, (figure, unit) in enumerate(FIGURES.items()):
        medians = (statistics.median(turn[number] for turn in turns) for turns in samples.values())
        lines.append(f"| {figure} | {' | '.join(f'{one:,.1f} {unit}' for one in medians)} |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print; 2 when a kind could not be measured."""
    options = _options()
    starts: list[Start] = [our_cluster]
    if options.rnacos is not None:
        starts.append(partial(rnacos_cluster, options.rnacos))
    starts.append(partial(nacos, release=options.nacos, mode="cluster"))
    samples: dict[str, list[list[float]]] = {}
    failed = False
    try:
        wrk = Wrk(find_wrk())
    except LoadError as error:
        say(str(error))
        return 2
    for turn in range(options.turns):
        for start in starts:
            try:
                name, figures = measured(start, wrk, options)
            except (CannotStart, LoadError, OSError) as error:
                say(f"one kind is left out of turn {turn + 1}: {error}")
                failed = True
                continue
            samples.setdefault(name, []).append(figures)
            told = ", ".join(f"{one:,.1f} {unit}" for one, unit in zip(figures, FIGURES.values(), strict=True))
            say(f"turn {turn + 1}, {name}: {told}")
    print(table(samples))
    return 2 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rnacos", type=lambda text: Path(text).absolute(), metavar="PATH", help="r-nacos's program")
    parser.add_argument("--nacos", default="3", help="the line of releases of the real Nacos: 1.4, 2 or 3 (3)")
    parser.add_argument("--turns", type=int, default=3, help="turns from which the medians are taken (3)")
    parser.add_argument("--seconds", type=int, default=6, help="of each measured load (6)")
    parser.add_argument("--break-in-s", type=int, default=9, help="of the load before it (9)")
    parser.add_argument("--timeout-s", type=float, default=15.0, help="seconds after which a change counts as lost")
    add_port(parser, 400)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
