"""The parser of a connection by itself: bytes in, requests and refusals out, and no connection."""

import pytest

from app.http.server.request_reader import BODY_S, HEAD_S, IDLE, Refusal, Request, RequestReader
from tests.support.wire import FakeServer, chunked, request


class Taker:
    """Keeps the requests."""

    def __init__(self) -> None:
        self.taken: list[Request] = []
        self.expected = 0

    def on_request(self, request: Request) -> None:
        self.taken.append(request)

    def on_expect(self) -> None:
        self.expected += 1


class Read:
    """A reader with all that is around it."""

    def __init__(self) -> None:
        self.server, self.taker = FakeServer(), Taker()
        self.reader = RequestReader(self.server, self.taker, "10.0.0.9")


@pytest.fixture
def read() -> Read:
    return Read()


def test_requests_are_handed_over_within_the_feed(read: Read) -> None:
    sent = request("/1") + request("/2", "PUT", b"", "Transfer-Encoding: chunked") + chunked(b"a", b"b")
    assert read.reader.feed(sent[:-1]) is None
    assert [(one.target, one.body) for one in read.taker.taken] == [(b"/1", b"")]
    assert read.reader.phase is not IDLE
    assert read.reader.feed(sent[-1:]) is None
    assert [(one.target, one.body) for one in read.taker.taken] == [(b"/1", b""), (b"/2", b"ab")]
    assert read.reader.phase is IDLE
    assert read.server.reserved == 2, "the taker gives it back"


def test_a_refusal_is_the_last_that_comes_of_a_connection(read: Read) -> None:
    refusal = read.reader.feed(request("/1") + b"garbage\r\n\r\n" + request("/2"))
    assert refusal is not None
    assert refusal.status == 400
    assert read.reader.ended
    assert [one.target for one in read.taker.taken] == [b"/1"]


def test_an_early_end_is_refused_once(read: Read) -> None:
    read.reader.feed(request("/1", "PUT", b"abc")[:-1])
    assert read.server.reserved == 2
    assert read.reader.feed_eof() == Refusal(400, "the request ended early")
    assert read.server.reserved == 0
    assert read.reader.feed_eof() is None


def test_an_end_between_two_requests_is_no_fault(read: Read) -> None:
    read.reader.feed(request("/1"))
    assert read.reader.feed_eof() is None
    assert read.reader.ended


@pytest.mark.parametrize(("sent", "limit_s"), [(request()[:-2], HEAD_S), (request("/", "PUT", b"abc")[:-3], BODY_S)])
def test_time_counts_from_the_first_byte(read: Read, sent: bytes, limit_s: float) -> None:
    begun_s = read.server.now_s
    read.reader.feed(sent[:-1])
    read.server.now_s += 1
    read.reader.feed(sent[-1:])
    assert read.reader.check_time(begun_s + limit_s) is None
    refusal = read.reader.check_time(begun_s + limit_s + 1.5)
    assert refusal is not None
    assert refusal.status == 408


def test_time_counts_anew_after_nothing_was_read(read: Read) -> None:
    read.reader.feed(request()[:-2])
    read.server.now_s += HEAD_S + 1
    read.reader.restart_time()
    assert read.reader.check_time(read.server.now_s + HEAD_S) is None


