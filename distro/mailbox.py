"""Between threads: the mailbox of the thread that owns the protocol, and the threads that make its calls to peers."""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable

from distro.monitor import DistroStats
from distro.protocol import DistroProtocol
from distro.types import DistroKey

LOG = logging.getLogger(__name__)
Event = Callable[[DistroProtocol, int], None]
"""A call on the protocol, made by its thread with the monotonic ms."""


class PeerWorker:
    """A thread that makes calls to one peer, in order, one at a time."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=False)
        self._thread.start()

    def put(self, work: Callable[[], None]) -> None:
        """Let the thread call ``work``; returns at once."""
        self._queue.put(work)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception:
                LOG.exception("a call on %s failed in an unforeseen way", self._thread.name)

    def finish(self) -> None:
        """Let the thread end once it has made the calls that were put."""
        self._queue.put(None)

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; return whether it came within ``timeout_s``."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


class Mailbox:
    """Events for the protocol's thread, put by any thread. Bounded; a key that waits already is not put twice."""

    def __init__(self, events_max: int, stats: DistroStats) -> None:
        self._events_max = events_max
        self._stats = stats
        self._condition = threading.Condition()
        self._sync: dict[DistroKey, None] = {}
        self._events: deque[Event] = deque()
        self._closed = False
        self._leave_keys = False
        """The thread waits, and takes keys when its wait ends: it need not be woken for each."""

    def sync(self, key: DistroKey) -> None:
        """The key changed here, and is to be sent to the peers."""
        with self._condition:
            if len(self._sync) >= self._events_max:
                self._stats.inbox_dropped += 1
                return
            self._sync[key] = None
            if not self._leave_keys:
                self._condition.notify()

    def claim(self, key: DistroKey) -> None:
        """The key seems to be ours, and has another writer (R2)."""
        self.put(lambda protocol, _now_ms: protocol.claim_later(key))

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        """The peer has a state of these keys that this member lacks."""
        self.put(lambda protocol, _now_ms: protocol.fetch(peer, keys))

    def put(self, event: Event, *, urgent: bool = False) -> None:
        """Queue an event. An ``urgent`` one is never dropped: such as ends of calls, which are few."""
        with self._condition:
            if not urgent and len(self._events) >= self._events_max:
                self._stats.inbox_dropped += 1
                return
            self._events.append(event)
            self._condition.notify()

    def close(self) -> None:
        """End the thread: its next ``take`` says so."""
        with self._condition:
            self._closed = True
            self._condition.notify()

    def take(self, timeout_s: float, *, leave_keys: bool = False) -> tuple[list[Event], list[DistroKey], bool]:
        """Wait for events at most ``timeout_s``; return them, the changed keys, and whether the mailbox is closed.

        ``leave_keys``: changed keys alone do not end the wait.
        """
        with self._condition:
            if not (self._events or self._closed or (self._sync and not leave_keys)):
                self._leave_keys = leave_keys
                self._condition.wait(timeout_s)
                self._leave_keys = False
            events, keys = list(self._events), list(self._sync)
            self._events.clear()
            self._sync.clear()
            return events, keys, self._closed
