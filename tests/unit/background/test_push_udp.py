"""UdpPusher over real sockets: what clients receive, what they answer, and who waits for whom."""

import gzip
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Any

import pytest

from app.background import push_udp as udp
from app.background.push_udp import GZIP_FROM_BYTES, Packet, UdpPusher, open_socket, reference_of
from app.naming.push.udp_subscribers import DATAGRAM_BYTES_MAX, Subscriber, UdpSubscribers
from app.naming.wire.service_info import ZippedHead
from distro.timing.clock import SystemClock
from tests.support.listener import TIMEOUT_S, Listener, own_address
from tests.support.processes import eventually

SERVICE = "DEFAULT_GROUP@@orders"
GO_BYTES_MAX = 4_024
REFERENCE = (1 << 52) - 1


class FastClock(SystemClock):
    """A clock that a test may put forward."""

    ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


def subscriber(client: Listener, service: str = SERVICE, bytes_max: int = DATAGRAM_BYTES_MAX) -> Subscriber:
    return Subscriber("public", service, "", client.ip, client.port, "Nacos-Java-Client:v1.4.8", "", bytes_max)


class Service:
    """What the clients are told, and the pusher that tells them."""

    def __init__(self) -> None:
        self.text = '{"hosts":[]}'
        self.builds = 0
        self.may_build = Event()
        """While it is not set, the pusher is held up in what it builds of before."""
        self.may_build.set()
        self.clock = FastClock()
        self.pusher = UdpPusher(UdpSubscribers(), self._build, self.clock)

    def _build(self, subscriber: Subscriber) -> bytes:
        self.builds += 1
        if "broken" in subscriber.service:
            raise ZeroDivisionError
        text = self.text
        assert self.may_build.wait(TIMEOUT_S)
        return text.encode()

    def change(self, text: str, service: str = SERVICE) -> None:
        self.text = text
        self.pusher.changed("public", service)

    def stats(self, name: str) -> int:
        value: int = getattr(self.pusher.state(reset=False)[0], name)
        return value


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    made.pusher.start()
    yield made
    assert made.pusher.stop(TIMEOUT_S)


@pytest.fixture
def connect() -> Iterator[Callable[..., Listener]]:
    with ExitStack() as stack:

        def make(*arguments: str) -> Listener:
            one = Listener(*arguments)
            stack.callback(one.close)
            return one

        yield make


# --- the bytes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, GZIP_FROM_BYTES // 2, GZIP_FROM_BYTES, 70_000, 3_000_000])
@pytest.mark.parametrize("reference", [1, REFERENCE])
def test_a_packet_is_one_datagram_with_the_reference_of_each(size: int, reference: int) -> None:
    text = json.dumps({"name": 'a"\\ü', "x": "x" * size}, ensure_ascii=False)
    datagram = Packet.of(text.encode()).datagram(reference)
    if size < GZIP_FROM_BYTES // 2:
        assert datagram.startswith(b"{")
    if size >= GZIP_FROM_BYTES:
        datagram = gzip.decompress(datagram)
    assert list(json.loads(datagram).items()) == [("type", "dom"), ("data", text), ("lastRefTime", reference)]


def test_a_client_that_reads_no_gzip_gets_plain_json() -> None:
    text = "x" * 2 * GZIP_FROM_BYTES
    assert json.loads(Packet.of(text.encode(), zips=False).datagram(REFERENCE))["data"] == text


def test_compression_begins_at_a_kilobyte() -> None:
    around = range(GZIP_FROM_BYTES - 100, GZIP_FROM_BYTES)
    sizes: dict[bool, set[int]] = {False: set(), True: set()}
    for size in around:
        head = Packet.of(b"x" * size).head
        if isinstance(head, ZippedHead):
            sizes[True].add(head.plain_bytes)
        else:
            sizes[False].add(len(head))
    assert max(sizes[False]) == GZIP_FROM_BYTES - 1
    assert min(sizes[True]) == GZIP_FROM_BYTES


@pytest.mark.parametrize(
    "ack",
    [
        b'{"type":"push-ack","lastRefTime":4503599627370495,"data":""}',
        b'{"data":"","lastRefTime":"4503599627370495","type":"push-ack"}',
        b'{"type": "push-ack", "lastRefTime":"4503599627370495", "data":""}',
        b' {"type" : "push-ack", "lastRefTime" : " 4503599627370495 ", "data":""}\n',
        b'{"type":"unknow-ack","lastRefTime":"4503599627370495","data":""}',
    ],
)
def test_an_acknowledgement_in_all_its_forms(ack: bytes) -> None:
    assert reference_of(ack) == REFERENCE


