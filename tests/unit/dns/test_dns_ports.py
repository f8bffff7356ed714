"""The sockets: datagrams, connections with several queries, and what closes one."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from app.config.dns_settings import DnsSettings
from app.config.settings import SettingError
from app.dns import tcp_port
from app.dns.dns_frontend import DnsFrontend, FailureGuard, own_ip
from app.dns.dns_stats import DnsStats
from app.dns.name_index import NameIndex
from app.dns.tcp_port import IDLE_S, DnsConnection, TcpPort
from app.dns.udp_port import UdpPort
from tests.support.loops import SkippingLoop, run_loop, turns, until

HOST = "127.0.0.1"


def answer(packet: bytes, remote_ip: str) -> bytes | None:
    """Says it back; the word decides on anything else."""
    if packet == b"boom":
        raise RuntimeError("boom")
    return None if packet == b"drop" else packet + b" of " + remote_ip.encode()


def framed(*messages: bytes) -> bytes:
    return b"".join(len(one).to_bytes(2) + one for one in messages)


def messages_of(data: bytes) -> list[bytes]:
    found = []
    while data:
        end = 2 + int.from_bytes(data[:2])
        found.append(data[2:end])
        data = data[end:]
    return found


class Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.came = b""
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        self.came += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False


class TcpBed:
    def __init__(self, loop: SkippingLoop, port: TcpPort) -> None:
        self.loop = loop
        self.port = port
        self.stats = port.stats
        assert port._server is not None
        self.at = port._server.sockets[0].getsockname()
        self.transports: list[asyncio.Transport] = []

    async def connect(self) -> tuple[asyncio.Transport, Client]:
        before = self.port.accepted if isinstance(self.port, CountingPort) else 0
        transport, client = await self.loop.create_connection(Client, *self.at)
        self.transports.append(transport)
        await until(lambda: isinstance(self.port, CountingPort) and self.port.accepted > before)
        return transport, client


class CountingPort(TcpPort):
    accepted = 0

    def opened(self, connection: DnsConnection) -> None:
        self.accepted += 1
        super().opened(connection)


@asynccontextmanager
async def serving(loop: SkippingLoop) -> AsyncIterator[TcpBed]:
    stats = DnsStats()
    port = CountingPort(FailureGuard(answer, stats, loop.time), stats)
    await port.start(HOST, 0)
    bed = TcpBed(loop, port)
    try:
        yield bed
    finally:
        port.stop()
        port.stop()
        for one in bed.transports:
            one.abort()
        await until(lambda: not port.stats.connections)
        await turns(3)


class TestTcp:
    def test_queries_are_answered_in_their_order_however_they_come(self) -> None:
        async def main(loop: SkippingLoop) -> None:
            async with serving(loop) as bed:
                transport, client = await bed.connect()
                words = [b"%d" % number for number in range(100)]
                whole = framed(*words)
                transport.write(whole[:7])
                await turns(5)
                transport.write(whole[7:])
                await until(lambda: len(messages_of(client.came)) == 100)
                assert messages_of(client.came) == [one + b" of 127.0.0.1" for one in words]

        run_loop(main)

    @pytest.mark.parametrize("word", [b"drop", b"boom"])
    def test_what_is_no_query_closes_the_connection_after_the_answers_before_it(self, word: bytes) -> None:
        async def main(loop: SkippingLoop) -> None:
            async with serving(loop) as bed:
                transport, client = await bed.connect()
                transport.write(framed(b"first", word, b"last"))
                await until(lambda: not client.is_open)
                assert messages_of(client.came) == [b"first of 127.0.0.1"]
                assert bed.stats.failed == (word == b"boom")

        run_loop(main)

    def test_who_asks_nothing_for_long_is_closed_though_bytes_come(self) -> None:
        async def main(loop: SkippingLoop) -> None:
            async with serving(loop) as bed:
                transport, client = await bed.connect()
                for _ in range(int(IDLE_S) + 2):
                    if client.is_open:
                        transport.write(b"\0")
                    loop.skip(1.0)
                    await turns(3)
                await until(lambda: not client.is_open)
                assert bed.stats.connections_closed == 1

        run_loop(main)

    def test_who_asks_now_and_then_is_kept(self) -> None:
        async def main(loop: SkippingLoop) -> None:
            async with serving(loop) as bed:
                transport, client = await bed.connect()
                for number in range(5):
                    transport.write(framed(b"again"))
                    await until(lambda number=number: len(messages_of(client.came)) == number + 1)  # type: ignore[misc]
                    loop.skip(IDLE_S - 2)
                    await turns(3)
                assert client.is_open

        run_loop(main)

    def test_one_connection_too_many_closes_the_one_without_a_query_for_longest(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tcp_port, "CONNECTIONS_MAX", 3)

        async def main(loop: SkippingLoop) -> None:
            async with serving(loop) as bed:
                first, first_client = await bed.connect()
                _, second = await bed.connect()
                _, third = await bed.connect()
                first.write(framed(b"here"))
                await until(lambda: bool(first_client.came))
                _, fourth = await bed.connect()
                await until(lambda: not second.is_open)
                assert first_client.is_open
                assert third.is_open
                assert fourth.is_open
                assert bed.stats.connections == 3

        run_loop(main)

    def test_who_reads_no_answers_gets_no_more_until_it_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tcp_port, "UNREAD_BYTES_MAX", 1_000)

        async def main(loop: SkippingLoop) -> None:
            async with serving(loop) as bed:
                transport, client = await bed.connect()
                transport.pause_reading()
                word = b"x" * 60_000
                count = 400  # more than the buffers of the kernel
                for _ in range(count):
                    transport.write(framed(word))
                await turns(2_000)
                connection = next(iter(bed.port._connections))
                assert len(connection._waiting) < 1_000_000
                assert connection._is_paused
                transport.resume_reading()
                await until(lambda: len(client.came) == count * (2 + len(word) + len(b" of 127.0.0.1")))

        run_loop(main)


class TestUdp:
    def test_datagrams_are_answered_and_a_failure_is_one_line_in_the_log(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def main(loop: SkippingLoop) -> None:
            stats = DnsStats()
            port = UdpPort(FailureGuard(answer, stats, loop.time), stats)
            await port.start(HOST, 0)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.setblocking(False)
                client.connect(port._sockets[0].getsockname())
                for word in (b"boom", b"drop", b"boom", *[b"%d" % number for number in range(40)]):
                    client.send(word)
                came: list[bytes] = []

                def read() -> bool:
                    try:
                        came.append(client.recv(100))
                    except BlockingIOError:
                        return False
                    return len(came) == 40

                await until(read)
            port.stop()
            port.stop()
            assert came == [b"%d of 127.0.0.1" % number for number in range(40)]
            assert stats.failed == 2

        run_loop(main)
        assert caplog.text.count("Traceback") == 1


class TestFrontend:
    def frontend(self, port: int) -> DnsFrontend:
        settings = DnsSettings(HOST, port, "rollcall", 5, 16, 0)
        return DnsFrontend(settings, NameIndex(), lambda namespace, name: None, lambda: True, HOST, 1_000)

    def test_a_port_that_is_taken_ends_the_start(self) -> None:
        async def main(_: SkippingLoop) -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
                taken.bind((HOST, 0))
                frontend = self.frontend(taken.getsockname()[1])
                with pytest.raises(SettingError, match="cannot serve DNS"):
                    await frontend.start()
                await frontend.stop()

        run_loop(main)

    @pytest.mark.parametrize(
        ("host", "own_host", "known"),
        [
            ("10.0.0.1", "10.0.0.2", "10.0.0.1"),
            ("0.0.0.0", "10.0.0.2", "10.0.0.2"),
            ("::", "2001:DB8::2", "2001:db8::2"),
            ("0.0.0.0", "member-1", ""),
        ],
    )
    def test_the_address_of_the_name_server(self, host: str, own_host: str, known: str) -> None:
        assert own_ip(host, own_host) == known
