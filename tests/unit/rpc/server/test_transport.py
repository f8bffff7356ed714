"""The sockets of a gRPC port, with grpcio as the client: calls that wait, time that is up, windows, the end, TLS."""

import asyncio
import gc
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import grpc
import orjson
import pytest
from grpc import aio

from app.auth.access_rules import PUBLIC
from app.config.rpc_settings import RpcPort
from app.config.settings import SettingError
from app.machine.limits.connection_room import ConnectionRoom
from app.machine.tls.certificate import read_certificate
from app.machine.tls.contexts import make_port_context
from app.machine.tls.node_tls import PortCertificate
from app.machine.tls.watched import TlsStats, WatchedFiles
from app.peers import payload as wire
from app.rpc.server import grpc_server, transport
from app.rpc.server.connections import Connection
from app.rpc.server.grpc_routes import GrpcRequest, GrpcRoute, KnownMessage
from app.rpc.server.grpc_server import KEPT_MESSAGES_MAX, RpcServer
from app.rpc.server.http2_frames import Code
from tests.support.certificates import Authority, needs_openssl
from tests.support.http2_client import END_STREAM, MAGIC, ByHand, Frame, Heard, frame, frames_of, prefixed, whole_frames
from tests.support.processes import HANG_S, free_ports
from tests.support.sdk_client import SdkClient
from tests.unit.rpc.server.test_dispatcher import Host

T = TypeVar("T")
MESSAGE_BYTES_MAX = 4 << 20


class Served(Host):
    """A port that echoes, on the running loop."""

    def __init__(self, certificate: WatchedFiles[PortCertificate] | None = None) -> None:
        super().__init__()
        [self.port] = free_ports(1)
        self.gate = asyncio.Event()
        self.share = ConnectionRoom().grpc
        self.begun = self.cancelled = 0
        self.owed: dict[str, bytes] = {}
        self.dispatcher.add(
            {
                "EchoRequest": GrpcRoute(self._echo, "EchoResponse", PUBLIC, bytes_max=MESSAGE_BYTES_MAX),
                "WaitRequest": GrpcRoute(self._wait, "WaitResponse", PUBLIC, bytes_max=MESSAGE_BYTES_MAX),
                "FailRequest": GrpcRoute(self._fail, "FailResponse", PUBLIC),
            }
        )
        settings = RpcPort(self.port, MESSAGE_BYTES_MAX, 7_200_000, 20_000, 10_000, None, None)
        self.server = RpcServer(
            "127.0.0.1", settings, certificate, False, self.connections, self.dispatcher, self._take_pending, self.share
        )

    async def __aenter__(self) -> "Served":
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop()
        await self.server.stop()
        assert (self.server.kept.count, self.server.answers.count, self.share.count) == (0, 0, 0)

    async def _echo(self, request: GrpcRequest) -> Mapping[str, Any]:
        return wire.success(text=request.fields.text("text", chars_max=MESSAGE_BYTES_MAX))

    async def _wait(self, request: GrpcRequest) -> Mapping[str, Any]:
        self.begun += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return wire.success(text=request.fields.text("text", chars_max=MESSAGE_BYTES_MAX))

    async def _fail(self, request: GrpcRequest) -> Mapping[str, Any]:
        raise ValueError("unforeseen")

    async def _take_pending(self, _connection: Connection, key: tuple[str, str]) -> bytes | None:
        if "slow" in key:
            self.begun += 1
            await self.gate.wait()
        if "fails" in key:
            raise ValueError("unforeseen")
        return self.owed.get(key[1])

    async def by_hand(self, *, begun: bool = True) -> "HandMade":
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        client = HandMade(reader, writer)
        if begun:
            writer.write(MAGIC + frame("SETTINGS") + frame("SETTINGS", 1))
        return client

    @property
    def transports(self) -> list[transport.RpcTransport]:
        return list(self.server._transports)


