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
