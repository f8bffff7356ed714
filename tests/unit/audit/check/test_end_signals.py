"""Signals that end a check: raised in the main thread, again if Python drops them, not once a verdict is out."""

import os
import signal
import subprocess
import sys
import time

import pytest

from app.tools.audit.check import signals as module
from app.tools.audit.check.signals import EndedBySignal, EndSignals


def end(number: signal.Signals, wait_s: float = 5.0) -> None:
    os.kill(os.getpid(), number)
    time.sleep(wait_s)


def test_each_signal_ends_what_runs() -> None:
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        before = signal.getsignal(one)
        with EndSignals(active=True) as signals:
            with pytest.raises(EndedBySignal):
                end(one)
            signals.end()
            os.kill(os.getpid(), one)
            time.sleep(0.01)
            assert signals.received
        assert signal.getsignal(one) is before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_a_finalizer_swallows_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.05)

    class Finalized:
        def __del__(self) -> None:
            end(signal.SIGTERM, wait_s=0.01)

    def finalize() -> None:
        Finalized()
        time.sleep(5)

    with EndSignals(active=True) as signals, pytest.raises(EndedBySignal):
        finalize()
    assert signals.received


def test_after_the_verdict_a_signal_ends_with_its_code() -> None:
    program = (
        "import os, signal, time; from app.tools.audit.check.signals import EndSignals\n"
        "with EndSignals(active=True) as signals:\n"
        "    signals.reported(1)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(5)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 1


def test_a_caller_keeps_its_own_signals() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with EndSignals(active=False):
        assert signal.getsignal(signal.SIGTERM) is before
