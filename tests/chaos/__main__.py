"""Play scenarios: ``python -m tests.chaos``, or some by name: ``python -m tests.chaos split bridge --runs 3``."""

import argparse
import os
import sys
from pathlib import Path

from tests.chaos.load import Amounts
from tests.chaos.network import INSIDE, in_own_namespace, unable
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.world import Result, play

KINDS = ("missing", "unhealthy", "empty", "unseen", "resurrected", "forgotten", "durable", "wrong", "differing")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="scenario", help=", ".join(SCENARIOS))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lasting", type=int, default=500)
    parser.add_argument("--rollcall", type=Path, help="another rollcall than this environment's")
    parser.add_argument("--verbose", action="store_true", help="print each breach")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in SCENARIOS]:
        parser.error(f"no scenario is called {', '.join(unknown)}")
    if not os.environ.get(INSIDE):
        if reason := unable():
            print(reason, file=sys.stderr)
            return 2
        command = in_own_namespace(["-m", "tests.chaos", *sys.argv[1:]])
        os.execvp(command[0], command)
    print(
        f"{'scenario':18}" + "".join(f"{kind:>12}" for kind in KINDS) + "   agree s  refused  no answer  20404",
        flush=True,
    )
    broken = 0
    for name in options.names or SCENARIOS:
        for number in range(options.runs):
            amounts = Amounts(lasting=options.lasting)
            result = play(SCENARIOS[name], amounts, options.seed + number, options.rollcall, lambda text: None)
            _print(name, result, options.verbose)
            broken += any(result.found.counts().values())
    return 1 if broken else 0


def _print(name: str, result: Result, verbose: bool) -> None:
    counts = result.found.counts()
    agreed = "never" if result.agreed_s is None else f"{result.agreed_s:.1f}"
    print(
        f"{name:18}"
        + "".join(f"{counts[kind]:12}" for kind in KINDS)
        + f"{agreed:>10}{result.refused:6}/{result.words}{result.unknown:8}{result.found.unknown_beats:8}"
        + (f"  {result.tracebacks} tracebacks" if result.tracebacks else ""),
        flush=True,
    )
    if verbose:
        for kind in KINDS:
            for key, text in list(getattr(result.found, kind).items())[:5]:
                print(f"    {kind} {key}: {text} (cut at {result.cut_s:.1f})", flush=True)


if __name__ == "__main__":
    sys.exit(main())
