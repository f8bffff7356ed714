"""Clients that attack a node's sockets with bytes that are not HTTP, too long, or cut off in the middle.

Each attack is a coroutine that returns a short description of its end, or raises ``Wrong``. The random numbers passed
to it decide its actions. For ``attack_table.py`` and tests/cluster/test_sockets.py.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

from scripts.support.raw_sockets import (
    API,
    CHUNKED_HEAD,
    GOOD,
    SMALL_RECEIVE_BYTES,
    Target,
    Wrong,
    check,
    connected,
    is_answer,
    is_refusal,
    reading,
    request,
    statuses,
)

ENDS_S = 30.0
"""Seconds within which every attack must end."""
STREAM_PART = b"x" * 65_536


async def half_close(target: Target, rng: random.Random) -> str:
    """Send requests and half-close at once; every complete request must be answered."""
    whole = rng.choices(target.good, k=rng.randint(1, 4))
    rest = rng.choice(target.good)[: rng.randint(1, 40)] if rng.random() < 0.5 else b""
    async with connected(target) as raw:
        await raw.send(b"".join(whole) + rest)
        raw.shut()
        found = statuses(await raw.read_all())
    if found != [200] * len(whole) + [400] * bool(rest):
        raise Wrong(f"half-close after {len(whole)} requests and {rest!r}: answered {found}")
    return "answered"


async def resets(target: Target, rng: random.Random) -> str:
    """Cut the connection in the middle of a request or an answer."""
    sent = b"".join(rng.choices((*target.good, target.listed), k=rng.randint(1, 30)))
    async with connected(target, reset=True) as raw:
        with contextlib.suppress(ConnectionError, TimeoutError):
            await raw.send(sent[: rng.randint(1, len(sent))])
            async with asyncio.timeout(rng.choice((0, 0.01, 0.5))):
                await raw.read()
    return "reset"


async def random_bytes(target: Target, rng: random.Random) -> str:
    async with connected(target) as raw:
        with contextlib.suppress(ConnectionError):
            for _ in range(rng.randint(1, 4)):
                await raw.send(rng.randbytes(rng.choice((1, 7, 100, 3_000, 70_000))))
        raw.shut()
        found = statuses(await raw.read_all())
    check(found, is_refusal, "random bytes")
    return "refused" if found else "closed"


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return the data with some bytes changed, removed, doubled or inserted."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(5):
            case 0:
                changed[at : at + 1] = rng.randbytes(1)
            case 1:
                del changed[at : at + rng.randrange(20)]
            case 2:
                changed[at:at] = changed[at : at + rng.randrange(60)]
            case 3:
                changed[at:at] = rng.choice((b"\r\n", b"\n", b"\0", b":", b" ", b"\r\n\r\n", b"%", b"\xff", b"\t"))
            case _:
                changed[at:at] = rng.choice((b"Transfer-Encoding: chunked\r\n", b"Content-Length: 7\r\n", b"0\r\n\r\n"))
    return bytes(changed)


async def mutated(target: Target, rng: random.Random) -> str:
    """Send corrupted requests in separate pieces."""
    body = rng.randbytes(rng.randrange(50))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body, body) if part) + b"0\r\n\r\n"
    sent = mutate(rng.choice((*target.good, CHUNKED_HEAD + chunks)), rng)
    if rng.random() < 0.5:
        sent = rng.choice(target.good) + sent + rng.choice(target.good)
    async with connected(target) as raw:
        at = 0
        with contextlib.suppress(ConnectionError):
            while at < len(sent):
                end = at + rng.choice((1, 5, 50, 500))
                await raw.send(sent[at:end])
                at = end
        raw.shut()
        found = statuses(await raw.read_all())
    check(found, is_answer, f"mutated {sent!r}")
    return "answered" if found else "closed"


async def garbage_behind(target: Target, rng: random.Random) -> str:
    """Send good requests followed by garbage at once: only they are answered, and the garbage is refused."""
    count = rng.randint(1, 100)
    sent = b"".join(rng.choices(target.good, k=count)) + b"\x01" + rng.randbytes(rng.choice((1, 50, 5_000)))
    async with connected(target) as raw:
        with contextlib.suppress(ConnectionError):
            await raw.send(sent)
        found = statuses(await raw.read_all())
    if found != [200] * count + [400]:
        raise Wrong(f"garbage behind {count} good requests: answered {len(found)}, at last {found[-3:]}")
    return "refused"


HUGE: dict[str, tuple[bytes, bytes]] = {
    "target": (b"GET /nacos/", b"a" * 8_192),
    "query": (f"GET {API}/list?serviceName=".encode(), b"a" * 8_192),
    "header": (GOOD[0][:-2] + b"X: ", b"y" * 8_192),
    "headers": (GOOD[0][:-2], b"X-One: y\r\n" * 100),
    "method": (b"", b"G" * 8_192),
    "body": (request(f"{API}/list", "POST", b"", "Content-Length: 999999999999"), STREAM_PART),
    "more than the body": (request(f"{API}/list", "POST", b"", "Content-Length: 300000"), STREAM_PART),
    "chunk size": (CHUNKED_HEAD + b"FFFFFFFFFFFFFF\r\n", STREAM_PART),
    "digits of a chunk size": (CHUNKED_HEAD, b"0" * 8_192),
    "chunk extension": (CHUNKED_HEAD + b"5;x=", b"y" * 8_192),
    "chunks": (CHUNKED_HEAD, b"10000\r\n" + STREAM_PART + b"\r\n"),
    "tiny chunks": (CHUNKED_HEAD, b"1\r\nx\r\n" * 1_000),
    "trailers": (CHUNKED_HEAD + b"0\r\n", b"X: y\r\n" * 1_000),
    "blank lines": (b"", b"\r\n" * 4_096),
}
"""The beginning of each, and the bytes that then repeat for ever."""


async def huge(target: Target, rng: random.Random) -> str:
    return await endless(target, rng.choice(list(HUGE)))


async def endless(target: Target, kind: str) -> str:
    """Repeat one element until the node refuses it."""
    begin, part = HUGE[kind]
    async with connected(target) as raw, reading(raw) as answer:
        with contextlib.suppress(ConnectionError):
            await raw.send(begin)
            while not answer.done():
                await raw.send(part)
        found = statuses(await answer)
    check(found, is_refusal, f"endless {kind}")
    return f"{kind}: {found[0] if found else 'closed'}"


async def deaf(target: Target, rng: random.Random) -> str:
    """Send thousands of requests at once, read nothing, and disconnect."""
    sent = b"".join(rng.choices((target.listed, *target.good), k=5_000))
    async with connected(target, SMALL_RECEIVE_BYTES, reset=rng.random() < 0.5) as raw:
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(rng.uniform(0.5, 3)):
                await raw.send(sent)
    return "gone"


Attack = Callable[[Target, random.Random], Awaitable[str]]
QUICK: tuple[Attack, ...] = (half_close, resets, random_bytes, mutated, garbage_behind, huge, deaf)


async def at_most(attack: Attack, target: Target, rng: random.Random) -> str:
    """Run one attack, which must end in time."""
    try:
        async with asyncio.timeout(ENDS_S):
            return await attack(target, rng)
    except TimeoutError:
        raise Wrong(f"{attack.__name__} has not ended after {ENDS_S} s") from None
    except ConnectionError:
        return "not let in"