class HandMade:
    """A socket of which the test says each byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.says = ByHand(begun=False)

    async def rest(self) -> list[Frame]:
        """All that comes until the server closes."""
        data = await self.reader.read()
        self.writer.close()
        return list(frames_of(data))


async def until(check: Callable[[], T]) -> T:
    async with asyncio.timeout(HANG_S):
        while not (found := check()):
            await asyncio.sleep(0.005)
    return found


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(whole())
    gc.collect()  # the library's thread ends with the last of its objects, and failures are in circles


def test_what_grpcio_sends_comes_back_whatever_its_size_in_any_number_at_once() -> None:
    chosen = random.Random(7)

    async def main() -> None:
        async with Served() as served, SdkClient(served.port) as client:
            await client.set_up()

            async def one() -> None:
                text = chosen.choice("abcdef") * chosen.choice((0, 1, 100, 16_370, 16_384, 65_530, 300_000))
                assert (await client.call("EchoRequest", text=text))["text"] == text

            for _ in range(6):
                await asyncio.gather(*(one() for _ in range(40)))

    run(main)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_packed_messages_of_grpcio_are_read(compression: grpc.Compression) -> None:
    async def main() -> None:
        async with Served() as served, aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            call = channel.unary_unary(wire.REQUEST_METHOD)
            data = wire.encode("ServerCheckRequest", b"{}" + b" " * 10_000)
            answer = wire.decode(await call(data, compression=compression))
            assert answer.type == "ServerCheckResponse"
            other = channel.unary_unary("/Request/other")(data, compression=compression)
            assert (await other.code(), await other.details()) == (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            assert await call(bytes(MESSAGE_BYTES_MAX + 1)).code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    run(main)


def test_a_call_that_waits_lets_others_pass_and_ends_with_its_client() -> None:
    async def main() -> None:
        async with Served() as served:
            async with SdkClient(served.port) as client:
                await client.set_up()
                slow = asyncio.create_task(client.call("WaitRequest", text="slow"))
                await until(lambda: served.begun == 1)
                assert (await client.call("EchoRequest", text="quick"))["text"] == "quick"
                given_up = asyncio.create_task(client.call("WaitRequest", text="never"))
                await until(lambda: served.begun == 2)
                given_up.cancel()
                await until(lambda: served.cancelled == 1)
                served.gate.set()
                assert (await slow)["text"] == "slow"
                assert (await client.call("FailRequest"))["errorCode"] == 500
                served.gate.clear()
                last = asyncio.create_task(client.call("WaitRequest", text="gone"))
                await until(lambda: served.begun == 3)
            await until(lambda: served.cancelled == 2)
            await asyncio.wait((last,))
            del slow, given_up, last  # what the library keeps of them has the socket open
            gc.collect()
            await until(lambda: not served.transports)
            assert len(served.clients.gone) == 1

    run(main)


def test_what_waits_for_a_stream_is_written_in_order_and_the_end_says_why() -> None:
    async def main() -> None:
        async with Served() as served, SdkClient(served.port, acknowledges=False) as client:
            await client.set_up()
            [connection] = served.connections
            served.owed["b"] = wire.encode("B", b"{}")
            for message in (b"A1", b"A2"):
                connection.offer(wire.encode(message.decode(), b"{}"))
            connection.add_pending(("n", "nothing"))
            connection.add_pending(("n", "b"))
            connection.close()
            await client.wait(lambda: client.ended)
            assert [one.type for one in client.messages] == ["A1", "A2", "B"]
            assert await client._stream.code() is grpc.StatusCode.UNAVAILABLE
            assert len(served.connections) == 0

    run(main)


def test_a_message_that_takes_a_while_to_make_holds_the_next_ones_of_its_stream() -> None:
    async def main() -> None:
        async with Served() as served, SdkClient(served.port, acknowledges=False) as client:
            await client.set_up()
            [connection] = served.connections
            served.owed["a"] = wire.encode("A", b"{}")
            connection.add_pending(("slow", "a"))
            await until(lambda: served.begun == 1)
            connection.offer(wire.encode("B", b"{}"))
            assert (await client.call("EchoRequest", text="quick"))["text"] == "quick"
            assert not client.messages
            served.gate.set()
            await client.wait(lambda: len(client.messages) == 2)
            assert [one.type for one in client.messages] == ["A", "B"]

    run(main)


@pytest.mark.parametrize("key", [("fails", "at once"), ("slow", "fails")])
def test_a_message_that_cannot_be_made_ends_its_stream_alone(
    key: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    async def main() -> None:
        async with Served() as served, SdkClient(served.port) as client, SdkClient(served.port) as other:
            served.gate.set()
            await client.set_up()
            [connection] = served.connections
            await other.set_up()
            connection.add_pending(key)
            await client.wait(lambda: client.ended)
            assert await client._stream.code() is grpc.StatusCode.UNAVAILABLE
            [left] = served.connections
            left.offer(wire.encode("A", b"{}"))
            await other.wait(lambda: other.messages)

    run(main)
    assert "failed unexpectedly" in caplog.text


def test_a_message_that_is_made_while_its_client_goes_is_dropped() -> None:
    async def main() -> None:
        async with Served() as served:
            async with SdkClient(served.port) as client:
                await client.set_up()
                [connection] = served.connections
                connection.add_pending(("slow", "a"))
                await until(lambda: served.begun == 1)
            await until(lambda: not served.transports)
            served.gate.set()
            assert not connection.pending

    run(main)


def test_a_client_whose_end_fails_keeps_no_other_from_its_messages(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: str) -> bool:
        raise ValueError("unforeseen")

    async def main() -> None:
        async with Served() as served, SdkClient(served.port) as client, SdkClient(served.port) as other:
            await client.set_up()
            [connection] = served.connections
            await other.set_up()
            [left] = [one for one in served.connections if one is not connection]
            served.clients.disconnect = fail
            connection.close()
            await until(lambda: "unforeseen" in caplog.text)
            left.offer(wire.encode("A", b"{}"))
            await other.wait(lambda: other.messages)
            del served.clients.disconnect

    run(main)


def test_the_end_of_a_transport_is_the_end_of_its_client_at_once() -> None:
    async def main() -> None:
        async with Served() as served:
            client = SdkClient(served.port)
            async with client:
                await client.set_up()
                assert len(served.connections) == 1
            await until(lambda: not served.transports)
            assert len(served.connections) == 0

    run(main)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", Code.SETTINGS_TIMEOUT),
        (MAGIC[:10], Code.SETTINGS_TIMEOUT),
        (MAGIC + frame("SETTINGS"), Code.SETTINGS_TIMEOUT),
        (MAGIC + frame("SETTINGS") + frame("SETTINGS", 1) + frame("PING")[:5], Code.ENHANCE_YOUR_CALM),
        (MAGIC + frame("SETTINGS") + frame("SETTINGS", 1) + frame("HEADERS", 0, 1, b"\x83"), Code.ENHANCE_YOUR_CALM),
        (MAGIC + frame("SETTINGS") + frame("SETTINGS", 1), Code.NO_ERROR),
    ],
    ids=["nothing", "half a preface", "no word on settings", "half a frame", "half a block", "no setup"],
)
def test_what_takes_too_long_is_cut(sent: bytes, code: Code) -> None:
    async def main() -> None:
        async with Served() as served:
            client = await served.by_hand(begun=False)
            client.writer.write(sent)
            await until(lambda: served.transports)
            now_s = asyncio.get_running_loop().time()
            await asyncio.sleep(0.05)  # for what is sent to be read; without it all ends the same
            [one] = served.transports
            one.check(now_s + 5)
            assert served.transports
            one.check(now_s + 70)
            frames = await client.rest()
            assert (frames[-1].kind, frames[-1].number) == ("GOAWAY", code)

    run(main)


def test_a_silent_client_is_pinged_and_kept_when_it_answers() -> None:
    async def main() -> None:
        async with Served() as served, SdkClient(served.port) as client:
            await client.set_up()
            [one] = served.transports
            time, ahead_s = asyncio.get_running_loop().time, 7_201.0
            one._now_s = lambda: time() + ahead_s
            pinged_s = one._now_s()
            one.check(pinged_s)
            await until(lambda: one._read_s >= pinged_s)  # the client's library answers by itself
            ahead_s += 29
            one.check(one._now_s())
            one.check(one._now_s())
            assert served.transports == [one]
            await client.call("HealthCheckRequest")

    run(main)


def test_a_client_that_answers_no_ping_is_cut_and_its_end_is_told() -> None:
    async def main() -> None:
        async with Served() as served:
            client = await served.by_hand()
            setup = wire.encode_json("ConnectionSetupRequest", {"labels": {"module": "naming"}})
            stream = client.says.opening(1, "/BiRequestStream/requestBiStream")
            client.writer.write(stream + client.says.content(1, prefixed(setup)))
            await until(lambda: len(served.connections) == 1)
            [one], now_s = served.transports, asyncio.get_running_loop().time()
            for after_s in (7_201, 7_202, 7_220, 7_222):
                one.check(now_s + after_s)
            frames = await client.rest()
            assert [(frame.kind, frame.flags) for frame in frames[-2:]] == [("PING", 0), ("GOAWAY", 0)]
            assert frames[-1].content.endswith(b"no answer to a PING")
            await until(lambda: len(served.connections) == 0)

    run(main)


@pytest.mark.parametrize("path", ["/Request/request", "/BiRequestStream/requestBiStream"])
def test_a_request_that_comes_byte_by_byte_has_an_end(path: str) -> None:
    async def main() -> None:
        async with Served() as served:
            client = await served.by_hand()
            setup = wire.encode_json("ConnectionSetupRequest", {"labels": {"module": "naming"}})
            stream = client.says.opening(1, "/BiRequestStream/requestBiStream")
            client.writer.write(stream + client.says.content(1, prefixed(setup)) + client.says.opening(3, path))
            await until(lambda: len(served.connections) == 1)
            [one], now_s = served.transports, asyncio.get_running_loop().time()
            piece = prefixed(bytes(1_000))
            for after_s in range(0, int(transport.HALF_MAX_S) + 20, 10):
                client.writer.write(frame("DATA", 0, 3, piece[after_s : after_s + 10]))
                received = one._machine._streams[3].received if after_s else 0
                await until(lambda received=received: one._machine._streams[3].received > received)
                one._read_s = now_s + after_s
                one.check(now_s + after_s)
                assert (one._machine.ended is None) == (after_s <= transport.HALF_MAX_S)
            assert (await client.rest())[-1].content.endswith(b"a request came in half")

    run(main)


def test_a_stream_without_a_setup_is_ended_in_time() -> None:
    async def main() -> None:
        async with Served() as served:
            client = await served.by_hand()
            client.writer.write(client.says.opening(1, "/BiRequestStream/requestBiStream"))
            [one] = await until(lambda: served.transports)
            await until(lambda: one._streams)
            now_s = asyncio.get_running_loop().time()
            one.check(now_s + transport.START_S - 1)
            assert served.transports
            one.check(now_s + transport.START_S + 1)
            assert (await client.rest())[-1].content.endswith(b"a stream without a setup")

    run(main)


def test_replies_that_nobody_reads_hold_further_calls_and_end_the_connection_in_time() -> None:
    async def main() -> None:
        async with Served() as served:
            client = await served.by_hand()
            says = client.says
            zero = frame("SETTINGS", 0, 0, b"\0\4" + bytes(4))
            message = wire.encode("EchoRequest", orjson.dumps({"text": "x" * 100_000}))
            client.writer.write(zero + says.opening(1, "/BiRequestStream/requestBiStream"))
            setup = wire.encode_json("ConnectionSetupRequest", {"labels": {"module": "naming"}})
            client.writer.write(says.content(1, prefixed(setup)))
            await until(lambda: len(served.connections) == 1)
            for stream in range(3, 103, 2):
                client.writer.write(says.opening(stream) + says.content(stream, prefixed(message), END_STREAM))
            [one] = served.transports
            await until(lambda: one._held and one._machine.streams == 51 and not one._machine.has_half)
            waiting = one._machine.replies.bytes
            assert waiting < transport.WAITING_BYTES_MAX + 2 * len(message)
            assert served.server.kept.count == sum(len(call.message) for call in one._held)
            assert served.server.answers.count == waiting
            for later_s in (0, transport.STALLED_S + 1):
                one.check(asyncio.get_running_loop().time() + later_s)
            await until(lambda: not served.transports)
            client.writer.close()
            assert (served.server.kept.count, served.server.answers.count) == (0, 0)

    run(main)


def test_calls_that_wait_keep_their_bytes_within_the_bound() -> None:
    async def main() -> None:
        async with Served() as served, SdkClient(served.port) as client:
            await client.set_up()
            text, begun = "x" * (MESSAGE_BYTES_MAX - 1_000), KEPT_MESSAGES_MAX
            calls = [asyncio.create_task(client.call("WaitRequest", text=text)) for _ in range(begun + 1)]
            done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            [refused] = [one.exception() for one in done]
            assert isinstance(refused, aio.AioRpcError)
            assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            await until(lambda: served.begun == begun)
            assert begun * len(text) <= served.server.kept.count <= begun * MESSAGE_BYTES_MAX
            served.gate.set()
            assert [(await one)["resultCode"] for one in waiting] == [200] * begun
            await until(lambda: served.server.kept.count == 0)

    run(main)


def test_too_many_calls_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "CALLS_MAX", 2)

    async def main() -> None:
        async with Served() as served, SdkClient(served.port) as client:
            await client.set_up()
            waiting = [asyncio.create_task(client.call("WaitRequest", text="x")) for _ in range(2)]
            await until(lambda: served.begun == 2)
            with pytest.raises(aio.AioRpcError) as refused:
                await client.call("WaitRequest", text="x")
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            served.gate.set()
            assert [(await one)["resultCode"] for one in waiting] == [200, 200]
            assert (await client.call("WaitRequest", text="y"))["text"] == "y"

    run(main)


def test_what_fails_in_the_transport_itself_is_said_to_its_client_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The dispatcher answers what its handlers raise; this is of the dispatcher."""

    async def fail(connection: Connection, message: bytes, known: KnownMessage | None) -> bytes:
        if b"later" in message:
            await asyncio.sleep(0)
        if b"fail" in message:
            raise ValueError("unforeseen")
        return await served_answer(connection, message, known)

    served_answer: Callable[[Connection, bytes, KnownMessage | None], Awaitable[bytes]]

    async def main() -> None:
        nonlocal served_answer
        async with Served() as served, SdkClient(served.port) as client:
            served_answer = served.dispatcher.answer
            served.dispatcher.answer = fail  # type: ignore[method-assign]
            await client.set_up()
            for text in ("fail", "fail later"):
                with pytest.raises(aio.AioRpcError) as told:
                    await client.call("EchoRequest", text=text)
                assert told.value.code() is grpc.StatusCode.UNKNOWN
            assert (await client.call("EchoRequest", text="later"))["text"] == "later"

    run(main)
    assert caplog.text.count("failed unexpectedly") == 2


