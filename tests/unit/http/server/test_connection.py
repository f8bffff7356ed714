"""A connection: requests in any pieces, answers in their order, and how it ends."""

import gc
import logging
import weakref

import pytest

from app.http.api.call import Reply
from app.http.server.connection import CONTINUE, OUT_BYTES_MAX, SOON_BYTES_MAX, HttpConnection
from app.http.server.request_queue import PIPELINED_MAX
from tests.support.wire import DATE, FakeServer, Wire, chunked, request

POST = request("/hot", "POST", b"a=1&b=2")
CHUNKED = request("/hot", "PUT", b"", "Transfer-Encoding: chunked") + chunked(b"a=1", b"&b=2")
LARGE = b"x" * (OUT_BYTES_MAX + 1)


@pytest.fixture
def wire() -> Wire:
    return Wire()


# --- requests -------------------------------------------------------------------------------------


def test_a_request_and_its_answer_to_the_byte(wire: Wire) -> None:
    wire.send(request("/hot?a=1"))
    assert wire.received == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain;charset=UTF-8\r\nContent-Length: 8\r\n" + DATE + b"/hot?a=1"
    )
    [asked] = wire.server.asked
    assert (asked.method, asked.target, asked.body, asked.keep_alive) == (b"GET", b"/hot?a=1", b"", True)
    assert asked.block.named == {"host": "x"}
    assert wire.connection.remote_ip == "10.0.0.9"


@pytest.mark.parametrize("sent", [request("/a?b=1"), POST, CHUNKED, request(method="HEAD"), b"\r\n\r\n" + request()])
def test_a_request_may_come_in_any_two_pieces(sent: bytes) -> None:
    whole = Wire()
    whole.send(sent)
    for at in range(1, len(sent)):
        wire = Wire()
        wire.send(sent[:at], sent[at:])
        assert wire.server.asked[0]._replace(block=None) == whole.server.asked[0]._replace(block=None)  # type: ignore[arg-type]
        assert wire.server.asked[0].block.named == whole.server.asked[0].block.named
        assert wire.received == whole.received
        assert wire.is_open
        assert wire.server.reserved == 0


@pytest.mark.parametrize("sent", [POST + request() + CHUNKED + request("/hot", "HEAD") + request("/end")])
def test_many_requests_may_come_byte_by_byte(sent: bytes) -> None:
    whole, pieces = Wire(), Wire()
    whole.send(sent)
    pieces.send(*(sent[at : at + 1] for at in range(len(sent))))
    assert pieces.received == whole.received
    assert len(whole.server.asked) == 5
    assert pieces.server.reserved == whole.server.reserved == 0


def test_replies_of_a_turn_are_sent_at_its_end_and_a_long_one_at_once() -> None:
    server = FakeServer(bodies={b"/long": b"x" * (SOON_BYTES_MAX + 1)})
    first, second = Wire(server), Wire(server)
    for wire in (first, second):
        wire.connection.data_received(request())
        assert not wire.received
    server.turns.popleft()()
    assert (first.bodies(), second.bodies()) == ([b"/hot"], [b"/hot"])
    first.connection.data_received(request("/long"))
    assert len(first.bodies()) == 2
    assert not server.turns


@pytest.mark.parametrize("end", ["half_close", "drain", "cut"])
def test_a_reply_that_waits_for_the_end_of_the_turn_is_sent_before_a_close_and_not_after_a_cut(
    wire: Wire, end: str
) -> None:
    wire.connection.data_received(request())
    if end == "cut":
        wire.connection.cut()
        wire.transport.turn()
    else:
        getattr(wire, end)()
    while wire.server.turns:
        wire.server.turns.popleft()()
    assert wire.bodies() == ([] if end == "cut" else [b"/hot"])
    assert not wire.is_open


def test_what_follows_a_chunked_body_is_no_header(wire: Wire) -> None:
    """It could pose as a member, or as another client."""
    trailer = b"0\r\nUser-Agent: Nacos-Server\r\nX-More: y\r\n\r\n"
    start = (
        request("/hot", "POST", b"", "Transfer-Encoding: chunked", "X-One: z") + chunked(b"a=1")[: -len("0\r\n\r\n")]
    )
    wire.send(start + trailer, start + trailer)
    assert [one.body for one in wire.server.asked] == [b"a=1", b"a=1"]
    named = {"host": "x", "transfer-encoding": "chunked", "x-one": "z"}
    assert [one.block.named for one in wire.server.asked] == [named, named]


