"""The subscribers over UDP: a schedule of their pushes, references for acknowledgements, and when each is forgotten.

Pure: time comes in, sends go out.
"""

import ipaddress
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

from app.naming.clients.client_model import ServiceKey
from app.naming.limits.admission import SubscriberTally
from app.naming.push.push_budget import PushBudget
from app.naming.push.schedule import PushSchedule

DATAGRAM_BYTES_MAX = 65_507
"""The largest payload of UDP over IPv4."""
ACK_TIMEOUT_MS = 10_000
"""A push without an acknowledgement for this long is sent once more. Source: Nacos 1.4.1 PushService."""
SENDS_MAX = 2
FORGET_MS = 60_000
"""A subscriber is forgotten when it has neither queried nor acknowledged for so long.

Nacos 1.4 forgets it 10 s after its last query, while the Go SDK counts a push as a refresh and polls up to 10 s later:
it loses the changes in between.
"""
SWEEP_MS = 10_000
SUBSCRIBERS_MAX = 100_000
SUBSCRIBERS_OF_PORT_MAX = 8
"""The most subscribers of a service at one address and port: a client has one for each set of clusters."""
UNANSWERED_MAX = 2
"""The most unanswered datagrams to a subscriber. It gets no more until it acknowledges one, or queries."""
PORT_MIN = 1_024
"""The lowest port. Lower ones belong to services, which answer to datagrams of strangers, and to no client."""
TEXT_CHARS_MAX = 2_048
"""The bound on all texts of a subscriber together: any client that may query has them kept here."""
LATENCIES_KEPT = 1_024
TURN_BITS = 20
"""The bits of a reference for the number of the push: 14 hours of changes. The others are the subscriber's number."""
TURN_MASK = (1 << TURN_BITS) - 1
_IPV4, _RESERVED_FROM = 4, 240
NUMBER_MASK = (1 << 32) - 1
"""Numbers have 32 bits, so that a reference fits the 53 bits that JavaScript clients read and answer exactly."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A client's interest in one service, from its list query. One client may have several, by clusters."""

    namespace: str
    service: str
    """The full name."""
    clusters: str
    ip: str
    port: int
    agent: str
    app: str = field(compare=False)
    bytes_max: int = field(compare=False)
    """The largest datagram that the client can read."""
    java: bool = field(default=False, compare=False)
    """True if the client is a Java SDK since 1.0.0: names keep their group."""
    reads_gzip: bool = field(default=True, compare=False)
    """False if all its pushes have to be plain JSON."""

    @property
    def key(self) -> ServiceKey:
        return self.namespace, self.service

    @property
    def can_be_kept(self) -> bool:
        """Return whether its address means one machine without a name server, and no service; and texts are short."""
        texts = (self.namespace, self.service, self.clusters, self.agent, self.app)
        return PORT_MIN <= self.port < 1 << 16 and is_one_machine(self.ip) and sum(map(len, texts)) <= TEXT_CHARS_MAX


def is_one_machine(ip: str) -> bool:
    """Return whether a text is a unicast address, v4 or v6, that means the same machine to every node."""
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    # All of 0.0.0.0/8 may mean the machine that sends; all of 240.0.0.0/4 is for none, or for broadcasts. A directed
    # broadcast is refused by the system, as the sockets do not ask for permission to send one.
    first = int(address) >> 24 if address.version == _IPV4 else None
    is_reserved = first == 0 or (first is not None and first >= _RESERVED_FROM)
    # A zone names an interface of the client's machine.
    return "%" not in ip and not (address.is_multicast or address.is_unspecified or is_reserved)


@dataclass(frozen=True, slots=True)
class Push:
    """One datagram to build from the service's current view and to send."""

    subscriber: Subscriber
    reference: int
    """The reference that the client's acknowledgement will name."""
    answering: bool
    """True if the client has acknowledged the previous push, or queried since."""


@dataclass(slots=True, eq=False)
class _Known:
    """A subscriber, the counts of its pushes, and its latest push as ``PushSchedule`` keeps it."""

    subscriber: Subscriber
    number: int
    seen_ms: int
    """When it last queried or acknowledged."""
    answering: bool = True
    unanswered: int = 0
    """Datagrams since its last query or acknowledgement, and their bytes."""
    unanswered_bytes: int = 0
    missed: bool = False
    """True if it did not get a change because too much was unanswered."""
    pushed: int = 0
    acknowledged: int = 0
    """The latest push that needs no acknowledgement any more, by its number."""
    first_ms: int = 0
    """When the latest push was sent for the first time."""
    answered_ms: int = 0
    """When a push was last acknowledged."""
    sends: int = 0
    due_ms: int = 0

    @property
    def reference(self) -> int:
        return self.number << TURN_BITS | self.pushed & TURN_MASK


