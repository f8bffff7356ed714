"""A pytest plugin: runs all tests once without a mutant, and then for each mutant the tests that call its function.

Each mutant gets a fork of this process, in which everything is imported and collected: the first tests notice most
mutants, in milliseconds. The fastest tests come first; the first failure ends the process.

Environment variables: ``MUTATION_PLAN``, a file with one name of a mutant a line; ``MUTATION_RESULTS``, a file to which
the plugin appends a line ``outcome name`` for each; ``MUTATION_WORKERS``.
"""

import gc
import os
import resource
import signal
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from mutmut.state import state

from scripts.mutation.mutants import Outcome

MUTANT = "MUTANT_UNDER_TEST"
"""The variable that selects one of mutmut's copies; ``stats`` records the called functions."""
CPU_S, CPU_FACTOR = 5, 5
"""The tests of a mutant get ``CPU_S`` plus ``CPU_FACTOR`` times their CPU time without a mutant."""
WALL_S, WALL_FACTOR = 12, 8
"""Time limit for tests that wait for an event that never comes; long enough for a busy machine."""
POLL_S = 0.005
BUDGET_S = 3.0
"""CPU time of the tests of one function: the fastest of its tests are taken, at least one."""


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Let hypothesis try few examples, the same each time, without shrinking."""
    profile = settings.get_profile("untimed")
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutation", profile, max_examples=30, derandomize=True, database=None, phases=phases)
    settings.load_profile("mutation")


class _Tests:
    """The tests of each function, and their times without a mutant."""

    def __init__(self) -> None:
        self.by_function: dict[str, list[pytest.Item]] = {}
        self.seconds: dict[pytest.Item, float] = {}

    def run(self, session: pytest.Session) -> None:
        """Run all tests, and record the functions that each calls."""
        os.environ[MUTANT] = "stats"
        for number, item in enumerate(session.items):
            following = session.items[number + 1] if number + 1 < len(session.items) else None
            state()._stats.clear()
            begun = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.seconds[item] = time.process_time() - begun
            for function in state()._stats:
                self.by_function.setdefault(function, []).append(item)
        os.environ[MUTANT] = ""
        for items in self.by_function.values():
            items.sort(key=self.seconds.__getitem__)
            within = [sum_s <= BUDGET_S for sum_s in accumulate(self.seconds[item] for item in items)]
            del items[max(sum(within), 1) :]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run the tests without and with mutants, instead of pytest's own loop."""
    tests = _Tests()
    tests.run(session)
    if session.testsfailed:
        return True  # pytest prints the failures, and sets its exit code
    names = Path(os.environ["MUTATION_PLAN"]).read_text(encoding="utf-8").split()
    gc.collect()
    gc.freeze()
    with open(os.environ["MUTATION_RESULTS"], "a", encoding="utf-8", buffering=1) as results:
        for count, (name, outcome) in enumerate(_outcomes(session, tests, names), 1):
            results.write(f"{outcome.name} {name}\n")
            if count % 100 == 0:
                os.write(2, f"\n{count} of {len(names)} mutants\n".encode())
    return True


def _outcomes(session: pytest.Session, tests: _Tests, names: list[str]) -> Iterator[tuple[str, Outcome]]:
    """Yield the mutants with their outcomes as they end; ``MUTATION_WORKERS`` run at a time."""
    workers = int(os.environ["MUTATION_WORKERS"])
    under_way: dict[int, tuple[str, float]] = {}
    waiting = list(reversed(names))
    while waiting or under_way:
        while waiting and len(under_way) < workers:
            name = waiting.pop()
            items = tests.by_function.get(name.partition("__mutmut_")[0], [])
            if not items:
                yield name, Outcome.SURVIVED
                continue
            seconds = sum(tests.seconds[item] for item in items)
            pid = _fork(session, name, items, seconds)
            under_way[pid] = name, time.monotonic() + WALL_S + WALL_FACTOR * seconds
        time.sleep(POLL_S)
        for pid, (name, end) in list(under_way.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del under_way[pid]
                yield name, _outcome(os.waitstatus_to_exitcode(status))
            elif time.monotonic() > end:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                del under_way[pid]
                yield name, Outcome.TIMED_OUT


def _outcome(exit_code: int) -> Outcome:
    match exit_code:
        case 0:
            return Outcome.SURVIVED
        case _ if exit_code == -signal.SIGXCPU:
            return Outcome.TIMED_OUT
        case _:  # a signal counts, too: an endless recursion overflows the stack
            return Outcome.KILLED


def _fork(session: pytest.Session, name: str, items: list[pytest.Item], seconds: float) -> int:
    """Run the tests of a mutant in a new process, which exits with 0 when all pass; return its id."""
    if pid := os.fork():
        return pid
    try:
        os.setpgid(0, 0)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        limit = int(time.process_time() + CPU_S + CPU_FACTOR * seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        os.environ[MUTANT] = name
        for item in items:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if session.testsfailed:
                os._exit(1)
    except BaseException:
        os._exit(1)
    os._exit(0)
