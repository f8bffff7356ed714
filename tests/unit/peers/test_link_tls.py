"""Connections to a member over TLS, on a real loop with a real server at their other end."""

import socket
import ssl
import struct
from pathlib import Path

import pytest

from app.peers.link import MemberLinks
from app.peers.link_results import LinkAnswer, LinkResult, NotSent
from tests.support.loops import SkippingLoop, run_loop, until
from tests.support.tls_servers import CertifiedMember, blocking_server


@pytest.fixture
def member(tmp_path: Path) -> CertifiedMember:
    return CertifiedMember(tmp_path)


class Asking:
    """Asks a member over TLS, one request."""

    def __init__(self, loop: SkippingLoop, address: str, member: CertifiedMember) -> None:
        self.links = MemberLinks(loop, address, member.tls)
        self.results: list[LinkResult] = []
        self._loop = loop

    async def ask(self) -> LinkResult:
        self.results.clear()
        request = b"GET /x HTTP/1.1\r\nhost: h\r\n\r\n"
        assert self.links.ask(request, self._loop.time() + 2.0, self.results.append, pipelined=True)
        await until(lambda: self.results)
        [result] = self.results
        return result

    async def close(self) -> None:
        self.links.close()
        await until(lambda: not self.links._links and not self.links._tasks)


def test_requests_go_over_one_connection_that_drops_what_is_unsent(member: CertifiedMember) -> None:
    async def main(loop: SkippingLoop) -> None:
        with blocking_server(member.files.current.server) as server:
            asking = Asking(loop, server.address, member)
            for _ in range(2):
                assert await asking.ask() == LinkAnswer(200, b"ok", {b"content-length": b"2"})
            assert server.connections == 1
            [link] = asking.links._links
            assert link._transport is not None
            opened: socket.socket = link._transport.get_extra_info("socket")
            lingering = opened.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)
            assert struct.unpack("ii", lingering) == (1, 0)
            assert link._transport.get_extra_info("ssl_object").version() == "TLSv1.3"
            await asking.close()

    run_loop(main)


def test_nothing_is_sent_to_a_member_of_another_authority(member: CertifiedMember, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = CertifiedMember(tmp_path / "other")

    async def main(loop: SkippingLoop) -> None:
        with blocking_server(other.files.current.server) as server:
            asking = Asking(loop, server.address, member)
            assert await asking.ask() == NotSent()
            await asking.close()

    run_loop(main)
    assert member.stats.tls_members_refused == 1


@pytest.mark.parametrize("compatible", [True, False])
def test_a_member_without_tls_is_asked_plainly_only_with_compatibility(tmp_path: Path, compatible: bool) -> None:
    member = CertifiedMember(tmp_path, compatible)

    async def main(loop: SkippingLoop) -> None:
        with blocking_server(None) as server:
            asking = Asking(loop, server.address, member)
            result = await asking.ask()
            assert isinstance(result, LinkAnswer if compatible else NotSent)
            await asking.close()

    run_loop(main)
    assert member.stats.tls_plain_calls == compatible


def test_a_new_connection_uses_the_context_of_now(member: CertifiedMember) -> None:
    """A node's own certificate, shown by mutual TLS, is a new one; the old context stays with old connections."""
    before = member.tls.context()
    member.authority.issue(member.settings.certificate, member.settings.private_key)
    member.files.look()
    assert isinstance(before, ssl.SSLContext)
    assert member.tls.context() is not before
