"""Between threads: the mailbox of the thread that owns the protocol, and the threads that make its calls to peers."""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from distro.model.monitor import DistroStats
from distro.model.types import DistroKey, PeerReport
from distro.protocol.protocol import DistroProtocol, Event
from distro.timing.clock import boot_s, monotonic_s

LOG = logging.getLogger(__name__)
EVENTS_PER_TURN, KEYS_PER_TURN = 256, 2_000
"""Taken at a time at most, however many wait: what the thread does in one turn must not keep reports waiting."""
FETCHED_PER_EVENT = 1_000
LEAVES_NOTHING, LEAVES_KEYS, LEAVES_ENDS = range(3)
"""The things that do not end a wait: none; changed keys; these, and the ends of calls that may wait."""


class PeerWorker:
    """A thread that makes calls to one peer, in order, one at a time."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[[], None], str] | None] = queue.SimpleQueue()
        self._present: tuple[str, float] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=False)
        self._thread.start()

    def put(self, work: Callable[[], None], what: str = "") -> None:
        """Let the thread call ``work``, which is ``what`` to an operator; returns at once."""
        self._queue.put((work, what))

    def facts(self) -> dict[str, object]:
        """Return the work of the thread, for how long, and what waits for it. Shape: present, presentMs, waiting."""
        present = self._present
        what, since_s = present or (None, None)
        took_ms = None if since_s is None else round((monotonic_s() - since_s) * 1_000)
        return {"present": what, "presentMs": took_ms, "waiting": self._queue.qsize()}

    def _run(self) -> None:
        while (taken := self._queue.get()) is not None:
            work, what = taken
            self._present = what, monotonic_s()
            try:
                work()
            except Exception:
                LOG.exception("a call on %s failed unexpectedly", self._thread.name)
            self._present = None

    def finish(self) -> None:
        """Let the thread end once it has made the calls that were put."""
        self._queue.put(None)

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; return whether it came within ``timeout_s``."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


class Mailbox:
    """Events for the protocol's thread, put by any thread. Bounded; a key that waits already is not put twice."""

    def __init__(self, events_max: int, stats: DistroStats, now_s: Callable[[], float] = boot_s) -> None:
        """``now_s``: the time in seconds, of the clock that the protocol's ms are of."""
        self._events_max = events_max
        self._now_s = now_s
        self._stats = stats
        self._condition = threading.Condition()
        self._sync: dict[DistroKey, float] = {}
        """The keys that changed, each with the time of its oldest change."""
        self._events: deque[Event] = deque()
        self._returned: dict[str, int] = {}
        """When a client last came back, by the writer of its former run."""
        self._closed = False
        self._presses = False
        """Among the events is one that ends every wait."""
        self._left = LEAVES_NOTHING
        """The things that need not wake the thread now: they are taken when the wait ends."""

    def sync(self, key: DistroKey) -> None:
        """The key changed here, and is to be sent to the peers."""
        with self._condition:
            if key not in self._sync:
                if len(self._sync) >= self._events_max:
                    self._stats.inbox_dropped += 1
                    return
                self._sync[key] = self._now_s()
            if self._left == LEAVES_NOTHING:
                self._condition.notify()

    def claim(self, key: DistroKey, source: str | None = None) -> None:
        """The key seems to be ours, and has another writer (R2); ``source``: it was fetched from this peer (R16)."""
        self.put(lambda protocol, now_ms: protocol.claim_later(key, now_ms, source))

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        """The peer has a state of these keys that this member lacks."""
        for start in range(0, len(keys), FETCHED_PER_EVENT):
            self.put(_fetch(peer, keys[start : start + FETCHED_PER_EVENT]))

    def served(self, peer: str, resource_type: str, keys: list[str]) -> None:
        """The peer was given this member's states of these keys. It is for the trace alone, and wakes no thread."""
        served_s = self._now_s()
        with self._condition:
            if len(self._events) >= self._events_max:
                return
            self._events.append(lambda protocol, _now_ms: protocol.on_served(peer, resource_type, keys, served_s))

    def on_report(self, report: PeerReport) -> None:
        """Take a peer's report."""
        self.put(lambda protocol, now_ms: protocol.on_report(report, now_ms))

    def remember(self, writers: Iterable[str]) -> None:
        """Have the engine know the members that wrote what this one has on its disk."""
        known = frozenset(writers)
        self.put(lambda protocol, now_ms: protocol.remember(known, now_ms), urgent=True)

    def came_back(self, writer: str, now_ms: int) -> None:
        """Note that a client of a run that hands over came back here (R17). The next turn is early enough."""
        with self._condition:
            if not self._returned:
                self._events.append(self._tell_returned)
            self._returned[writer] = now_ms

    def _tell_returned(self, protocol: DistroProtocol, _now_ms: int) -> None:
        with self._condition:
            returned, self._returned = self._returned, {}
        protocol.came_back(returned)

    def put(self, event: Event, *, urgent: bool = False, waits: bool = False) -> None:
        """Queue an event. An ``urgent`` one is never dropped: such as ends of calls, which are few.

        ``waits``: it does not end a wait that leaves ends.
        """
        with self._condition:
            if not urgent and len(self._events) >= self._events_max:
                self._stats.inbox_dropped += 1
                return
            self._events.append(event)
            self._presses |= not waits
            if not (waits and self._left == LEAVES_ENDS):
                self._condition.notify()

    def put_back(self, events: Sequence[Event]) -> None:
        """Have these events, which were taken just now, taken again before all others."""
        with self._condition:
            self._events.extendleft(reversed(events))
            self._presses = True

    @property
    def is_empty(self) -> bool:
        """Return whether nothing waits."""
        with self._condition:
            return not (self._events or self._sync)

    def close(self) -> None:
        """End the thread: its next ``take`` says so."""
        with self._condition:
            self._closed = True
            self._condition.notify()

    def take(
        self, timeout_s: float, *, leave_keys_s: float = 0.0, leave_ends_s: float = 0.0
    ) -> tuple[list[Event], dict[DistroKey, float], bool]:
        """Wait for events at most ``timeout_s``; return them, the changed keys, and whether the mailbox is closed.

        Each key comes with the time in s of the oldest change since it was taken last. At most ``EVENTS_PER_TURN`` and
        ``KEYS_PER_TURN``, the oldest; the others wait for the next call.

        ``leave_keys_s``: for so long changed keys alone do not end the wait; ``leave_ends_s``: nor do events that were
        put to wait.
        """
        with self._condition:
            begun_s = monotonic_s()
            for part_s, self._left in (
                (leave_ends_s, LEAVES_ENDS),
                (max(leave_keys_s, leave_ends_s), LEAVES_KEYS),
                (timeout_s, LEAVES_NOTHING),
            ):
                end_s = begun_s + min(part_s, timeout_s)
                while not self._ends_wait() and (wait_s := end_s - monotonic_s()) > 0:
                    self._condition.wait(wait_s)
            events = [self._events.popleft() for _ in range(min(len(self._events), EVENTS_PER_TURN))]
            keys = {key: self._sync.pop(key) for key in list(islice(self._sync, KEYS_PER_TURN))}
            self._presses = bool(self._events)
            return events, keys, self._closed

    def _ends_wait(self) -> bool:
        if self._closed or self._presses:
            return True
        return self._left < LEAVES_ENDS and bool(self._events or (self._sync and self._left < LEAVES_KEYS))


def _fetch(peer: str, keys: list[DistroKey]) -> Event:
    return lambda protocol, _now_ms: protocol.fetch(peer, keys)
