"""The push-udp thread: sends pushes to subscribers of v1 SDKs, and takes their acknowledgements."""

import logging
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import orjson

from app.naming.model.switches import SwitchDomain
from app.naming.push.udp_subscribers import (
    DATAGRAM_BYTES_MAX,
    Push,
    PushState,
    Subscriber,
    UdpPushStats,
    UdpSubscribers,
)
from app.naming.service import NamingService
from app.naming.wire.service_info import Variant, ZippedHead, echo_of, unknown_service
from distro.model.ports import Clock

LOG = logging.getLogger(__name__)
GZIP_FROM_BYTES = 1_024
"""Source: Nacos 1.4.1 PushService.compressIfNecessary. Clients detect gzip by its magic."""
ACK_BYTES_MAX = 4_096
ACKS_PER_TURN = 256
SENDS_PER_TURN = 64
"""The most pushes sent before acknowledgements are read: the system buffers only about 250 per socket."""
SEND_WAIT_S = 0.05
"""The wait for room in the buffer of a socket, once per datagram."""
BUFFER_BYTES = 4 << 20
"""The size of the buffers that a socket requests. The system may give less."""
IDLE_S = 1.0
MAILBOX_MAX = 200_000
MAILBOX_WAKE_FROM = 1_024
"""With this many waiting events, subscriptions wake the thread. Fewer are not urgent, and wait for its next turn."""

BuildPayload = Callable[[Subscriber], bytes]
"""Renders the current list of a subscriber's service, as JSON."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A push without its reference, which comes last: the rest is rendered and compressed once for a service."""

    head: bytes | ZippedHead

    @classmethod
    def of(cls, payload: bytes, *, zips: bool = True) -> "Packet":
        """Return the packet of a rendered list.

        Shape: ``{"type": "dom", "data": list JSON as text, "lastRefTime": reference}``, with ``zips`` gzip from 1 KiB.
        """
        plain = b'{"type":"dom","data":' + orjson.dumps(payload.decode()) + b',"lastRefTime":'
        return cls(ZippedHead.of(plain) if zips and len(plain) >= GZIP_FROM_BYTES else plain)

    def datagram(self, reference: int) -> bytes:
        """Return the bytes of the push for one subscriber, whose acknowledgement will name ``reference``."""
        tail = b"%d}" % reference
        return self.head.with_end(tail) if isinstance(self.head, ZippedHead) else self.head + tail


def reference_of(ack: bytes) -> int | None:
    """Return the reference in an acknowledgement, given as a number or as text; None for any other datagram."""
    try:
        fields = orjson.loads(ack)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fields, dict) or not str(fields.get("type", "")).endswith("-ack"):
        return None
    text = str(fields.get("lastRefTime")).strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


