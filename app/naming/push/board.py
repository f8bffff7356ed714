"""Who is subscribed to which service over UDP, what is due to whom, and what was acknowledged.

Pure: time comes in, sends go out. A change makes its service due at once; further changes within ``SPACING_MS`` of a
push are one push at the end of it. Only the latest state of a service is ever owed to a subscriber.
"""

import ipaddress
from collections import deque
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

SPACING_MS = 50
"""The least time between two pushes of one service: a burst of changes becomes a few datagrams."""
ACK_TIMEOUT_MS = 10_000
"""Without an acknowledgement for so long the push is sent once more. Source: Nacos 1.4.1 PushService."""
SENDS_MAX = 2
FORGET_MS = 60_000
"""A subscriber is forgotten when it has neither queried nor acknowledged for so long.

Nacos 1.4 forgets it 10 s after its last query, while the Go SDK counts a push as a refresh and polls up to 10 s later:
it loses the changes in between.
"""
SWEEP_MS = 10_000
SUBSCRIBERS_MAX = 100_000
TEXT_CHARS_MAX = 2_048
"""Of all texts of a subscriber together: what is kept of it comes from whoever may query."""
LATENCIES_KEPT = 1_024
TURN_BITS = 20
"""A reference is the subscriber's number and, in these bits, which of its pushes it names: 14 hours of changes."""
TURN_MASK = (1 << TURN_BITS) - 1
NUMBER_MASK = (1 << 32) - 1
"""Numbers have 32 bits, so a reference fits the 53 that JavaScript clients read and answer exactly."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Who asked, as its list query said. One client may have several, by clusters."""

    namespace: str
    service: str
    """Full name."""
    clusters: str
    ip: str
    port: int
    agent: str
    app: str = field(compare=False)
    bytes_max: int = field(compare=False)
    """The largest datagram that the client can read."""
    java: bool = field(default=False, compare=False)
    """A Java SDK since 1.0.0: names keep their group."""

    @property
    def can_be_kept(self) -> bool:
        """Whether pushes may go there, to one machine and without asking a name server; and the texts are bounded."""
        texts = (self.namespace, self.service, self.clusters, self.agent, self.app)
        return 0 < self.port < 1 << 16 and is_one_machine(self.ip) and sum(map(len, texts)) <= TEXT_CHARS_MAX


def is_one_machine(ip: str) -> bool:
    """Whether a text is the plain address of one machine, which any may be called by."""
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:
        return False
    # A zone names an interface of the client's machine.
    return "%" not in ip and not (address.is_multicast or address.is_unspecified or ip == "255.255.255.255")


@dataclass(frozen=True, slots=True)
class Push:
    """One datagram to build from today's view and to send. ``reference`` comes back in the acknowledgement."""

    subscriber: Subscriber
    reference: int
    answering: bool
    """The client has acknowledged the push before this one, or queried since."""


@dataclass(slots=True)
class _Known:
    """A subscriber, its pushes by count, and the latest of them while it waits for its acknowledgement."""

    subscriber: Subscriber
    number: int
    seen_ms: int
    answering: bool = True
    pushed: int = 0
    acknowledged: int = 0
    sends: int = 0
    """Of the latest push; 0 when nothing is owed."""
    first_ms: int = 0
    due_ms: int = 0

    @property
    def reference(self) -> int:
        return self.number << TURN_BITS | self.pushed & TURN_MASK


@dataclass(slots=True)
class UdpPushStats:
    """What happened since the start, or the last reset. Shown by ``GET /operator/push/state``."""

    total: int = 0
    succeeded: int = 0
    failed: int = 0
    """Sent twice, and never acknowledged."""
    too_large: int = 0
    refused: int = 0
    """Queries that asked for pushes while the board was full, or to where none may go."""
    unsent: int = 0
    """Datagrams that the system did not take; the push is sent again in ``ACK_TIMEOUT_MS``."""
    overrun: int = 0
    """Changes and queries that came faster than the board takes them."""
    latencies_ms: deque[int] = field(default_factory=lambda: deque(maxlen=LATENCIES_KEPT))
    """From the first send to the acknowledgement; the latest ones."""

    def copy(self) -> "UdpPushStats":
        """The counts as they are now."""
        return replace(self, latencies_ms=self.latencies_ms.copy())