def test_a_body_without_length_or_end_is_not_waited_for(wire: Wire) -> None:
    """What follows the head is the next request."""
    wire.send(request("/1", "PUT", b""), request("/2", "PUT", b"k"))
    assert [(one.target, one.body) for one in wire.server.asked] == [(b"/1", b""), (b"/2", b"k")]


def test_headers_of_one_request_are_not_those_of_the_next(wire: Wire) -> None:
    wire.send(request("/1", "GET", b"", "X-A: 1"), request("/2"), request("/3", "GET", b"", "X-A: 3"))
    assert [one.block.named.get("x-a") for one in wire.server.asked] == ["1", None, "3"]


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"FOO / HTTP/1.1\r\n\r\n",
        b"GET /\xe6\x9d\xad HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: \0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        request("/", "POST", b"", "Content-Length: x"),
        request("/", "POST", b"", "Content-Length: -1"),
        request("/", "POST", b"", "Content-Length: ٣"),
        request("/", "POST", b"", "Content-Length: 1_0"),
        request("/", "POST", b"", "Content-Length: 1, 1"),
        request("/", "POST", b"", "Content-Length: 1", "Content-Length: 2"),
        request("/", "POST", b"", "Content-Length: 99999999999999999999"),
        request("/", "POST", b"", "Content-Length: " + "9" * 5_000),
        request("/", "POST", b"", "Content-Length: 1", "Transfer-Encoding: chunked"),
        request("/", "POST", b"", "Transfer-Encoding: chunked") + b"x\r\n",
        request("/", "POST", b"", "Transfer-Encoding: chunked") + b"3\r\nabcdef",
        request("/", "POST", b"", "Transfer-Encoding: chunked") + b"FFFFFFFFFFFFFFFFFF\r\n",
    ],
)
def test_what_is_no_request(sent: bytes) -> None:
    for parts in ([sent], [sent[at : at + 1] for at in range(len(sent))]):
        wire = Wire()
        wire.send(request("/before"), *parts)
        assert wire.statuses() == [200, 400]
        assert wire.replies()[1].headers["connection"] == "close"
        assert wire.replies()[1].body.startswith(b"the request is not understood: ")
        assert wire.server.refused == [400]
        assert len(wire.server.asked) == 1
        assert wire.server.reserved == 0


# --- order ----------------------------------------------------------------------------------------


def test_answers_come_in_the_order_of_the_requests(wire: Wire) -> None:
    wire.send(request("/1") + request("/pool/2") + request("/3"), request("/pool/4") + request("/5"))
    assert wire.bodies() == [b"/1"]
    wire.answer()
    assert wire.bodies() == [b"/1", b"/pool/2", b"/3"]
    wire.answer()
    assert wire.bodies() == [b"/1", b"/pool/2", b"/3", b"/pool/4", b"/5"]
    assert wire.is_open


def test_what_is_pipelined_is_read_up_to_a_depth(wire: Wire) -> None:
    wire.send(request("/pool"), *(request(f"/{number}") for number in range(PIPELINED_MAX + 50)))
    assert wire.waiting_bytes > 0
    assert len(wire.server.asked) == 1
    before = wire.waiting_bytes
    wire.go(5)
    assert wire.waiting_bytes == before
    wire.answer()
    assert wire.waiting_bytes == 0
    assert wire.bodies() == [b"/pool", *(b"/%d" % number for number in range(PIPELINED_MAX + 50))]


def test_many_that_are_answered_at_once_but_later(wire: Wire) -> None:
    """A call that is passed on may be answered before the server's ``answer`` has returned."""

    class Server(FakeServer):
        def answer(self, connection: HttpConnection, request: object) -> Reply | None:
            reply = super().answer(connection, request)  # type: ignore[arg-type]
            if reply is None or len(self.asked) == 1:
                return None
            connection.reply(reply)
            return None

    wire = Wire(Server())
    wire.send(request("/first") + b"".join(request(f"/{number}") for number in range(3_000)))
    wire.answer()
    assert wire.bodies() == [b"/first", *(b"/%d" % number for number in range(3_000))]


