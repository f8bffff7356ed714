"""Whatever comes over a connection, in whatever pieces and moments: an end, all room given back, nothing unforeseen."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.http.api.call import Reply
from app.http.server.connection import IDLE_S, OUT_BYTES_MAX, UNREAD_S
from app.http.server.request_reader import BODY_S
from tests.support.abuse_corpus import RAW
from tests.support.thorough import examples
from tests.support.wire import FakeServer, Wire, chunked, replies_of, request

LARGE = b"x" * (OUT_BYTES_MAX + 1)
UPGRADE = ("Connection: upgrade", "Upgrade: h2c")
WHOLE = [
    request("/hot"),
    request("/pool"),
    request("/large"),
    request("/hot", "POST", b"a=1"),
    request("/pool", "PUT", b"b" * 5_000),
    request("/hot", "PUT", b"", "Transfer-Encoding: chunked") + chunked(b"abc", b"d"),
    request("/hot", "PUT", b"abc", *UPGRADE),
    request("/pool", "GET", b"", *UPGRADE),
    request("/hot", "PUT", b"abc", "Expect: 100-continue"),
    request("/hot", "GET", b"", "Connection: close"),
    b"GET /pool HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"\r\n",
]
sent = st.one_of(st.sampled_from(WHOLE), st.sampled_from(WHOLE), st.sampled_from(RAW), st.binary(max_size=30))
steps = st.one_of(
    st.tuples(st.just("send"), st.lists(sent, min_size=1, max_size=5).map(b"".join), st.integers(1, 400)),
    st.sampled_from([("answer",), ("stream",), ("broken stream",), ("stop reading",), ("read",), ("drain",)]),
    st.tuples(st.just("go"), st.integers(1, 40)),
)
ends = st.sampled_from(["client closes", "client vanishes", "client does nothing", "worker ends"])


class Random:
    """Takes steps on a wire, as far as they are possible where it is."""

    def __init__(self) -> None:
        self.server = FakeServer(room_bytes=20_000, bodies={b"/large": LARGE})
        self.wire = Wire(self.server)
        self.broken = False

    def take(self, step: tuple[object, ...]) -> None:
        match step:
            case ("send", bytes() as data, int() as size):
                self.wire.send(*(data[at : at + size] for at in range(0, len(data), size)))
            case ("answer",) if self.wire.busy:
                self.wire.answer()
            case ("stream" | "broken stream" as kind,) if self.wire.busy:
                self._stream(whole=kind == "stream")
            case ("stop reading",):
                self.wire.transport.client_reads = False
            case ("read",):
                self.read()
            case ("go", int() as seconds):
                self.wire.go(seconds)
            case ("drain",):
                self.wire.drain()

    def _stream(self, whole: bool) -> None:
        connection = self.wire.connection
        connection.stream_head(Reply(200, b"", head=b"HTTP/1.1 200 OK\r\n"))
        connection.stream_part(LARGE, lambda: None)
        connection.stream_end(whole)
        self.broken |= not whole
        self.wire.transport.turn()

    def read(self) -> None:
        self.wire.transport.client_reads = True
        if not self.wire.transport.lost:
            self.wire.read()

    def end(self, how: str) -> None:
        match how:
            case "client closes" if self.wire.transport.reading:
                self.wire.half_close()
            case "client vanishes" | "client closes":
                self.wire.transport.abort()
                self.wire.transport.turn()
            case "worker ends":
                self.wire.drain()
        while self.wire.busy:
            self.wire.answer()
        for _ in range(3):
            self.wire.go(max(IDLE_S, UNREAD_S, BODY_S) + 5)
            while self.wire.busy:
                self.wire.answer()


@settings(max_examples=examples(600), deadline=None)
@given(st.lists(steps, max_size=12), ends)
def test_any_course_of_things(taken: list[tuple[object, ...]], how: str) -> None:
    course = Random()
    for step in taken:
        course.take(step)
    course.end(how)
    assert not course.wire.is_open
    assert course.server.reserved == 0
    assert not course.server.open
    assert course.server.room_bytes == 20_000


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(sent, min_size=1, max_size=8).map(b"".join), st.lists(st.integers(1, 200), min_size=1, max_size=20))
def test_pieces_make_no_difference(data: bytes, sizes: list[int]) -> None:
    """Who reads all gets whole answers, the same ones however the requests were cut."""
    received = []
    for pieces in ([len(data)], sizes):
        course = Random()
        at = 0
        while at < len(data):
            for size in pieces:
                course.take(("send", data[at : at + size], size))
                at += size
        while course.wire.busy:
            course.take(("answer",))
        # Whether a body is still waited for is told by how long it takes.
        course.end("client closes")
        received.append(course.wire.received.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b""))
    assert received[0] == received[1]
    if b"HTTP/1.0" not in data and b"HEAD" not in data:
        replies_of(received[0])


@pytest.mark.parametrize("raw", RAW)
def test_each_known_oddity(raw: bytes) -> None:
    for size in (len(raw), 7, 1):
        course = Random()
        course.take(("send", raw, size))
        course.end("client closes")
        assert not course.wire.is_open
        assert course.server.reserved == 0
        replies_of(course.wire.received)