class UdpPusher:
    """The push-udp thread, its sockets, and a mailbox of subscriptions and changes, which are handled in order.

    A caller of ``subscribe`` or ``changed`` never waits for a lock.
    """

    def __init__(
        self,
        subscribers: UdpSubscribers,
        build: BuildPayload,
        clock: Clock,
        on_pushed: Callable[[str, str], None] = lambda _namespace, _service: None,
    ) -> None:
        """``on_pushed``: called when the sending of a service's current list begins, once or a few times."""
        self._subscribers = subscribers
        self._build = build
        self._clock = clock
        self._lock = threading.Lock()
        """Guards the subscribers. Taken to empty the mailbox, and never to fill it."""
        self._mailbox = self.arriving = subscribers.arriving
        self.has = subscribers.has
        """Returns whether a service, by namespace and full name, has subscribers, without those that are arriving."""
        self._outbox: deque[Push] = deque()
        self._packets: dict[tuple[str, str], dict[tuple[str, bool, bool], Packet]] = {}
        """Packets of services with pushes in the outbox: by service, then by the variant for a subscriber."""
        self._awake = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="push-udp", daemon=False)
        self._on_pushed = on_pushed
        self._sockets: dict[bool, socket.socket] = {}
        """The sockets by ``Push.answering``: one for clients that acknowledge, one for clients that do not.

        Datagrams to a machine that is gone wait in the system for its hardware address, for some seconds. They fill the
        socket's buffer, and would leave no room in it to living clients.
        """
        self._selector: selectors.BaseSelector | None = None
        self._wake_out: socket.socket | None = None
        self._wake_in: socket.socket | None = None
        """The ends of the pair that wakes the thread. All three are unset until the start."""

    def start(self) -> None:
        """Open the sockets on all addresses of the machine, because clients may use any of them. Start the thread."""
        selector = self._selector = selectors.DefaultSelector()
        for answering in (True, False):
            opened = self._sockets[answering] = open_socket()
            selector.register(opened, selectors.EVENT_READ)
        self._wake_out, self._wake_in = socket.socketpair()
        for one in (self._wake_out, self._wake_in):
            one.setblocking(False)
        selector.register(self._wake_out, selectors.EVENT_READ)
        if self._mailbox:
            self._wake()
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """End the thread and close the sockets. Return whether that took under ``timeout_s``. May be called twice."""
        self._stopped = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        ended = not self._thread.is_alive()
        if ended and self._selector is not None:
            self._selector.close()
            for one in (*self._sockets.values(), self._wake_out, self._wake_in):
                if one is not None:
                    one.close()
        return ended

    # --- from any thread ------------------------------------------------------------------------

    def subscribe(self, subscriber: Subscriber) -> None:
        """Add or refresh a subscriber. Call it before the list is rendered: then no later change is missed."""
        self._put(subscriber)
        if len(self._mailbox) >= MAILBOX_WAKE_FROM:
            self._wake()

    def refuse(self) -> None:
        """Count a query that asked for pushes to an address that is not its own."""
        self._subscribers.stats.refused += 1

    def changed(self, namespace: str, service: str) -> None:
        """Push a changed service to its subscribers, from the push thread."""
        if self._mailbox or self.has((namespace, service)):  # subscribers in the mailbox are not known yet
            self._put((namespace, service))
            self._wake()

    def subscribers(self, namespace: str) -> list[Subscriber]:
        """Return all subscribers of a namespace."""
        with self._lock:
            self._take_mailbox()
            return self._subscribers.subscribers(namespace)

    def states(self, namespace: str, service: str) -> list[PushState]:
        """Return the push state of each subscriber of a service."""
        with self._lock:
            self._take_mailbox()
            return self._subscribers.states((namespace, service), self._clock.monotonic_ms())

    @property
    def subscriber_count(self) -> int:
        """Return the number of subscribers."""
        return len(self._subscribers)

    def state(self, *, reset: bool) -> tuple[UdpPushStats, list[tuple[Subscriber, int, int]]]:
        """Return the counters, and the unacknowledged pushes: (subscriber, reference, number of sends).

        ``reset`` starts counting again.
        """
        with self._lock:
            stats, waiting = self._subscribers.stats.copy(), self._subscribers.waiting()
            if reset:
                self._subscribers.reset_stats()
            return stats, waiting

    def _put(self, event: Subscriber | tuple[str, str]) -> None:
        if len(self._mailbox) < MAILBOX_MAX:
            self._mailbox.append(event)
        else:
            self._subscribers.stats.overrun += 1

    def _wake(self) -> None:
        if self._awake or self._wake_in is None:
            return
        self._awake = True
        with suppress(OSError):  # a full pipe wakes as well; a closed one belongs to a node that stopped
            self._wake_in.send(b"\0")

    # --- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        wait_s = IDLE_S
        while not self._stopped:
            try:
                wait_s = self._turn(wait_s)
            except Exception:
                LOG.exception("a push failed unexpectedly; other pushes continue")
                wait_s = 0 if self._outbox or self._mailbox else IDLE_S

    def _turn(self, wait_s: float) -> float:
        """Wait, read acknowledgements and mailbox, send some of the due pushes. Return how long to wait next (s)."""
        assert self._selector is not None, "open since the start"
        for key, _ in self._selector.select(wait_s):
            if self._wake_out is not None and key.fileobj is self._wake_out:
                self._wake_out.recv(ACK_BYTES_MAX)
            elif isinstance(key.fileobj, socket.socket):
                self._read_acks(key.fileobj)
        # Before the mailbox is emptied: a later event wakes the thread again.
        self._awake = False
        with self._lock:
            self._take_mailbox()
            pushes, next_ms = self._subscribers.tick(self._clock.monotonic_ms())
        self._outbox.extend(pushes)
        for _ in range(min(len(self._outbox), SENDS_PER_TURN)):
            self._send(self._outbox.popleft())
        if self._outbox:
            return 0
        self._packets.clear()
        if next_ms is None:
            return IDLE_S
        return min(max(next_ms - self._clock.monotonic_ms(), 0) / 1_000, IDLE_S)

    def _take_mailbox(self) -> None:
        """Apply the subscriptions and changes that have arrived. The caller holds the lock."""
        now_ms = self._clock.monotonic_ms()
        for _ in range(len(self._mailbox)):
            event = self._mailbox[0]
            try:
                if isinstance(event, Subscriber):
                    self._subscribers.subscribe(event, now_ms)
                else:
                    self._packets.pop(event, None)
                    self._subscribers.changed(event, now_ms)
            finally:
                # Once it is applied, as ``changed`` relies on an empty mailbox; and if it fails, or it would come again
                # in each turn, and nothing behind it.
                self._mailbox.popleft()

    def _read_acks(self, opened: socket.socket) -> None:
        references = []
        for _ in range(ACKS_PER_TURN):
            try:
                references.append(reference_of(opened.recv(ACK_BYTES_MAX)))
            except OSError:
                break  # nothing more, or a client's closed port that the system reports here
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            for reference in references:
                if reference is not None:
                    self._subscribers.acknowledged(reference, now_ms)

    def _send(self, push: Push) -> None:
        one = push.subscriber
        datagram = self._packet(one).datagram(push.reference)
        if len(datagram) > min(one.bytes_max, DATAGRAM_BYTES_MAX):
            with self._lock:
                self._subscribers.unsendable(push)
            return
        with self._lock:
            if not self._subscribers.admit(push, len(datagram), self._clock.monotonic_ms()):
                return
        opened = self._sockets[push.answering]
        mapped = opened.family == socket.AF_INET6 and ":" not in one.ip
        address = (f"::ffff:{one.ip}" if mapped else one.ip, one.port)
        try:
            opened.sendto(datagram, address)
        except BlockingIOError:
            # Clients that do not answer get no second try: it would take the time of those that do.
            if not (push.answering and _sent_after_wait(opened, datagram, address)):
                with self._lock:
                    self._subscribers.stats.unsent += 1
        except OSError as error:
            LOG.debug("a push to %s:%d failed: %s", one.ip, one.port, error)

    def _packet(self, one: Subscriber) -> Packet:
        packets = self._packets.setdefault((one.namespace, one.service), {})
        kind = (one.clusters, one.java, one.reads_gzip)
        if (packet := packets.get(kind)) is None:
            packet = packets[kind] = Packet.of(self._build(one), zips=one.reads_gzip)
            self._on_pushed(one.namespace, one.service)
        return packet


