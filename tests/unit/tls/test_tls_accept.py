"""A port that speaks TLS, on the worker's kind of loop: who gets a handshake, and who keeps nobody waiting."""

import asyncio
import resource
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop

from app.http.server.worker import PLAIN_REPLY
from app.machine.limits.connection_room import ConnectionRoom, Share
from app.machine.tls import tls_accept
from app.machine.tls.tls_accept import TlsAcceptor
from tests.support.tls_servers import CertifiedMember

WAIT_S = 30.0
ROOM = 8


class Echo(asyncio.Protocol):
    """A connection that is there: it sends back what comes."""

    def __init__(self, share: Share) -> None:
        self._share = share

    def connection_lost(self, _error: Exception | None) -> None:
        self._share.give_back()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Port:
    """The port of one test, and clients of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, member: CertifiedMember, total: int | None) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.address = listening.getsockname()
        self.member, self.stats = member, member.stats
        self.share = share = ConnectionRoom(total, has_grpc=False, has_members=False).http
        self.acceptor = TlsAcceptor(
            loop,
            listening,
            lambda _ip: share if share.take() else None,
            Echo,
            lambda: member.files.current.server,
            member.stats,
            waiting_max=ROOM,
            plain_reply=PLAIN_REPLY,
            takes_plain=member.compatible,
        )
        self._clients: list[socket.socket] = []

    def connect(self, *sent: bytes) -> socket.socket:
        """A client that has sent so much, in these pieces, and does not block."""
        client = socket.create_connection(self.address, WAIT_S)
        self._clients.append(client)
        for part in sent:
            client.sendall(part)
        return client

    def opened(self) -> ssl.SSLSocket:
        """A client over TLS, that blocks."""
        context = ssl.create_default_context(cafile=str(self.member.authority.file))
        plain = socket.create_connection(self.address, WAIT_S)
        return context.wrap_socket(plain, server_hostname="127.0.0.1")

    async def speak(self, text: bytes = b"hello") -> tuple[bytes, str]:
        """What comes back over a new connection of TLS, and its certificate's serial number."""

        def blocking() -> tuple[bytes, str]:
            with self.opened() as opened:
                opened.sendall(text)
                return opened.recv(len(text)), str((opened.getpeercert() or {})["serialNumber"])

        return await asyncio.to_thread(blocking)

    def close(self) -> None:
        self.acceptor.close()
        for one in self._clients:
            one.close()


def run(member: CertifiedMember, main: Callable[[Port], Awaitable[None]], total: int | None = None) -> None:
    """Run it; all places that connections took are given back at the end. ``total``: of those places."""

    async def whole() -> None:
        port = Port(asyncio.get_running_loop(), member, total)
        try:
            async with asyncio.timeout(WAIT_S):
                await main(port)
        finally:
            port.close()
            await until(lambda: not port.acceptor._under_way)
            await until(lambda: not port.share.count)

    uvloop.run(whole())


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not check():
            await asyncio.sleep(0.001)


def closed(client: socket.socket) -> bool:
    """Whether the port has closed the connection, with all that it sent read."""
    client.setblocking(False)
    try:
        while client.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        pass
    return True


def greeting(member: CertifiedMember) -> bytes:
    """The first bytes of a client."""
    sent = ssl.MemoryBIO()
    client = member.files.current.client.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


@pytest.fixture
def member(tmp_path: Path) -> CertifiedMember:
    return CertifiedMember(tmp_path)


def test_a_client_speaks_and_is_counted(member: CertifiedMember) -> None:
    async def main(port: Port) -> None:
        assert (await port.speak())[0] == b"hello"
        assert (port.stats.tls_handshakes, port.stats.tls_handshakes_failed) == (1, 0)

    run(member, main)


def test_a_greeting_may_come_byte_by_byte(member: CertifiedMember) -> None:
    async def main(port: Port) -> None:
        client = port.connect()
        for byte in greeting(member):
            client.sendall(bytes([byte]))
            await asyncio.sleep(0)
        client.setblocking(False)
        answer = await asyncio.get_running_loop().sock_recv(client, 5)
        assert answer[:1] == b"\x16", "the other side's greeting"

    run(member, main)


def test_half_a_greeting_begins_no_handshake_and_the_oldest_makes_room(member: CertifiedMember) -> None:
    async def main(port: Port) -> None:
        half = greeting(member)[:100]
        waiting = [port.connect(half) for _ in range(ROOM)]
        await until(lambda: len(port.acceptor._waiting) == ROOM)
        assert not port.acceptor._under_way
        assert (await port.speak())[0] == b"hello"
        await until(lambda: closed(waiting[0]))
        assert not any(map(closed, waiting[1:]))
        assert port.stats.tls_handshakes_cut == 1
        later = [port.connect(half) for _ in range(3)]
        await until(lambda: all(map(closed, waiting[:3])))
        assert not any(map(closed, later))

    run(member, main)


def test_who_goes_before_the_greeting_is_whole_leaves_nothing(member: CertifiedMember) -> None:
    async def main(port: Port) -> None:
        for sent in (b"", b"\x16", b"\x16\x03\x01", greeting(member)[:-1]):
            client = port.connect(sent)
            await until(lambda: port.acceptor._waiting)
            client.close()
            await until(lambda: not port.acceptor._waiting and not port.acceptor._under_way)
        assert port.stats.tls_handshakes == 0

    run(member, main)