@dataclass(frozen=True, slots=True)
class PushState:
    """How far a subscriber is with the changes of its service. Times are ages in ms, None for never."""

    who: str
    """Its address, or its client's id."""
    agent: str
    pushed_ms: int | None
    answered_ms: int | None
    sends: int
    """The number of sends of the push whose acknowledgement is pending; 0 for none."""
    is_under_way: bool
    """True if it has not been sent, or has not acknowledged, the latest change."""


@dataclass(slots=True)
class UdpPushStats:
    """Counts of pushes since the start, or the last reset. Shown by ``GET /operator/push/state``."""

    total: int = 0
    """Pushes of a new state to one subscriber."""
    succeeded: int = 0
    failed: int = 0
    """Pushes that were sent twice, and never acknowledged."""
    too_large: int = 0
    refused: int = 0
    """Queries that requested pushes and got none: there were too many subscribers, or the address is not allowed."""
    held_back: int = 0
    """Pushes that a subscriber did not get, as it had left two unanswered. It gets the latest one when it answers."""
    over_budget: int = 0
    """Datagrams that exceeded their destination's budget. The push is sent again in ``ACK_TIMEOUT_MS``."""
    unsent: int = 0
    """Datagrams that the system refused. The push is sent again in ``ACK_TIMEOUT_MS``."""
    overrun: int = 0
    """Changes and queries that were lost because the mailbox of the push thread was full."""
    latencies_ms: deque[int] = field(default_factory=lambda: deque(maxlen=LATENCIES_KEPT))
    """The latencies of the latest acknowledged pushes, from the first send to the acknowledgement."""

    def copy(self) -> "UdpPushStats":
        """Return a copy of the counts."""
        return replace(self, latencies_ms=self.latencies_ms.copy())


