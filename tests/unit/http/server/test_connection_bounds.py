"""Bounds on size and time of a client's requests: each has its answer, and reserved room is given back."""

import pytest

from app.http.api.call import Reply
from app.http.server.connection import IDLE_S, LINGER_S, OUT_BYTES_MAX, SHORT_UNREAD_S, UNREAD_BYTES_MIN, UNREAD_S
from app.http.server.request_reader import (
    BODY_BYTES_PER_S,
    BODY_S,
    HEAD_BYTES_MAX,
    HEAD_S,
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    LINE_BYTES_MAX,
)
from tests.support.wire import FakeServer, Wire, chunked, request

LARGE = b"x" * (16 * OUT_BYTES_MAX)
BEAT_PERIOD_S = 5
UPLOAD = request("/hot", "PUT", b"", "Transfer-Encoding: chunked")


@pytest.fixture
def wire() -> Wire:
    return Wire()


def refusal(wire: Wire) -> tuple[int, bytes]:
    """Status and text of the only answer, which must end the connection."""
    [reply] = wire.replies()
    assert reply.headers["connection"] == "close"
    assert reply.headers["content-type"] == "text/plain;charset=UTF-8"
    assert wire.server.asked == []
    assert wire.server.reserved == 0
    assert wire.server.refused == [reply.status]
    return reply.status, reply.body


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1 << 18, 1_000, 1])
@pytest.mark.parametrize(
    ("sent", "status", "text"),
    [
        (request("/" + "a" * LINE_BYTES_MAX), 414, b"the request's target is over 8190 bytes"),
        (request("/", "GET", b"", "A: " + "b" * HEADER_BYTES_MAX), 431, b"a header is over 8190 bytes"),
        (
            request("/", "GET", b"", *(f"A-{number}: b" for number in range(HEADERS_MAX))),
            431,
            b"there are more than 100 headers",
        ),
        (
            request("/", "GET", b"", *(f"A-{number}: {'b' * 8_000}" for number in range(9))),
            431,
            b"the request's head is over 65536 bytes",
        ),
        (
            request("/", "PUT", b"x" * 100_001),
            413,
            b"the body is over 100000 bytes, the most that is taken here",
        ),
        (
            UPLOAD + chunked(b"x" * 99_000, b"x" * 1_001),
            413,
            b"the body is over 100000 bytes, the most that is taken here",
        ),
    ],
    ids=["target", "header", "headers", "head", "length", "chunks"],
)
def test_what_is_too_large(wire: Wire, sent: bytes, status: int, text: bytes, step: int) -> None:
    wire.send(*(sent[at : at + step] for at in range(0, len(sent), step)))
    assert refusal(wire) == (status, text)


@pytest.mark.parametrize(
    "sent",
    [
        request("/" + "a" * (LINE_BYTES_MAX - 1)),
        request("/", "GET", b"", "A: " + "b" * (HEADER_BYTES_MAX - 1)),
        request("/", "GET", b"", *(f"A-{number}: b" for number in range(HEADERS_MAX - 1))),
        request("/", "GET", b"", *(f"A-{number}: {'b' * 8_000}" for number in range(8))),
        request("/", "PUT", b"x" * 100_000),
        UPLOAD + chunked(*[b"x" * 200] * 500),
        UPLOAD + chunked(*[b"x"] * 3_000),
    ],
    ids=["target", "header", "headers", "head", "length", "chunks", "small chunks"],
)
def test_what_is_just_small_enough(wire: Wire, sent: bytes) -> None:
    wire.send(sent, sent[:7_000], sent[7_000:])
    assert wire.statuses() == [200, 200]
    assert wire.server.reserved == 0


def test_what_is_too_large_behind_a_wish_for_another_protocol(wire: Wire) -> None:
    wish = request("/x", "GET", b"", "Connection: upgrade", "Upgrade: h2c")
    wire.send(wish + wish + request("/" + "a" * LINE_BYTES_MAX))
    assert wire.statuses() == [200, 200, 414]


