"""What a message costs before its sender's right to it was checked: little, whatever it unpacks or would parse to."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from grpc import aio

from app.auth.access_rules import MEMBERS, READ, WRITE, naming
from app.auth.member_calls import Callers
from app.naming.model.keys import JSON_VALUES_MAX
from app.peers import payload as wire
from app.rpc.server import message_bounds
from app.rpc.server.dispatcher import Dispatcher
from app.rpc.server.grpc_messages import ANYBODYS_BYTES_MAX, PACKED_BYTES_MAX
from app.rpc.server.grpc_routes import GrpcRequest, GrpcRoute, KnownMessage
from app.rpc.server.limits import LimitWatch
from app.rpc.server.message_bounds import UNPAID_BYTES_MAX, WINDOW_S, UnpackedBytes
from tests.support.auth import node_with_users
from tests.support.fake_node import StubCluster
from tests.support.http2_client import END_STREAM, MAGIC, frame, prefixed
from tests.support.sdk_client import SdkClient
from tests.unit.rpc.server.test_transport import Served, run, until

LISTS = b'{"namespace":"public","groupName":"G","serviceName":"s","x":[%b]}' % b",".join([b"[]"] * 1_330_000)
ZEROS = bytes(10_000_000)
QUERY, WRITING, BATCH, OF_MEMBERS = (
    "ServiceQueryRequest",
    "InstanceRequest",
    "BatchInstanceRequest",
    "DistroDataRequest",
)
LARGE = 300_000


class Port(Served):
    """A port with routes of each size, that notes each message that reaches the dispatcher and each that is read."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[int] = []
        self.read: list[int] = []
        routes = {
            QUERY: GrpcRoute(self._handle, "QueryServiceResponse", naming(READ)),
            WRITING: GrpcRoute(self._handle, "InstanceResponse", naming(WRITE), bytes_max=LARGE),
            BATCH: GrpcRoute(self._handle, "BatchInstanceResponse", naming(WRITE), bytes_max=LARGE, bytes_per_value=6),
            OF_MEMBERS: GrpcRoute(self._handle, "DistroDataResponse", MEMBERS, bytes_max=LARGE),
        }
        self.dispatcher.add(routes)
        answer, take = self.dispatcher.answer, self.dispatcher.take

        async def noted(connection: Any, data: bytes, known: KnownMessage | None = None) -> bytes:
            self.taken.append(len(data))
            return await answer(connection, data, known)

        def noted_too(connection: Any, data: bytes) -> bool:
            self.taken.append(len(data))
            return take(connection, data)

        self.dispatcher.answer, self.dispatcher.take = noted, noted_too  # type: ignore[method-assign]

    async def _handle(self, request: GrpcRequest) -> Mapping[str, Any]:
        self.read.append(len(request.fields.text("x", chars_max=LARGE)))
        return wire.success()


async def ask(client: SdkClient, data: bytes, compression: grpc.Compression) -> tuple[grpc.StatusCode, Any]:
    call = client._call(data, compression=compression)  # type: ignore[call-arg]
    code = await call.code()
    return code, wire.decode(await call).json() if code is grpc.StatusCode.OK else None


@pytest.mark.parametrize(
    "kind", [QUERY, WRITING, BATCH, OF_MEMBERS, "ServerCheckRequest", "HealthCheckRequest", "None"]
)
@pytest.mark.parametrize("body", [LISTS, ZEROS], ids=["lists", "zeros"])
@pytest.mark.parametrize("has_setup", [False, True])
def test_a_packed_bomb_is_unpacked_to_no_more_than_its_type_may_have(kind: str, body: bytes, has_setup: bool) -> None:
    data = wire.encode(kind, body)

    async def main() -> None:
        async with Port() as served, SdkClient(served.port) as client:
            if has_setup:
                await client.set_up()
            code, _ = await ask(client, data, grpc.Compression.Gzip)
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert max(served.taken, default=0) <= ANYBODYS_BYTES_MAX
            assert not served.read

    run(main)


def test_a_packed_bomb_on_a_stream_does_not_reach_the_dispatcher() -> None:
    async def main() -> None:
        async with Port() as served, SdkClient(served.port) as client:
            stream = client._channel.stream_stream(wire.STREAM_METHOD)(compression=grpc.Compression.Gzip)
            await stream.write(wire.encode("ConnectionSetupRequest", LISTS))
            assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert not served.taken

    run(main)


