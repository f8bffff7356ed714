"""Persistent, pipelined connections to the members, plain or with TLS, with a renewed token; they use little CPU."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import cast
from urllib.parse import urlencode

import httptools
import orjson

from scripts.soak.soaked import Access

API = "/nacos"
SILENT = 0
"""Stands for a status where no answer came."""
ANSWER_S = 10.0
CONNECT_S = 3.0
REST_S = 1.0
"""After a failed connect, before the next one."""
LATE_PART = 0.8
"""A token is renewed after this share of its lifetime."""
TAKING_S = 5.0
Done = Callable[[int, bytes], None]
LOG = logging.getLogger(__name__)


class Wire(asyncio.Protocol):
    """One connection; answers come in the order of the requests."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._waiting: deque[tuple[float, Done]] = deque()
        self._body: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self.lost = False

    def send(self, request: bytes, done: Done) -> None:
        assert self._transport is not None, "connected"
        self._waiting.append((self._loop.time(), done))
        self._transport.write(request)

    def expire(self) -> None:
        """Close the connection when its oldest request has waited for too long."""
        if self._waiting and self._loop.time() - self._waiting[0][0] > ANSWER_S and self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are not subclasses of asyncio's

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            done(SILENT, b"")

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            LOG.error("invalid answer: %s", error)
            if self._transport is not None:
                self._transport.abort()

    def on_message_begin(self) -> None:
        self._body = []

    def on_body(self, part: bytes) -> None:
        self._body.append(part)

    def on_message_complete(self) -> None:
        _, done = self._waiting.popleft()
        done(self._parser.get_status_code(), b"".join(self._body))
        if not self._parser.should_keep_alive():
            self.lost = True
            if self._transport is not None:
                self._transport.close()


class Line:
    """The connection to one member, reopened when it is lost."""

    def __init__(self, port: int, access: Access, token: Callable[[], str]) -> None:
        self._port = port
        self._context = access.context()
        self._token = token
        self._wire: Wire | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._rests_until_s = 0.0

    def call(self, method: str, path: str, parameters: Mapping[str, object], done: Done) -> None:
        """Send a request; without a connection call ``done`` with ``SILENT``, and begin to connect."""
        wire = self._wire
        if wire is None or wire.lost:
            self._connect()
            done(SILENT, b"")
            return
        token = self._token()
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        text = urlencode(parameters)
        target, body = (f"{API}{path}?{text}", "") if method != "POST" else (f"{API}{path}", text)
        kind = "Content-Type: application/x-www-form-urlencoded\r\n" if body else ""
        wire.send(
            f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nUser-Agent: soak\r\n{authorization}{kind}"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode(),
            done,
        )

    async def ask(self, method: str, path: str, **parameters: object) -> tuple[int, bytes]:
        """Send a request, waiting for a connection and for the answer."""
        await self.ready()
        answered: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

        def done(status: int, body: bytes) -> None:
            if not answered.done():
                answered.set_result((status, body))

        self.call(method, path, parameters, done)
        return await answered

    async def ready(self) -> bool:
        """Return whether a connection exists or could be made."""
        self._connect()
        if self._connecting is not None:
            await asyncio.wait((self._connecting,))
        return self._wire is not None and not self._wire.lost

    def expire(self) -> None:
        if self._wire is not None:
            self._wire.expire()

    def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        if self._wire is not None and not self._wire.lost:
            return
        if self._connecting is not None and not self._connecting.done():
            return
        if loop.time() >= self._rests_until_s:
            self._connecting = loop.create_task(self._open())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        wire = Wire(loop)
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.create_connection(lambda: wire, "127.0.0.1", self._port, ssl=self._context)
        except OSError:  # includes a time-out
            self._rests_until_s = loop.time() + REST_S
            return
        self._wire = wire


class Lines:
    """The connections to all members, ``count`` to each, and the token for all calls."""

    def __init__(self, access: Access, count: int = 1) -> None:
        self._access = access
        self._token = ""
        self.members = [[Line(port, access, lambda: self._token) for _ in range(count)] for port in access.ports]
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connect and log in, and renew both when needed.

        Raises:
            RuntimeError: no member accepts the user's password.
        """
        await asyncio.gather(*(line.ready() for lines in self.members for line in lines))
        if self._access.user:
            ttl_s = await self._log_in()
            self._tasks.append(asyncio.create_task(self._renew(ttl_s)))
        self._tasks.append(asyncio.create_task(self._sweep()))

    async def close(self) -> None:
        """Stop the background tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def line(self, number: int, turn: int) -> Line:
        """The connection of the ``number``-th client in its ``turn``: each turn uses another member."""
        lines = self.members[(number + turn) % len(self.members)]
        return lines[number // len(self.members) % len(lines)]

    @property
    def token(self) -> str:
        return self._token

    async def _log_in(self) -> float:
        """Get a token from any member; return the seconds for which it is valid."""
        said = []
        for lines in self.members:
            status, body = await lines[0].ask(
                "POST", "/v1/auth/login", username=self._access.user, password=self._access.password
            )
            if status == 200:
                fields = orjson.loads(body)
                self._token = fields["accessToken"]
                return float(fields["tokenTtl"])
            said.append(f"{status} {body[:200]!r}")
        raise RuntimeError(f"no member lets {self._access.user} in: {said}")

    async def _renew(self, ttl_s: float) -> None:
        while True:
            await asyncio.sleep(ttl_s * LATE_PART)
            begun_s = time.monotonic()
            while True:
                try:
                    ttl_s = await self._log_in()
                    break
                except RuntimeError:
                    if time.monotonic() - begun_s > ttl_s:
                        raise
                    await asyncio.sleep(TAKING_S)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(REST_S)
            for lines in self.members:
                for line in lines:
                    line.expire()