def test_a_head_without_end_is_not_collected(wire: Wire) -> None:
    endless = (b"b" * 1_000 for _ in range(10 * HEAD_BYTES_MAX // 1_000))
    wire.send(b"GET / HTTP/1.1\r\nA: ", *endless)
    assert refusal(wire) == (431, b"the request's head is over 65536 bytes")


def test_many_requests_at_once_are_not_taken_for_a_large_head(wire: Wire) -> None:
    """A member passes calls on in one write."""
    many = request("/x") * 5_000
    assert len(many) > 2 * HEAD_BYTES_MAX
    wire.send(many + request("/y")[:9], request("/y")[9:])
    assert wire.bodies() == [b"/x"] * 5_000 + [b"/y"]


@pytest.mark.parametrize("more", [b"1;" + b"x" * 5_000, b"0\r\n" + b"A: " + b"b" * 5_000, b"0" * 5_000])
def test_what_frames_a_body_is_bounded_too(wire: Wire, more: bytes) -> None:
    wire.send(UPLOAD, more, *([more[-1_000:]] * 100))
    status, text = refusal(wire)
    assert status == 400
    assert text in (b"there is far more around the request's body than in it",) or b"not understood" in text
    assert wire.waiting_bytes == 0, "what comes after it is dropped"


@pytest.mark.parametrize("size", [1, 10])
def test_small_chunks_are_few(wire: Wire, size: int) -> None:
    """Each takes a microsecond of the loop: 50,000 of 10 bytes came to 56 ms in one body."""
    sent = UPLOAD + chunked(*[b"x" * size] * 20_000)
    wire.send(*(sent[at : at + 4_096] for at in range(0, 100_000, 4_096)))
    assert refusal(wire) == (400, b"there is far more around the request's body than in it")


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nHost: x\r\n", UPLOAD + b"0\r\n"], ids=["head", "trailers"])
def test_headers_are_counted_as_they_come(wire: Wire, start: bytes) -> None:
    wire.send(start, b"A: b\r\n" * (HEADERS_MAX + 2))
    assert refusal(wire) == (431, b"there are more than 100 headers")


# --- room that connections share --------------------------------------------------------------------


def test_bodies_of_all_connections_share_their_room() -> None:
    server = FakeServer(room_bytes=1_000)
    one, other = Wire(server), Wire(server)
    one.send(request("/pool", "PUT", b"x" * 600))
    assert server.reserved == 600
    body = request("/hot", "PUT", b"x" * 600)
    other.send(body)
    assert [(reply.status, reply.headers["connection"]) for reply in other.replies()] == [(503, "close")]
    assert server.reserved == 600
    one.answer()
    assert server.reserved == 0
    third = Wire(server)
    third.send(body)
    assert third.statuses() == [200]
    assert server.reserved == 0


@pytest.mark.parametrize("rest", [b"", request("/pool", "PUT", b"y" * 10), request("/x", "PUT", b"y" * 10)[:-2]])
@pytest.mark.parametrize("end", ["answer", "lost", "cut", "garbage", "half-closed"])
def test_room_is_given_back_in_every_way(wire: Wire, rest: bytes, end: str) -> None:
    wire.send(request("/pool", "PUT", b"x" * 100) + rest)
    assert wire.server.reserved >= 100
    match end:
        case "lost":
            wire.transport.abort()
        case "cut":
            wire.connection.cut()
        case "garbage":
            wire.send(b"\0\0")
        case "half-closed":
            wire.half_close()
    wire.transport.turn()
    while wire.busy:
        wire.answer()
    wire.go(BODY_S + LINGER_S + 2)
    assert wire.server.reserved == 0


# --- refusals arrive --------------------------------------------------------------------------------


def test_a_refused_client_can_read_why_while_it_still_sends(wire: Wire) -> None:
    """Closed with bytes unread, the connection would be reset, and the answer lost on its way."""
    wire.send(request("/", "PUT", b"", "Content-Length: 200000"), *([b"x" * 1_000] * 50))
    assert wire.transport.eof_sent
    assert wire.is_open
    assert wire.waiting_bytes == 0
    wire.half_close()
    assert not wire.is_open
    assert refusal(wire)[0] == 413


def test_a_refused_client_is_not_waited_for_for_ever(wire: Wire) -> None:
    wire.send(b"garbage")
    wire.go(LINGER_S)
    assert wire.is_open
    wire.go(1)
    assert not wire.is_open


def test_a_refused_client_that_waited_is_read_again(wire: Wire) -> None:
    wire.send(request("/pool") + b"garbage", b"more", b"and more")
    assert wire.waiting_bytes
    wire.answer()
    assert wire.waiting_bytes == 0
    assert wire.statuses() == [200, 400]


# --- time -------------------------------------------------------------------------------------------


def test_a_connection_is_kept_longer_than_clients_do_nothing(wire: Wire) -> None:
    for _ in range(100):
        wire.go(BEAT_PERIOD_S)
        wire.send(request())
    wire.go(IDLE_S)
    assert wire.is_open
    wire.go(1)
    assert not wire.is_open
    assert wire.statuses() == [200] * 100


def test_a_connection_on_which_nothing_ever_comes(wire: Wire) -> None:
    wire.go(IDLE_S + 1)
    assert not wire.is_open
    assert wire.received == b""


def test_a_slow_head(wire: Wire) -> None:
    sent = request("/hot", "GET", b"", "A: " + "b" * 100)
    for at in range(int(HEAD_S)):
        wire.send(sent[at : at + 1])
        wire.go(1)
    assert wire.received == b""
    wire.send(sent[int(HEAD_S) : 20])
    wire.go(1)
    assert refusal(wire) == (408, b"the request's head did not come within 10 s")


def test_a_head_may_take_a_while(wire: Wire) -> None:
    sent = request()
    wire.send(sent[:5])
    wire.go(HEAD_S)
    wire.send(sent[5:])
    wire.go(HEAD_S + 1)
    assert wire.statuses() == [200]


def test_each_request_has_its_own_time(wire: Wire) -> None:
    for _ in range(5):
        wire.send(request()[:5])
        wire.go(HEAD_S - 1)
        wire.send(request()[5:])
    assert wire.statuses() == [200] * 5


def test_a_slow_body(wire: Wire) -> None:
    wire.send(request("/", "PUT", b"", "Content-Length: 50000"))
    for _ in range(int(BODY_S)):
        wire.send(b"x")
        wire.go(1)
    assert wire.received == b""
    wire.go(1)
    assert refusal(wire) == (408, b"the request's body came too slowly")


def test_a_large_body_has_more_time() -> None:
    wire = Wire(FakeServer(room_bytes=1 << 30, body_max=1 << 30))
    seconds = 100
    wire.send(request("/", "PUT", b"", f"Content-Length: {seconds * BODY_BYTES_PER_S}"))
    for _ in range(seconds):
        wire.send(b"x" * BODY_BYTES_PER_S)
        wire.go(1)
    assert wire.statuses() == [200]


def test_the_time_of_a_call_is_not_the_clients(wire: Wire) -> None:
    wire.send(request("/pool"))
    wire.go(10 * IDLE_S)
    wire.answer()
    assert wire.statuses() == [200]


def test_what_is_half_there_is_not_late_for_what_was_not_read(wire: Wire) -> None:
    sent = request("/x", "PUT", b"abc")
    wire.server.bodies[b"/large"] = LARGE
    wire.transport.client_reads = False
    wire.send(request("/large") + sent[:-1], sent[-1:])
    wire.go(UNREAD_S - 1)
    wire.transport.client_reads = True
    wire.connection.check_time(wire.server.now_s)
    wire.server.now_s += 1
    wire.transport.read()
    wire.connection.check_time(wire.server.now_s)
    wire.send()
    assert wire.statuses() == [200, 200]


# --- what is not read -------------------------------------------------------------------------------


def test_who_reads_nothing_is_cut_off(wire: Wire) -> None:
    wire.server.bodies[b"/large"] = LARGE
    wire.transport.client_reads = False
    wire.send(request("/large") + request("/x", "PUT", b"abc"))
    wire.go(UNREAD_S)
    assert wire.is_open
    wire.go(1)
    assert not wire.is_open
    assert wire.server.reserved == 0


def test_who_reads_slowly_gets_all(wire: Wire) -> None:
    wire.server.bodies[b"/large"] = LARGE
    wire.transport.client_reads = False
    wire.send(request("/large"))
    while len(wire.transport.unread) > UNREAD_BYTES_MIN:
        wire.read(UNREAD_BYTES_MIN)
        wire.go(UNREAD_S)
    wire.read()
    assert wire.bodies() == [LARGE]


def test_who_reads_a_byte_now_and_then_is_cut_off(wire: Wire) -> None:
    wire.server.bodies[b"/large"] = LARGE
    wire.transport.client_reads = False
    wire.send(request("/large"))
    for _ in range(int(UNREAD_S) + 1):
        wire.read(100)
        wire.go(1)
    assert not wire.is_open


def test_a_late_answer_to_who_reads_slowly_starts_the_time_anew(wire: Wire) -> None:
    wire.server.bodies[b"/most"] = b"x" * (OUT_BYTES_MAX - 10_000)
    wire.transport.client_reads = False
    wire.send(request("/most") + request("/pool"))
    assert wire.busy
    wire.go(UNREAD_S - 1)
    wire.read(10_000)
    wire.answer(Reply(200, LARGE))
    wire.go(UNREAD_S)
    assert wire.is_open
    wire.go(1)
    assert not wire.is_open


@pytest.mark.parametrize("end", ["Connection: close", "Connection: keep-alive"])
def test_an_end_that_is_not_read_comes_all_the_same(wire: Wire, end: str) -> None:
    wire.server.bodies[b"/some"] = b"x" * 1_000
    wire.transport.client_reads = False
    wire.send(request("/some", "GET", b"", end))
    wire.go(UNREAD_S)
    assert wire.is_open
    wire.go(1)
    assert not wire.is_open


def test_who_reads_nothing_is_cut_off_sooner_while_others_need_the_room(wire: Wire) -> None:
    wire.server.bodies[b"/large"] = LARGE
    member = Wire(wire.server)
    member.connection.at_member = True
    for one in (wire, member):
        one.transport.client_reads = False
        one.send(request("/large"))
    assert wire.server.answers.count == len(wire.transport.unread) + len(member.transport.unread)
    wire.server.answers.add_always(wire.server.answers.large_max)
    for one in (wire, member):
        one.go(SHORT_UNREAD_S + 1)
    assert (wire.is_open, member.is_open) == (False, True)
    member.transport.abort()
    member.transport.turn()
    assert wire.server.answers.count == wire.server.answers.large_max


def test_short_answers_that_are_not_read_end_their_connection_when_the_budget_is_used_up(wire: Wire) -> None:
    wire.server.bodies[b"/some"] = b"x" * 1_000
    wire.server.answers.add_always(wire.server.answers.bytes_max + 1)
    wire.send(request("/some"))
    assert wire.is_open, "it reads"
    wire.transport.client_reads = False
    wire.send(request("/some"))
    assert not wire.is_open
    assert wire.server.answers.count == wire.server.answers.bytes_max + 1


def test_what_is_read_is_counted_no_more(wire: Wire) -> None:
    wire.server.bodies[b"/large"] = LARGE
    wire.transport.client_reads = False
    wire.send(request("/large"))
    wire.read(len(LARGE) // 2)
    wire.go(1)
    assert wire.server.answers.count == len(wire.transport.unread) < len(LARGE)
    wire.read()
    assert wire.server.answers.count == 0
    assert wire.is_open


def test_an_end_that_is_read_late_is_read_to_its_end(wire: Wire) -> None:
    wire.server.bodies[b"/some"] = b"x" * 1_000
    wire.transport.client_reads = False
    wire.send(request("/some", "GET", b"", "Connection: close"))
    wire.go(UNREAD_S)
    wire.read()
    assert wire.bodies() == [b"x" * 1_000]
    assert not wire.is_open
