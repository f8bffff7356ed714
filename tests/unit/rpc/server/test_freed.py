"""A connection is freed with its last reference: the worker makes full collections of garbage very rare."""

import asyncio
import random
from typing import cast

import orjson
import pytest

from app.peers import payload as wire
from app.rpc.server.transport import RpcTransport
from tests.differential.conversations import conversation
from tests.differential.echo_port import EchoPort, play_without_socket
from tests.support.circles import without_circles
from tests.support.http2_client import BIDI, END_STREAM, MAGIC, ByHand, frame, prefixed
from tests.support.no_socket import NoSocket
from tests.unit.rpc.server.test_dispatcher import NAMING, Host

CONNECTIONS = 100


class Reads(random.Random):
    """A client that reads at once."""

    def random(self) -> float:
        return 1.0


def of_client() -> bytes:
    """A client of an SDK: a stream with its setup, calls, one that is refused, one that is given up."""
    says = ByHand(begun=False)
    setup = wire.encode("ConnectionSetupRequest", orjson.dumps({"labels": NAMING, "clientVersion": "v2"}))
    stream = says.opening(1, BIDI) + says.content(1, prefixed(setup))
    calls = [says.call(2 * one + 3, wire.encode("HealthCheckRequest", b"{}")) for one in range(10)]
    return b"".join(
        (
            MAGIC,
            frame("SETTINGS"),
            frame("SETTINGS", 1),
            stream,
            *calls,
            says.call(31, b"nonsense"),
            says.call(33, wire.encode("ServerCheckRequest", b"{}")) + frame("RST_STREAM", 0, 33, bytes(4)),
            says.opening(35) + says.content(35, prefixed(bytes(1_000))[:-1]),
        )
    )


@pytest.mark.parametrize("ends_stream", [False, True])
def test_a_client_that_goes(ends_stream: bool) -> None:
    async def main() -> None:
        port, host, said = EchoPort(asyncio.get_running_loop()), Host(), of_client()
        port.connections, port.dispatcher = host.connections, host.dispatcher

        async def one() -> None:
            protocol = RpcTransport(port)
            protocol.connection_made(cast(asyncio.Transport, NoSocket(protocol, Reads())))
            protocol.data_received(said)
            await asyncio.sleep(0)
            assert len(host.connections) == 1
            if ends_stream:
                protocol.data_received(frame("DATA", END_STREAM, 1))
            protocol.connection_lost(None)
            await asyncio.sleep(0)

        await one()
        with without_circles():
            for _ in range(CONNECTIONS):
                await one()
        assert (len(host.connections), port.kept.count) == (0, 0)

    asyncio.run(main())


def test_whatever_a_client_said() -> None:
    async def main() -> None:
        port, said = EchoPort(asyncio.get_running_loop()), [conversation(seed).data for seed in range(CONNECTIONS)]
        await play_without_socket(port, [said[0]], random.Random(0))
        with without_circles():
            for seed in range(CONNECTIONS):
                await play_without_socket(port, [said[seed]], random.Random(seed))

    asyncio.run(main())
