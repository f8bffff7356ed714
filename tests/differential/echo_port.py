"""The same echoes behind the whole transport: over a socket, or over none."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from app.machine.limits.answer_budget import AnswerBudget
from app.machine.process.loop_parts import TurnSends
from app.rpc.server.client_stream import ClientStream
from app.rpc.server.connections import Connection, Connections
from app.rpc.server.control_credit import KeptBytes
from app.rpc.server.message_bounds import UnpackedBytes
from app.rpc.server.transport import RpcTransport
from tests.differential.conversations import MESSAGE_BYTES_MAX
from tests.differential.echo_servers import LIMITS, Ends, reply_to
from tests.support.no_socket import NoSocket


class Echoed:
    """A message that is known, as it came before."""

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.used = False


class EchoDispatcher:
    """Answers calls at once, as one that came before or by a handler, or in a later turn of the loop.

    ``w`` waits for as long as the client does.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self.bounds: Any = self
        self.known: Any = self

    def bytes_max(self, _client: Connection | None, _begin: bytes) -> int:
        return MESSAGE_BYTES_MAX

    def find(self, message: bytes) -> Echoed | None:
        return None if message[:1] == b"w" or len(message) % 3 != 1 else Echoed(message)

    def answer_hot(self, _client: Connection, known: Echoed) -> bytes | None:
        assert known.used, "the memo drops what nobody uses"
        try:
            return reply_to(known.message) or b""
        except Ends:
            return None

    async def answer(self, _client: Connection, message: bytes, _known: Echoed | None) -> bytes:
        if message[:1] == b"w":
            self.waiting += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.waiting -= 1
        if len(message) % 3 == 2:
            await asyncio.sleep(0)
        try:
            return reply_to(message) or b""
        except Ends as end:
            return end.text.encode()

    def take(self, client: Connection, message: bytes) -> bool:
        client.registered = True
        try:
            reply = reply_to(message)
        except Ends:
            return False
        return reply is None or client.offer(reply)

    def ended(self, client: Connection) -> None:
        client.is_gone = True
        client.stream = None


class EchoPort:
    """What the connections of a port share."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chosen: random.Random | None = None) -> None:
        """``chosen``: what comes is taken in pieces."""
        self.loop, self.sends = loop, TurnSends(loop.call_soon)
        self.chosen = chosen
        self.connections = Connections(lambda: 5_000, lambda: 1_000)
        self.echo = EchoDispatcher()
        self.dispatcher: Any = self.echo
        self.limits = LIMITS
        self.on_cluster_port = False
        self.kept_bytes_max = 4 * MESSAGE_BYTES_MAX
        self.kept = KeptBytes(8 * MESSAGE_BYTES_MAX)
        self.unpacked = UnpackedBytes()
        self.answers = AnswerBudget()
        self.keep_alive_s, self.keep_alive_timeout_s = 7_200.0, 20.0
        self.transports: set[RpcTransport] = set()
        self.calls = 0

    async def take_pending(self, _connection: Connection, _key: tuple[str, str]) -> bytes | None:
        return None

    def opened(self, transport: RpcTransport) -> bool:
        self.transports.add(transport)
        return True

    def closed(self, transport: RpcTransport) -> None:
        self.transports.discard(transport)

    def begin_call(self) -> bool:
        self.calls += 1
        return self.calls < 100

    def end_call(self) -> None:
        self.calls -= 1

    def soon(self, stream: ClientStream) -> None:
        self.loop.call_soon(stream.go_on)

    def check_empty(self) -> None:
        """Nothing is kept of connections that ended."""
        left = (self.kept.count, self.calls, self.echo.waiting, len(self.transports))
        assert left == (0, 0, 0, 0), f"bytes, calls, handlers, connections that are left: {left}"


class Chopped(RpcTransport):
    """Takes what comes in pieces."""

    def __init__(self, port: EchoPort) -> None:
        super().__init__(port)
        self._chosen = port.chosen

    def data_received(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            size = len(data) if self._chosen is None else self._chosen.choice((1, 9, 100, 5_000, 50_000))
            super().data_received(data[at : at + size])
            at += size


@asynccontextmanager
async def echo_port(chosen: random.Random | None = None) -> AsyncIterator[tuple[int, EchoPort]]:
    """Serve over a socket of the running loop; yields its port."""
    port = EchoPort(asyncio.get_running_loop(), chosen)
    server = await port.loop.create_server(lambda: Chopped(port), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], port
    finally:
        server.close()
        for one in list(port.transports):
            one.cut()
        while port.transports:
            await asyncio.sleep(0)
        await asyncio.sleep(0)


async def play_without_socket(port: EchoPort, pieces: list[bytes], chosen: random.Random) -> int:
    """Have a connection take these pieces, and end; return the bytes that it sent."""
    protocol = RpcTransport(port)
    transport = NoSocket(protocol, chosen)
    protocol.connection_made(cast(asyncio.Transport, transport))
    for piece in pieces:
        for _ in range(100):
            if transport.is_reading or transport.closed:
                break
            transport.read()
            await asyncio.sleep(0)
        assert transport.is_reading or transport.closed, "reading never goes on"
        if transport.closed:
            break
        protocol.data_received(piece)
        if chosen.random() < 0.3:
            await asyncio.sleep(0)
    if chosen.random() < 0.2:
        protocol.check(port.loop.time() + 100)
    protocol.connection_lost(None)
    for _ in range(3):
        await asyncio.sleep(0)
    return transport.sent