class UdpSubscribers:
    """The subscribers over UDP, and the pushes due to them. Not thread-safe, except ``has``.

    ``has`` and ``changed`` are those of ``PushSchedule``.
    """

    def __init__(
        self, first_number: int = 1, draw: Callable[[], int] | None = None, tally: SubscriberTally | None = None
    ) -> None:
        """``draw``: returns random numbers for subscribers; without it they count up from ``first_number``.

        A caller that can guess the number of another subscriber could acknowledge in its name, so that it would get
        more and more. ``tally``: counts the subscribers, with those over gRPC.
        """
        self._tally = tally or SubscriberTally()
        self._known: dict[Subscriber, _Known] = {}
        self._numbers: dict[int, _Known] = {}
        self._draw = draw or count(first_number).__next__
        self._schedule = PushSchedule[_Known](ack_timeout_ms=ACK_TIMEOUT_MS, sends_max=SENDS_MAX)
        self.has, self.changed = self._schedule.has, self._schedule.changed
        self.arriving: deque[Subscriber | ServiceKey] = deque()
        """Subscribers and changed services that the push thread has yet to take, from any thread.

        While there are any, each service may have subscribers that ``has`` does not know yet.
        """
        self._swept_ms = 0
        self._budget = PushBudget()
        self._of_port: dict[tuple[ServiceKey, str, int], int] = {}
        """The number of subscribers of a service at an address and port."""
        self._answered: dict[_Known, None] = {}
        """The subscribers that missed a change, and may be sent it now."""
        self.stats = UdpPushStats()

    def __len__(self) -> int:
        return len(self._numbers)

    def subscribe(self, subscriber: Subscriber, now_ms: int) -> None:
        """Add or refresh a subscriber. A refused one is counted, and learns of changes only by its polls."""
        if known := self._known.get(subscriber):
            known.seen_ms = now_ms
            known.answering = True
            known.missed = False  # the answer to its query has the latest state
            self._on_answer(known)
            return
        port = (subscriber.key, subscriber.ip, subscriber.port)
        too_many = len(self._numbers) >= SUBSCRIBERS_MAX or self._of_port.get(port, 0) >= SUBSCRIBERS_OF_PORT_MAX
        if too_many or not subscriber.can_be_kept or not self._tally.has_room():
            self.stats.refused += 1
            return
        number = self._free_number()
        known = self._known[subscriber] = self._numbers[number] = _Known(subscriber, number, now_ms)
        self._tally.udp = len(self._numbers)
        self._schedule.add(subscriber.key, known)
        self._of_port[port] = self._of_port.get(port, 0) + 1

    def states(self, key: ServiceKey, now_ms: int) -> list[PushState]:
        """Return how far each subscriber of a service is."""
        is_due = self._schedule.is_due(key)
        return [
            PushState(
                f"{one.subscriber.ip}:{one.subscriber.port}",
                one.subscriber.agent,
                now_ms - one.first_ms if one.pushed else None,
                now_ms - one.answered_ms if one.answered_ms else None,
                one.sends,
                is_due or self._schedule.is_under_way(one),
            )
            for one in self._schedule.of(key)
        ]

    def subscribers(self, namespace: str) -> list[Subscriber]:
        """Return all subscribers of a namespace."""
        return [one for one in self._known if one.namespace == namespace]

    def acknowledged(self, reference: int, now_ms: int) -> bool:
        """Take a client's acknowledgement of a push. Return False for a push whose acknowledgement is not pending.

        It counts from any address: a client with several need not answer from the one that it announced. The
        acknowledgement of an older push than the latest is late, but it is a sign of life, and that push arrived.
        """
        known = self._numbers.get(reference >> TURN_BITS)
        if known is None:
            return False
        known.seen_ms = now_ms
        behind = (known.pushed - reference) & TURN_MASK
        if behind >= known.pushed - known.acknowledged:
            return False
        known.acknowledged = known.pushed - behind
        self._on_answer(known)
        known.answered_ms = now_ms
        self.stats.succeeded += 1
        if not behind:
            known.answering = True
            self.stats.latencies_ms.append(now_ms - known.first_ms)
            self._schedule.settle(known)
        return True

    def tick(self, now_ms: int) -> tuple[list[Push], int | None]:
        """Return the datagrams that are due, and when to come again."""
        pushes: list[Push] = []
        due = self._schedule.take_due(now_ms)
        if self._answered:
            due = list(dict.fromkeys([*due, *self._answered]))
            self._answered.clear()
        for known in due:
            if now_ms - known.seen_ms > FORGET_MS:
                self._forget(known)
            elif known.unanswered >= UNANSWERED_MAX:
                known.missed = True
                self.stats.held_back += 1
            else:
                known.missed = False
                pushes.append(self._push(known, now_ms))
        overdue = self._schedule.take_overdue(now_ms)
        for known in overdue.timed_out:
            known.answering = False
        for known in overdue.given_up:
            self.stats.failed += 1
            known.acknowledged = known.pushed  # a later acknowledgement is a sign of life, but no success
        for known in overdue.repeats:
            if known.unanswered < UNANSWERED_MAX:
                pushes.append(self._send(known, now_ms, False))
            else:
                self._schedule.settle(known)
                self.stats.failed += 1
                known.acknowledged = known.pushed
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            for known in [known for known in self._numbers.values() if now_ms - known.seen_ms > FORGET_MS]:
                self._forget(known)
            self._budget.sweep(now_ms)
        return pushes, now_ms if self._answered else self._schedule.next_due_ms()

    def admit(self, push: Push, size: int, now_ms: int) -> bool:
        """Return whether a datagram of ``size`` bytes may be sent now, and count it.

        Otherwise it is sent again later.
        """
        one = push.subscriber
        known = self._numbers.get(push.reference >> TURN_BITS)
        if known is None:
            return False
        if not self._budget.take(one.ip, one.port, size, now_ms):
            self.stats.over_budget += 1
            known.unanswered = max(known.unanswered - 1, 0)
            return False
        known.unanswered_bytes += size
        return True

    def unsendable(self, push: Push) -> None:
        """Expect no acknowledgement of a push that was not sent, because its client cannot read so large a datagram."""
        self.stats.too_large += 1
        known = self._numbers.get(push.reference >> TURN_BITS)
        if known is not None:
            known.unanswered = max(known.unanswered - 1, 0)
        if known is not None and known.reference == push.reference:
            self._schedule.settle(known)

    def waiting(self) -> list[tuple[Subscriber, int, int]]:
        """Return the pushes that are not acknowledged yet: subscriber, reference, sends."""
        return [(known.subscriber, known.reference, known.sends) for known in self._schedule.waiting()]

    def reset_stats(self) -> None:
        """Count again from now."""
        self.stats = UdpPushStats()

    # --- inside ---------------------------------------------------------------------------------

    def _free_number(self) -> int:
        while (number := self._draw() & NUMBER_MASK) in self._numbers or not number:
            pass
        return number

    def _push(self, known: _Known, now_ms: int) -> Push:
        """Return the push of a new state. An older unacknowledged state is not worth waiting for any more."""
        answering = known.answering and not known.sends
        self._schedule.settle(known)
        known.pushed += 1
        known.first_ms = now_ms
        self.stats.total += 1
        return self._send(known, now_ms, answering)

    def _send(self, known: _Known, now_ms: int, answering: bool) -> Push:
        self._schedule.sent(known, now_ms)
        known.unanswered += 1
        return Push(known.subscriber, known.reference, answering)

    def _on_answer(self, known: _Known) -> None:
        """Resume pushes to a subscriber that acknowledged one, or has queried again."""
        self._budget.answered(known.subscriber.ip, known.subscriber.port, known.unanswered_bytes)
        known.unanswered = known.unanswered_bytes = 0
        if known.missed:
            self._answered[known] = None

    def _forget(self, known: _Known) -> None:
        one = known.subscriber
        known.missed = False
        self._on_answer(known)
        self._answered.pop(known, None)
        port = (one.key, one.ip, one.port)
        left = self._of_port.pop(port) - 1
        if left:
            self._of_port[port] = left
        del self._known[known.subscriber]
        del self._numbers[known.number]
        self._tally.udp = len(self._numbers)
        self._schedule.remove(known.subscriber.key, known)
