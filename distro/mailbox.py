"""What the engine's threads are made of: a queue of events for the one that decides, and lanes that make its calls."""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable

from distro.monitor import DistroStats
from distro.protocol import DistroProtocol
from distro.receive import Notices
from distro.types import DistroKey

LOG = logging.getLogger(__name__)
Event = Callable[[DistroProtocol, int], None]


class PeerWorker:
    """A thread with an owner and an end: runs what is put, in order, one at a time."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=False)
        self._thread.start()

    def put(self, work: Callable[[], None]) -> None:
        self._queue.put(work)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception:
                LOG.exception("a call on %s failed in an unforeseen way", self._thread.name)

    def finish(self) -> None:
        """Let the thread end after what was put."""
        self._queue.put(None)

    def stop(self, timeout_s: float) -> bool:
        """Finish what was put, then end; return whether that took under ``timeout_s``. May be called twice."""
        self.finish()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


class Mailbox(Notices):
    """Events on their way to the protocol's thread. Bounded; keys that wait already are merged."""

    def __init__(self, events_max: int, stats: DistroStats) -> None:
        self._events_max = events_max
        self._stats = stats
        self._condition = threading.Condition()
        self._sync: dict[DistroKey, None] = {}
        self._events: deque[Event] = deque()
        self._closed = False
        self._patient = False
        """The thread looks for keys by itself in a moment, and need not be woken for each."""

    def sync(self, key: DistroKey) -> None:
        with self._condition:
            if len(self._sync) >= self._events_max:
                self._stats.inbox_dropped += 1
                return
            self._sync[key] = None
            if not self._patient:
                self._condition.notify()

    def claim(self, key: DistroKey) -> None:
        self.put(lambda protocol, _now_ms: protocol.claim_later(key))

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        self.put(lambda protocol, _now_ms: protocol.fetch(peer, keys))

    def put(self, event: Event, *, urgent: bool = False) -> None:
        """Queue an event; an ``urgent`` one, such as the end of a call, is never dropped: calls bound their number."""
        with self._condition:
            if not urgent and len(self._events) >= self._events_max:
                self._stats.inbox_dropped += 1
                return
            self._events.append(event)
            self._condition.notify()

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify()

    def take(self, timeout_s: float, *, patient: bool = False) -> tuple[list[Event], list[DistroKey], bool]:
        """Wait for events; return them, the keys to sync, and whether the inbox is closed.

        ``patient``: keys alone do not end the wait.
        """
        with self._condition:
            if not (self._events or self._closed or (self._sync and not patient)):
                self._patient = patient
                self._condition.wait(timeout_s)
                self._patient = False
            events, keys = list(self._events), list(self._sync)
            self._events.clear()
            self._sync.clear()
            return events, keys, self._closed