def test_calls_that_wait_for_their_client_to_read_have_a_bound_and_may_be_given_up() -> None:
    async def main() -> None:
        async with Served() as served:
            client = await served.by_hand()
            says, zero = client.says, frame("SETTINGS", 0, 0, b"\0\4" + bytes(4))
            message = prefixed(wire.encode("EchoRequest", orjson.dumps({"text": "x" * 1_000_000})))
            client.writer.write(zero + says.opening(1, "/BiRequestStream/requestBiStream"))
            setup = wire.encode_json("ConnectionSetupRequest", {"labels": {"module": "naming"}})
            client.writer.write(says.content(1, prefixed(setup)))
            for stream in range(3, 43, 2):
                client.writer.write(says.opening(stream) + says.content(stream, message, END_STREAM))
            [one] = await until(lambda: served.transports)
            await until(lambda: one._held and one._held[-1].stream_id >= 27)
            [held] = [call for call in one._held if call.stream_id == 27]
            before = served.server.kept.count
            client.writer.write(frame("RST_STREAM", 0, 27, bytes(4)))
            await until(lambda: held not in one._held)
            assert served.server.kept.count == sum(len(x.message) for x in one._held)
            assert served.server.answers.count == one._machine.replies.bytes
            assert served.server.kept.count <= max(before, served.server.kept_bytes_max)
            wide = (1 << 30).to_bytes(4, "big")
            client.writer.write(frame("SETTINGS", 0, 0, b"\0\4" + wide) + frame("WINDOW_UPDATE", 0, 0, wide))
            heard, rest, ended = Heard(), b"", set[int]()
            while ended != {*range(3, 43, 2)} - {27}:
                rest += await client.reader.read(1 << 18)
                whole, rest = whole_frames(rest)
                ended |= {x.stream for x in heard.hear(whole) if x.kind == "HEADERS" and x.flags & END_STREAM}
            statuses = {heard.answered(stream).status for stream in ended}
            assert statuses == {"0", "8"}
            client.writer.close()

    run(main)


