"""Blocking calls to peers over TLS: verified, within their deadline, cut by a close."""

import threading
import time
from pathlib import Path

import pytest
import requests

from distro.model.errors import TransportError
from distro.wire.peer_calls import call_peer, peer_session
from tests.support.tls_servers import CertifiedMember, blocking_server

LATE_MS, HANG_MS = 300, 60_000


@pytest.fixture
def member(tmp_path: Path) -> CertifiedMember:
    return CertifiedMember(tmp_path)


def call(session: requests.Session, address: str, timeout_ms: int = HANG_MS) -> bytes:
    return call_peer(session, "GET", f"https://{address}/x", timeout_ms, body_bytes_max=100).body


def test_a_connection_is_kept_between_calls(member: CertifiedMember) -> None:
    with blocking_server(member.files.current.server) as server, peer_session("a", {}, member.tls) as session:
        assert [call(session, server.address) for _ in range(3)] == [b"ok"] * 3
        assert server.connections == 1


def test_a_peer_of_another_authority_is_refused_and_counted(member: CertifiedMember, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = CertifiedMember(tmp_path / "other")
    with blocking_server(other.files.current.server) as server, peer_session("a", {}, member.tls) as session:
        with pytest.raises(TransportError, match="certificate verify failed") as error:
            call(session, server.address)
        assert not error.value.refused
    assert member.stats.tls_members_refused == 1


def test_a_peer_without_tls_is_called_plainly_only_with_compatibility(tmp_path: Path) -> None:
    for compatible in (True, False):
        (tmp_path / str(compatible)).mkdir()
        member = CertifiedMember(tmp_path / str(compatible), compatible)
        with blocking_server(None) as server, peer_session("a", {}, member.tls) as session:
            if compatible:
                assert call(session, server.address) == b"ok"
                assert member.stats.tls_plain_calls == 1
            else:
                with pytest.raises(TransportError):
                    call(session, server.address)


def test_a_session_with_tls_makes_no_plain_call_and_one_without_none_by_tls(member: CertifiedMember) -> None:
    for tls, url in ((member.tls, "http://127.0.0.1:1/x"), (None, "https://127.0.0.1:1/x")):
        with peer_session("a", {}, tls) as session, pytest.raises(TransportError, match="No connection adapters"):
            call_peer(session, "GET", url, LATE_MS, body_bytes_max=100)


def test_a_handshake_that_is_not_answered_ends_with_the_call(member: CertifiedMember) -> None:
    with blocking_server(None, silent=True) as server, peer_session("a", {}, member.tls) as session:
        begun_s = time.monotonic()
        with pytest.raises(TransportError):
            call(session, server.address, LATE_MS)
        assert LATE_MS / 1_000 <= time.monotonic() - begun_s < HANG_MS / 1_000


def test_a_close_cuts_a_call_that_waits_for_its_answer(member: CertifiedMember) -> None:
    session = peer_session("a", {}, member.tls)
    failures: list[TransportError] = []

    def wait() -> None:
        try:
            call(session, server.address)
        except TransportError as error:
            failures.append(error)

    with blocking_server(member.files.current.server, answers=False) as server:
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert server.asked.wait(HANG_MS / 1_000)
        session.close()
        waiting.join()
    assert failures
