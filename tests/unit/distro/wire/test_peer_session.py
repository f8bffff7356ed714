"""The session of calls between members: its headers, its sockets, and that nothing from outside leads it elsewhere."""

import gzip
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext, suppress
from typing import Any

import pytest
import requests

from distro.model.errors import TransportError
from distro.timing.clock import monotonic_s
from distro.wire import peer_calls
from distro.wire.call_trust import Question
from distro.wire.peer_calls import (
    CHUNK_BYTES,
    CONNECT_TIMEOUT_S,
    CONNECTIONS,
    CONNECTIONS_OF_PEER,
    call_peer,
    peer_session,
)
from tests.support.tiny_server import Given, Received, TinyServer, refusing_address, tiny_server

LONG_MS = 60_000


def test_a_call_names_its_sender_takes_gzip_and_nothing_else() -> None:
    session = peer_session("agent/1", {"More": "yes"})
    with tiny_server() as server:
        call_peer(session, "GET", f"http://{server.address}/x", 2_000, headers={"Own": "1"}, body_bytes_max=10)
        session.close()
    [request] = server.received
    assert request.headers == {
        "host": server.address,
        "user-agent": "agent/1",
        "accept-encoding": "gzip",
        "more": "yes",
        "own": "1",
    }


def test_the_environment_leads_no_call_to_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://{refusing_address()}")
    monkeypatch.setenv("no_proxy", "")
    session = peer_session("agent/1", {})
    with tiny_server() as server:
        assert call_peer(session, "GET", f"http://{server.address}/", 2_000, body_bytes_max=10)[:2] == (200, b"ok")
        session.close()


def test_a_name_that_cannot_be_looked_up_any_more_is_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"member-1.registry": "127.0.0.1"}
    look_up = socket.getaddrinfo

    def find(host: str, *words: object, **named: object) -> object:
        if host.endswith(".registry") and host not in known:
            raise socket.gaierror(socket.EAI_AGAIN, "no name service")
        return look_up(known.get(host, host), *words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    session = peer_session("agent/1", {})
    with tiny_server(lambda _: Given(200, b"ok", {"Connection": "close"})) as server:
        url = f"http://member-1.registry:{server.address.rpartition(':')[2]}/"
        call_peer(session, "GET", url, LONG_MS, body_bytes_max=10)
        known.clear()
        assert call_peer(session, "GET", url, LONG_MS, body_bytes_max=10).status == 200
        with pytest.raises(TransportError, match="resolve"):
            call_peer(session, "GET", url.replace("member-1", "member-2"), LONG_MS, body_bytes_max=10)
        known["member-1.registry"] = "127.0.0.2"
        with suppress(TransportError):
            call_peer(session, "GET", url, LONG_MS, body_bytes_max=10)
        session.close()
    assert [one.headers["host"] for one in server.received[:2]] == [url.split("/")[2]] * 2
    assert len(server.received) == 2, "the name is looked up again for each connection"


def test_a_session_that_was_closed_makes_no_call() -> None:
    session = peer_session("agent/1", {})
    session.close()
    with tiny_server() as server, pytest.raises(TransportError):
        call_peer(session, "GET", f"http://{server.address}/", 2_000, body_bytes_max=10)
    assert server.received == []


def test_a_connection_is_kept_and_resets_at_once_when_it_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """R13: what the kernel has not sent by then must not arrive later."""
    lingers: list[tuple[int, int]] = []
    add = peer_calls._OpenSockets.add

    def see(self: peer_calls._OpenSockets, opened: socket.socket) -> None:
        lingers.append(struct.unpack("ii", opened.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)))
        add(self, opened)

    monkeypatch.setattr(peer_calls._OpenSockets, "add", see)
    session = peer_session("agent/1", {})
    with tiny_server() as server:
        for _ in range(3):
            call_peer(session, "GET", f"http://{server.address}/", 2_000, body_bytes_max=10)
        session.close()
    assert lingers == [(1, 0)]
    assert len({request.connection for request in server.received}) == 1


@pytest.mark.parametrize(("size", "is_taken"), [(10, True), (11, False)])
def test_an_answer_has_a_bound(size: int, is_taken: bool) -> None:
    session = peer_session("agent/1", {})
    with tiny_server(lambda _: Given(200, b"x" * size)) as server:
        if is_taken:
            assert call_peer(session, "GET", f"http://{server.address}/", 2_000, body_bytes_max=10)[1] == b"x" * size
        else:
            with pytest.raises(TransportError, match="over 10 bytes"):
                call_peer(session, "GET", f"http://{server.address}/", 2_000, body_bytes_max=10)
        session.close()


# --- the time of a call -------------------------------------------------------------------------------