@pytest.mark.parametrize("tls", [False, pytest.param(True, marks=needs_openssl)])
def test_a_port_that_is_taken_is_said(tls: bool, tmp_path: Path) -> None:
    async def main() -> None:
        files = Certified(tmp_path).files if tls else None
        async with Served() as served:
            second = Served()
            settings = RpcPort(served.port, MESSAGE_BYTES_MAX, 7_200_000, 20_000, 10_000, None, None)
            server = RpcServer(
                "127.0.0.1",
                settings,
                files,
                False,
                second.connections,
                second.dispatcher,
                second._take_pending,
                second.share,
            )
            with pytest.raises(SettingError, match="cannot serve gRPC on"):
                await server.start()

    run(main)


@pytest.mark.parametrize("tls", [False, pytest.param(True, marks=needs_openssl)])
def test_a_connection_without_room_is_closed_and_one_that_ends_makes_room(tls: bool, tmp_path: Path) -> None:
    async def main() -> None:
        certified = Certified(tmp_path) if tls else None
        async with Served(certified and certified.files) as served:
            served.share.bound(2)
            authority = certified and certified.authority.file.read_bytes()
            clients = [SdkClient(served.port, certificate=authority) for _ in range(2)]
            for client in clients:
                await client.__aenter__()
                await client.set_up()
            assert served.share.count == 2
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
            assert (served.share.count, served.share.refused) == (2, 1)
            await clients[0].close()
            await until(lambda: served.share.count == 1)
            async with SdkClient(served.port, certificate=authority) as another:
                await another.set_up()
            await clients[1].close()
            await until(lambda: served.share.count == 0)

    run(main)