def test_a_large_answer_is_sent_as_it_is(wire: Wire) -> None:
    wire.server.bodies[b"/large"] = LARGE
    wire.send(request("/a") + request("/large") + request("/b"))
    assert wire.bodies() == [b"/a", LARGE, b"/b"]


# --- back-pressure --------------------------------------------------------------------------------


def test_who_does_not_read_gets_no_more_answers(wire: Wire) -> None:
    wire.server.bodies[b"/large"] = LARGE
    wire.transport.client_reads = False
    wire.send(request("/large") + request("/2") + request("/3"), request("/4"))
    assert len(wire.server.asked) == 1
    assert wire.waiting_bytes == len(request("/4"))
    wire.read(len(LARGE) // 2)
    assert len(wire.server.asked) == 1
    wire.transport.client_reads = True
    wire.read()
    assert wire.bodies() == [LARGE, b"/2", b"/3", b"/4"]
    assert wire.server.reserved == 0


def test_what_one_read_brings_cannot_make_more_answers_than_the_client_reads(wire: Wire) -> None:
    wire.server.bodies[b"/large"] = LARGE
    wire.transport.client_reads = False
    wire.send(request("/large") * 500)
    assert len(wire.server.asked) == 1
    for count in range(2, 500):
        wire.read()
        assert len(wire.server.asked) == count
    assert len(wire.transport.unread) < 2 * len(LARGE)


def test_many_small_answers_count_too(wire: Wire) -> None:
    wire.server.bodies[b"/x"] = b"x" * 1_000
    wire.transport.client_reads = False
    wire.send(request("/x") * 5_000)
    assert len(wire.transport.unread) < 2 * OUT_BYTES_MAX
    wire.transport.client_reads = True
    wire.read()
    assert wire.bodies() == [b"x" * 1_000] * 5_000


# --- kept or closed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "kept", "header"),
    [
        (request(), True, None),
        (request("/", "GET", b"", "Connection: keep-alive"), True, "keep-alive"),
        (request("/", "GET", b"", "Connection: close"), False, "close"),
        (request("/", "GET", b"", "Connection: keep-alive, close"), False, "close"),
        (b"GET / HTTP/1.0\r\n\r\n", False, "close"),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True, "keep-alive"),
    ],
)
@pytest.mark.parametrize("target", ["/hot", "/pool"])
def test_a_connection_is_kept_as_the_client_wishes(sent: bytes, kept: bool, header: str | None, target: str) -> None:
    wire = Wire()
    wire.send(sent.replace(b"/", target.encode(), 1))
    if target == "/pool":
        wire.answer()
    assert wire.is_open is kept
    assert wire.replies()[0].headers.get("connection") == header
    assert (wire.connection in wire.server.open) is kept


@pytest.mark.parametrize("target", ["/hot", "/pool"])
@pytest.mark.parametrize("behind", [request("/behind"), b"garbage", b"\r\n"])
def test_what_comes_behind_the_last_request_is_nothing(wire: Wire, target: str, behind: bytes) -> None:
    last = request(target, "GET", b"", "Connection: close")
    wire.send(request("/pool/first") + last + behind, behind)
    wire.answer()
    if target == "/pool":
        wire.answer()
    assert wire.bodies() == [b"/pool/first", target.encode()]
    assert "connection" not in wire.replies()[0].headers
    assert not wire.is_open
    assert wire.server.refused == []


def test_what_is_no_request_is_refused_after_those_before_it(wire: Wire) -> None:
    wire.send(request("/pool") + request("/2") + b"garbage\r\n\r\n" + request("/3"))
    assert wire.received == b""
    wire.answer()
    assert wire.statuses() == [200, 200, 400]
    assert [one.headers.get("connection") for one in wire.replies()] == [None, None, "close"]


def test_head_has_the_length_and_no_body(wire: Wire) -> None:
    wire.send(request("/pool", "HEAD") + request("/2"))
    wire.answer(Reply(200, b"four"))
    head, _, rest = wire.received.partition(b"\r\n\r\n")
    assert b"Content-Length: 4" in head
    assert rest.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("target", ["/hot", "/pool"])
