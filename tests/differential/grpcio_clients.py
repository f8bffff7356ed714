"""grpcio as the client: the same calls, made at random, to our server and to its own."""

import asyncio
import itertools
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import grpc
from grpc import aio

from app.peers.payload import REQUEST_METHOD, STREAM_METHOD
from tests.differential.conversations import MESSAGE_BYTES_MAX, REPLY_SIZES, SIZES
from tests.differential.echo_servers import reply_to
from tests.support.sdk_client import OWN_TRANSPORT

CALL_S = 60.0
SHORT_S = 0.03
OPTIONS = (*OWN_TRANSPORT, ("grpc.max_send_message_length", -1))


@dataclass(frozen=True, slots=True)
class Planned:
    """One call of a client."""

    method: str
    messages: list[bytes]
    metadata: tuple[tuple[str, str | bytes], ...]
    compression: grpc.Compression
    timeout_s: float
    is_given_up: bool

    @property
    def replies(self) -> int:
        """The messages that come back on a stream: until then its client does not end it."""
        return sum(one[:1] != b"n" for one in self.messages)


Told = tuple[str, str, list[bytes]]
"""Status, its text where it is not in the library's words, and the messages that came."""


def plan(seed: int) -> list[Planned]:
    """The calls of a seed: one stream at most, as clients of ours have one."""
    chosen = random.Random(seed)
    calls = [_call(chosen) for _ in range(chosen.randint(1, 6))]
    if chosen.random() < 0.6:
        messages = [_message(chosen, b"eern") for _ in range(chosen.randint(1, 8))]
        calls.append(Planned(STREAM_METHOD, messages, _metadata(chosen), _compression(chosen), CALL_S, False))
    return calls


def _call(chosen: random.Random) -> Planned:
    method = REQUEST_METHOD if chosen.random() < 0.9 else "/Request/other"
    message = _message(chosen, b"eeeerr")
    waits = method == REQUEST_METHOD and chosen.random() < 0.15
    if waits:
        message = b"w"
    elif chosen.random() < 0.05:
        message = bytes(MESSAGE_BYTES_MAX + 1)
    gives_up = waits and chosen.random() < 0.5
    timeout_s = SHORT_S if waits and not gives_up else CALL_S
    return Planned(method, [message], _metadata(chosen), _compression(chosen), timeout_s, gives_up)


def _message(chosen: random.Random, kinds: bytes) -> bytes:
    kind = bytes((chosen.choice(kinds),))
    if kind == b"r":
        return kind + chosen.choice(REPLY_SIZES).to_bytes(4, "big")
    return kind + (chosen.randbytes(1) * chosen.choice(SIZES) if kind == b"e" else b"")


def _metadata(chosen: random.Random) -> tuple[tuple[str, str | bytes], ...]:
    fields: list[tuple[str, str | bytes]] = []
    for number in range(chosen.choice((0, 0, 1, 4))):
        fields.append((f"x-{number}", "v" * chosen.choice((0, 1, 50, 500))))
        if chosen.random() < 0.3:
            fields.append((f"y-{number}-bin", chosen.randbytes(20)))
    return tuple(fields)


def _compression(chosen: random.Random) -> grpc.Compression:
    return grpc.Compression.Gzip if chosen.random() < 0.3 else grpc.Compression.NoCompression


# --- asyncio --------------------------------------------------------------------------------------


async def ask(port: int, calls: list[Planned]) -> list[Told]:
    """Make all of them at once over one connection."""
    async with aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        return list(await asyncio.gather(*(_ask(channel, one) for one in calls)))


async def _ask(channel: aio.Channel, one: Planned) -> Told:
    options = {"metadata": one.metadata, "compression": one.compression, "timeout": one.timeout_s}
    messages: list[bytes] = []
    if one.method == STREAM_METHOD:
        call: Any = channel.stream_stream(one.method)(**options)
        writing = asyncio.create_task(_write(call, one.messages))
        for _ in range(one.replies):
            messages.append(await call.read())
        await writing
        await call.done_writing()
        assert await call.read() is aio.EOF
    else:
        call = channel.unary_unary(one.method)(one.messages[0], **options)
        if one.is_given_up:
            await asyncio.sleep(SHORT_S)
            call.cancel()
        with suppress(aio.AioRpcError, asyncio.CancelledError):
            messages.append(await call)
    code = await call.code()
    return code.name, _text(code, await call.details()), messages


async def _write(call: Any, messages: list[bytes]) -> None:
    for message in messages:
        await call.write(message)


def _text(code: grpc.StatusCode, text: str | None) -> str:
    return (text or "") if code in (grpc.StatusCode.OK, grpc.StatusCode.UNIMPLEMENTED) else ""


# --- threads --------------------------------------------------------------------------------------


def ask_in_threads(port: int, calls: list[Planned]) -> list[Told]:
    """Make all of them at once over one connection, by the library's other client."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        begun = [_begin(channel, one) for one in calls]
        return [_told(*call, one) for call, one in zip(begun, calls, strict=True)]


def _begin(channel: grpc.Channel, one: Planned) -> tuple[Any, threading.Event | None]:
    options: dict[str, Any] = {
        "metadata": one.metadata, "compression": one.compression, "timeout": one.timeout_s,
    }  # fmt: skip
    if one.method == STREAM_METHOD:
        ends = threading.Event()
        return channel.stream_stream(one.method)(_until(one.messages, ends), **options), ends
    return channel.unary_unary(one.method).future(one.messages[0], **options), None


def _until(messages: list[bytes], ends: threading.Event) -> Iterator[bytes]:
    yield from messages
    ends.wait(CALL_S)


def _told(call: Any, ends: threading.Event | None, one: Planned) -> Told:
    messages: list[bytes] = []
    if one.is_given_up:
        call.cancel()
    with suppress(grpc.RpcError, grpc.FutureCancelledError):
        if ends is not None:
            messages += itertools.islice(call, one.replies)
            ends.set()
            messages += call
        else:
            messages.append(call.result())
    return call.code().name, _text(call.code(), call.details()), messages


# --- grpcio's server ------------------------------------------------------------------------------


async def _unary(message: bytes, context: Any) -> bytes:
    if message == b"w":
        await asyncio.Event().wait()
    return reply_to(message) or b""


async def _both_ways(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for message in messages:
        if (reply := reply_to(message)) is not None:
            yield reply


@asynccontextmanager
async def grpcio_port() -> AsyncIterator[int]:
    """Serve the same by grpcio on the running loop; yields its port."""
    server = aio.server(options=[("grpc.max_receive_message_length", MESSAGE_BYTES_MAX), ("grpc.so_reuseport", 0)])
    unary = {"request": grpc.unary_unary_rpc_method_handler(_unary)}
    both = {"requestBiStream": grpc.stream_stream_rpc_method_handler(_both_ways)}
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler("Request", unary),
            grpc.method_handlers_generic_handler("BiRequestStream", both),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)