def test_at_the_end_clients_are_told_twice_and_calls_under_way_are_answered() -> None:
    async def main() -> None:
        async with Served() as served, SdkClient(served.port) as client:
            await client.set_up()
            by_hand = await served.by_hand()
            slow = asyncio.create_task(client.call("WaitRequest", text="slow"))
            await until(lambda: served.begun == 1)
            stopping = asyncio.create_task(served.server.stop())
            await asyncio.sleep(0)
            served.gate.set()
            assert (await slow)["text"] == "slow"
            await stopping
            goaways = [one for one in await by_hand.rest() if one.kind == "GOAWAY"]
            assert [int.from_bytes(one.content[:4], "big") for one in goaways] == [(1 << 31) - 1, 0]

    run(main)


class Certified:
    """A port's certificate, and clients that trust it; ``mutual``: they have to show one of the same authority."""

    def __init__(self, folder: Path, *, mutual: bool = False) -> None:
        self.authority = Authority(folder)
        self.chain, self.private_key = folder / "chain.pem", folder / "key.pem"
        self.authority.issue(self.chain, self.private_key)
        self.trusted = self.authority.file.read_bytes() if mutual else None
        self.files = WatchedFiles((self.chain, self.private_key), self._make, TlsStats())

    def _make(self) -> PortCertificate:
        context = make_port_context(self.chain, self.private_key, self.trusted)
        return PortCertificate(read_certificate(self.chain, self.private_key), context)

    async def call(self, port: int, credentials: grpc.ChannelCredentials) -> str:
        """The type of the answer to a call, or the status."""
        async with aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            call = channel.unary_unary(wire.REQUEST_METHOD)(wire.encode("ServerCheckRequest", b"{}"), timeout=20)
            try:
                return wire.decode(await call).type
            except aio.AioRpcError as error:
                return error.code().name


