"""Runs many worlds, and counts what happened in them; ``rollcall simulate`` shows one, event by event.

A range of seeds: ``--seed 0 --count 300``; seeds that nobody has seen yet: ``--fresh --count 2000 --jobs 2``.
"""

import argparse
import datetime
import logging
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from app.tools.simulation.scenarios.cases import WORLDS
from app.tools.simulation.world.invariants import Broken

PROGRESS_EVERY = 100
FRESH_FROM = 1_000_000
SEEDS_A_MINUTE = 10_000
"""Fresh seeds of two starts are others, unless the first took more than so many a minute."""


def fresh_seed(now: datetime.datetime) -> int:
    """The first of the seeds that this minute stands for."""
    minutes = int((now - datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)).total_seconds()) // 60
    return FRESH_FROM + minutes * SEEDS_A_MINUTE


def run(seed: int, kind: str) -> tuple[int, Counter[str], str, str]:
    """Run one world; return its seed, its marks, what is broken, and what there is to tell."""
    logging.disable(logging.CRITICAL)
    began_s = time.perf_counter()
    try:
        world = WORLDS[kind](seed)
    except Broken as error:
        return seed, Counter(), str(error), ""
    except Exception as error:
        return seed, Counter(), f"seed {seed}: {type(error).__name__}: {error}", ""
    missing_ms, taken_s = world.longest_missing_ms, time.perf_counter() - began_s
    return seed, world.marks, "", f"{world.events} events in {taken_s:.2f} s, longest missing {missing_ms} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="the first seed")
    which.add_argument("--fresh", action="store_true", help="seeds by the date, for nightly runs")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--world", choices=WORLDS, default="members", help="what the members go through")
    options = parser.parse_args()
    first = fresh_seed(datetime.datetime.now(datetime.UTC)) if options.fresh else options.seed
    seeds = range(first, first + options.count)
    print(f"world {options.world}, seeds {seeds.start} to {seeds.stop - 1}", flush=True)
    one = partial(run, kind=options.world)
    began_s, done, broken, marks = time.perf_counter(), 0, 0, Counter[str]()
    with ProcessPoolExecutor(options.jobs) as pool:
        results = map(one, seeds) if options.jobs == 1 else pool.map(one, seeds, chunksize=4)
        for seed, seen, failure, told in results:
            marks += seen
            done += 1
            if done % PROGRESS_EVERY == 0:
                print(f"{done} seeds so far, {broken} broken", flush=True)
            if failure:
                broken += 1
                print(f"BROKEN {failure[:1_500]}", flush=True)
            elif options.count == 1:
                print(f"seed {seed}: {told}")
    for name, count in sorted(marks.items()):
        print(f"{count:9} {name}")
    taken_s = time.perf_counter() - began_s
    print(f"{options.count} seeds, {broken} broken, {options.count / taken_s:.2f} seeds/s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