@pytest.mark.parametrize(
    "ack",
    [
        b"",
        b"\xff",
        b"[]",
        b"1",
        b"{}",
        b'{"type":"push-ack"}',
        b'{"type":"push","lastRefTime":1}',
        b'{"type":"push-ack","lastRefTime":true}',
        b'{"type":"push-ack","lastRefTime":null}',
        b'{"type":"push-ack","lastRefTime":1.5}',
        b'{"type":"push-ack","lastRefTime":-1}',
        b'{"type":"push-ack","lastRefTime":""}',
        b'{"type":"push-ack","lastRefTime":"1x"}',
        '{"type":"push-ack","lastRefTime":"\u0661"}'.encode(),
        b'{"type":"push-ack","lastRefTime":"%s"}' % (b"9" * 5_000),
    ],
)
def test_what_is_no_acknowledgement(ack: bytes) -> None:
    assert reference_of(ack) is None


# --- over sockets --------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["loopback", "loopback of its own", "own address", "IPv6"])
def test_a_client_is_reached_at_the_address_it_announces(
    service: Service, connect: Callable[..., Listener], where: str
) -> None:
    match where:
        case "loopback":
            client = connect()
        case "loopback of its own":
            client = connect("127.0.1.1")
        case "own address":
            client = connect(own_address(socket.AF_INET))
        case _:
            if open_socket_family() != socket.AF_INET6:
                pytest.skip("this machine has no IPv6")
            client = connect("::1")
    service.pusher.subscribe(subscriber(client))
    service.change('{"hosts":[1]}')
    push = client.receive()
    assert push["data"] == '{"hosts":[1]}'
    client.acknowledge(push["lastRefTime"])
    eventually(lambda: service.stats("succeeded") == 1)
    assert service.pusher.state(reset=True)[1] == []
    assert service.stats("total") == 0


def open_socket_family() -> int:
    with open_socket() as opened:
        return opened.family


def test_a_burst_ends_with_the_latest_state(service: Service, connect: Callable[..., Listener]) -> None:
    client = connect()
    service.pusher.subscribe(subscriber(client))
    service.may_build.clear()
    for number in range(2_000):
        service.change(str(number))
    service.may_build.set()
    heard = []
    while not heard or heard[-1] != "1999":
        heard.append(client.receive()["data"])
    assert len(heard) <= 2, "the one that was on its way, and one of all that came meanwhile"


def test_a_change_right_after_the_query_is_told(service: Service, connect: Callable[..., Listener]) -> None:
    """The query has no answer yet, or an older one."""
    clients = [connect() for _ in range(20)]
    for number, client in enumerate(clients):
        name = f"DEFAULT_GROUP@@s{number}"
        service.pusher.subscribe(subscriber(client, name))
        service.change(str(number), name)
    for client in clients:
        client.receive()


def test_a_silent_client_is_sent_the_state_of_then_once_more(
    service: Service, connect: Callable[..., Listener]
) -> None:
    client = connect()
    service.pusher.subscribe(subscriber(client))
    service.change("old")
    first = client.receive()
    service.text = "new"
    service.clock.ahead_ms += 10_000
    second = client.receive()
    assert (second["data"], second["lastRefTime"]) == ("new", first["lastRefTime"])
    service.clock.ahead_ms += 10_000
    eventually(lambda: service.stats("failed") == 1)
    assert client.hears_nothing()