async def cut(reader: asyncio.StreamReader) -> None:
    """Wait for the end of a connection on which nothing comes."""
    with suppress(ConnectionResetError):  # something was left unread
        assert await reader.read() == b""


@needs_openssl
def test_who_begins_no_handshake_costs_a_socket_for_a_while_and_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_server, "GREETINGS_MAX", 4)
    certified = Certified(tmp_path)

    async def main() -> None:
        async with Served(certified.files) as served:
            slow = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(6)]
            for _, writer in slow:
                writer.write(b"\x16\x03\x01")
            for reader, _ in slow[:2]:
                await cut(reader)  # the oldest make room
            assert certified.files.stats.tls_handshakes_cut == 2
            trusts = grpc.ssl_channel_credentials(certified.authority.file.read_bytes())
            assert await certified.call(served.port, trusts) == "ServerCheckResponse"
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(MAGIC)
            await cut(reader)
            assert (certified.files.stats.tls_handshakes, certified.files.stats.tls_plain_refused) == (1, 1)
            assert all(one._peer for one in served.transports), "a connection of gRPC before its handshake"
            writer.close()
            for _, writer in slow:
                writer.close()

    run(main)


@needs_openssl
def test_the_end_of_a_port_is_the_end_of_handshakes_under_way(tmp_path: Path) -> None:
    certified = Certified(tmp_path)

    async def main() -> None:
        async with Served(certified.files) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(b"\x16")
            await until(lambda: served.server._listening[0]._waiting)  # type: ignore[attr-defined]
            await served.server.stop()
            await cut(reader)
            writer.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", served.port)

    run(main)


