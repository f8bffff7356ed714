"""The session of calls between members: its headers, its sockets, and that nothing from outside leads it elsewhere."""

import socket
import struct

import pytest

from distro import peer_calls
from distro.errors import TransportError
from distro.peer_calls import call_peer, peer_session
from tests.support.tiny_server import Given, refusing_address, tiny_server


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
        assert call_peer(session, "GET", f"http://{server.address}/", 2_000, body_bytes_max=10) == (200, b"ok")
        session.close()


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
