"""NotifyCenter: who wants which event. Typed and synchronous; handlers only enqueue, each into what it bounds."""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

LOG = logging.getLogger(__name__)
E = TypeVar("E")
SLOW_NS = 50_000_000
"""A handler that takes longer holds up whoever published: a write, or the event loop."""
SAID_AGAIN_NS = 10_000_000_000
"""A slow or failing subscriber is named in the log once in so long, and counted each time."""


@dataclass(slots=True)
class NotifyStats:
    """What went wrong since the start."""

    events_slow: int = 0
    """Calls of a handler that took longer than 50 ms."""
    events_failed: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class _Subscriber:
    __slots__ = ("handler", "name", "said_ns")

    def __init__(self, handler: Callable[[Any], None]) -> None:
        self.handler = handler
        self.name = f"{handler.__module__}.{getattr(handler, '__qualname__', type(handler).__name__)}"
        self.said_ns = -SAID_AGAIN_NS


class NotifyCenter:
    """Subscribe before the node starts, publish from any thread after."""

    def __init__(self, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now_ns = now_ns
        self._subscribers: dict[type, list[_Subscriber]] = {}
        self.stats = NotifyStats()

    def subscribe(self, event_type: type[E], handler: Callable[[E], None]) -> None:
        self._subscribers.setdefault(event_type, []).append(_Subscriber(handler))

    def publish(self, event: object) -> None:
        """Call the handlers of the event's type, in the order of their subscription.

        One that fails keeps the event neither from the others nor from who published: what happened has happened.
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
                if self._is_to_be_said(one, begun_ns):
                    LOG.exception("%s failed at %s", one.name, type(event).__name__)
            ended_ns = self._now_ns()
            if ended_ns - begun_ns > SLOW_NS:
                self.stats.events_slow += 1
                if self._is_to_be_said(one, begun_ns):
                    taken_ms = (ended_ns - begun_ns) // 1_000_000
                    LOG.warning("%s took %d ms for %s", one.name, taken_ms, type(event).__name__)

    @staticmethod
    def _is_to_be_said(one: _Subscriber, now_ns: int) -> bool:
        if now_ns - one.said_ns < SAID_AGAIN_NS:
            return False
        one.said_ns = now_ns
        return True