class PushBoard:
    """Subscribers by service. Not thread-safe: its owner serialises the calls."""

    def __init__(self, first_number: int = 1) -> None:
        """``first_number``: where numbers of subscribers begin; one that cannot be guessed keeps forged acks out."""
        self._services: dict[tuple[str, str], dict[Subscriber, _Known]] = {}
        self._numbers: dict[int, _Known] = {}
        self._next_number = first_number
        self._due: set[tuple[str, str]] = set()
        self._due_heap: list[tuple[int, tuple[str, str]]] = []
        self._pushed_ms: dict[tuple[str, str], int] = {}
        self._pending: dict[int, _Known] = {}
        """By number, in the order of their time: each is put last when it is sent, for the same time-out."""
        self._swept_ms = 0
        self.stats = UdpPushStats()

    def __len__(self) -> int:
        return len(self._numbers)

    def subscribe(self, subscriber: Subscriber, now_ms: int) -> None:
        """Note or refresh a subscriber; one that is not kept is counted, and lives on its polls."""
        key = (subscriber.namespace, subscriber.service)
        if known := self._services.get(key, {}).get(subscriber):
            known.seen_ms = now_ms
            known.answering = True
            return
        if len(self._numbers) >= SUBSCRIBERS_MAX or not subscriber.can_be_kept:
            self.stats.refused += 1
            return
        number = self._free_number()
        self._numbers[number] = _Known(subscriber, number, now_ms)
        self._services.setdefault(key, {})[subscriber] = self._numbers[number]

    def has(self, namespace: str, service: str) -> bool:
        """Whether anybody is subscribed. One look-up, which any thread may make."""
        return (namespace, service) in self._services

    def subscribers(self, namespace: str) -> list[Subscriber]:
        """All of a namespace."""
        return [one for (space, _), known in self._services.items() if space == namespace for one in known]

    def changed(self, namespace: str, service: str, now_ms: int) -> bool:
        """The service is another one now; return whether anybody is to be told."""
        key = (namespace, service)
        if key not in self._services:
            return False
        if key not in self._due:
            self._due.add(key)
            heappush(self._due_heap, (max(self._pushed_ms.get(key, now_ms - SPACING_MS) + SPACING_MS, now_ms), key))
        return True

    def acknowledged(self, reference: int, now_ms: int) -> bool:
        """A client says that it got a push; False when nobody waits to hear that of this one.

        From wherever it says so: a client with several addresses need not answer from that which it announced. The
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
        self.stats.succeeded += 1
        if not behind:
            known.answering = True
            self.stats.latencies_ms.append(now_ms - known.first_ms)
            self._settle(known)
        return True

    def tick(self, now_ms: int) -> tuple[list[Push], int | None]:
        """Return the datagrams that are due, and when to come again."""
        pushes: list[Push] = []
        while self._due_heap and self._due_heap[0][0] <= now_ms:
            _, key = heappop(self._due_heap)
            self._due.remove(key)
            self._push_service(key, now_ms, pushes)
        self._repeat(now_ms, pushes)
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._sweep(now_ms)
        return pushes, self._next_due_ms()

    def unsendable(self, push: Push) -> None:
        """The datagram would be larger than the client can read: it is not sent, and the client polls."""
        self.stats.too_large += 1
        known = self._numbers.get(push.reference >> TURN_BITS)
        if known is not None and known.reference == push.reference:
            self._settle(known)

    def waiting(self) -> list[tuple[Subscriber, int, int]]:
        """The pushes that are not acknowledged yet: subscriber, reference, sends."""
        return [(known.subscriber, known.reference, known.sends) for known in self._pending.values()]

    def reset_stats(self) -> None:
        """Count anew from now."""
        self.stats = UdpPushStats()

    # --- inside ---------------------------------------------------------------------------------

    def _free_number(self) -> int:
        while (number := self._next_number & NUMBER_MASK) in self._numbers or not number:
            self._next_number = number + 1
        self._next_number = number + 1
        return number

    def _push_service(self, key: tuple[str, str], now_ms: int, pushes: list[Push]) -> None:
        self._pushed_ms[key] = now_ms
        for known in list(self._services.get(key, {}).values()):
            if now_ms - known.seen_ms > FORGET_MS:
                self._forget(known)
                continue
            # An older state under way is not worth waiting for any more.
            answering = known.answering and not known.sends
            self._settle(known)
            known.pushed += 1
            known.first_ms = now_ms
            self.stats.total += 1
            pushes.append(self._add_pending(known, now_ms, answering))

    def _add_pending(self, known: _Known, now_ms: int, answering: bool) -> Push:
        known.sends += 1
        known.due_ms = now_ms + ACK_TIMEOUT_MS
        self._pending[known.number] = known
        return Push(known.subscriber, known.reference, answering)

    def _settle(self, known: _Known) -> None:
        """Wait for no acknowledgement any more."""
        known.sends = 0
        self._pending.pop(known.number, None)

    def _repeat(self, now_ms: int, pushes: list[Push]) -> None:
        """Send again what was not acknowledged, with the state of now; give it up after the second time."""
        while self._pending and (known := next(iter(self._pending.values()))).due_ms <= now_ms:
            del self._pending[known.number]  # it goes to the end of the order, or out
            known.answering = False
            if known.sends < SENDS_MAX:
                pushes.append(self._add_pending(known, now_ms, False))
                continue
            self.stats.failed += 1
            known.sends = 0
            known.acknowledged = known.pushed  # what comes later is a sign of life, but no success

    def _sweep(self, now_ms: int) -> None:
        self._swept_ms = now_ms
        for known in [known for known in self._numbers.values() if now_ms - known.seen_ms > FORGET_MS]:
            self._forget(known)
        self._pushed_ms = {key: at_ms for key, at_ms in self._pushed_ms.items() if now_ms - at_ms < SPACING_MS}

    def _forget(self, known: _Known) -> None:
        self._settle(known)
        del self._numbers[known.number]
        key = (known.subscriber.namespace, known.subscriber.service)
        del self._services[key][known.subscriber]
        if not self._services[key]:
            del self._services[key]

    def _next_due_ms(self) -> int | None:
        times = [at_ms for at_ms, _ in self._due_heap[:1]]
        if self._pending:
            times.append(next(iter(self._pending.values())).due_ms)
        return min(times, default=None)