class Refusing(requests.Session):
    """A session that notes its time-outs, and calls nobody."""

    def request(self, *_: Any, **arguments: Any) -> requests.Response:
        self.timeout = arguments["timeout"]
        raise requests.ConnectionError("Connection refused")


@pytest.mark.parametrize(
    ("timeout_ms", "timeouts"),
    [
        (5_000, (CONNECT_TIMEOUT_S, 5.0)),
        (500, (0.5, 0.5)),
        (1, (0.001, 0.001)),
        (0, (0.001, 0.001)),
        (-5, (0.001, 0.001)),
    ],
)
def test_a_connect_and_each_read_have_the_time_of_the_call(timeout_ms: int, timeouts: tuple[float, float]) -> None:
    session = Refusing()
    with pytest.raises(TransportError):
        call_peer(session, "GET", "http://10.0.0.2:8848/", timeout_ms, body_bytes_max=10)
    assert session.timeout == timeouts


def test_a_peer_that_never_answers_is_given_up() -> None:
    session = peer_session("agent/1", {})
    with tiny_server() as server:

        def never(_: Received) -> Given:
            server.stopped.wait()
            return Given()

        server.answer = never
        with pytest.raises(TransportError) as caught:
            call_peer(session, "GET", f"http://{server.address}/", 100, body_bytes_max=10)
        session.close()
    assert not caught.value.refused


@pytest.fixture
def pair() -> Any:
    """A socket of calls, and its other end."""
    near, far = socket.socketpair()
    limited = peer_calls._DeadlineSocket(fileno=near.detach())
    with limited, far:
        yield limited, far
    peer_calls._deadline.end_s = None


