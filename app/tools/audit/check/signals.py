"""The end of a check by a signal, such as that of a time-out: the check still reports that it has no verdict."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

AGAIN_S = 1.0
"""The time until the end is raised again: Python drops an exception that a signal raises in a finalizer."""


class EndedBySignal(BaseException):
    """A signal asks the check to end."""


class EndSignals:
    """Raises ``EndedBySignal`` in the main thread for SIGTERM, SIGINT and SIGHUP, until the end has begun.

    Once the verdict is reported, a signal ends the process with the verdict's exit code.
    """

    def __init__(self, *, active: bool) -> None:
        """``active``: false leaves signals to the caller, such as a notebook."""
        self.received = False
        self._active = active and threading.current_thread() is threading.main_thread()
        self._is_ending = False
        self._exit_code: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if self._active:
            for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
                self._before[one] = signal.signal(one, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._active:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for one, before in self._before.items():
                signal.signal(one, before)

    def end(self) -> None:
        """Begin to end: from now on a signal interrupts nothing."""
        self._is_ending = True
        if self._active:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def reported(self, exit_code: int) -> None:
        """Note that the verdict is out: from now on a signal ends the process with its exit code."""
        self._exit_code = exit_code

    @property
    def exit_code(self) -> int | None:
        """The exit code of the verdict that was reported; None before that."""
        return self._exit_code

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.received = self.received or number != signal.SIGALRM
        if self._exit_code is not None:
            raise SystemExit(self._exit_code)
        if self.received and not self._is_ending:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
            raise EndedBySignal