@pytest.mark.parametrize(("limit", "shown"), [(DATAGRAM_BYTES_MAX, 3_000), (GO_BYTES_MAX, 100)])
def test_what_a_client_cannot_read_is_counted_instead(
    service: Service, connect: Callable[..., Listener], limit: int, shown: int
) -> None:
    def text(count: int) -> str:
        """Of ``count`` random-looking hosts, which do not compress."""
        return " ".join(f"{hash((limit, number)) & (1 << 64) - 1:x}{number:x}" for number in range(count))

    client = connect()
    service.pusher.subscribe(subscriber(client, bytes_max=limit))
    service.change(text(limit // 4))
    eventually(lambda: service.stats("too_large") == 1)
    assert client.hears_nothing()
    service.clock.ahead_ms += 10_000
    assert client.hears_nothing(), "and not again"
    service.change(text(shown))
    assert client.receive()["data"] == text(shown)


def test_equal_answers_are_built_once(service: Service, connect: Callable[..., Listener]) -> None:
    clients = [connect() for _ in range(30)]
    for client in clients:
        service.pusher.subscribe(subscriber(client))
    service.change("x" * 5_000)
    references = {client.receive()["lastRefTime"] for client in clients}
    assert len(references) == 30
    assert service.builds == 1


def test_a_failure_with_one_service_leaves_the_others_their_pushes(
    service: Service, connect: Callable[..., Listener], caplog: pytest.LogCaptureFixture
) -> None:
    client, broken = connect(), connect()
    service.pusher.subscribe(subscriber(broken, "DEFAULT_GROUP@@broken"))
    service.pusher.subscribe(subscriber(client))
    service.pusher.changed("public", "DEFAULT_GROUP@@broken")
    service.change("fine")
    assert client.receive()["data"] == "fine"
    assert broken.hears_nothing()
    assert "unexpectedly" in caplog.text


def test_an_event_that_fails_is_taken_once(
    service: Service,
    connect: Callable[..., Listener],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client, subscribers = connect(), service.pusher._subscribers
    subscribe = subscribers.subscribe

    def fail_once(one: Subscriber, now_ms: int) -> None:
        if "broken" in one.service:
            raise ZeroDivisionError
        subscribe(one, now_ms)

    monkeypatch.setattr(subscribers, "subscribe", fail_once)
    service.pusher.subscribe(subscriber(connect(), "DEFAULT_GROUP@@broken"))
    service.pusher.subscribe(subscriber(client))
    service.change("fine")
    assert client.receive()["data"] == "fine"
    assert caplog.text.count("unexpectedly") == 1


def test_what_nobody_subscribed_to_wakes_nobody(service: Service) -> None:
    service.change("x", "DEFAULT_GROUP@@other")
    assert not service.pusher._mailbox
    assert service.builds == 0


def test_noise_on_the_port_is_harmless(service: Service, connect: Callable[..., Listener]) -> None:
    client = connect()
    service.pusher.subscribe(subscriber(client))
    service.change("1")
    push = client.receive()
    for noise in (b"", b"\xff" * 8_000, b"{}", b'{"type":"push-ack","lastRefTime":7}'):
        client.send(noise)
    client.acknowledge(push["lastRefTime"])
    eventually(lambda: service.stats("succeeded") == 1)
    service.change("2")
    assert client.receive()["data"] == "2"


@contextmanager
def full_for(monkeypatch: pytest.MonkeyPatch, ports: set[int]) -> Iterator[list[int]]:
    """The system takes no datagram to these ports. Yields to whom it was asked to take one."""
    asked: list[int] = []

    class Stuffed(socket.socket):
        def sendto(self, data: bytes, address: Any) -> int:  # type: ignore[override]
            asked.append(address[1])
            if address[1] in ports:
                raise BlockingIOError
            return super().sendto(data, address)

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", Stuffed)
        yield asked


def test_a_full_buffer_costs_one_wait_and_the_repetition_heals_it(
    connect: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, fine = connect(), connect()
    ports = {stuck.port}
    with full_for(monkeypatch, ports) as asked:
        service = Service()
        service.pusher.start()
    try:
        for client in (stuck, fine):
            service.pusher.subscribe(subscriber(client))
        service.change("1")
        fine.acknowledge(fine.receive()["lastRefTime"])
        assert asked == [stuck.port, stuck.port, fine.port], "a second try, as it answered until now"
        assert service.stats("unsent") == 1
        ports.clear()
        service.clock.ahead_ms += 10_000
        assert stuck.receive()["data"] == "1"
    finally:
        assert service.pusher.stop(TIMEOUT_S)


def test_who_did_not_answer_is_served_by_another_socket(service: Service, connect: Callable[..., Listener]) -> None:
    """Datagrams to machines that are gone fill a socket's buffer, and the living shall find room in theirs."""
    silent, answering = connect(), connect()
    ports = []
    for client in (silent, answering):
        service.pusher.subscribe(subscriber(client))
    for text in ("1", "2"):
        service.change(text)
        silent.receive()
        answering.acknowledge(answering.receive()["lastRefTime"])
        eventually(lambda text=text: service.stats("succeeded") == int(text))
        ports.append((silent.server[1], answering.server[1]))
    [(first, same), (doubtful, kept)] = ports
    assert first == same == kept != doubtful
    silent.acknowledge(service.pusher.state(reset=False)[1][0][1])
    eventually(lambda: service.stats("succeeded") == 3)


def test_the_mailbox_is_bounded(monkeypatch: pytest.MonkeyPatch, connect: Callable[..., Listener]) -> None:
    monkeypatch.setattr(udp, "MAILBOX_MAX", 2)
    service = Service()
    for _ in range(3):
        service.pusher.subscribe(subscriber(connect()))
    assert service.stats("overrun") == 1
    assert len(service.pusher.subscribers("public")) == 2
    assert service.pusher.stop(TIMEOUT_S)


def test_it_stops_twice_and_without_a_start() -> None:
    service = Service()
    assert service.pusher.stop(TIMEOUT_S)
    assert service.pusher.stop(TIMEOUT_S)
    service.change("late")
    started = Service()
    started.pusher.start()
    assert started.pusher.stop(TIMEOUT_S)
    assert started.pusher.stop(TIMEOUT_S)
    started.change("late")
