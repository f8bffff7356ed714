"""From a request to WSGI and back: the environ, whole answers, and streams that somebody reads, or nobody."""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.http.server.connection import OUT_BYTES_MAX
from app.http.server.wsgi_bridge import WsgiRun, make_environ
from tests.support.processes import eventually
from tests.support.wire import Wire, request

PART = b"x" * (OUT_BYTES_MAX + 1)


def environ_of(sent: bytes) -> dict[str, Any]:
    wire = Wire()
    wire.send(sent)
    return make_environ(wire.connection, wire.server.asked[0], ("127.0.0.1", 8848))


# --- the environ ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/a/b?c=d", "/a/b", "c=d"),
        ("/a", "/a", ""),
        ("/a?", "/a", ""),
        ("/a%2Fb%E6%9D%AD%ff?c=%2F", "/a/b\xe6\x9d\xad\xff", "c=%2F"),
        ("/a?b?c#d", "/a", "b?c#d"),
        ("http://proxy:1/a/b?c=d", "/a/b", "c=d"),
        ("http://proxy", "/", ""),
        ("//a", "//a", ""),
    ],
)
def test_targets(target: str, path: str, query: str) -> None:
    environ = environ_of(request(target))
    assert (environ["PATH_INFO"], environ["QUERY_STRING"], environ["RAW_URI"]) == (path, query, target)
    assert environ["SCRIPT_NAME"] == ""


