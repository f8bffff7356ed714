"""What client libraries live through, all at once: they mostly wait, each for timings of its own."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.sdk.environments import Environment, NotInstallable
from tests.sdk.program import Program
from tests.support.client import Answer
from tests.support.processes import eventually

Environments = Mapping[str, Environment | NotInstallable]
"""The libraries, by name, or why one is not there."""
Failures = Mapping[str, BaseException | None]
"""By library: what went wrong first. A library that is not installed is missing."""
Chapters = Mapping[str, Failures]
"""What went wrong in each chapter; empty when no library is installed."""
LONG = '{"preserved.heart.beat.timeout":"600000","preserved.ip.delete.timeout":"600000"}'
"""Metadata of an instance for which nobody beats while a test lasts."""
WRITE_TIMEOUT_S = 10.0
"""4 s until a member is DOWN, and two calls of 2 s that meet 503."""


def write(call: Callable[[], Answer]) -> None:
    """Return when the member took it: what belongs to another that is dead, or about to move, is refused at first."""
    eventually(lambda: call().status == 200, WRITE_TIMEOUT_S)


class Stories:
    """Runs each phase of a story for all libraries at once; one that failed takes no part in later phases."""

    def __init__(self, environments: Environments, folder: Path, stack: ExitStack) -> None:
        self.programs = {
            name: stack.enter_context(Program(environment, folder / name))
            for name, environment in environments.items()
            if isinstance(environment, Environment)
        }
        self.failures: dict[str, BaseException | None] = dict.fromkeys(self.programs)
        self.chapters: dict[str, Failures] = {}

    def chapter(self, title: str, work: Callable[[str, Program], None]) -> None:
        """Run a phase that is told of by tests of its own."""
        begun_s, earlier = time.monotonic(), dict(self.failures)
        self.phase(work)
        self.chapters[title] = {
            name: AssertionError(f"did not get so far: {before}") if (before := earlier[name]) else failure
            for name, failure in self.failures.items()
        }
        print(f"{title}: {time.monotonic() - begun_s:.1f} s")

    def phase(self, work: Callable[[str, Program], None]) -> None:
        going = [name for name, failure in self.failures.items() if failure is None]
        with ThreadPoolExecutor(max(len(going), 1)) as pool:
            running = {name: pool.submit(work, name, self.programs[name]) for name in going}
        self.failures |= {name: future.exception() for name, future in running.items()}


def tell(name: str, environments: Environments, failures: Failures) -> None:
    """Skip or fail the test of one library."""
    if isinstance(reason := environments[name], NotInstallable):
        pytest.skip(str(reason))
    if failure := failures[name]:
        raise failure