def test_who_sends_no_more_still_gets_all_answers(wire: Wire, target: str) -> None:
    wire.send(request("/pool/1") + request("/2") + request(target))
    wire.half_close()
    assert wire.is_open
    wire.answer()
    if target == "/pool":
        assert wire.is_open
        wire.answer()
    assert wire.bodies() == [b"/pool/1", b"/2", target.encode()]
    assert [one.headers.get("connection") for one in wire.replies()] == [None, None, "close"]
    assert not wire.is_open


def test_who_sends_no_more_and_reads_late_gets_all_answers(wire: Wire) -> None:
    wire.server.bodies[b"/large"] = LARGE
    wire.transport.client_reads = False
    wire.send(request("/large") + request("/2"))
    wire.half_close()
    assert wire.is_open
    wire.read()
    wire.read()
    assert wire.bodies() == [LARGE, b"/2"]
    assert not wire.is_open


def test_an_idle_connection_ends_with_its_client(wire: Wire) -> None:
    wire.send(request())
    wire.half_close()
    assert not wire.is_open
    assert wire.statuses() == [200]


@pytest.mark.parametrize("sent", [b"GET / HT", POST[:-1], CHUNKED[:-2]])
def test_a_request_that_ends_early(wire: Wire, sent: bytes) -> None:
    wire.send(sent)
    wire.half_close()
    assert [(one.status, one.body) for one in wire.replies()] == [(400, b"the request ended early")]
    assert not wire.is_open
    assert wire.server.reserved == 0


def test_a_connection_over_the_maximum_is_closed_at_once() -> None:
    wire = Wire(FakeServer(full=True))
    assert not wire.is_open
    assert wire.received == b""
    wire.connection.data_received(request())
    assert wire.server.asked == []


# --- the end of the worker --------------------------------------------------------------------------


def test_drain_closes_idle_connections_at_once(wire: Wire) -> None:
    wire.send(request())
    wire.drain()
    assert not wire.is_open


def test_drain_waits_for_what_is_under_way(wire: Wire) -> None:
    wire.send(request("/pool") + request("/2"))
    wire.drain()
    assert wire.is_open
    wire.answer()
    assert [one.headers.get("connection") for one in wire.replies()] == [None, "close"]
    assert not wire.is_open


def test_drain_takes_the_request_that_is_coming_and_none_behind_it(wire: Wire) -> None:
    wire.send(POST[:-3])
    wire.drain()
    assert wire.is_open
    wire.send(POST[-3:] + request("/behind"))
    assert [(one.status, one.headers.get("connection")) for one in wire.replies()] == [(200, "close")]
    assert [one.target for one in wire.server.asked] == [b"/hot"]
    assert not wire.is_open


def test_drain_does_not_wait_for_a_refused_client(wire: Wire) -> None:
    wire.send(b"garbage")
    assert wire.is_open
    wire.drain()
    assert not wire.is_open


def test_a_connection_can_be_cut(wire: Wire) -> None:
    wire.send(request("/pool") + POST + POST[:-1])
    wire.connection.cut()
    wire.go(0)
    wire.transport.turn()
    assert not wire.is_open
    assert wire.server.reserved == 0


# --- other protocols --------------------------------------------------------------------------------

UPGRADE = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
)


@pytest.mark.parametrize(
    "wish",
    [
        request("/hot?a=1", "GET", b"", *UPGRADE),
        request("/hot?a=1", "PUT", b"a=1&b=2", *UPGRADE),
        request("/hot?a=1", "PUT", b"", "Transfer-Encoding: chunked", *UPGRADE) + chunked(b"a=1&", b"b=2"),
    ],
)
def test_the_wish_for_http_2_is_passed_over(wish: bytes) -> None:
    """Java's HttpClient expresses it with its first request."""
    sent = request("/before") + wish + request("/behind", "POST", b"z")
    for at in range(1, len(sent)):
        wire = Wire()
        wire.send(sent[:at], sent[at:])
        assert wire.bodies() == [b"/before", b"/hot?a=1", b"/behind"]
        assert [one.body for one in wire.server.asked] == [b"", b"a=1&b=2" if b"PUT" in wish else b"", b"z"]
        assert "upgrade" not in wire.server.asked[1].block.named
        assert wire.server.reserved == 0