def test_the_target_of_a_server_as_a_whole() -> None:
    assert environ_of(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")["PATH_INFO"] == "*"


def test_headers() -> None:
    lines = (
        "User-Agent: a\xe9",
        "X-Two: 1",
        "x-two:  2 ",
        "Content-Type: text/x",
        "User_Agent: Nacos-Server",
        "Empty:",
    )
    environ = environ_of(request("/a", "PUT", b"abc", *lines[:1]).replace(b"\xc3\xa9", b"\xe9"))
    assert environ["HTTP_USER_AGENT"] == "a\xe9"
    environ = environ_of(request("/a", "PUT", b"abc", *lines[1:]))
    found = {name: value for name, value in environ.items() if name.startswith(("HTTP_", "CONTENT_"))}
    assert found == {
        "HTTP_HOST": "x",
        "HTTP_X_TWO": "1,2",
        "HTTP_EMPTY": "",
        "CONTENT_TYPE": "text/x",
        "CONTENT_LENGTH": "3",
    }
    assert environ["wsgi.input"].read() == b"abc"
    assert (environ["REMOTE_ADDR"], environ["REMOTE_PORT"]) == ("10.0.0.9", "40000")


def test_a_body_in_chunks_has_its_length() -> None:
    environ = environ_of(request("/a", "PUT", b"", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n")
    assert environ["CONTENT_LENGTH"] == "4"
    assert "HTTP_TRANSFER_ENCODING" not in environ
    assert environ["wsgi.input"].read() == b"abcd"


# --- answers ----------------------------------------------------------------------------------------


class Parts:
    """An answer in parts that counts the parts that were made, and the calls of its ``close``."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self.made = 0
        self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        part = next(self._parts)
        self.made += 1
        return part

    def close(self) -> None:
        self.closed += 1


def answering(status: str, headers: list[tuple[str, str]], body: Iterable[bytes]) -> Callable[..., Iterable[bytes]]:
    def app(_: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response(status, headers)
        return body

    return app


def call_now(function: Callable[..., object], *args: object) -> None:
    function(*args)


def run(app: Any, sent: bytes, on_loop: Any = call_now) -> Wire:
    """Send a request and have the application answer it, all in this thread."""
    wire = Wire()
    wire.send(sent)
    asked = wire.server.asked[0]
    WsgiRun(app, wire.connection, asked, on_loop, wire.server.answers).run(
        make_environ(wire.connection, asked, ("", 0))
    )
    wire.transport.turn()
    return wire


POOLED = request("/pool")


def test_a_whole_answer() -> None:
    parts = Parts([b"a", b"bc"])
    app = answering("200 OK", [("content-length", "3"), ("X-A", "\xe9"), ("content-type", "text/x")], parts)
    wire = run(app, POOLED)
    head, _, body = wire.received.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[:4] == [b"HTTP/1.1 200 OK", b"content-type: text/x", b"X-A: \xe9", b"content-length: 3"]
    assert body == b"abc"
    assert (parts.closed, wire.is_open) == (1, True)


def test_a_status_is_named_as_the_loop_names_it() -> None:
    wire = run(answering("404 NOT FOUND", [("Content-Length", "0")], [b""]), POOLED)
    assert wire.received.startswith(b"HTTP/1.1 404 Not Found\r\n")
    wire = run(answering("599 MINE", [("Content-Length", "0")], [b""]), POOLED)
    assert wire.received.startswith(b"HTTP/1.1 599 Unknown\r\n")


@pytest.mark.parametrize("status", ["204 NO CONTENT", "304 NOT MODIFIED"])
def test_an_answer_without_a_body(status: str) -> None:
    wire = run(answering(status, [], []), POOLED + request("/next"))
    assert b"Transfer-Encoding" not in wire.received
    assert wire.statuses() == [int(status[:3]), 200]


def test_head_of_a_stream_asks_for_no_part() -> None:
    parts = Parts([b"one", b"two"])
    wire = run(answering("200 OK", [("Content-Type", "text/x")], parts), request("/pool", "HEAD"))
    assert wire.received.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nDate: ")
    assert wire.received.endswith(b"GMT\r\n\r\n")
    assert (parts.made, parts.closed) == (0, 1)
    assert wire.is_open


def test_a_stream() -> None:
    parts = Parts([b"one", b"", b"two"])
    wire = run(answering("200 OK", [("Content-Type", "text/x")], parts), POOLED + request("/next"))
    assert wire.bodies() == [b"onetwo", b"/next"]
    assert wire.replies()[0].headers["transfer-encoding"] == "chunked"
    assert parts.closed == 1
    assert not wire.busy


def test_what_stands_around_the_application_fails(caplog: pytest.LogCaptureFixture) -> None:
    def app(*_: Any) -> Any:
        raise RuntimeError("a secret of the inside")

    with caplog.at_level(logging.ERROR):
        wire = run(app, POOLED)
    assert [(one.status, one.body) for one in wire.replies()] == [
        (500, b"caused: internal error, see the server's log")
    ]
    assert "a secret of the inside" in caplog.text


def test_a_stream_that_fails_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> Iterator[bytes]:
        yield b"one"
        raise RuntimeError("a secret of the inside")

    parts = Parts(failing())
    with caplog.at_level(logging.ERROR):
        wire = run(answering("200 OK", [], parts), POOLED)
    assert wire.received.endswith(b"3\r\none\r\n"), "and no end"
    assert not wire.is_open
    assert parts.closed == 1
    assert "a secret of the inside" in caplog.text


def test_a_stream_that_nobody_reads_any_more_ends() -> None:
    wire = Wire()
    wire.send(POOLED)

    def endless() -> Iterator[bytes]:
        while True:
            if parts.made == 3:
                wire.transport.abort()
                wire.transport.turn()
            yield b"one"

    parts = Parts(endless())
    run = WsgiRun(answering("200 OK", [], parts), wire.connection, wire.server.asked[0], call_now, wire.server.answers)
    run.run(make_environ(wire.connection, wire.server.asked[0], ("", 0)))
    assert (parts.made, parts.closed) == (4, 1)


@pytest.mark.parametrize("end", ["read", "cut"])
def test_a_stream_waits_for_its_reader(end: str) -> None:
    wire = Wire()
    wire.transport.client_reads = False
    wire.send(POOLED)
    parts = Parts([PART] * 3)
    run = WsgiRun(answering("200 OK", [], parts), wire.connection, wire.server.asked[0], call_now, wire.server.answers)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(run.run, make_environ(wire.connection, wire.server.asked[0], ("", 0)))
        eventually(lambda: parts.made == 1 and wire.connection._waiting_to_write)
        assert not ended.done()
        if end == "cut":
            wire.connection.cut()
            wire.transport.turn()
            ended.result(60)
            assert parts.made == 1
        else:
            wire.transport.client_reads = True
            wire.transport.read()
            ended.result(60)
            wire.transport.read()
            assert wire.bodies() == [PART * 3]
    assert parts.closed == 1


@pytest.mark.parametrize("headers", [[], [("Content-Length", "3")]])
def test_a_loop_that_has_ended_is_nobody_to_tell(headers: list[tuple[str, str]]) -> None:
    def closed(*_: object) -> None:
        raise RuntimeError("Event loop is closed")

    parts = Parts([b"abc"])
    wire = run(answering("200 OK", headers, parts), POOLED, closed)
    assert wire.received == b""
    assert parts.closed == 1


@pytest.mark.parametrize("length", [[("Content-Length", "2")], []])
@pytest.mark.parametrize(("status", "header"), [("200 OK", "杭"), ("no status", "x")])
def test_a_head_that_cannot_be_sent_is_answered_500(
    length: list[tuple[str, str]], status: str, header: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = Parts([b"ab"])
    wire = run(answering(status, [*length, ("X-A", header)], parts), POOLED + request("/next"))
    assert wire.statuses() == [500, 200]
    assert parts.closed == 1
    assert "/pool" in caplog.text
