"""The pools of threads that answer calls that may block, outside the event loop."""

import logging
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

BUSY_INTERVAL_S = 0.0001

log = logging.getLogger(__name__)


class SwitchIntervalGuard:
    """Shortens the interpreter's switch interval while calls are in any pool. Thread-safe.

    That is how long a computing thread keeps the loop's thread waiting, several times in each turn of the loop. Always
    short, it would cost a tenth of a registration, as each registration wakes the thread that pushes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._usual_s = sys.getswitchinterval()

    def add(self, calls: int) -> None:
        """Count calls that entered pools, or left them when ``calls`` is negative."""
        with self._lock:
            before, self._calls = self._calls, self._calls + calls
            if not before:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(min(BUSY_INTERVAL_S, self._usual_s))
            elif not self._calls:
                sys.setswitchinterval(self._usual_s)


SWITCH_INTERVAL = SwitchIntervalGuard()
"""One for the process, as the interval is the interpreter's: a second one would take the short one for the usual."""


class CallPool:
    """Threads for calls that may block, and a bound on the calls that wait for a thread."""

    def __init__(self, name: str, threads: int, room: int) -> None:
        """``room``: the most calls in the pool, those on a thread included."""
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._room = room
        self._lock = threading.Lock()

    def put(self, work: Callable[[], object]) -> bool:
        """Queue work for a thread; False when the pool has no room, or has stopped."""
        with self._lock:
            if not self._room:
                return False
            self._room -= 1
        SWITCH_INTERVAL.add(1)
        try:
            call = self._executor.submit(work)
        except RuntimeError:  # it has stopped
            self._leave()
            return False
        call.add_done_callback(self._ended)
        return True

    def _ended(self, call: Future[object]) -> None:
        """Count a call that ended, or was dropped by ``stop``."""
        self._leave()
        if not call.cancelled() and (error := call.exception()) is not None:
            log.error("a request failed unexpectedly", exc_info=error)

    def _leave(self) -> None:
        SWITCH_INTERVAL.add(-1)
        with self._lock:
            self._room += 1

    def stop(self) -> None:
        """Drop queued calls. Running ones are joined when the process ends."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait for the threads after ``stop``: for the calls that they answer."""
        self._executor.shutdown()
