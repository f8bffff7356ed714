"""What clients do with real sockets: halves, floods, old and new protocols, and what they get for it."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from tests.support.processes import ClusterProcesses, Member
from tests.support.raw import TIMEOUT_S, RawConnection
from tests.support.wire import ReplyReader, chunked, replies_of, request

LIST = request("/nacos/v1/ns/instance/list?serviceName=a")
METRICS = request("/nacos/v1/ns/operator/metrics")
REGISTER = "/nacos/v1/ns/instance?serviceName=a"
FLOOD_BYTES_MAX = 100_000_000
"""Far more than all buffers on the way."""
FORM = "Content-Type: application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """A standalone node for all of them, which must be well at the end."""
    cluster = ClusterProcesses(tmp_path_factory.mktemp("sockets"), 1, {"nacos.standalone": "true"})
    [member] = cluster
    try:
        member.restart()
        worker = member.worker
        yield member
        assert member.worker == worker
        member.stop()
    finally:
        cluster.end()
    cluster.assert_no_traceback()


@pytest.fixture
def connection(node: Member) -> Iterator[RawConnection]:
    with RawConnection(node.address) as one:
        yield one


def all_of(connection: RawConnection) -> bytes:
    """Read until the node ends the connection; a reset is an error."""
    parts = []
    while part := connection.socket.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def test_a_refusal_reaches_who_sends_on(connection: RawConnection) -> None:
    """It reads the answer after it has sent a good part of a body that nobody takes."""
    connection.send(request("/nacos/v1/ns/instance", "POST", b"", "Content-Length: 50000000"))
    for _ in range(300):
        connection.send(b"x" * 10_000)
    connection.socket.shutdown(socket.SHUT_WR)
    [refusal] = replies_of(all_of(connection))
    assert (refusal.status, refusal.headers["connection"]) == (413, "close")


@pytest.mark.parametrize("last", [LIST, METRICS], ids=["on the loop", "in a pool"])
def test_who_sends_no_more_is_answered(connection: RawConnection, last: bytes) -> None:
    connection.send(METRICS + LIST + last)
    connection.socket.shutdown(socket.SHUT_WR)
    assert [one.status for one in replies_of(all_of(connection))] == [200, 200, 200]


def test_a_thousand_at_once_are_answered_in_their_order(connection: RawConnection) -> None:
    names = [f"p{number}" for number in range(1_000)]
    hot, pooled = "/nacos/v1/ns/instance/list", "/nacos/v1/ns/instance/lis%74"
    for number, name in enumerate(names):
        connection.send(request(f"{pooled if number % 10 == 3 else hot}?serviceName={name}"))
    bodies = [connection.read().body for _ in names]
    assert all(b'"name":"DEFAULT_GROUP@@%b"' % name.encode() in body for name, body in zip(names, bodies, strict=True))


def flood(connection: RawConnection) -> int:
    """Send until nothing more is taken; return how many bytes were."""
    sent = 0
    connection.socket.settimeout(1)
    with contextlib.suppress(TimeoutError):
        while sent < FLOOD_BYTES_MAX:
            sent += connection.socket.send(LIST * 1_000)
    connection.socket.settimeout(TIMEOUT_S)
    return sent


def test_who_floods_and_reads_nothing_is_stopped_by_its_own_socket(node: Member) -> None:
    with RawConnection(node.address, receive_bytes=4_096) as connection:
        sent = flood(connection)
        assert sent < FLOOD_BYTES_MAX
        assert node.client.hosts("a") == {}, "others are served"
        reader = ReplyReader()
        while len(reader.found) < sent // len(LIST):
            reader.parser.feed_data(connection.socket.recv(1 << 16))
        assert {one.status for one in reader.found} == {200}


@pytest.mark.parametrize("lines", [b"", b"Connection: keep-alive\r\n"])
def test_a_stream_to_a_client_of_http_1_0_ends_with_the_connection(connection: RawConnection, lines: bytes) -> None:
    connection.send(b"GET /nacos/v1/ns/operator/dump HTTP/1.0\r\n" + lines + b"\r\n")
    head, _, body = all_of(connection).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body.startswith(b'{"kind":"member"')
    assert body.splitlines()[-1].startswith(b'{"kind":"end"')


@pytest.mark.parametrize("target", ["/nacos/v1/ns/operator/dump", "/nacos/v1/ns/instance/list?serviceName=a"])
def test_head_is_followed_by_the_next_answer(connection: RawConnection, target: str) -> None:
    connection.send(
        request(target, "HEAD") + request("/nacos/v1/ns/instance/list?serviceName=a", "GET", b"", "Connection: close")
    )
    first, _, rest = all_of(connection).partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200 OK")
    assert [one.status for one in replies_of(rest)] == [200]


def test_forms_in_chunks_and_with_leave_asked(connection: RawConnection) -> None:
    sent = request(REGISTER, "POST", b"", FORM, "Transfer-Encoding: chunked") + chunked(b"ip=10.5.0.1&", b"port=80")
    assert connection.call(sent).body == b"ok"
    form = b"ip=10.5.0.2&port=80"
    connection.send(request(REGISTER, "POST", b"", FORM, f"Content-Length: {len(form)}", "Expect: 100-continue"))
    assert connection.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert connection.call(form).body == b"ok"
    listed = connection.call(LIST).body
    assert b'"10.5.0.1"' in listed
    assert b'"10.5.0.2"' in listed
    for number in (1, 2):
        assert connection.call(request(f"{REGISTER}&ip=10.5.0.{number}&port=80", "DELETE")).body == b"ok"


def test_a_wish_for_http_2_with_a_body(connection: RawConnection) -> None:
    """Java's HttpClient sends its first request so, whatever it is."""
    wish = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk")
    assert connection.call(request(REGISTER, "POST", b"ip=10.5.0.3&port=80", FORM, *wish)).body == b"ok"
    assert b'"10.5.0.3"' in connection.call(LIST).body
    assert connection.call(request(f"{REGISTER}&ip=10.5.0.3&port=80", "DELETE")).body == b"ok"