@needs_openssl
def test_a_port_that_asks_for_certificates_answers_who_shows_a_trusted_one(tmp_path: Path) -> None:
    certified = Certified(tmp_path, mutual=True)
    root = certified.authority.file.read_bytes()
    own = tmp_path / "client.pem", tmp_path / "client.key"
    certified.authority.issue(*own)
    chain, key = (file.read_bytes() for file in own)
    (tmp_path / "other").mkdir()
    foreign = tmp_path / "other" / "chain.pem", tmp_path / "other" / "key.pem"
    Authority(tmp_path / "other").issue(*foreign)
    foreign_chain, foreign_key = (file.read_bytes() for file in foreign)

    async def main() -> None:
        async with Served(certified.files) as served:
            for credentials, answer in (
                (grpc.ssl_channel_credentials(root, key, chain), "ServerCheckResponse"),
                (grpc.ssl_channel_credentials(root), "UNAVAILABLE"),
                (grpc.ssl_channel_credentials(root, foreign_key, foreign_chain), "UNAVAILABLE"),
            ):
                assert await certified.call(served.port, credentials) == answer
            assert certified.files.stats.tls_handshakes == 1
            assert certified.files.stats.tls_handshakes_failed >= 2

    run(main)


@needs_openssl
def test_tls_takes_the_newest_certificate_and_no_other_protocol(tmp_path: Path) -> None:
    certified = Certified(tmp_path)

    async def shown(port: int, protocols: list[str]) -> bytes | None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(protocols)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        first = await reader.read(9)
        writer.close()
        return found if first else None

    async def main() -> None:
        async with Served(certified.files) as served:
            before = await shown(served.port, ["h2"])
            assert before is not None
            assert await shown(served.port, ["http/1.1"]) is None
            certified.authority.issue(certified.chain, certified.private_key)
            certified.files.look()
            after = await shown(served.port, ["h2"])
            assert after not in (None, before)

    run(main)
