"""The instruments of a node, which its frontends write to and an operator reads: counters of requests, and logs.

Requests are counted by route and status, with their durations, as plain numbers. These become metrics when they are
read.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app.config.settings import Settings
from app.metrics.access_log import AccessLog
from app.metrics.audit_trail import AuditTrail
from app.metrics.day_history import DayHistory
from distro.model.monitor import TIMING_BOUNDS_S, Timings

NO_ROUTE = "none"
"""The route of requests that match no row of the route table: callers choose their paths."""
OTHER = "other"
METHODS = frozenset({"", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
"""The methods of HTTP, and the empty one of gRPC. Others are counted together, as callers may invent them."""
OK = 200


class RouteStats:
    """The requests of one route. One thread adds; any may read."""

    __slots__ = ("counts", "others", "succeeded", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(TIMING_BOUNDS_S) + 1)
        """As ``Timings.counts``, but kept here, which saves the loop a call."""
        self.sum_s = 0.0
        self.succeeded = 0
        """Answers with status 200: nearly all."""
        self.others: dict[int, int] = {}
        """Other answers, by status."""

    def add(self, status: int, taken_s: float) -> None:
        """Count an answer."""
        self.counts[bisect_left(TIMING_BOUNDS_S, taken_s)] += 1
        self.sum_s += taken_s
        if status == OK:
            self.succeeded += 1
        else:
            self.others[status] = self.others.get(status, 0) + 1


@dataclass(frozen=True, slots=True)
class RouteCounts:
    """The requests of one route since the start, wherever they were answered."""

    method: str
    route: str
    statuses: Mapping[int, int]
    timings: Timings


class RequestStats:
    """All requests of one frontend, answered by the loop and by threads."""

    def __init__(self) -> None:
        self._on_loop: dict[tuple[str, str], RouteStats] = {}
        self._in_pools: dict[tuple[str, str], RouteStats] = {}
        self._lock = threading.Lock()
        self.loop_lag = Timings()
        """How late the event loop was with a timer, about twenty times a second."""

    def of_loop(self, method: str, route: str) -> RouteStats:
        """Return the numbers of one route that the loop's thread adds to.

        Called before the loop answers, or by its thread.
        """
        found = self._on_loop.get((method, route))
        return found or self._on_loop.setdefault((_known(method), route), RouteStats())

    def count(self, method: str, route: str, status: int, taken_s: float) -> None:
        """Count an answer by a thread. ``route``: the path of a row, never of a request."""
        with self._lock:
            self._in_pools.setdefault((_known(method), route), RouteStats()).add(status, taken_s)

    def read(self) -> Iterator[RouteCounts]:
        """Yield the routes that had a request, sorted."""
        with self._lock:
            keys = sorted({*self._on_loop, *self._in_pools})
        for method, route in keys:
            parts = [one for of in (self._on_loop, self._in_pools) if (one := of.get((method, route))) is not None]
            timings, statuses = Timings(), dict[int, int]()
            for part in parts:
                timings.counts = [a + b for a, b in zip(timings.counts, part.counts, strict=True)]
                timings.sum_s += part.sum_s
                for status, count in ((OK, part.succeeded), *list(part.others.items())):
                    if count:
                        statuses[status] = statuses.get(status, 0) + count
            if statuses:
                yield RouteCounts(method, route, statuses, timings)


def _known(method: str) -> str:
    return method if method in METHODS else OTHER


@dataclass(frozen=True, slots=True)
class Instruments:
    """Counters of requests, and the logs that have their own files."""

    counts_requests: bool
    """True if requests are counted by route."""
    http: RequestStats
    grpc: RequestStats
    access_log: AccessLog
    audit: AuditTrail
    day: DayHistory
    """The numbers of the last day."""

    @classmethod
    def of(cls, settings: Settings, wall_ms: Callable[[], int]) -> "Instruments":
        """Return the instruments of one node. They write nothing yet."""
        return cls(
            settings.told.metrics,
            RequestStats(),
            RequestStats(),
            AccessLog(settings.told, wall_ms),
            AuditTrail(settings.told, settings.self_address, wall_ms),
            DayHistory(wall_ms),
        )

    def counters(self) -> dict[str, int]:
        """Return the counters of both logs."""
        return {**self.audit.counters(), **self.access_log.counters()}

    def stop(self, timeout_s: float) -> bool:
        """Write the waiting lines of both logs. Return whether that took under ``timeout_s``. May be called twice."""
        ended = self.access_log.stop(timeout_s)
        return self.audit.stop(timeout_s) and ended
