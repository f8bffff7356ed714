"""HTTP clients for the drills: keep-alive connections, and instances that beat as SDKs do."""

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlencode

import orjson

from scripts.support.member_processes import CONTEXT_PATH

CLIENT_TIMEOUT_S = 3.0
"""Time-out of one attempt of a client. Source: the default of the official Python SDK."""
NOT_FOUND = 20_404
SILENT = 0
"""Stands for a status where no answer came."""


class Http:
    """Keep-alive connections to one member; a call on a connection just closed is repeated on a new one."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host, int(port)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call(
        self, method: str, path: str, timeout_s: float = CLIENT_TIMEOUT_S, agent: str = "", **parameters: object
    ) -> tuple[int, bytes]:
        """Return status and body; status ``SILENT`` without an answer."""
        target = f"{CONTEXT_PATH}{path}?{urlencode(parameters)}"
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            f"User-Agent: {agent or 'drill'}\r\nContent-Length: 0\r\n\r\n"
        ).encode()
        try:
            async with asyncio.timeout(timeout_s):
                while self._idle:
                    with suppress(OSError, EOFError):
                        return await self._exchange(*self._idle.pop(), head)
                return await self._exchange(*await asyncio.open_connection(self._host, self._port), head)
        except (OSError, EOFError):
            return SILENT, b""

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes
    ) -> tuple[int, bytes]:
        kept = False
        try:
            writer.write(head)
            fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
            lengths = [int(line[15:]) for line in fields if line.startswith("content-length:")]
            body = await (reader.readexactly(lengths[0]) if lengths else _in_chunks(reader))
            kept = "connection: close" not in fields
            return int(fields[0].split()[1]), body
        finally:
            if kept:
                self._idle.append((reader, writer))
            else:
                writer.close()


async def _in_chunks(reader: asyncio.StreamReader) -> bytes:
    """Read a body without a length, as Tomcat sends it."""
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


class HttpInstances:
    """Instances that beat through all members, and use the next one after an error."""

    def __init__(self, members: Sequence[Http], beat_s: float, count: Callable[[str], None]) -> None:
        """``count`` is called with the outcome of each beat as text."""
        self._members = members
        self._beat_s = beat_s
        self._count = count

    async def anywhere(self, start: int, method: str, path: str, **parameters: object) -> tuple[int, bytes]:
        """Return the first answer 200 of any member, from the ``start``-th on, or else the last answer."""
        answer = SILENT, b""
        for turn in range(len(self._members)):
            member = self._members[(start + turn) % len(self._members)]
            answer = await member.call(method, path, CLIENT_TIMEOUT_S, "", **parameters)
            if answer[0] == 200:
                break
        return answer

    async def register(self, service: str, ip: str, start: int) -> bool:
        status, _ = await self.anywhere(start, "POST", "/v1/ns/instance", serviceName=service, ip=ip, port=8080)
        return status == 200

    async def live(self, service: str, ip: str, number: int) -> None:
        """Send beats of a registered instance for ever, first through the ``number``-th member."""
        await asyncio.sleep(random.random() * self._beat_s)
        for start in itertools.count(number):
            begun_s = time.monotonic()
            status, body = await self.anywhere(
                start, "PUT", "/v1/ns/instance/beat", serviceName=service, ip=ip, port=8080
            )
            if status != 200:
                self._count("taken by no member")
            elif orjson.loads(body)["code"] == NOT_FOUND:
                self._count("answered 20404, registered again")
                await self.register(service, ip, start)
            else:
                self._count("taken")
            await asyncio.sleep(max(0.0, self._beat_s - (time.monotonic() - begun_s)))
