"""Slow clients, whose connections the node must end; each returns a short description of the end.

For ``attack_table.py`` and tests/cluster/test_sockets.py.
"""

import asyncio
import contextlib
import itertools
import random
import select

from scripts.support.raw_sockets import (
    API,
    CHUNKED_HEAD,
    POLL_S,
    SMALL_RECEIVE_BYTES,
    Target,
    Wrong,
    cancelled,
    connected,
    reading,
    request,
    statuses,
)

DRIP_S = 1.0


async def _dripped(target: Target, begin: bytes, drops: bytes) -> str:
    """Send a byte now and then until the node ends the connection; return its last answer."""
    async with connected(target) as raw, reading(raw) as answer:
        with contextlib.suppress(ConnectionError):
            await raw.send(begin)
            for drop in itertools.cycle(drops):
                await asyncio.wait((answer,), timeout=DRIP_S)
                if answer.done():
                    break
                await raw.send(bytes((drop,)))
        found = statuses(await answer)
    if found != [408]:
        raise Wrong(f"{begin[:60]!r} and then byte by byte: answered {found}")
    return "408"


async def slow_head(target: Target, rng: random.Random) -> str:
    # Inside the target: with less or more of it, the bytes that follow would be no request at all.
    return await _dripped(target, rng.choice(target.good)[: rng.randint(5, 33)], b"abcdefgh")


async def slow_body(target: Target, rng: random.Random) -> str:
    return await _dripped(target, request(f"{API}/list", "POST", b"", "Content-Length: 5000"), b"abcdefgh")


async def slow_chunks(target: Target, rng: random.Random) -> str:
    return await _dripped(target, CHUNKED_HEAD, b"1\r\nx\r\n")


async def silent_body(target: Target, rng: random.Random) -> str:
    """Send ``Expect: 100-continue``, get the reply, and send no body."""
    async with connected(target) as raw:
        await raw.send(request(f"{API}/list", "POST", b"", "Content-Length: 10", "Expect: 100-continue"))
        found = statuses(await raw.read_all())
    if found != [100, 408]:
        raise Wrong(f"a body that does not come is answered {found}")
    return "408"


async def unread(target: Target, rng: random.Random) -> str:
    """Request much more than the socket buffers hold, and read nothing."""
    async with connected(target, SMALL_RECEIVE_BYTES) as raw:
        sending = asyncio.ensure_future(raw.send(target.listed * 5_000))
        try:
            await raw.cut()
        finally:
            await cancelled(sending)
    return "cut"


async def sipped(target: Target, rng: random.Random) -> str:
    """Request the same, but read a little every second."""
    async with connected(target, SMALL_RECEIVE_BYTES) as raw:
        sending = asyncio.ensure_future(raw.send(target.listed * 5_000))
        poll = select.poll()
        poll.register(raw.socket, select.POLLRDHUP)
        try:
            while not poll.poll(0):
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    raw.socket.recv(500)
                await asyncio.sleep(DRIP_S)
        finally:
            await cancelled(sending)
    return "cut"


async def after_refusal(target: Target, rng: random.Random) -> str:
    """Keep sending after a refusal, for ever."""
    async with connected(target) as raw:
        await raw.send(b"nonsense\r\n\r\n")
        async with reading(raw) as answer:
            with contextlib.suppress(ConnectionError):
                while True:
                    await raw.send(rng.randbytes(1_000))
                    await asyncio.sleep(POLL_S)
            found = statuses(await answer)
    if found != [400]:
        raise Wrong(f"nonsense is answered {found}")
    return "400"