def test_wishes_without_end(wire: Wire) -> None:
    wire.send(request("/x", "GET", b"", *UPGRADE) * 3_000)
    assert wire.bodies() == [b"/x"] * 3_000


def test_a_wish_for_http_2_and_for_the_end(wire: Wire) -> None:
    wire.send(request("/x", "GET", b"", "Connection: upgrade, close", "Upgrade: h2c") + request("/y"))
    assert wire.bodies() == [b"/x"]
    assert not wire.is_open


def test_a_wish_behind_the_last_request_is_nothing(wire: Wire) -> None:
    wire.server.draining = True
    wire.send(request("/x") + request("/y", "GET", b"", *UPGRADE) + request("/z"))
    assert wire.bodies() == [b"/x"]
    assert not wire.is_open


def test_this_is_no_proxy(wire: Wire) -> None:
    wire.send(request("/x") + b"CONNECT y:443 HTTP/1.1\r\nHost: y:443\r\n\r\nmore" + request("/z"))
    assert [(one.status, one.body) for one in wire.replies()] == [(200, b"/x"), (405, b"this server is not a proxy")]


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_who_asks_before_it_sends_a_body_is_told_to_go_on(wire: Wire, method: str) -> None:
    sent = request("/x", method, b"abc", "Expect: 100-continue")
    wire.send(sent[:-3])
    assert wire.received == CONTINUE
    wire.send(sent[-3:])
    assert wire.received.startswith(CONTINUE + b"HTTP/1.1 200")
    assert wire.server.asked[0].body == b"abc"


def test_nobody_is_told_to_go_on_within_the_answer_to_another(wire: Wire) -> None:
    wire.send(request("/pool") + request("/x", "PUT", b"abc", "Expect: 100-continue"))
    assert wire.received == b""
    wire.answer()
    assert wire.statuses() == [200, 200]
    assert b"100" not in wire.received


@pytest.mark.parametrize("sent", [request("/", "PUT", b"", "Content-Length: 999999", "Expect: 100-continue"),
                                  b"PUT / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"])  # fmt: skip
def test_who_is_not_told_to_go_on(wire: Wire, sent: bytes) -> None:
    wire.send(sent)
    assert b"100 Continue" not in wire.received


# --- errors -----------------------------------------------------------------------------------------


def test_what_nobody_foresaw(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    wire.server.failure = RuntimeError("a secret of the inside")
    with caplog.at_level(logging.ERROR):
        wire.send(POST)
    assert [(one.status, one.body) for one in wire.replies()] == [
        (500, b"caused: internal error, see the server's log")
    ]
    assert "a secret of the inside" in caplog.text
    assert wire.server.reserved == 0
    wire.server.failure = None
    wire.send(request("/next"))
    assert wire.bodies()[1:] == [b"/next"]


def test_an_answer_after_the_client_went(wire: Wire) -> None:
    wire.send(request("/pool", "POST", b"a=1") + POST + POST[:-2])
    assert wire.server.reserved > 0
    wire.transport.abort()
    wire.transport.turn()
    assert wire.connection not in wire.server.open
    wire.answer()
    assert wire.server.reserved == 0
    assert wire.received == b""
    assert len(wire.server.asked) == 1, "the others are for nobody"


def test_a_connection_that_ended_leaves_memory_at_once() -> None:
    """Old objects are hardly ever searched for cycles."""

    class Seen(HttpConnection):
        """One without slots can be referred to weakly."""

    wire = Wire(kind=Seen)
    wire.send(POST + request("/pool"), *(b"GET / HTTP/1.1\r\n", b"X: y"))
    wire.answer()
    seen = weakref.ref(wire.connection)
    gc.disable()
    try:
        wire.transport.abort()
        wire.transport.turn()
        del wire
        assert seen() is None
    finally:
        gc.enable()


def test_a_failure_is_logged_without_the_query(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    wire.server.failure = RuntimeError("odd")
    wire.send(request("/hot?accessToken=geheim"))
    assert wire.statuses() == [500]
    assert "/hot" in caplog.text
    assert "geheim" not in caplog.text
