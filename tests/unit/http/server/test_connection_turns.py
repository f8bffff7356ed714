"""A connection whose client sends as fast as it can: others have their turn, and waiting bytes take little memory."""

import socket
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import pytest

from app.http.server.connection import LINGER_S
from app.http.server.request_queue import BULK_BYTES, DROPPED, FEED_BYTES, PIPELINED_MAX, REQUEST_WORK, TURN_WORK
from app.http.server.request_reader import BODY_S, HEAD_BYTES_MAX
from tests.support.wire import FakeServer, Wire, request

SHORT = b"GET /%05d HTTP/1.1\r\nHost:\r\n\r\n"
MANY = 10_000
MEMORY_BYTES_MAX = 1 << 20


@pytest.fixture
def wire() -> Wire:
    return Wire()


def arrive(wire: Wire, data: bytes) -> None:
    """Have bytes come, without another turn of the loop."""
    assert wire.transport.reading
    wire.connection.data_received(data)


def turn(wire: Wire) -> None:
    wire.server.turns.popleft()()


def many() -> bytes:
    return b"".join(SHORT % number for number in range(MANY))


def test_thousands_of_requests_at_once_leave_turns_to_others(wire: Wire) -> None:
    arrive(wire, many())
    seen = [0]
    while wire.server.turns:
        assert not wire.transport.reading, "more would come before anybody else has a turn"
        seen.append(len(wire.server.asked))
        turn(wire)
    seen.append(len(wire.server.asked))
    assert max(after - before for before, after in pairwise(seen)) <= TURN_WORK // REQUEST_WORK
    assert wire.bodies() == [b"/%05d" % number for number in range(MANY)]
    assert wire.transport.reading


def test_many_connections_share_a_turn() -> None:
    """Forty of them had 64 requests each answered before anybody else had a turn."""
    server = FakeServer()
    wires = [Wire(server) for _ in range(40)]
    for wire in wires:
        arrive(wire, many())
    assert server.resting == 40
    while len(server.turns) == 40:
        before = len(server.asked)
        for _ in range(40):
            server.turns.popleft()()
        assert len(server.asked) - before <= 10 * TURN_WORK // REQUEST_WORK
    while server.turns:
        server.turns.popleft()()
    assert [wire.bodies() for wire in wires] == [[b"/%05d" % number for number in range(MANY)]] * 40
    assert server.resting == 0


def test_connections_that_end_leave_the_turn_to_others() -> None:
    server = FakeServer()
    wires = [Wire(server) for _ in range(3)]
    for wire in wires:
        arrive(wire, many())
        wire.connection.connection_lost(None)
    while server.turns:
        server.turns.popleft()()
    assert server.resting == 0


def test_requests_in_a_small_piece_leave_turns_too(wire: Wire) -> None:
    count = FEED_BYTES // len(SHORT % 0)
    arrive(wire, b"".join(SHORT % number for number in range(count)))
    assert 0 < len(wire.server.asked) < count
    while wire.server.turns:
        turn(wire)
    assert wire.bodies() == [b"/%05d" % number for number in range(count)]


def test_what_waits_behind_a_call_stays_as_it_came(wire: Wire) -> None:
    sent = request("/pool") + many()
    tracemalloc.start()
    try:
        arrive(wire, sent)
        stored, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stored < MEMORY_BYTES_MAX, "as requests they would take twenty times what they are"
    assert len(wire.server.asked) == 1
    assert not wire.transport.reading
    assert not wire.server.turns, "it waits for the answer"
    wire.answer()
    assert wire.bodies() == [b"/pool", *(b"/%05d" % number for number in range(MANY))]


def test_calls_that_wait_one_after_the_other(wire: Wire) -> None:
    count = 3 * PIPELINED_MAX
    wire.send(b"".join(request(f"/pool/{number}/" + "x" * 100) for number in range(count)))
    for _ in range(count):
        wire.answer()
    assert [one.target.split(b"/")[2] for one in wire.server.asked] == [b"%d" % number for number in range(count)]
    assert len(wire.bodies()) == count
    assert wire.transport.reading


def test_what_is_left_when_the_client_goes(wire: Wire) -> None:
    arrive(wire, many())
    wire.transport.abort()
    wire.transport.turn()
    asked = len(wire.server.asked)
    while wire.server.turns:
        turn(wire)
    assert len(wire.server.asked) == asked
    assert not wire.server.open


def test_a_request_that_ends_the_connection_ends_what_is_left(wire: Wire) -> None:
    wire.send(request("/last", "GET", b"", "Connection: close") + many())
    assert wire.bodies() == [b"/last"]
    assert not wire.is_open


def test_garbage_behind_thousands_of_requests(wire: Wire) -> None:
    wire.send(many() + b"\x01garbage")
    assert wire.statuses() == [200] * MANY + [400]


def test_a_body_in_tiny_chunks_takes_little_memory() -> None:
    wire = Wire(FakeServer(body_max=1 << 20, room_bytes=1 << 20))
    wire.send(request("/hot", "POST", b"", "Transfer-Encoding: chunked"))
    chunks = b"8\r\n12345678\r\n" * 100 + b"F000\r\n" + b"x" * 0xF000 + b"\r\n"
    tracemalloc.start()
    try:
        for _ in range(16):
            wire.send(*(chunks[at : at + 4_096] for at in range(0, len(chunks), 4_096)))
        stored, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stored < 2 * MEMORY_BYTES_MAX
    wire.send(b"0\r\n\r\n")
    [asked] = wire.server.asked
    assert asked.body == (b"12345678" * 100 + b"x" * 0xF000) * 16
    assert wire.server.reserved == 0


