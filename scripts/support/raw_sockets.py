"""Connections that send raw bytes, for clients that no library could imitate: see ``socket_attacks.py`` and
``slow_clients.py``."""

import asyncio
import contextlib
import itertools
import re
import resource
import select
import socket
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

API = "/nacos/v1/ns/instance"
STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")
READ_BYTES = 1 << 16
SOURCES = 32
"""Source addresses of connections, because each has only 28,000 ports, which stay unused for a minute after use."""
IP_BIND_ADDRESS_NO_PORT = 24
RESET = struct.pack("ii", 1, 0)
POLL_S = 0.25
HOSTS = 200
"""Instances of the service that non-reading clients query."""
LARGE_SERVICE = "large"
HOST = b"Host: attack\r\n"
SMALL_RECEIVE_BYTES = 4_096


class Wrong(Exception):
    """The node did something forbidden; the text describes it."""


@dataclass(frozen=True, slots=True)
class Target:
    """The node under attack."""

    host: str
    port: int
    token: str = ""
    """Token of a user, sent with each request; empty if no login is required."""

    @classmethod
    def at(cls, address: str, token: str = "") -> "Target":
        host, _, port = address.rpartition(":")
        return cls(host, int(port), token)

    @property
    def good(self) -> tuple[bytes, ...]:
        """``GOOD`` with the user's token."""
        return tuple(with_token(one, self.token) for one in GOOD)

    @property
    def listed(self) -> bytes:
        """``LISTED`` with the user's token."""
        return with_token(LISTED, self.token)


_SOURCES = itertools.cycle(f"127.0.1.{number + 1}" for number in range(SOURCES))


class Raw:
    """One connection for raw bytes."""

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.socket, data)

    async def read(self) -> bytes:
        """Return the next bytes; none at the end of the connection, whether it was closed or reset."""
        try:
            return await self._loop.sock_recv(self.socket, READ_BYTES)
        except ConnectionError:
            return b""

    async def read_all(self) -> bytes:
        """Return all bytes until the node ends the connection."""
        answer = bytearray()
        while part := await self.read():
            answer += part
        return bytes(answer)

    async def cut(self) -> None:
        """Return when the node has ended the connection, without reading from it."""
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        while not poll.poll(0):
            await asyncio.sleep(POLL_S)

    def shut(self) -> None:
        """End the sending side."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def close(self, *, reset: bool = False) -> None:
        if reset:
            with contextlib.suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.socket.close()


async def connect(target: Target, receive_bytes: int | None = None) -> Raw:
    """Open a connection.

    Raises:
        OSError: the node, or this machine, accepts no more connections.
    """
    opened = socket.socket()
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        if receive_bytes is not None:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        opened.bind((next(_SOURCES), 0))
        await asyncio.get_running_loop().sock_connect(opened, (target.host, target.port))
    except BaseException:
        opened.close()
        raise
    return Raw(opened)


@contextlib.asynccontextmanager
async def connected(target: Target, receive_bytes: int | None = None, *, reset: bool = False) -> AsyncIterator[Raw]:
    """A connection that is closed with the block."""
    raw = await connect(target, receive_bytes)
    try:
        yield raw
    finally:
        raw.close(reset=reset)


@contextlib.asynccontextmanager
async def reading(raw: Raw) -> AsyncIterator["asyncio.Future[bytes]"]:
    """Read all answers of the node while the block runs."""
    answer = asyncio.ensure_future(raw.read_all())
    try:
        yield answer
    finally:
        await cancelled(answer)


async def cancelled(task: "asyncio.Future[Any]") -> None:
    """Cancel a task in any state."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, OSError):
        await task


def request(target: str, method: str = "GET", body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: attack", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body


def with_token(sent: bytes, token: str) -> bytes:
    """Return a request with a user's token in its head; unchanged without a token."""
    return sent.replace(HOST, b"%bAuthorization: Bearer %b\r\n" % (HOST, token.encode())) if token else sent


LISTED = request(f"{API}/list?serviceName={LARGE_SERVICE}")
GOOD = (
    request(f"{API}/list?serviceName=nothing"),
    request(f"{API}/beat?serviceName=nothing&ip=10.66.0.1&port=80", "PUT"),
    request(f"{API}/list?serviceName=nothing", "GET", b"a=b", "Content-Type: application/x-www-form-urlencoded"),
    request("/nacos/v1/console/health/liveness"),
    request("/nacos/v1/ns/operator/metrics"),
)
"""Requests answered with 200, on the loop and in the thread pool. None changes anything."""
CHUNKED_HEAD = request(f"{API}/list?serviceName=nothing", "GET", b"", "Transfer-Encoding: chunked")


def statuses(answer: bytes) -> list[int]:
    return [int(one) for one in STATUS.findall(answer)]


def check(found: list[int], allowed: Callable[[int], bool], what: str) -> None:
    if not all(map(allowed, found)):
        raise Wrong(f"{what}: answered {found[:20]}")


def is_answer(status: int) -> bool:
    """All statuses except server errors."""
    return status != 500


def is_refusal(status: int) -> bool:
    return 400 <= status < 500 or status in (501, 503)


def raise_own_limit(wanted: int) -> None:
    """Allow this process this many descriptors.

    Raises:
        ValueError: the system does not allow it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
