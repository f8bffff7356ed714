"""Play scenarios: ``python -m tests.chaos``, or some by name: ``python -m tests.chaos split bridge --runs 3``."""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import Any

from tests.chaos.checker import Kind
from tests.chaos.foreign_checker import ForeignKind
from tests.chaos.linked_scenarios import LINKED
from tests.chaos.load import Amounts
from tests.chaos.network import FOLDER, Unable, run_in_own_namespaces, unable
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.two_clusters import BRIEF_LINKED_AMOUNTS, LINKED_AMOUNTS, LinkedResult, LinkedScenario, play_linked
from tests.chaos.world import BRIEF, BRIEF_AMOUNTS, Pace, Result, Scenario, play

SHOWN_MAX = 5
"""Breaches of a kind that ``--verbose`` prints."""
HEAD = (
    f"{'scenario':16}"
    + "".join(f"{kind.value:>12}" for kind in Kind)
    + f"{'of':>6}{'agree s':>9}{'refused':>10}{'no answer':>11}{'20404':>7}{'late s':>8}"
)
LINKED_HEAD = (
    f"{'scenario':16}{'own':>6}"
    + "".join(f"{kind.value:>12}" for kind in ForeignKind)
    + f"{'lists':>8}{'timed':>7}{'stale s':>9}{'agree s':>9}{'gone s':>8}{'refused':>10}{'no answer':>11}{'late s':>8}"
)
ALL: dict[str, Scenario | LinkedScenario] = {**SCENARIOS, **LINKED}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__, epilog="The exit code is 1 after a breach or a failure."
    )
    parser.add_argument("names", nargs="*", metavar="scenario", help="all that are no proofs, unless said")
    parser.add_argument("--list", action="store_true", help="tell which scenarios there are, and play none")
    parser.add_argument("--runs", type=int, default=1, help="play each so many times")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next has the next")
    parser.add_argument("--lasting", type=int, help="instances that beat all the time (500; 40 when brief)")
    parser.add_argument("--brief", action="store_true", help="shorter times and less load")
    parser.add_argument("--rollcall", type=Path, help="another rollcall than this environment's")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures and breaches to a file")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep the members' logs of each run there")
    parser.add_argument("--verbose", action="store_true", help="print breaches")
    options = parser.parse_args()
    if missing := [name for name in options.names if name not in ALL]:
        parser.error(f"no scenario is called {', '.join(missing)}")
    return options


