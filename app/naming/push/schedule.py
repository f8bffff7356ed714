"""The schedule of pushes to subscribers, for UDP and gRPC alike: spacing, acknowledgements, repeats.

Pure: time comes in, subscribers that are due go out. A change makes its service due at once; further changes within
``SPACING_MS`` of a push are one push at the end of it. Only the latest state of a service is ever pending for a
subscriber: the schedule carries subscribers, and the state is read when the push is sent.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import takewhile
from typing import Generic, NamedTuple, Protocol, TypeVar

from app.naming.clients.client_model import ServiceKey

SPACING_MS = 50
"""The shortest time between two pushes of one service: a burst of changes becomes a few messages."""


class Subscribed(Protocol):
    """A subscriber of one service. Only its schedule sets the two fields. Hashed and compared by identity."""

    sends: int
    """The number of sends since the last settled push; 0 if no acknowledgement and no repeat is pending."""
    due_ms: int
    """When the acknowledgement counts as lost, or the repeat is due."""


S = TypeVar("S", bound=Subscribed)


class Overdue(NamedTuple, Generic[S]):
    """The subscribers whose acknowledgement did not come in time, by consequence."""

    timed_out: list[S]
    repeats: list[S]
    """Subscribers whose push is to be sent again now: after a time-out or refusal, and ``retry_ms``."""
    given_up: list[S]
    """Subscribers that timed out after ``sends_max`` sends: nothing is pending for them."""


class PushSchedule(Generic[S]):
    """Subscribers by service, and the pushes that are due to them. Not thread-safe, except ``has``."""

    def __init__(self, *, ack_timeout_ms: int, retry_ms: int = 0, sends_max: int | None = None) -> None:
        """Set the times.

        ``ack_timeout_ms``: from a send until it counts as lost. ``retry_ms``: from a time-out or refusal to the
        repeat. ``sends_max``: of one push; None repeats it for as long as it is not acknowledged.
        """
        self._ack_timeout_ms = ack_timeout_ms
        self._retry_ms = retry_ms
        self._sends_max = sends_max
        self._services: dict[ServiceKey, dict[S, None]] = {}
        self.has: Callable[[ServiceKey], bool] = self._services.__contains__
        """Returns on any thread whether a service has subscribers. The mapping's own method: each change calls it."""
        self._due: set[ServiceKey] = set()
        self._due_heap: list[tuple[int, ServiceKey]] = []
        self._spaced_ms: dict[ServiceKey, int] = {}
        """By recently pushed service, the time from which it may be pushed again."""
        self._spaced: deque[ServiceKey] = deque()
        """The same services, in the order of that time."""
        self._waiting: dict[S, None] = {}
        """Subscribers with a pending acknowledgement, in the order of ``due_ms``, as all wait for the same time."""
        self._repeats: dict[S, None] = {}
        """Subscribers with a pending repeat, in the order of ``due_ms``, for the same reason."""

    # --- subscribers -----------------------------------------------------------------------------

    def add(self, key: ServiceKey, one: S) -> None:
        """Add a subscriber of a service."""
        self._services.setdefault(key, {})[one] = None

    def remove(self, key: ServiceKey, one: S) -> None:
        """Drop a subscriber, and its pending push."""
        self.settle(one)
        ones = self._services[key]
        del ones[one]
        if not ones:
            del self._services[key]

    def of(self, key: ServiceKey) -> list[S]:
        """Return the subscribers of a service. One copy, which any thread may make."""
        return list(self._services.get(key, ()))

    def is_under_way(self, one: S) -> bool:
        """Return whether a push to a subscriber is due, unacknowledged, or to be repeated.

        For any thread, as ``of``.
        """
        return one in self._waiting or one in self._repeats

    def is_due(self, key: ServiceKey) -> bool:
        """Return whether a service changed and its subscribers do not have the change yet.

        For any thread, as ``of``.
        """
        return key in self._due

    # --- changes ---------------------------------------------------------------------------------

    def changed(self, key: ServiceKey, now_ms: int) -> bool:
        """Make a changed service due. Return whether it has subscribers."""
        if key not in self._services:
            return False
        if key not in self._due:
            self._due.add(key)
            heappush(self._due_heap, (max(self._spaced_ms.get(key, now_ms), now_ms), key))
        return True

    def take_due(self, now_ms: int) -> list[S]:
        """Return all subscribers of the services that are due now. The spacing of these services begins again."""
        while self._spaced and self._spaced_ms[self._spaced[0]] <= now_ms:
            del self._spaced_ms[self._spaced.popleft()]
        found: list[S] = []
        while self._due_heap and self._due_heap[0][0] <= now_ms:
            _, key = heappop(self._due_heap)
            self._due.remove(key)
            self._spaced_ms[key] = now_ms + SPACING_MS
            self._spaced.append(key)
            found.extend(self._services.get(key, ()))
        return found

    # --- pushes under way ------------------------------------------------------------------------

    def sent(self, one: S, now_ms: int) -> None:
        """Wait for the acknowledgement of a push that was sent, or sent again."""
        self._waiting.pop(one, None)
        self._repeats.pop(one, None)
        one.sends += 1
        one.due_ms = now_ms + self._ack_timeout_ms
        self._waiting[one] = None

    def settle(self, one: S) -> None:
        """Drop a subscriber's pending acknowledgement and repeat: the acknowledgement came, or the push is outdated."""
        one.sends = 0
        self._waiting.pop(one, None)
        self._repeats.pop(one, None)

    def refused(self, one: S, now_ms: int) -> None:
        """Repeat a push in ``retry_ms`` that its subscriber refused."""
        self._waiting.pop(one, None)
        self._repeat_later(one, now_ms)

    def waiting(self) -> Iterator[S]:
        """Return the subscribers whose acknowledgement is pending, by time."""
        return iter(self._waiting)

    def take_overdue(self, now_ms: int) -> Overdue[S]:
        """Return the subscribers whose acknowledgement is late, or whose repeat is due. A repeat ends with ``sent``."""
        timed_out, given_up = _due(self._waiting, now_ms), []
        for one in timed_out:
            del self._waiting[one]
            if self._sends_max is None or one.sends < self._sends_max:
                self._repeat_later(one, now_ms)
            else:
                one.sends = 0
                given_up.append(one)
        repeats = _due(self._repeats, now_ms)
        for one in repeats:
            del self._repeats[one]
        return Overdue(timed_out, repeats, given_up)

    def next_due_ms(self) -> int | None:
        """Return when a service, a time-out or a repeat is due next; None if nothing is."""
        times = [at_ms for at_ms, _ in self._due_heap[:1]]
        times += [next(iter(ones)).due_ms for ones in (self._waiting, self._repeats) if ones]
        return min(times, default=None)

    def _repeat_later(self, one: S, now_ms: int) -> None:
        one.due_ms = now_ms + self._retry_ms
        self._repeats[one] = None


def _due(ones: Iterable[S], now_ms: int) -> list[S]:
    """Return the first ones, in the order of ``due_ms``, whose time has come."""
    return list(takewhile(lambda one: one.due_ms <= now_ms, ones))