def test_more_around_a_body_than_in_it(wire: Wire) -> None:
    """Each chunk costs a microsecond, whatever is in it."""
    wire.send(request("/hot", "POST", b"", "Transfer-Encoding: chunked"), *[b"1\r\nx\r\n" * 1_000] * 20)
    assert wire.statuses() == [400]
    assert wire.server.reserved == 0


def test_a_chunked_body_leaves_turns_to_others() -> None:
    wire = Wire(FakeServer(body_max=1 << 20, room_bytes=1 << 20))
    wire.send(request("/hot", "POST", b"", "Transfer-Encoding: chunked"))
    arrive(wire, (b"8\r\n12345678\r\n" * 30 + b"400\r\n" + b"x" * 0x400 + b"\r\n") * 100)
    turns = 0
    while wire.server.turns:
        turn(wire)
        turns += 1
    assert turns > 3_100 // (2 * TURN_WORK)
    wire.send(b"0\r\n\r\n")
    assert len(wire.server.asked[0].body) == 100 * (240 + 0x400)


def test_much_at_once_leaves_a_turn_to_others(wire: Wire) -> None:
    """libuv would read on from the same client."""
    wire.server.body_max = 10 * BULK_BYTES
    body = b"x" * (2 * BULK_BYTES)
    wire.send(request("/hot", "POST", body)[: -len(body)])
    arrive(wire, body[:BULK_BYTES])
    assert not wire.transport.reading
    turn(wire)
    assert wire.transport.reading
    wire.send(body[BULK_BYTES:])
    assert wire.server.asked[0].body == body


def test_turns_for_others_give_a_slow_body_no_more_time(wire: Wire) -> None:
    wire.server.body_max = 100 * BULK_BYTES
    wire.send(request("/hot", "POST", b"", f"Content-Length: {50 * BULK_BYTES}"), b"x" * BULK_BYTES)
    wire.go(BODY_S - 1)
    wire.send(b"x" * BULK_BYTES)
    wire.go(5)
    assert wire.statuses() == [408]


def test_who_floods_after_a_refusal_leaves_turns_and_is_cut(wire: Wire) -> None:
    wire.send(b"nonsense\r\n\r\n")
    assert wire.statuses() == [400]
    for _ in range(int(LINGER_S) + 2):
        if wire.is_open:
            arrive(wire, b"x" * BULK_BYTES)
            assert not wire.transport.reading
            wire.go(1)
            assert wire.transport.reading or not wire.is_open
    assert not wire.is_open


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of a TCP connection: the server's, and the client's."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as there:
        here, _ = listener.accept()
        with here:
            here.setblocking(False)
            yield here, there


def refuse_flood(wire: Wire, opened: socket.socket) -> None:
    """Refuse a request of which much has come, and more waits in this socket."""
    wire.transport.extra["socket"] = opened
    wire.send(b"nonsense\r\n\r\n")
    assert wire.statuses() == [400]
    arrive(wire, b"x" * BULK_BYTES)
    assert not wire.transport.reading


def received(opened: socket.socket) -> bytes | None:
    """The bytes that wait in a socket, which stay there; None if none do, and empty at its end."""
    try:
        return opened.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return None


def test_the_rest_of_a_refused_flood_is_dropped_and_never_copied(
    wire: Wire, sockets: tuple[socket.socket, socket.socket]
) -> None:
    here, there = sockets
    there.sendall(b"x" * FEED_BYTES)
    refuse_flood(wire, here)
    wire.go(1)
    assert received(here) is None
    assert not any(DROPPED), "the system drops the bytes by itself"
    assert wire.transport.reading, "what comes later is read again"


def test_the_end_of_a_refused_flood_is_left_to_the_transport(
    wire: Wire, sockets: tuple[socket.socket, socket.socket]
) -> None:
    here, there = sockets
    there.shutdown(socket.SHUT_WR)
    refuse_flood(wire, here)
    wire.go(1)
    assert received(here) == b""
    assert wire.transport.reading
    assert wire.is_open


def test_what_is_encrypted_is_left_to_tls(wire: Wire, sockets: tuple[socket.socket, socket.socket]) -> None:
    here, there = sockets
    there.sendall(b"x")
    wire.transport.extra["ssl_object"] = object()
    refuse_flood(wire, here)
    wire.go(1)
    assert received(here) == b"x"


def test_a_flood_that_is_refused(wire: Wire) -> None:
    wire.send(b"nonsense " * BULK_BYTES)
    assert wire.statuses() == [400]
    assert wire.transport.reading, "what it still sends is read for a while"
    wire.go(LINGER_S + 1)
    assert not wire.is_open


def test_blank_lines_are_no_requests(wire: Wire) -> None:
    wire.send(b"\r\n" * 100 + request("/1"), b"\r\n" * 20_000, request("/2"))
    assert wire.bodies() == [b"/1", b"/2"]
    for _ in range(3):
        wire.send(b"\r\n" * (HEAD_BYTES_MAX // 4))
    assert wire.statuses() == [200, 200, 400]


def test_a_large_body_is_no_blank_line() -> None:
    wire = Wire(FakeServer(body_max=10 * HEAD_BYTES_MAX, room_bytes=1 << 20))
    body = b"x" * (2 * HEAD_BYTES_MAX)
    sent = request("/hot", "POST", body)
    for _ in range(3):
        wire.send(*(sent[at : at + 1_000] for at in range(0, len(sent), 1_000)))
    assert wire.statuses() == [200] * 3
