"""Prints how many recorded scenarios pass, by area, and how many of their steps by ``accept`` alone."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.conformance.recordings import Recordings
from tests.conformance.replay import Outcome, count_by_area

Report = Callable[[str, Sequence[Outcome]], None]
OUTCOMES = pytest.StashKey[dict[str, Sequence[Outcome]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OUTCOMES] = {}


@pytest.fixture(scope="session")
def report_counts(pytestconfig: pytest.Config) -> Report:
    """Takes what is to be counted at the end: a title, and all outcomes."""
    return pytestconfig.stash[OUTCOMES].__setitem__


@pytest.fixture(scope="module")
def recordings(request: pytest.FixtureRequest) -> Recordings:
    """The recorded conversations that a module names ``RECORDINGS``."""
    found: Recordings = request.module.RECORDINGS
    return found


@pytest.fixture(scope="module")
def alone(
    recordings: Recordings, tmp_path_factory: pytest.TempPathFactory, report_counts: Report
) -> Iterator[list[Outcome]]:
    """The outcomes of the conversations with a node alone."""
    with recordings.alone(tmp_path_factory.mktemp("alone")) as outcomes:
        report_counts(f"{recordings.title}alone", outcomes)
        yield outcomes


@pytest.fixture(scope="module")
def through_member(
    recordings: Recordings, tmp_path_factory: pytest.TempPathFactory, report_counts: Report
) -> Iterator[list[Outcome]]:
    """The outcomes of the conversations with one member of three."""
    with recordings.through_member(tmp_path_factory.mktemp("member")) as outcomes:
        report_counts(f"{recordings.title}one member of three", outcomes)
        yield outcomes


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for title, outcomes in config.stash[OUTCOMES].items():
        passed = sum(not one.failure for one in outcomes)
        accepted = sum(one.accepted for one in outcomes)
        terminalreporter.section(
            f"recorded scenarios, {title}: {passed} of {len(outcomes)}, {accepted} steps in them by accept"
        )
        for area, (one, of) in count_by_area(outcomes).items():
            terminalreporter.line(f"{area:<18} {one:>3} of {of}")
