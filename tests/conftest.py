"""What holds for every test."""

import gc
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from tests.support.spark import spark as spark
from tests.support.thorough import EXAMPLES, examples

# How long an example takes says something of the machine's other work, and nothing of the code.
settings.register_profile(
    "untimed", max_examples=examples(EXAMPLES), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

THREAD_END_S = 60.0
"""For threads that were told to end as the test's last act and are on their way."""
# What a developer's shell speaks, the commands of tests do not.
os.environ["ROLLCALL_LANGUAGE"] = "en"
COUNTS_FILE = "ROLLCALL_TEST_COUNTS"
"""The variable that names the file to which a run appends its counts: passed, failed, skipped and run again."""


def pytest_configure() -> None:
    """End a run at SIGTERM as at Ctrl-C, and start its processes with SIGINT heeded.

    A shell starts background processes with SIGINT ignored, which their children would inherit.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
        signal.signal(signal.SIGTERM, _interrupt)


def pytest_collection_finish() -> None:
    """Leave all that is there before the first test to itself: some hundred tests look for circles that they left.

    Each would else look through a million objects of others, as the collector does by itself now and then.
    """
    gc.collect()
    gc.freeze()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Interrupt the run; a SIGTERM after it must not cut short the end of its processes."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


def pytest_runtest_setup() -> None:
    """End a run that was interrupted, even if the interrupted test failed of it and the next test begins."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        raise KeyboardInterrupt


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """A run ends, though a test that failed may have left a thread that does not."""
    left = [one.name for one in threading.enumerate() if one is not threading.main_thread() and not one.daemon]
    if left and (session := config.pluginmanager.get_plugin("session")) is not None:
        print(f"ended with threads left: {', '.join(left)}", flush=True)
        os._exit(int(session.exitstatus))


@pytest.fixture(scope="module", autouse=True)
def what_lasts_is_frozen() -> Iterator[None]:
    """Leave to itself what outlives a file of tests, too: caches, and reports of all tests before."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_thread_outlives_its_test() -> Iterator[None]:
    """Fail a test after which a thread still runs that did not run before it."""
    before = set(threading.enumerate())
    yield
    deadline_s = time.monotonic() + THREAD_END_S
    for thread in set(threading.enumerate()) - before:
        thread.join(max(0.0, deadline_s - time.monotonic()))
    left = sorted(thread.name for thread in set(threading.enumerate()) - before)
    assert not left, f"these threads outlived the test: {', '.join(left)}"


@pytest.fixture(scope="session", autouse=True)
def cheap_passwords() -> Iterator[None]:
    """Let the hash of a password in this process cost microseconds, where a node spends 30 ms of a core on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.auth.passwords.TIME_COST", 1)
        patch.setattr("app.auth.passwords.MEMORY_KIB", 8)
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests passed of each kind, which is their folder, and append the sums to the counts' file."""
    kinds = {outcome: _by_kind(terminalreporter, outcome) for outcome in OUTCOMES}
    passed, failed, skipped, again = kinds.values()
    if ran := passed + failed + skipped:
        terminalreporter.section("tests by kind")
        for kind in sorted(ran):
            note = f", {skipped[kind]} skipped" if skipped[kind] else ""
            note += f", {again[kind]} run again" if again[kind] else ""
            terminalreporter.line(f"{kind:<14} {passed[kind]:>5} of {ran[kind] - skipped[kind]} passed{note}")
    if name := os.environ.get(COUNTS_FILE):
        with open(name, "a") as file:
            file.write(" ".join(str(kind.total()) for kind in kinds.values()) + "\n")


OUTCOMES = {"passed": ("passed",), "failed": ("failed", "error"), "skipped": ("skipped",), "again": ("rerun",)}
"""What the reports of a test are filed under, by what is counted."""


def _by_kind(reporter: pytest.TerminalReporter, outcome: str) -> Counter[str]:
    """Return the number of tests of an outcome by kind; one that failed in its teardown too counts once."""
    tests = {
        (report.nodeid, 0 if outcome != "again" else number)
        for filed in OUTCOMES[outcome]
        for number, report in enumerate(reporter.stats.get(filed, ()))
        if isinstance(report, pytest.TestReport)
    }
    return Counter(_kind(nodeid) for nodeid, _ in tests)


def _kind(nodeid: str) -> str:
    path = PurePosixPath(nodeid.partition("::")[0])
    return path.parts[1] if len(path.parts) > 2 else path.stem