@pytest.mark.parametrize(("later_s", "is_taken"), [(2.0, True), (2.1, False)])
def test_an_answer_that_is_read_after_the_deadline_counts_as_none(
    later_s: float, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: it waited while this process stood still."""
    clock = iter([100.0, 100.0 + later_s])
    monkeypatch.setattr(peer_calls, "boot_s", lambda: next(clock))
    session = peer_session("agent/1", {})
    with tiny_server() as server:
        with nullcontext() if is_taken else pytest.raises(TransportError, match="after its deadline"):
            call_peer(session, "GET", f"http://{server.address}/", 2_000, body_bytes_max=10)
        session.close()


def test_no_read_or_write_begins_after_the_deadline(pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    limited, far = pair
    far.sendall(b"answer")
    monkeypatch.setattr(peer_calls, "monotonic_s", lambda: 70.0)
    for end_s, is_open in ((70.1, True), (70.0, False), (69.9, False)):
        peer_calls._deadline.end_s = end_s
        if is_open:
            limited.sendall(b"x")
            assert limited.recv_into(bytearray(3)) == 3
        else:
            with pytest.raises(TimeoutError):
                limited.sendall(b"x")
            with pytest.raises(TimeoutError):
                limited.recv_into(bytearray(3))


def test_a_read_that_waits_ends_with_the_deadline(pair: Any) -> None:
    limited, _ = pair
    limited.settimeout(None)
    peer_calls._deadline.end_s = monotonic_s() + 0.05
    with pytest.raises(TimeoutError):
        limited.recv_into(bytearray(1))


def test_between_calls_a_socket_has_no_deadline(pair: Any) -> None:
    with pytest.raises(TransportError):
        call_peer(Refusing(), "GET", "http://10.0.0.2:8848/", 1, body_bytes_max=10)
    limited, far = pair
    far.sendall(b"x")
    assert limited.recv_into(bytearray(1)) == 1


# --- what is kept ---------------------------------------------------------------------------------------


def test_connections_to_many_peers_are_kept() -> None:
    session = peer_session("agent/1", {})
    with ExitStack() as stack:
        servers: list[TinyServer] = [stack.enter_context(tiny_server()) for _ in range(CONNECTIONS)]
        for server in [*servers, *servers]:
            call_peer(session, "GET", f"http://{server.address}/", LONG_MS, body_bytes_max=10)
        session.close()
    assert [server.connections for server in servers] == [1] * CONNECTIONS


def test_of_the_connections_to_one_peer_some_are_kept() -> None:
    count = CONNECTIONS_OF_PEER + 2
    session, met = peer_session("agent/1", {}), threading.Barrier(count, timeout=60)

    def answer(_: Received) -> Given:
        met.wait()
        return Given()

    with tiny_server(answer) as server:
        for _ in range(2):
            threads = [
                threading.Thread(
                    target=call_peer,
                    args=(session, "GET", f"http://{server.address}/", LONG_MS),
                    kwargs={"body_bytes_max": 10},
                )
                for _ in range(count)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        session.close()
    assert server.connections == 2 * count - CONNECTIONS_OF_PEER


# --- the answer -------------------------------------------------------------------------------------------


def answered(given: Given, body_bytes_max: int) -> tuple[int, bytes]:
    session = peer_session("agent/1", {})
    with tiny_server(lambda _: given) as server:
        try:
            return call_peer(session, "GET", f"http://{server.address}/", LONG_MS, body_bytes_max=body_bytes_max)[:2]
        finally:
            session.close()
            assert len(server.received) == 1


def test_a_redirection_is_an_answer_like_others() -> None:
    assert answered(Given(302, b"there", {"Location": "/other"}), 10) == (302, b"there")
    with pytest.raises(TransportError, match="over"):
        answered(Given(302, b"x" * 11, {"Location": "/other"}), 10)


def test_a_long_answer_is_whole() -> None:
    body = bytes(range(256)) * (5 * CHUNK_BYTES // 512)
    assert answered(Given(200, body), len(body)) == (200, body)


def test_the_bound_is_that_of_the_whole_answer() -> None:
    with pytest.raises(TransportError, match="over"):
        answered(Given(200, bytes(3 * CHUNK_BYTES)), 2 * CHUNK_BYTES)


def test_an_answer_that_is_too_long_is_not_read_to_its_end() -> None:
    """It would have to be held in memory as a whole."""
    with pytest.raises(TransportError, match="over"):
        answered(Given(200, bytes(4 * CHUNK_BYTES), cut_at=3 * CHUNK_BYTES), CHUNK_BYTES)


def test_the_body_is_handed_out_as_it_came() -> None:
    """Its reader unpacks it, within bounds."""
    packed = gzip.compress(b"x" * 1_000)
    assert answered(Given(200, packed, {"Content-Encoding": "gzip"}), 1_000) == (200, packed)


def test_a_failure_tells_no_query() -> None:
    """It may hold a client's token, and the text of a failure is logged."""
    with peer_session("agent", {}) as session, pytest.raises(TransportError) as failure:
        call_peer(session, "GET", f"http://{refusing_address()}/a/b?accessToken=geheim&x=y", 1_000, body_bytes_max=9)
    assert "/a/b" in str(failure.value)
    assert "geheim" not in str(failure.value)
    assert failure.value.refused


# --- a peer proves that it is the peer -----------------------------------------------------------


class Asking:
    """A signer whose question is answered by the header ``Answer: yes``."""

    def headers(self, peer: str, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> dict[str, str]:
        return {"Signed-For": peer}

    def learn(self, peer: str, headers: Mapping[str, str]) -> bool:
        return False

    def question(self, peer: str, method: str = "GET", target: str = "/q", body: bytes = b"") -> Question | None:
        return Question("/q", {"Question-For": peer}, lambda headers: headers.get("answer") == "yes")


def proven(received: Received) -> Given:
    return Given(401, b"", {"Answer": "yes"}) if received.target == "/q" else Given()


def test_a_peer_is_asked_once_on_each_connection() -> None:
    session = peer_session("agent/1", {"Own": "secret"}, None, Asking())
    with tiny_server(proven) as server:
        for _ in range(3):
            call_peer(session, "PUT", f"http://{server.address}/x", 2_000, body=b"data", body_bytes_max=10)
        session.close()
    assert [(one.method, one.target) for one in server.received] == [("GET", "/q"), *[("PUT", "/x")] * 3]
    asked = server.received[0]
    assert asked.headers == {"host": server.address, "question-for": server.address}
    assert server.received[1].headers["signed-for"] == server.address
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        Given(),
        Given(401, b"no", {"Answer": "no"}),
        Given(401, b"x" * 100_000, {"Answer": "yes"}),
        Given(401, b"", {"Answer": "yes", "Connection": "close"}),
        Given(hang_up=True),
        Given(302, b"", {"Location": "/x"}),
        Given(200, b"nonsense", {f"H{number}": "x" for number in range(200)}),
    ],
    ids=["ok", "wrong", "long", "the end", "hangs up", "elsewhere", "many headers"],
)
def test_a_peer_that_does_not_prove_itself_is_sent_nothing(answer: Given) -> None:
    session = peer_session("agent/1", {}, None, Asking())
    with tiny_server(lambda _: answer) as server:
        for _ in range(3):
            with pytest.raises(TransportError):
                call_peer(session, "PUT", f"http://{server.address}/x", 2_000, body=b"data", body_bytes_max=10)
        session.close()
    assert {(one.target, one.body) for one in server.received} == {("/q", b"")}
    assert server.connections == 3, "no connection is used again"


def test_a_question_ends_with_the_call() -> None:
    session = peer_session("agent/1", {}, None, Asking())
    with tiny_server(lambda _: Given(401, b"x" * 1_000, {}, drip_s=0.02)) as server:
        begun_s = monotonic_s()
        with pytest.raises(TransportError):
            call_peer(session, "GET", f"http://{server.address}/x", 300, body_bytes_max=10)
        assert monotonic_s() - begun_s < 10
        session.close()