def _sent_after_wait(opened: socket.socket, datagram: bytes, address: tuple[str, int]) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(opened, selectors.EVENT_WRITE)
        if not selector.select(SEND_WAIT_S):
            return False
    try:
        opened.sendto(datagram, address)
    except OSError:
        return False
    return True


def open_socket() -> socket.socket:
    """Open a UDP socket on all addresses of the machine, v4 and v6 if it has both."""
    try:
        opened = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    except OSError:
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        if opened.family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            opened.bind(("::", 0))
        else:
            opened.bind(("0.0.0.0", 0))
    except OSError:
        opened.close()
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.bind(("0.0.0.0", 0))
    opened.setblocking(False)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        opened.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    return opened


def payload_of(naming: NamingService, subscriber: Subscriber, switches: SwitchDomain, now_ms: int) -> bytes:
    """Return the JSON of the service's current list, in the subscriber's variant. Source: Nacos 1.4.1 PushService."""
    variant = Variant(
        clusters=subscriber.clusters,
        healthy_only=False,
        is_check=False,
        java_agent=subscriber.java,
        cache_ms=switches.default_push_cache_millis,
    )
    answer = naming.list_answer(subscriber.namespace, subscriber.service, variant)
    if answer is None:
        return unknown_service(subscriber.service, variant)
    return answer.plain(now_ms, echo_of(subscriber.clusters, ""))
