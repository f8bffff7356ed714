"""Replay a seed: ``python -m tests.simulation.run --seed 17 --trace``; a range of seeds: ``--seed 0 --count 300``."""

import argparse
import logging
import sys
import time
from collections import Counter

from tests.simulation.scenarios import clients_agree, members_agree
from tests.support.simulated.checker import Broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--trace", action="store_true", help="print what happens")
    parser.add_argument("--clients", action="store_true", help="the world of clients with connections")
    options = parser.parse_args()
    scenario = clients_agree if options.clients else members_agree
    logging.disable(logging.INFO if options.trace else logging.CRITICAL)
    broken, marks = 0, Counter[str]()
    for seed in range(options.seed, options.seed + options.count):
        began_s = time.perf_counter()
        try:
            world = scenario(seed, tracing=options.trace)
        except Broken as error:
            broken += 1
            print(f"BROKEN {str(error)[:1_000]}")
            continue
        marks += world.marks
        if options.count == 1 or options.trace:
            missing_ms = world.checker.longest_missing_ms
            taken_s = time.perf_counter() - began_s
            print(f"seed {seed}: {world.events} events in {taken_s:.2f} s, longest missing {missing_ms} ms")
    for name, count in sorted(marks.items()):
        print(f"{count:9} {name}")
    print(f"{options.count} seeds, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
