"""The subscriptions of gRPC clients: a schedule of their pushes, their request ids, and those ready to be written.

Pure: time comes in, subscriptions that are due go out.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sized
from dataclasses import dataclass

from app.naming.clients.client_model import ServiceKey
from app.naming.push.schedule import PushSchedule
from app.naming.push.udp_subscribers import PushState

ACK_MS = 5_000
RETRY_MS = 1_000
"""The time until the next try after a refusal or a missing acknowledgement. Source of both: Nacos 2.2.3 PushConfig."""
SUBSCRIPTIONS_MAX = 10_000
"""The most subscriptions of one client."""


@dataclass(slots=True, eq=False)
class Subscription:
    """One client's interest in one service, and its latest push as ``PushSchedule`` keeps it."""

    client_id: str
    key: ServiceKey
    clusters: str
    request_id: str = ""
    """The id of the push that the client has not acknowledged yet."""
    content: int | None = None
    """The ``ServiceInfo.content`` that the last push showed; None when the next push is sent in any case."""
    pushed_ms: int = 0
    """The time of the last push, and that of the last acknowledgement (monotonic); 0 for never."""
    answered_ms: int = 0
    sends: int = 0
    due_ms: int = 0


@dataclass(slots=True)
class GrpcPushStats:
    """Counts of pushes since the start."""

    sent: int = 0
    acknowledged: int = 0
    refused: int = 0
    timed_out: int = 0
    unchanged: int = 0
    """Pushes that were not sent, as the service changed and the list that the client was shown did not."""


class GrpcSubscriptions:
    """Subscriptions by client and service, and the pushes due to them. Not thread-safe, except for ``has``.

    ``has``, ``changed`` and ``next_due_ms`` are those of ``PushSchedule``.
    """

    def __init__(self) -> None:
        self._clients: dict[str, dict[ServiceKey, Subscription]] = {}
        self._schedule = due = PushSchedule[Subscription](ack_timeout_ms=ACK_MS, retry_ms=RETRY_MS)
        self.has, self.changed, self.next_due_ms = due.has, due.changed, due.next_due_ms
        self.arriving: Sized = ()
        """Subscriptions that ``has`` does not know yet: none, as each is added before its request is answered."""
        self._requests: dict[tuple[str, str], Subscription] = {}
        """The subscriptions that wait for an acknowledgement, by client and request: clients share request ids."""
        self._ready: OrderedDict[Subscription, None] = OrderedDict()
        """The subscriptions with a push to be written, in the order in which they became due."""
        self.stats = GrpcPushStats()

    def subscribe(self, client_id: str, key: ServiceKey, clusters: str) -> bool:
        """Add a subscription, or give it other clusters; False when the client has too many."""
        of_client = self._clients.setdefault(client_id, {})
        known = of_client.get(key)
        if known is None:
            if len(of_client) >= SUBSCRIPTIONS_MAX:
                return False
            known = of_client[key] = Subscription(client_id, key, clusters)
            self._schedule.add(key, known)
        known.clusters = clusters
        return True

    def add_pending(self, client_id: str, key: ServiceKey) -> None:
        """Make a push to one client ready, whether the service changed or not."""
        if known := self.find(client_id, key):
            known.content = None
            self._ready[known] = None

    def unsubscribe(self, client_id: str, key: ServiceKey) -> None:
        """Remove a subscription, if there is one."""
        of_client = self._clients.get(client_id, {})
        if known := of_client.pop(key, None):
            self._drop(known)
        if not of_client:
            self._clients.pop(client_id, None)

    def forget(self, client_id: str) -> None:
        """Remove all subscriptions of a client that is gone."""
        for known in self._clients.pop(client_id, {}).values():
            self._drop(known)

    def find(self, client_id: str, key: ServiceKey) -> Subscription | None:
        """Return the client's subscription to a service, or None."""
        return self._clients.get(client_id, {}).get(key)

    def states(self, key: ServiceKey, now_ms: int) -> list[PushState]:
        """Return how far each subscriber of a service has followed it. Only reads, so any thread may call it."""
        is_due = self._schedule.is_due(key)
        return [
            PushState(
                one.client_id,
                "",
                now_ms - one.pushed_ms if one.pushed_ms else None,
                now_ms - one.answered_ms if one.answered_ms else None,
                one.sends,
                is_due or one in self._ready or self._schedule.is_under_way(one),
            )
            for one in self._schedule.of(key)
        ]

    def tick(self, now_ms: int) -> int | None:
        """Move the pushes that are due to those that ``ready`` gives; return when to come again."""
        for one in self._schedule.take_due(now_ms):
            self._ready[one] = None
        overdue = self._schedule.take_overdue(now_ms)
        for one in overdue.timed_out:
            self.stats.timed_out += 1
            self._drop_request(one)
        for one in overdue.repeats:
            one.content = None
            self._ready[one] = None
        return self.next_due_ms()

    @property
    def is_ready(self) -> bool:
        """True if ``ready`` has something to give."""
        return bool(self._ready)

    def ready(self) -> Iterator[Subscription]:
        """Take the subscriptions whose push is ready, one by one; the caller has it written."""
        while self._ready:
            one, _ = self._ready.popitem(last=False)
            yield one

    def is_news(self, one: Subscription, content: int) -> bool:
        """Return whether ``content`` differs from the content of the last push, so that it is sent; count it if not.

        A client that moves between members, or another source of the same instance, changes a service but not its
        list: a restart of a member would cause thousands of such pushes.
        """
        if one.content == content:
            self.stats.unchanged += 1
            return False
        return True

    def sent(self, one: Subscription, request_id: str, content: int, now_ms: int) -> None:
        """Wait for the acknowledgement of a push that shows ``content``, and no longer for that of an older push."""
        self.stats.sent += 1
        self._drop_request(one)
        one.request_id, one.content = request_id, content
        one.pushed_ms = now_ms
        self._requests[one.client_id, request_id] = one
        self._schedule.sent(one, now_ms)

    def answered(self, client_id: str, request_id: str, went_well: bool, now_ms: int) -> bool:
        """Take a client's answer to a request; return False unless it acknowledges a push that waits for it."""
        one = self._requests.get((client_id, request_id))
        if one is None:
            return False
        self._drop_request(one)
        if went_well:
            self.stats.acknowledged += 1
            one.answered_ms = now_ms
            self._schedule.settle(one)
        else:
            self.stats.refused += 1
            self._schedule.refused(one, now_ms)
        return True

    # --- inside ----------------------------------------------------------------------------------

    def _drop_request(self, one: Subscription) -> None:
        self._requests.pop((one.client_id, one.request_id), None)
        one.request_id = ""

    def _drop(self, one: Subscription) -> None:
        self._drop_request(one)
        self._schedule.remove(one.key, one)
        self._ready.pop(one, None)
