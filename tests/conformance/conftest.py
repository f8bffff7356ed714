"""Prints how many recorded scenarios pass, by area."""

from collections.abc import Callable, Mapping

import pytest

Counts = Mapping[str, tuple[int, int]]
COUNTS = pytest.StashKey[dict[str, Counts]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COUNTS] = {}


@pytest.fixture(scope="session")
def report_counts(pytestconfig: pytest.Config) -> Callable[[str, Counts], None]:
    """Takes what is to be printed at the end: a title, and passed and total by area."""
    return pytestconfig.stash[COUNTS].__setitem__


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for title, by_area in config.stash[COUNTS].items():
        passed = sum(one for one, _ in by_area.values())
        total = sum(one for _, one in by_area.values())
        terminalreporter.section(f"recorded scenarios, {title}: {passed} of {total}")
        for area, (one, of) in by_area.items():
            terminalreporter.line(f"{area:<18} {one:>3} of {of}")
