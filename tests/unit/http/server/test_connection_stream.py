"""Replies in parts: each when those before it were taken, and an end that the client can tell from a break."""

import pytest

from app.http.api.call import Reply
from app.http.server.connection import OUT_BYTES_MAX, UNREAD_S
from tests.support.wire import DATE, FakeServer, Wire, replies_of, request

HEAD = Reply(200, b"", head=b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\n")
PART = b"x" * OUT_BYTES_MAX


class Streamed:
    """A reply in parts, as a thread of a pool sends it over a wire."""

    def __init__(self, *lines: str, sent: bytes = b"", server: FakeServer | None = None) -> None:
        self.wire = Wire(server)
        self.taken = 0
        self.wire.send(sent or request("/pool", "GET", b"", *lines))
        self.wire.connection.stream_head(HEAD)

    def part(self, part: bytes) -> None:
        self.wire.connection.stream_part(part, self._on_taken)
        self.wire.transport.turn()

    def end(self, whole: bool = True) -> None:
        self.wire.connection.stream_end(whole)
        self.wire.transport.turn()

    def _on_taken(self) -> None:
        self.taken += 1


def test_parts_are_chunks() -> None:
    streamed = Streamed()
    streamed.part(b"one")
    streamed.part(b"two" * 10)
    streamed.end()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nTransfer-Encoding: chunked\r\n" + DATE
    assert streamed.wire.received == head + b"3\r\none\r\n1e\r\n" + b"two" * 10 + b"\r\n0\r\n\r\n"
    assert streamed.taken == 2
    assert streamed.wire.is_open


@pytest.mark.parametrize(
    ("line", "kept"), [("Connection: close", False), ("Connection: keep-alive", True), ("X: y", True)]
)
def test_the_connection_is_kept_as_the_client_wishes(line: str, kept: bool) -> None:
    streamed = Streamed(line)
    streamed.part(b"one")
    assert streamed.wire.is_open
    streamed.end()
    [reply] = streamed.wire.replies()
    assert reply.headers.get("connection") == ("close" if not kept else "keep-alive" if "alive" in line else None)
    assert streamed.wire.is_open is kept


@pytest.mark.parametrize("line", [b"", b"Connection: keep-alive\r\n"])
def test_http_1_0_knows_no_chunks(line: bytes) -> None:
    streamed = Streamed(sent=b"GET /pool HTTP/1.0\r\n" + line + b"\r\n")
    streamed.part(b"one")
    streamed.part(b"two")
    assert streamed.wire.is_open
    streamed.end()
    head, _, body = streamed.wire.received.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head
    assert b"\r\nConnection: close\r\n" in head
    assert body == b"onetwo"
    assert not streamed.wire.is_open


def test_what_is_pipelined_behind_comes_behind() -> None:
    streamed = Streamed()
    streamed.wire.send(request("/2", "PUT", b"abc"), request("/3", "PUT", b"abc", "Expect: 100-continue"))
    streamed.part(b"one")
    streamed.end()
    assert streamed.wire.bodies() == [b"one", b"/2", b"/3"]
    assert b"100 Continue" not in streamed.wire.received
    assert streamed.wire.server.reserved == 0


def test_a_refusal_behind_comes_behind() -> None:
    streamed = Streamed()
    streamed.wire.send(b"garbage")
    streamed.part(b"one")
    streamed.end()
    assert streamed.wire.statuses() == [200, 400]
    assert "connection" not in streamed.wire.replies()[0].headers


def test_a_part_waits_until_the_client_has_taken_enough() -> None:
    streamed = Streamed()
    streamed.wire.transport.client_reads = False
    streamed.part(PART)
    assert streamed.taken == 0
    streamed.wire.read(OUT_BYTES_MAX // 2)
    assert streamed.taken == 0
    streamed.wire.read()
    assert streamed.taken == 1
    streamed.wire.go(10 * UNREAD_S)
    streamed.part(b"two")
    assert streamed.taken == 1
    streamed.wire.read()
    assert streamed.taken == 2
    streamed.end()
    streamed.wire.read()
    assert streamed.wire.bodies() == [PART + b"two"]
    assert streamed.wire.is_open


def test_requests_behind_are_read_again_when_the_client_has_read() -> None:
    streamed = Streamed()
    streamed.wire.transport.client_reads = False
    streamed.part(PART)
    streamed.wire.send(request("/2"))
    assert streamed.wire.waiting_bytes
    streamed.wire.transport.client_reads = True
    streamed.wire.read()
    streamed.end()
    streamed.wire.send()
    assert streamed.wire.bodies() == [PART, b"/2"]


def test_who_reads_nothing_is_cut_off_and_who_sends_hears_of_it() -> None:
    streamed = Streamed()
    streamed.wire.transport.client_reads = False
    streamed.part(PART)
    streamed.wire.go(UNREAD_S + 1)
    assert not streamed.wire.is_open
    assert streamed.taken == 1
    assert streamed.wire.connection.is_gone
    streamed.end(whole=False)
    assert streamed.wire.server.reserved == 0


def test_who_went_is_sent_nothing() -> None:
    streamed = Streamed()
    streamed.part(b"one")
    streamed.wire.transport.abort()
    streamed.wire.transport.turn()
    assert streamed.wire.connection.is_gone
    streamed.part(b"two")
    assert streamed.taken == 2
    streamed.end()
    assert b"two" not in streamed.wire.received


def test_a_head_for_who_went() -> None:
    wire = Wire()
    wire.send(request("/pool", "PUT", b"abc"))
    wire.transport.abort()
    wire.transport.turn()
    wire.connection.stream_head(HEAD)
    wire.connection.stream_end(whole=False)
    assert wire.received == b""
    assert wire.server.reserved == 0


def test_an_end_before_its_time_can_be_told_from_the_end() -> None:
    streamed = Streamed()
    streamed.part(b"one")
    streamed.end(whole=False)
    assert not streamed.wire.is_open
    with pytest.raises(AssertionError, match="cut short"):
        replies_of(streamed.wire.received)


def test_who_sends_no_more_gets_all_parts() -> None:
    streamed = Streamed()
    streamed.wire.half_close()
    streamed.part(b"one")
    streamed.end()
    assert streamed.wire.bodies() == [b"one"]
    assert not streamed.wire.is_open


def test_the_worker_ends_when_the_parts_have() -> None:
    streamed = Streamed()
    streamed.wire.drain()
    streamed.part(b"one")
    assert streamed.wire.is_open
    streamed.end()
    streamed.wire.drain()
    assert not streamed.wire.is_open
    assert streamed.wire.bodies() == [b"one"]
