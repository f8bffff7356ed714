"""gRPC clients that publish instances, for the drills.

Each client behaves like the SDK for Java: it publishes an instance, subscribes to its service, checks its connection
every 5 s, and connects to another member when asked to, before it closes its old connection. It repeats its instance
and its subscription in the next of its rounds, 3 s apart.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from app.peers.payload import Payload
from tests.support.sdk_client import SdkClient

SDK_OFFSET = 1_000
"""From a member's port to that for SDKs."""
HEALTH_S = 5.0
HEALTH_TRIES = 3
"""A connection is closed after this many failed calls in a row, as by the SDK for Java."""
REDO_S = 3.0
"""Time between two rounds in which an SDK repeats its data for a new connection. Source: Nacos 2.5.1
NamingGrpcRedoService."""
CALL_TIMEOUT_S = 3.0
SET_UP_TIMEOUT_S = 6.0
CONNECTING_MAX = 50
"""Clients of one process that connect at the same time: on a busy machine, all at once would time out."""
RETRY_S = 0.1
"""Delay after all members refused, longer each time. Source: Nacos 2.5.1 RpcClient.reconnect."""
RETRY_S_MAX = 5.0
NAMES = {"namespace": "public", "groupName": "DEFAULT_GROUP"}
"""SDKs send these fields with each call; real Nacos has no defaults for them."""
ABILITIES = {"supportPersistentInstanceByGrpc": True}
FAULTS = (grpc.RpcError, TimeoutError, asyncio.InvalidStateError, KeyError)
"""Errors of a call while its connection ends: the answer may be missing or belong to another call."""

Info = Mapping[str, Any]
"""A pushed list: Nacos's ServiceInfo."""


@dataclass(slots=True)
class Outages:
    """Times in s for which the clients of a process had no connection, or one that did not know them."""

    connected_s: list[float] = field(default_factory=list)
    """From the request to leave, or from the end of a connection, to the next connection."""
    known_s: list[float] = field(default_factory=list)
    """The same, to the next publication."""
    connecting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONNECTING_MAX))


class _Connection(SdkClient):
    """A connection that reports pushes and the request to leave."""

    def __init__(self, port: int, on_push: Callable[[Info], None]) -> None:
        super().__init__(port)
        self._on_push = on_push
        self._known = asyncio.Event()
        """Its member has accepted the setup, or the connection has ended."""
        self.over = asyncio.Event()
        """It ended, or its member asked the client to leave."""
        self.redirect: int | None = None
        """The HTTP port of the member that the client was asked to use."""

    async def call(self, request_type: str, **fields: Any) -> dict[str, Any]:
        return await super().call(request_type, **NAMES | fields)

    async def open(self) -> None:
        """Connect, and return when the member knows the connection or has refused it."""
        await self.__aenter__()
        await self.introduce(abilities=ABILITIES)
        await self._known.wait()

    async def _read(self) -> None:
        try:
            await super()._read()
        finally:
            self.over.set()
            self._known.set()

    async def _take(self, message: Payload) -> None:
        if message.type == "NotifySubscriberRequest":
            self._on_push(message.json()["serviceInfo"])
        elif message.type == "ConnectResetRequest":
            port = message.json().get("serverPort")
            self.redirect = int(port) if port else None
            self.over.set()
            self._known.set()
        elif message.type == "SetupAckRequest":
            self._known.set()
        await super()._take(message)
        self.messages.clear()


class GrpcInstance:
    """One client with one instance; ``live`` runs until it is cancelled."""

    def __init__(
        self, ports: Sequence[int], start: int, service: str, ip: str, on_push: Callable[[Info], None], outages: Outages
    ) -> None:
        """``ports``: HTTP ports of the members; the client begins with the ``start``-th."""
        self._ports = ports
        self._turns = itertools.count(start)
        self._service = service
        self._ip = ip
        self._on_push = on_push
        self._outages = outages
        self._connection: _Connection | None = None
        self._unknown_s = 0.0
        """Time since when no member has its instance directly from it; 0 when one has."""
        self._subscribed = False
        self.registered = asyncio.Event()

    async def live(self) -> None:
        """Stay connected, published and, after ``subscribe``, subscribed, in spite of failing members."""
        try:
            self._connection = await self._connect(None)
            await self._publish(self._connection)
            self.registered.set()
            while True:
                await self._until_over(self._connection)
                await self._move()
        finally:
            if self._connection is not None:
                await self._connection.close()

    async def _move(self) -> None:
        """Connect to another member, close the old connection, and publish again in the next round."""
        begun_s = time.monotonic()
        # Asked to leave again before it was known there: it is the same outage.
        self._unknown_s = self._unknown_s or begun_s
        old = self._connection
        assert old is not None, "it moves from a connection"
        self._connection = await self._connect(old.redirect)
        self._outages.connected_s.append(time.monotonic() - begun_s)
        await old.close()
        await asyncio.sleep(random.random() * REDO_S)
        while not self._connection.over.is_set():
            if await self._attempt(self._publish(self._connection)):
                self._outages.known_s.append(time.monotonic() - self._unknown_s)
                self._unknown_s = 0.0
                return
            await asyncio.sleep(REDO_S)

    async def _connect(self, redirect: int | None) -> _Connection:
        """Return a connection to the named member, or else to the next one that accepts it."""
        for turn in itertools.count():
            port = redirect if redirect in self._ports and not turn else None
            if port is None:
                port = self._ports[next(self._turns) % len(self._ports)]
            connection = _Connection(port + SDK_OFFSET, self._on_push)
            async with self._outages.connecting:
                opened = await self._attempt(connection.open(), SET_UP_TIMEOUT_S)
            if opened and not connection.over.is_set():
                return connection
            await connection.close()
            if turn and not turn % len(self._ports):
                await asyncio.sleep(min(RETRY_S * turn, RETRY_S_MAX))
        raise AssertionError("a count does not end")

    async def subscribe(self) -> None:
        """Listen to the service from now on."""
        self._subscribed = True
        assert self._connection is not None, "it is connected"
        await self._connection.subscribe(self._service)

    async def _publish(self, connection: _Connection) -> None:
        answers = [await connection.register(self._service, self._ip, 8080)]
        if self._subscribed:
            answers.append(await connection.subscribe(self._service))
        if any(answer["resultCode"] != 200 for answer in answers):
            raise TimeoutError("refused")

    async def _until_over(self, connection: _Connection) -> None:
        """Check the connection periodically; return when it has ended, is unknown, or must be left."""
        while True:
            try:
                async with asyncio.timeout(HEALTH_S * (0.9 + 0.2 * random.random())):
                    await connection.over.wait()
                return
            except TimeoutError:
                if not await self._is_healthy(connection):
                    return

    async def _is_healthy(self, connection: _Connection) -> bool:
        for _ in range(HEALTH_TRIES):
            if await self._attempt(_check_health(connection)):
                return True
            if connection.over.is_set():
                break
        return False

    async def _attempt(self, call: Awaitable[object], timeout_s: float = CALL_TIMEOUT_S) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await call
        except FAULTS:
            return False
        return True


async def _check_health(connection: _Connection) -> None:
    if (await connection.call("HealthCheckRequest"))["resultCode"] != 200:
        raise TimeoutError("not known")