def test_a_greeting_that_does_not_come_is_not_waited_for(
    member: CertifiedMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_accept, "GREETING_S", 0.0)
    monkeypatch.setattr(tls_accept, "SWEEP_S", 0.01)

    async def main(port: Port) -> None:
        client = port.connect(b"\x16")
        await until(lambda: closed(client))
        assert port.stats.tls_handshakes_cut == 1

    run(member, main)


def test_the_oldest_handshake_makes_room_for_a_new_one(
    member: CertifiedMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_accept, "HANDSHAKES_MAX", 2)

    async def main(port: Port) -> None:
        stuck = []
        for _ in range(2):
            stuck.append(port.connect(greeting(member)))
            await until(lambda: len(port.acceptor._under_way) == len(stuck))
        assert (await port.speak())[0] == b"hello"
        await until(lambda: closed(stuck[0]))
        assert not closed(stuck[1])
        await until(lambda: port.stats.tls_handshakes_failed == 1)
        assert port.stats.tls_handshakes_cut == 1

    run(member, main)


def test_a_handshake_that_does_not_go_on_ends(member: CertifiedMember, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_accept, "HANDSHAKE_S", 0.05)

    async def main(port: Port) -> None:
        client = port.connect(greeting(member))
        await until(lambda: closed(client))
        await until(lambda: port.stats.tls_handshakes_failed == 1)

    run(member, main)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x28", b"\0" * 100_000])
def test_plain_bytes_are_told_what_the_port_speaks(member: CertifiedMember, sent: bytes) -> None:
    async def main(port: Port) -> None:
        client = port.connect()
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, sent[:60_000])
        answer = await loop.sock_recv(client, 1_000)
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert answer.endswith(b"\r\n\r\nthis port speaks TLS: use https")
        await until(lambda: closed(client))
        assert (port.stats.tls_plain_refused, port.stats.tls_plain_taken) == (1, 0)
        assert not port.acceptor._waiting

    run(member, main)


def test_with_compatibility_both_are_spoken(tmp_path: Path) -> None:
    async def main(port: Port) -> None:
        client = port.connect(b"plain")
        client.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(client, 5) == b"plain"
        assert (await port.speak())[0] == b"hello"
        assert (port.stats.tls_plain_refused, port.stats.tls_plain_taken) == (0, 1)

    run(CertifiedMember(tmp_path, compatible=True), main)


def test_a_new_certificate_is_for_new_connections_only(member: CertifiedMember) -> None:
    async def main(port: Port) -> None:
        begun, goes_on = threading.Event(), threading.Event()

        def keep() -> bytes:
            with port.opened() as opened:
                begun.set()
                goes_on.wait(WAIT_S)
                opened.sendall(b"old")
                return opened.recv(3)

        kept = asyncio.get_running_loop().run_in_executor(None, keep)
        await until(begun.is_set)
        _, before = await port.speak()
        renewed = member.authority.issue(member.settings.certificate, member.settings.private_key)
        member.files.look()
        _, after = await port.speak()
        goes_on.set()
        assert await kept == b"old"
        assert int(after, 16) == renewed != int(before, 16)

    run(member, main)


def test_without_free_descriptors_it_goes_on_when_there_are_some(
    member: CertifiedMember, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_accept, "NO_ROOM_S", 0.05)

    async def main(port: Port) -> None:
        await port.speak()
        client = socket.socket()  # its descriptor is taken before there are none
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            client.connect(port.address)
            await until(lambda: "no connection can be accepted: Too many open files" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert (await port.speak())[0] == b"hello"
        client.close()

    run(member, main)


def test_with_all_places_taken_whoever_waits_for_longest_goes_first(member: CertifiedMember) -> None:
    places = 3

    async def main(port: Port) -> None:
        half = greeting(member)[:100]
        waiting = [port.connect(half) for _ in range(places)]
        await until(lambda: len(port.acceptor._waiting) == places)
        assert (await port.speak())[0] == b"hello"
        await until(lambda: closed(waiting[0]))
        assert not any(map(closed, waiting[1:]))
        assert port.stats.tls_handshakes_cut == 0

    run(member, main, places)


def test_with_all_places_taken_by_connections_a_new_one_is_closed_until_one_ends(member: CertifiedMember) -> None:
    async def main(port: Port) -> None:
        kept = await asyncio.to_thread(port.opened)
        assert port.share.count == 1
        refused = port.connect()
        await until(lambda: closed(refused))
        await asyncio.to_thread(kept.sendall, b"still")
        assert await asyncio.to_thread(kept.recv, 5) == b"still"
        kept.close()
        await until(lambda: not port.share.count)
        assert (await port.speak())[0] == b"hello"

    run(member, main, 1)


def test_a_handshake_that_fails_gives_its_place_back(member: CertifiedMember) -> None:
    async def main(port: Port) -> None:
        broken = b"\x16\x03\x01\x00\x04none"
        for _ in range(3):
            client = port.connect(broken)
            await until(lambda client=client: closed(client))
            await until(lambda: not port.share.count)
        assert port.stats.tls_handshakes_failed == 3

    run(member, main, 1)
