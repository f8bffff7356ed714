"""What client libraries live through, all side by side: they mostly wait, each for timings of its own."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.sdk.environments import Environment, NotInstallable
from tests.sdk.program import Program
from tests.support.client import Answer
from tests.support.processes import ClusterProcesses, eventually

Environments = Mapping[str, Environment | NotInstallable]
"""The libraries, by name, or why one is not there."""
Failures = Mapping[str, BaseException | None]
"""By library: what went wrong first in a chapter. A library that is not installed is missing."""
LONG = '{"preserved.heart.beat.timeout":"600000","preserved.ip.delete.timeout":"600000"}'
"""Metadata of an instance for which nobody beats while a test lasts."""


def write(call: Callable[[], Answer]) -> None:
    """Return when the member took it: what belongs to another that is dead, or about to move, is refused at first."""
    eventually(lambda: call().status == 200)


class Programs:
    """A program of each library that is installed. One that failed in a chapter is replaced before the next."""

    def __init__(self, environments: Environments, folder: Path, stack: ExitStack) -> None:
        self._environments = {name: one for name, one in environments.items() if isinstance(one, Environment)}
        self._folder = folder
        self._stack = stack
        self._programs: dict[str, Program] = {}
        self._replaced: set[str] = set(self._environments)
        self._started = 0

    def chapter(self) -> "Chapter":
        """Return a new chapter for all libraries."""
        for name in self._replaced:
            self._started += 1
            folder = self._folder / f"{name}-{self._started}"
            self._programs[name] = self._stack.enter_context(Program(self._environments[name], folder))
        self._replaced = set()
        return Chapter(dict(self._programs), self._replaced.add)


class Chapter:
    """What each library lives through in several phases; one that fails takes no part in the chapter's later ones."""

    def __init__(self, programs: Mapping[str, Program], on_failure: Callable[[str], None]) -> None:
        self._programs = programs
        self._on_failure = on_failure
        self.failures: dict[str, BaseException | None] = dict.fromkeys(programs)

    def phase(self, work: Callable[[str, Program], None]) -> Failures:
        """Have all libraries do a work, side by side, and return what went wrong in the chapter so far."""
        going = [name for name, failure in self.failures.items() if failure is None]
        with ThreadPoolExecutor(max(len(going), 1)) as pool:
            running = {name: pool.submit(work, name, self._programs[name]) for name in going}
        for name, future in running.items():
            self.failures[name] = future.exception()
            if self.failures[name] is not None:
                self._on_failure(name)
        return self.failures


class Story:
    """The chapters of some libraries: each is lived through when its first test asks how it was, and fails alone.

    Chapters that harm nobody share a cluster and programs, but no clients and no services; others have their own.
    """

    def __init__(
        self,
        environments: Environments,
        chapters: "Mapping[str, Callable[[Story], Failures]]",
        folder: Path,
        stack: ExitStack,
        settings: Mapping[str, str],
    ) -> None:
        """``settings``: of the shared cluster; others have the default ones."""
        self.environments = environments
        self._chapters = chapters
        self._folder = folder
        self._told: dict[str, Future[Failures]] = {}
        self.cluster = stack.enter_context(running_cluster(folder / "shared", settings))
        self._programs = Programs(environments, folder / "programs", stack)

    @contextmanager
    def beside(self, title: str) -> Iterator[None]:
        """Live through a chapter while the block lasts, and to its end."""
        with ThreadPoolExecutor(1) as pool:
            if title not in self._told:
                self._told[title] = pool.submit(self._chapters[title], self)
            yield

    def failures(self, title: str) -> Failures:
        """Return what went wrong in a chapter, which is lived through once; raises what went wrong with its cluster."""
        if title not in self._told:
            self._told[title] = told = Future()
            begun_s = time.monotonic()
            try:
                told.set_result(self._chapters[title](self))
            except Exception as error:
                told.set_exception(error)
            print(f"{title}: {time.monotonic() - begun_s:.1f} s")
        return self._told[title].result()

    def each(self, work: Callable[[str, Program, ClusterProcesses], None]) -> Failures:
        """Live through a chapter of one phase that harms nobody."""
        return self._programs.chapter().phase(lambda name, program: work(name, program, self.cluster))

    @contextmanager
    def apart(self, title: str, names: Collection[str] = ()) -> Iterator[tuple[Chapter, ClusterProcesses]]:
        """A chapter with programs and a cluster of its own, for all libraries or those of these names."""
        folder = self._folder / title
        chosen = {name: one for name, one in self.environments.items() if not names or name in names}
        with running_cluster(folder, {}) as cluster, ExitStack() as stack:
            yield Programs(chosen, folder, stack).chapter(), cluster


@contextmanager
def running_cluster(folder: Path, settings: Mapping[str, str]) -> Iterator[ClusterProcesses]:
    """Three members that have met no error when the block ends."""
    cluster = ClusterProcesses(folder, 3, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def tell(title: str, name: str, environments: Environments, request: pytest.FixtureRequest) -> None:
    """Skip or fail the test of one library in a chapter of the module's fixture ``story``."""
    if isinstance(reason := environments[name], NotInstallable):
        pytest.skip(str(reason))
    story: Story = request.getfixturevalue("story")
    if failure := story.failures(title)[name]:
        raise failure