def main() -> int:
    """Play what the command line says, in namespaces of our own; return the exit code."""
    options = _options()
    if options.list:
        for one in ALL.values():
            print(f"{one.name:16} {one.about}")
        return 0
    if FOLDER in os.environ:
        return _play_all(options, Path(os.environ[FOLDER]))
    if reason := unable():
        print(reason, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return run_in_own_namespaces(["-m", "tests.chaos", *sys.argv[1:]])
    except KeyboardInterrupt:
        return 130


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _play_all(options: argparse.Namespace, folder: Path) -> int:
    names = options.names or [name for name in ALL if name in LINKED or not SCENARIOS[name].is_proof]
    runs: list[dict[str, Any]] = []
    head = ""
    for scenario in [ALL[name] for name in names]:
        if head != (head := LINKED_HEAD if isinstance(scenario, LinkedScenario) else HEAD):
            print(head, flush=True)
        for seed in range(options.seed, options.seed + options.runs):
            runs.append({"scenario": scenario.name, "seed": seed, **_play(scenario, seed, options, folder)})
            if options.json is not None:
                options.json.write_text(json.dumps(runs, indent=1))
    return 1 if any(run.get("failed") or any(run.get("breaches", {}).values()) for run in runs) else 0


def _play(scenario: Scenario | LinkedScenario, seed: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Play a scenario once and print a line. Shape: a result's fields, or ``{"skipped": why}``, ``{"failed": why}``."""
    if scenario.unable is not None and (reason := scenario.unable()):
        print(f"{scenario.name:16} skipped: {reason}", flush=True)
        return {"skipped": reason}
    amounts, pace = (BRIEF_AMOUNTS, BRIEF) if options.brief else (Amounts(), Pace())
    if isinstance(scenario, LinkedScenario):
        amounts = BRIEF_LINKED_AMOUNTS if options.brief else LINKED_AMOUNTS
    if options.lasting is not None:
        amounts = replace(amounts, lasting=options.lasting)
    own = Path(tempfile.mkdtemp(prefix=f"{scenario.name}-{seed}-", dir=folder))
    began_s = time.monotonic()
    try:
        if isinstance(scenario, LinkedScenario):
            linked = play_linked(scenario, pace, amounts, seed, options.rollcall, own)
        else:
            result = play(scenario, pace, amounts, seed, options.rollcall, own)
    except (RuntimeError, Unable) as error:
        print(f"{scenario.name:16} failed: {error}", flush=True)
        return {"failed": str(error)}
    finally:
        if options.logs is not None:
            options.logs.mkdir(parents=True, exist_ok=True)
            for log in own.glob("*.log"):
                shutil.copy(log, options.logs / f"{scenario.name}-{seed}-{log.name}")
        shutil.rmtree(own)
    if isinstance(scenario, LinkedScenario):
        _print_linked(scenario.name, linked, options.verbose)
        return {**asdict(linked), "took_s": time.monotonic() - began_s}
    _print(scenario.name, result, options.verbose)
    figures = {name: value for name, value in asdict(result).items() if name != "found"}
    breaches = {
        kind.value: {subject: str(breach) for subject, breach in found.items()}
        for kind, found in result.found.breaches.items()
    }
    return {**figures, "took_s": time.monotonic() - began_s, "breaches": breaches}


def _print(name: str, result: Result, verbose: bool) -> None:
    agreed = "never" if result.agreed_s is None else f"{result.agreed_s:.1f}"
    print(
        f"{name:16}"
        + "".join(f"{len(found):12}" for found in result.found.breaches.values())
        + f"{result.late_removals:6}{agreed:>9}{result.refused:5}/{result.words:<4}{result.unanswered:11}"
        + f"{result.unknown_beats:7}{result.late_s:8.1f}"
        + (f"  {result.tracebacks} tracebacks" if result.tracebacks else ""),
        flush=True,
    )
    if verbose:
        if result.disagreed:
            print(f"    lists differed last by {result.disagreed}", flush=True)
        for kind, found in result.found.breaches.items():
            for subject, breach in list(found.items())[:SHOWN_MAX]:
                print(f"    {kind.value} {subject}: {breach}", flush=True)
        if result.found.count():
            print(f"    the fault was from {result.cut_s:.1f} to {result.healed_s:.1f}", flush=True)


def _print_linked(name: str, result: LinkedResult, verbose: bool) -> None:
    own = sum(len(found) for kind, found in result.breaches.items() if kind.startswith("own "))
    stale = "" if result.stale_s is None else f"{result.stale_s:.1f}"
    print(
        f"{name:16}{own:6}"
        + "".join(f"{len(result.breaches[kind.value]):12}" for kind in ForeignKind)
        + f"{result.lists:8}{result.timed:7}{stale:>9}{result.agreed_s:9.1f}{result.gone_s:8.1f}"
        + f"{result.refused:5}/{result.words:<4}{result.unanswered:11}{result.late_s:8.1f}"
        + (f"  {result.tracebacks} tracebacks" if result.tracebacks else ""),
        flush=True,
    )
    if verbose:
        for kind, found in result.breaches.items():
            for subject, text in list(found.items())[:SHOWN_MAX]:
                print(f"    {kind} {subject}: {text}", flush=True)
        if any(result.breaches.values()):
            print(f"    the fault was from {result.cut_s:.1f} to {result.healed_s:.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
