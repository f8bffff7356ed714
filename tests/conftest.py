"""What holds for every test."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest
from hypothesis import HealthCheck, settings

from tests.support.spark import spark as spark

# How long an example takes says something of the machine's other work, and nothing of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

THREAD_END_S = 2.0
"""For threads that were told to end as the test's last act and are on their way."""


def pytest_configure() -> None:
    """A run that is told to end stops what it started, as at Ctrl-C."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """A run ends, though a test that failed may have left a thread that does not."""
    left = [one.name for one in threading.enumerate() if one is not threading.main_thread() and not one.daemon]
    if left and (session := config.pluginmanager.get_plugin("session")) is not None:
        print(f"ended with threads left: {', '.join(left)}", flush=True)
        os._exit(int(session.exitstatus))


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests ran and passed of each kind, which is the folder they lie in."""
    passed, ran, skipped = Counter[str](), Counter[str](), Counter[str]()
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if not isinstance(report, pytest.TestReport) or outcome not in ("passed", "failed", "error", "skipped"):
                continue
            path = PurePosixPath(report.nodeid.partition("::")[0])
            kind = path.parts[1] if len(path.parts) > 2 else path.stem
            passed[kind] += outcome == "passed"
            # A test that fails and whose teardown fails too is counted twice; then the run is not to be counted on.
            ran[kind] += outcome != "skipped"
            skipped[kind] += outcome == "skipped"
    if not ran and not skipped:
        return
    terminalreporter.section("tests by kind")
    for kind in sorted(ran.keys() | skipped.keys()):
        note = f", {skipped[kind]} skipped" if skipped[kind] else ""
        terminalreporter.line(f"{kind:<14} {passed[kind]:>5} of {ran[kind]} passed{note}")