def test_a_client_that_waits_before_it_sends_a_body(read: Read) -> None:
    read.reader.feed(request("/1", "PUT", b"abc", "Expect: 100-continue")[:-3])
    assert read.taker.expected == 1
    read.reader.feed(b"abcPUT / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    assert read.taker.expected == 1
    assert read.reader.http_version == "1.0"


def test_a_closed_reader_gives_its_room_back(read: Read) -> None:
    read.reader.feed(request("/1", "PUT", b"abc")[:-1])
    read.reader.close()
    assert read.server.reserved == 0


# --- what parsers read in different ways -------------------------------------------------------------

HOST = b"Host: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
END = b"\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"GET /\r\n\r\n", "HTTP/0.9"),
        (b"GET / HTTP/0.9\r\n" + HOST + b"\r\n", "HTTP/0.9"),
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", "HTTP/2.0"),
        (b"GET / HTTP/1.1\r\n\r\n", "one header Host"),
        (b"GET / HTTP/1.1\r\nUser-Agent: x\r\n\r\n", "one header Host"),
        (b"GET / HTTP/1.1\r\n" + HOST * 2 + b"\r\n", "one header Host"),
        (b"GET / HTTP/1.1\r\n" + HOST + b"host: y\r\n\r\n", "one header Host"),
        (b"GET / HTTP/1.0\r\n" + HOST * 2 + b"\r\n", "one header Host"),
        (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "Host must be a name"),
        (b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", "Host must be a name"),
        (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "Host must be a name"),
        (b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "one header Host"),
        (b"POST / HTTP/1.0\r\n" + HOST + CHUNKED + END, "HTTP/1.0 knows no chunks"),
        (b"POST / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: x\r\n" + CHUNKED + END, "HTTP/1.0 knows no chunks"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n" + END, "chunked"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: identity\r\n" + END, "chunked"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n" + END, "chunked"),
        (b"POST / HTTP/1.1\r\n" + HOST + CHUNKED + CHUNKED + END, "Transfer-Encoding"),
        (b"POST / HTTP/1.1\r\n" + HOST + CHUNKED + b"Content-Length: 5\r\n" + END, "Transfer-Encoding"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n" + CHUNKED + END, "Transfer-Encoding"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding:\r\n chunked\r\n" + END, "header value"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding : chunked\r\n" + END, "header"),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n folded\r\n\r\n", "whitespace"),
        (b"GET / HTTP/1.1\nHost: x\n\n", "CRLF"),
        (b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n", "CR"),
        (b"GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", "LF"),
    ],
)
def test_what_another_parser_may_read_otherwise_ends_the_connection(read: Read, sent: bytes, words: str) -> None:
    refusal = read.reader.feed(request("/1") + sent + request("/2"))
    assert refusal is not None
    assert refusal.status == 400
    assert words in refusal.text
    assert read.reader.ended
    assert [one.target for one in read.taker.taken] == [b"/1"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"GET /1 HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /2 HTTP/0.9\r\n" + HOST + b"\r\n"),
        (b"GET /1 HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /2 HTTP/2.0\r\n" + HOST + b"\r\n"),
        (
            b"GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            b"GET /2 HTTP/1.1\r\nConnection: keep-alive\r\n\r\n",
        ),
        (
            b"PUT /1 HTTP/1.1\r\n" + HOST + CHUNKED + END,
            b"PUT /2 HTTP/1.0\r\n" + HOST + CHUNKED + END,
        ),
    ],
)
def test_the_same_headers_in_another_version_are_looked_at_again(read: Read, first: bytes, second: bytes) -> None:
    assert read.reader.feed(first) is None
    refusal = read.reader.feed(second)
    assert refusal is not None
    assert refusal.status == 400
    assert [one.target for one in read.taker.taken] == [b"/1"]


def test_calls_that_a_page_caused_are_refused_once_for_each_set_of_headers(read: Read) -> None:
    asked = []
    page = Read()
    page.server.page = "not from here"
    look = page.server.refusal_of_page
    page.server.refusal_of_page = lambda block: asked.append(block) or look(block)  # type: ignore[method-assign, func-returns-value]
    assert page.reader.feed(request("/1") * 3) is None
    assert len(asked) == 1
    assert page.reader.feed(request("/2", "POST", b"abc", "Origin: x")) == Refusal(403, "not from here")
    assert [one.target for one in page.taker.taken] == [b"/1"] * 3
    assert page.server.reserved == 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_foreign_page_may_change_nothing(read: Read, method: str) -> None:
    foreign = ("Origin: foreign",)
    assert read.reader.feed(request("/1", "GET", b"", *foreign) + request("/2", "OPTIONS", b"", *foreign)) is None
    refusal = read.reader.feed(request("/3", method, b"", *foreign))
    assert refusal is not None
    assert refusal.status == 403
    assert [one.target for one in read.taker.taken] == [b"/1", b"/2"]


@pytest.mark.parametrize("before", [b"\n", b"\r\n\n", b"\n\r\n"])
def test_a_blank_line_before_a_request_ends_as_every_other(read: Read, before: bytes) -> None:
    refusal = read.reader.feed(before + request("/1"))
    assert refusal is not None
    assert (refusal.status, refusal.text) == (400, "a line ends without a carriage return")


def test_a_blank_line_after_a_request_may_come_in_pieces(read: Read) -> None:
    for piece in (request("/1")[:-1], b"\n\r", b"\n", request("/2")):
        assert read.reader.feed(piece) is None
    assert [one.target for one in read.taker.taken] == [b"/1", b"/2"]


def test_blank_lines_before_a_request_are_passed_over_in_any_pieces(read: Read) -> None:
    for piece in (b"\r\n", b"\r", b"\n", request("/1")):
        assert read.reader.feed(piece) is None
    assert [one.target for one in read.taker.taken] == [b"/1"]
