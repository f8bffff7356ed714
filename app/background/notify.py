"""NotifyCenter: the event bus. Typed and synchronous; a handler only puts the event into a bounded queue."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

LOG = logging.getLogger(__name__)
E = TypeVar("E")
SLOW_NS = 50_000_000
"""A handler that takes longer delays the publisher, which may be a write or the event loop."""
LOG_INTERVAL_NS = 10_000_000_000
"""A slow or failing handler is logged at most once in this time, and counted each time."""


@dataclass(slots=True)
class NotifyStats:
    """Slow and failed calls of handlers since the start."""

    events_slow: int = 0
    """Calls that took longer than ``SLOW_NS``."""
    events_failed: int = 0


class _Subscriber:
    __slots__ = ("handler", "logged_ns", "name")

    def __init__(self, handler: Callable[[Any], None]) -> None:
        self.handler = handler
        self.name = f"{handler.__module__}.{getattr(handler, '__qualname__', type(handler).__name__)}"
        self.logged_ns = -LOG_INTERVAL_NS


class NotifyCenter:
    """Calls the handlers of each published event. Subscribe before the node starts; publish on any thread."""

    def __init__(self, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now_ns = now_ns
        self._subscribers: dict[type, list[_Subscriber]] = {}
        self.stats = NotifyStats()

    def subscribe(self, event_type: type[E], handler: Callable[[E], None]) -> None:
        self._subscribers.setdefault(event_type, []).append(_Subscriber(handler))

    def publish(self, event: object) -> None:
        """Call the handlers of the event's type, in the order of their subscription.

        A handler that raises is logged and counted; the other handlers and the publisher continue.
        """
        subscribers = self._subscribers.get(type(event))
        if subscribers is None:
            return
        ended_ns = self._now_ns()
        for one in subscribers:
            begun_ns = ended_ns
            try:
                one.handler(event)
            except Exception:
                self.stats.events_failed += 1
                if self._may_log(one, begun_ns):
                    LOG.exception("%s failed at %s", one.name, type(event).__name__)
            ended_ns = self._now_ns()
            if ended_ns - begun_ns > SLOW_NS:
                self.stats.events_slow += 1
                if self._may_log(one, begun_ns):
                    taken_ms = (ended_ns - begun_ns) // 1_000_000
                    LOG.warning("%s took %d ms for %s", one.name, taken_ms, type(event).__name__)

    @staticmethod
    def _may_log(one: _Subscriber, now_ns: int) -> bool:
        if now_ns - one.logged_ns < LOG_INTERVAL_NS:
            return False
        one.logged_ns = now_ns
        return True
