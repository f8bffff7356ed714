"""Runs many conversations, and counts what happened in them: as many as the tests, or more.

``python -m tests.differential.run`` runs 2,000 of them, 5,000 changed ones, and 2,000 of grpcio's clients; ``--fresh``:
with seeds that nobody has seen yet.
"""

import argparse
import asyncio
import datetime
import gc
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable

import psutil

from tests.differential.checks import compare, mutate
from tests.differential.echo_port import EchoPort, echo_port
from tests.differential.echo_servers import grpcio_echo
from tests.differential.grpcio_clients import Told, ask, ask_in_threads, grpcio_port, plan
from tests.simulation.run import fresh_seed

BLOCKS_LEFT_MAX = 2_000
"""Of memory, more at the end than in the middle: a connection has a hundred or so."""


class Failures(logging.Handler):
    """Keeps what is logged as an error, and what a loop reports."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))

    def of_loop(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self.texts.append(f"{context.get('message')}: {context.get('exception')!r}")


def compare_all(seeds: Iterable[int]) -> Counter[str]:
    """Compare conversations with grpcio's server; counts the statuses of their streams."""
    statuses = Counter[str]()
    with grpcio_echo() as port:
        for seed in seeds:
            statuses += compare(port, seed)
    return statuses


def mutate_all(seeds: range) -> Counter[str]:
    """Play changed conversations; counts how they ended."""
    ended, failures = Counter[str](), Failures()

    async def main() -> None:
        loop, before = asyncio.get_running_loop(), 0
        loop.set_exception_handler(failures.of_loop)
        port = EchoPort(loop)
        for seed in seeds:
            ended[await mutate(port, seed)] += 1
            assert not failures.texts, f"seed {seed}: {failures.texts}"
            if seed == (seeds.start + seeds.stop) // 2:
                gc.collect()
                before = sys.getallocatedblocks()
        gc.collect()
        left = sys.getallocatedblocks() - before
        assert left < BLOCKS_LEFT_MAX, f"{left} blocks of memory are left of the second half"

    log = logging.getLogger("app")
    log.addHandler(failures)
    try:
        asyncio.run(main())
    finally:
        log.removeHandler(failures)
    return ended


def _short(told: Told) -> str:
    return f"{told[0]} {told[1]} {[f'{len(one)} bytes {one[:2]!r}' for one in told[2]]}"


def ask_all(seeds: Iterable[int]) -> Counter[str]:
    """Have clients of grpcio make calls here and there; counts their statuses."""
    statuses = Counter[str]()

    async def main() -> None:
        async with grpcio_port() as theirs, echo_port() as (whole, one), echo_port(random.Random(1)) as (cut, other):
            for seed in seeds:
                calls = plan(seed)
                if seed % 4:
                    told = [await ask(port, calls) for port in (theirs, whole, cut)]
                else:
                    told = [await asyncio.to_thread(ask_in_threads, port, calls) for port in (theirs, whole, cut)]
                for way, found in zip(("whole", "in pieces"), told[1:], strict=True):
                    for call, here, there in zip(calls, found, told[0], strict=True):
                        shown = f"seed {seed}, {way}, {call.method}: {_short(here)}, grpcio: {_short(there)}"
                        assert here == there, shown
                statuses.update(status for status, _, _ in told[0])
        for port in (one, other):
            port.check_empty()

    asyncio.run(main())
    gc.collect()  # the library's thread ends with the last of its objects
    return statuses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000, help="conversations, and as many of grpcio's clients")
    parser.add_argument("--changed", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--fresh", action="store_true", help="seeds by the date, for nightly runs")
    options = parser.parse_args()
    first = fresh_seed(datetime.datetime.now(datetime.UTC)) if options.fresh else options.seed
    process = psutil.Process()
    for what, run, count in (
        ("compared with grpcio's server", compare_all, options.count),
        ("changed", mutate_all, options.changed),
        ("of grpcio's clients", ask_all, options.count),
    ):
        begun_s, used_s = time.perf_counter(), time.process_time()
        found = run(range(first, first + count))
        took = f"{time.perf_counter() - begun_s:.1f} s, {time.process_time() - used_s:.1f} s of CPU"
        took += f", {process.memory_info().rss / 1e6:.0f} MB resident"
        print(f"{count} conversations {what}, from seed {first}: {took}\n  {dict(found.most_common())}", flush=True)


if __name__ == "__main__":
    main()