@pytest.mark.parametrize(
    "crowd",
    [b"[1%b]" % (b",1" * 17_000), b"[%b1]" % (b"[]," * 9_000), b'{"":0%b}' % (b',"":0' * 17_000), b"[" * 17_000],
    ids=["numbers", "lists", "keys", "depth"],
)  # fmt: skip
def test_a_crowd_of_values_is_counted_and_not_parsed(crowd: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    loads = orjson.loads

    def noted(text: bytes) -> Any:
        parsed.append(len(text))
        return loads(text)

    monkeypatch.setattr(wire.orjson, "loads", noted)
    for kind in (QUERY, "ConnectionSetupRequest", "NotifySubscriberResponse"):
        with pytest.raises(wire.PayloadError, match=f"{kind} has more than {JSON_VALUES_MAX} values"):
            wire.Payload(kind, "", crowd).json()
    assert not parsed


def test_a_batch_may_have_as_many_values_as_its_length_explains() -> None:
    async def main() -> None:
        async with Port() as served, SdkClient(served.port) as client:
            await client.set_up()
            one = b'{"ip":"10.0.0.1","port":80,"weight":1.0,"healthy":true,"metadata":{"zone":"a","version":"1.0"}},'
            fits = b'{"x":"", "instances":[%b{}]}' % (one * 2_800)
            assert wire.structure_of(fits) > JSON_VALUES_MAX
            code, answer = await ask(client, wire.encode(BATCH, fits), grpc.Compression.NoCompression)
            assert (code, answer["resultCode"]) == (grpc.StatusCode.OK, 200)
            crowd = b'{"x":[%b1]}' % (b"[]," * 90_000)
            code, answer = await ask(client, wire.encode(BATCH, crowd), grpc.Compression.NoCompression)
            assert (code, answer["errorCode"]) == (grpc.StatusCode.OK, wire.UNREADABLE)
            assert len(served.read) == 1

    run(main)


@pytest.mark.parametrize("kind", [WRITING, BATCH])
def test_a_large_message_is_taken_of_a_type_that_needs_it_once_the_connection_is_set_up(kind: str) -> None:
    data = wire.encode(kind, orjson.dumps({"x": "a" * (LARGE - 1_000)}))

    async def main() -> None:
        async with Port() as served, SdkClient(served.port) as client:
            code, _ = await ask(client, data, grpc.Compression.NoCompression)
            assert (code, served.taken) == (grpc.StatusCode.RESOURCE_EXHAUSTED, [])
            await client.set_up()
            code, answer = await ask(client, data, grpc.Compression.NoCompression)
            assert (code, answer["resultCode"]) == (grpc.StatusCode.OK, 200)
            code, _ = await ask(client, wire.encode(QUERY, b"{}" + bytes(LARGE)), grpc.Compression.NoCompression)
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            code, _ = await ask(client, wire.encode(kind, b"{}" + bytes(LARGE)), grpc.Compression.NoCompression)
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert served.read == [LARGE - 1_000]

    run(main)


def test_a_packed_message_of_such_a_type_has_a_bound_of_its_own() -> None:
    async def main() -> None:
        async with Port() as served, SdkClient(served.port) as client:
            await client.set_up()
            for size, expected in (
                (PACKED_BYTES_MAX - 1_000, grpc.StatusCode.OK),
                (PACKED_BYTES_MAX, grpc.StatusCode.RESOURCE_EXHAUSTED),
            ):
                data = wire.encode(WRITING, orjson.dumps({"x": "a" * size}))
                code, _ = await ask(client, data, grpc.Compression.Gzip)
                assert code is expected

    run(main)


def test_a_large_message_for_members_is_taken_from_a_member_alone() -> None:
    data = wire.encode(OF_MEMBERS, orjson.dumps({"x": "a" * (LARGE - 1_000)}))

    async def main() -> None:
        for listed, expected in (("10.1.2.3", grpc.StatusCode.RESOURCE_EXHAUSTED), ("127.0.0.1", grpc.StatusCode.OK)):
            async with Port() as served, SdkClient(served.port) as client:
                served.server.on_cluster_port = True
                served.cluster.listed = {listed}
                await client.set_up()
                code, _ = await ask(client, data, grpc.Compression.NoCompression)
                assert code is expected

    run(main)


def test_a_setup_and_a_large_call_may_come_in_one_piece() -> None:
    async def main() -> None:
        async with Port() as served:
            client = await served.by_hand(begun=False)
            says, setup = client.says, wire.encode_json("ConnectionSetupRequest", {"labels": {"module": "naming"}})
            message = prefixed(wire.encode(WRITING, orjson.dumps({"x": "a" * 100_000})))
            client.writer.write(
                MAGIC + frame("SETTINGS") + frame("SETTINGS", 1)
                + says.opening(1, wire.STREAM_METHOD) + says.content(1, prefixed(setup))
                + says.opening(3) + says.content(3, message, END_STREAM)
            )  # fmt: skip
            await until(lambda: served.read)
            assert served.read == [100_000]
            client.writer.close()

    run(main)


def test_nothing_is_read_of_a_call_without_a_user_or_with_the_wrong_one() -> None:
    node = node_with_users()
    asked: list[GrpcRequest] = []

    async def handler(request: GrpcRequest) -> Mapping[str, Any]:
        asked.append(request)
        return wire.success()

    host = Served()
    cluster, now_ms = StubCluster(), node.monotonic_ms
    callers = Callers(None, "", now_ms, cluster)
    dispatcher = Dispatcher(
        host.connections, cluster, callers, node.clients.own, LimitWatch(Path()), now_ms, access=node.access
    )
    dispatcher.add({BATCH: GrpcRoute(handler, "BatchInstanceResponse", naming(WRITE), bytes_max=LARGE)})
    connection = host.connect()
    host.connections.register(connection)
    for token in ({}, {"accessToken": "none"}):
        data = wire.encode(BATCH, b"{", headers=token)
        answer = wire.decode(asyncio.run(dispatcher.answer(connection, data)))
        assert (answer.type, answer.json()["errorCode"]) == ("BatchInstanceResponse", 403)
        assert dispatcher.bounds.bytes_max(connection, data) == ANYBODYS_BYTES_MAX
    assert not asked


def test_an_address_has_no_more_unpacked_within_a_window_than_its_share() -> None:
    unpacked = UnpackedBytes()
    assert unpacked.has_room("10.0.0.1", 5.0)
    unpacked.add("10.0.0.1", UNPAID_BYTES_MAX, 5.0)
    assert not unpacked.has_room("10.0.0.1", 5.0 + WINDOW_S - 0.1)
    assert not unpacked.has_room("::ffff:10.0.0.1", 6.0)
    assert unpacked.has_room("10.0.0.2", 6.0)
    assert unpacked.has_room("10.0.0.1", 5.0 + WINDOW_S)


def test_addresses_beyond_the_table_share_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_bounds, "ADDRESSES_MAX", 2)
    unpacked = UnpackedBytes()
    for number in range(4):
        unpacked.add(f"10.0.0.{number}", UNPAID_BYTES_MAX // 2, 1.0)
    assert unpacked.has_room("10.0.0.0", 1.0)
    assert not unpacked.has_room("10.0.0.9", 1.0)


def test_new_connections_of_an_address_get_no_new_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_bounds, "UNPAID_BYTES_MAX", 100_000)

    async def main() -> None:
        async with Port() as served:
            codes = set()
            for _ in range(6):
                async with aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
                    call = channel.unary_unary(wire.REQUEST_METHOD)
                    done = call(wire.encode("ServerCheckRequest", bytes(30_000)), compression=grpc.Compression.Gzip)
                    codes.add(await done.code())
            assert codes == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}

    run(main)


def test_messages_that_fill_a_frame_of_a_stream_take_turns_with_other_connections() -> None:
    async def main() -> None:
        async with Port() as served, SdkClient(served.port) as other:
            client = await served.by_hand()
            setup = wire.encode_json("ConnectionSetupRequest", {"labels": {"module": "naming"}})
            client.writer.write(client.says.opening(1, wire.STREAM_METHOD) + client.says.content(1, prefixed(setup)))
            await until(lambda: len(served.connections) == 1)
            before = len(served.taken)
            client.writer.write(client.says.content(1, prefixed(wire.encode("X", b"")) * 12_000))
            await until(lambda: len(served.taken) > before)
            assert (await other.call("ServerCheckRequest"))["@type"] == "ServerCheckResponse"
            assert len(served.taken) < before + 12_000
            await until(lambda: len(served.taken) >= before + 12_001)
            client.writer.close()

    run(main)
