"""Which client is owed which service, what is under way, and what was not acknowledged.

Pure: time comes in, what is due goes out. Only the latest state of a service is ever owed: what is due is a name, and
its state is read when the message is written.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from app.rpc.server.ports import ServiceKey

SPACING_MS = 50
"""The least time between two pushes of one service: a burst of changes becomes a few messages."""
ACK_MS = 5_000
RETRY_MS = 1_000
"""After a refusal, or an acknowledgement that did not come. Source of both: Nacos 2.2.3 PushConfig."""
SUBSCRIPTIONS_MAX = 10_000
"""Of one client."""


@dataclass(slots=True, eq=False)
class Subscription:
    """One client's interest in one service, and the latest push of it while that is not acknowledged."""

    client_id: str
    key: ServiceKey
    clusters: str
    pending: bool = False
    """It is among what is due."""
    request_id: str = ""
    at_ms: int = 0
    """When the push was written, or is to be repeated."""


@dataclass(slots=True)
class GrpcPushStats:
    """What happened since the start."""

    sent: int = 0
    acknowledged: int = 0
    refused: int = 0
    timed_out: int = 0


class PushBoard:
    """Subscriptions by service and client. Not thread-safe, but for ``has``."""

    def __init__(self) -> None:
        self._services: dict[ServiceKey, dict[str, Subscription]] = {}
        self._clients: dict[str, dict[ServiceKey, Subscription]] = {}
        self._due: set[ServiceKey] = set()
        self._due_heap: list[tuple[int, ServiceKey]] = []
        self._pushed_ms: dict[ServiceKey, int] = {}
        self._waiting: dict[tuple[str, str], Subscription] = {}
        """For acknowledgements, by client and request, in the order of their time."""
        self._repeat: dict[Subscription, None] = {}
        """In the order of their time, too."""
        self._ready: deque[Subscription] = deque()
        self.stats = GrpcPushStats()

    def has(self, key: ServiceKey) -> bool:
        """Whether anybody is subscribed. One look-up, which any thread may make."""
        return key in self._services

    def subscribe(self, client_id: str, key: ServiceKey, clusters: str) -> bool:
        """Note a subscription, or its other clusters; False when the client has too many."""
        of_client = self._clients.setdefault(client_id, {})
        known = of_client.get(key)
        if known is None:
            if len(of_client) >= SUBSCRIPTIONS_MAX:
                return False
            known = of_client[key] = Subscription(client_id, key, clusters)
            self._services.setdefault(key, {})[client_id] = known
        known.clusters = clusters
        return True

    def add_pending(self, client_id: str, key: ServiceKey) -> None:
        """One client is to be told of a service, changed or not."""
        if known := self.find(client_id, key):
            self._add_pending(known)

    def unsubscribe(self, client_id: str, key: ServiceKey) -> None:
        of_client = self._clients.get(client_id, {})
        if known := of_client.pop(key, None):
            self._drop(known)
        if not of_client:
            self._clients.pop(client_id, None)

    def forget(self, client_id: str) -> None:
        """The client is gone."""
        for known in self._clients.pop(client_id, {}).values():
            self._drop(known)

    def find(self, client_id: str, key: ServiceKey) -> Subscription | None:
        return self._clients.get(client_id, {}).get(key)

    def changed(self, key: ServiceKey, now_ms: int) -> None:
        """The service is another one now."""
        if key in self._services and key not in self._due:
            self._due.add(key)
            at_ms = max(self._pushed_ms.get(key, now_ms - SPACING_MS) + SPACING_MS, now_ms)
            heappush(self._due_heap, (at_ms, key))

    def tick(self, now_ms: int) -> int | None:
        """Make ready what is due; return when to come again. ``ready`` gives what is."""
        while self._due_heap and self._due_heap[0][0] <= now_ms:
            _, key = heappop(self._due_heap)
            self._due.remove(key)
            if subscriptions := self._services.get(key):
                self._pushed_ms[key] = now_ms
                for one in subscriptions.values():
                    self._add_pending(one)
        while self._waiting and (one := next(iter(self._waiting.values()))).at_ms + ACK_MS <= now_ms:
            self.stats.timed_out += 1
            self._repeat_later(one, now_ms)
        while self._repeat and (one := next(iter(self._repeat))).at_ms <= now_ms:
            del self._repeat[one]
            self._add_pending(one)
        return self.next_due_ms()

    @property
    def is_ready(self) -> bool:
        return bool(self._ready)

    def ready(self) -> Iterator[Subscription]:
        """Take what is ready, one by one; who takes has it written."""
        while self._ready:
            one = self._ready.popleft()
            if one.pending:
                one.pending = False
                yield one

    def sent(self, one: Subscription, request_id: str, now_ms: int) -> None:
        """A push of today's state is on its way; an older one is not worth waiting for any more."""
        self.stats.sent += 1
        self._repeat.pop(one, None)
        self._settle(one)
        one.request_id, one.at_ms = request_id, now_ms
        self._waiting[one.client_id, request_id] = one

    def answered(self, client_id: str, request_id: str, went_well: bool, now_ms: int) -> bool:
        """A client answered a request; False when it is none of these."""
        one = self._waiting.get((client_id, request_id))
        if one is None:
            return False
        if went_well:
            self.stats.acknowledged += 1
            self._settle(one)
        else:
            self.stats.refused += 1
            self._repeat_later(one, now_ms)
        return True

    def next_due_ms(self) -> int | None:
        times = [at_ms for at_ms, _ in self._due_heap[:1]]
        if self._waiting:
            times.append(next(iter(self._waiting.values())).at_ms + ACK_MS)
        if self._repeat:
            times.append(next(iter(self._repeat)).at_ms)
        return min(times, default=None)

    # --- inside ----------------------------------------------------------------------------------

    def _add_pending(self, one: Subscription) -> None:
        if not one.pending:
            one.pending = True
            self._ready.append(one)

    def _repeat_later(self, one: Subscription, now_ms: int) -> None:
        self._settle(one)
        one.at_ms = now_ms + RETRY_MS
        self._repeat[one] = None

    def _settle(self, one: Subscription) -> None:
        self._waiting.pop((one.client_id, one.request_id), None)
        one.request_id = ""

    def _drop(self, one: Subscription) -> None:
        self._settle(one)
        self._repeat.pop(one, None)
        one.pending = False
        subscriptions = self._services[one.key]
        del subscriptions[one.client_id]
        if not subscriptions:
            del self._services[one.key]
            self._pushed_ms.pop(one.key, None)
