"""Calls over a kept connection: what is made again, and how each failure is told."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from urllib.parse import parse_qs, urlsplit

import pytest

from app.tools.audit.client.access import Access
from app.tools.command.asking import server_connection
from app.tools.command.asking.server_connection import NoServerAnswer, ServerConnection
from tests.support.tiny_server import Given, Received, TinyServer, refusing_address, tiny_server

Serve = Callable[[Callable[[Received], Given]], TinyServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(tiny_server(answer))


@pytest.fixture
def connect() -> Iterator[Callable[..., ServerConnection]]:
    with ExitStack() as stack:

        def make(address: str, **access: object) -> ServerConnection:
            one = ServerConnection(address, Access(**access))  # type: ignore[arg-type]
            stack.callback(one.close)
            return one

        yield make


def test_reads_share_a_connection_and_changes_have_their_own(
    serve: Serve, connect: Callable[..., ServerConnection]
) -> None:
    server = serve(lambda _: Given(202, b'{"a":1}'))
    one = connect(server.address, token="t0k")
    assert one.get("/v1/x", {"a": "b c", "n": 1}).json() == {"a": 1}
    assert one.get("/v1/x", {}).status == 202
    assert server.connections == 1
    one.change("PUT", "/v1/x", {"a": "\u00fc&"})
    one.change("DELETE", "/v1/x", {"a": "b"})
    first, _, put, delete = server.received
    assert urlsplit(first.target).path == "/nacos/v1/x"
    assert parse_qs(urlsplit(first.target).query) == {"a": ["b c"], "n": ["1"]}
    assert (put.target, put.body) == ("/nacos/v1/x", b"a=%C3%BC%26")
    assert (delete.target, delete.body) == ("/nacos/v1/x?a=b", b"")
    assert {item.headers["authorization"] for item in server.received} == {"Bearer t0k"}
    assert "t0k" not in "".join(item.target for item in server.received)


def test_a_kept_connection_that_was_closed_is_opened_again(
    serve: Serve, connect: Callable[..., ServerConnection]
) -> None:
    replies = [Given(), Given(hang_up=True), Given(body=b"again")]
    server = serve(lambda _: replies.pop(0))
    one = connect(server.address)
    one.get("/a", {})
    assert one.get("/a", {}).text() == "again"


def test_a_change_is_never_sent_twice(serve: Serve, connect: Callable[..., ServerConnection]) -> None:
    replies = [Given(), Given(hang_up=True), Given()]
    server = serve(lambda _: replies.pop(0))
    one = connect(server.address)
    one.get("/a", {})
    with pytest.raises(NoServerAnswer, match="the connection was closed"):
        one.change("POST", "/a", {})
    assert len(server.received) == 2


def test_what_does_not_answer_is_told_in_words(serve: Serve, connect: Callable[..., ServerConnection]) -> None:
    with pytest.raises(NoServerAnswer, match="connection refused"):
        connect(refusing_address()).get("/a", {})
    with pytest.raises(NoServerAnswer, match=r"not known|not resolve|temporary failure|no address"):
        connect("no-such-host.invalid:1").get("/a", {})
    cut = serve(lambda _: Given(200, b"x" * 100, cut_at=10))
    with pytest.raises(NoServerAnswer, match="the connection ended in the middle of the answer"):
        connect(cut.address).get("/a", {})


def test_what_speaks_another_protocol(connect: Callable[..., ServerConnection], serve: Serve) -> None:
    plain = serve(lambda _: Given())
    with pytest.raises(NoServerAnswer, match="is it an http:// address"):
        connect(plain.address, scheme="https").get("/a", {})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60.0)
        one = connect(f"127.0.0.1:{listening.getsockname()[1]}", timeout_s=0.2)
        with pytest.raises(NoServerAnswer, match=r"no answer within 0\.2 s"):
            one.get("/a", {})


def test_an_answer_is_bounded(
    serve: Serve, connect: Callable[..., ServerConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connection, "BODY_BYTES_MAX", 50)
    server = serve(lambda _: Given(200, b"x" * 100))
    with pytest.raises(NoServerAnswer, match="over 50 bytes"):
        connect(server.address).get("/a", {})


# --- streams of events ------------------------------------------------------------------------------

EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}


def test_a_stream_gives_the_data_of_its_events(serve: Serve, connect: Callable[..., ServerConnection]) -> None:
    body = b'retry: 3000\n\ndata: {"rev":1}\n\n: no change\n\ndata: {"rev":2}\n\n'
    server = serve(lambda _: Given(200, body, EVENTS))
    stream = connect(server.address, token="t0k").events("/v1/x", {"a": "b c"})
    assert stream is not None
    assert list(stream) == [b'{"rev":1}', b'{"rev":2}']
    [asked] = server.received
    assert (asked.target, asked.headers["authorization"]) == ("/nacos/v1/x?a=b+c", "Bearer t0k")


@pytest.mark.parametrize("answer", [Given(404), Given(501), Given(400), Given(200, b"{}"), Given(303)])
def test_an_older_server_has_no_stream(serve: Serve, connect: Callable[..., ServerConnection], answer: Given) -> None:
    assert connect(serve(lambda _: answer).address).events("/v1/x", {}) is None


@pytest.mark.parametrize("answer", [Given(503), Given(403), Given(429), Given(hang_up=True)])
def test_a_stream_that_cannot_be_opened_now(
    serve: Serve, connect: Callable[..., ServerConnection], answer: Given
) -> None:
    with pytest.raises(NoServerAnswer):
        connect(serve(lambda _: answer).address).events("/v1/x", {})


def test_a_stream_that_breaks_off(serve: Serve, connect: Callable[..., ServerConnection]) -> None:
    server = serve(lambda _: Given(200, b"data: 1\n\ndata: 2\n\n", EVENTS, cut_at=12))
    stream = connect(server.address).events("/v1/x", {})
    assert stream is not None
    events = iter(stream)
    assert next(events) == b"1"
    with suppress(NoServerAnswer):
        assert list(events) == []


def test_a_stream_is_ended_while_it_is_read(serve: Serve, connect: Callable[..., ServerConnection]) -> None:
    server = serve(lambda _: Given(200, b"data: 1\n\n" + b":" * 100_000, EVENTS, drip_s=0.001))
    stream = connect(server.address).events("/v1/x", {})
    assert stream is not None
    events = iter(stream)
    assert next(events) == b"1"
    stream.end()
    with suppress(NoServerAnswer):
        assert list(events) == []
    stream.end()
