"""Clients with connections (gRPC): what each publishes lives as long as its connection, and moves with it."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import grpc
import orjson

from app.peers.payload import Payload
from tests.chaos.history import Beat, History, Key, Outcome, Word
from tests.support.sdk_client import SdkClient

SDK_OFFSET = 1_000
"""From a member's port to that for SDKs."""
CALL_S = 3.0
"""Of a call, and of each step of a connect. Source: the Java client's time-out of a request."""
HEALTH_S = 2.0
HEALTH_TRIES = 2
PORT = 8080
FAULTS = (grpc.RpcError, asyncio.InvalidStateError, TimeoutError, KeyError, ValueError)
"""What becomes of a call whose connection ends: the answer may be another, or none."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the clients of a run share."""

    history: History
    addresses: Sequence[str]
    next_member: Callable[[int | None], int]
    """The member to go to after this one, or first of all."""
    new_mark: Callable[[], str]
    random: random.Random


class Connection(SdkClient):
    """A connection that notes whether its member asks the client to go."""

    def __init__(self, member: int, address: str) -> None:
        host, _, port = address.rpartition(":")
        super().__init__(int(port) + SDK_OFFSET, host=host)
        self.member = member
        self.is_to_go = False

    async def _take(self, message: Payload) -> None:
        self.is_to_go |= message.type == "ConnectResetRequest"
        await super()._take(message)
        self.messages.clear()


class ConnectedClient:
    """One client with one instance. It says one thing at a time, and connects elsewhere as SDKs do."""

    def __init__(self, key: Key, around: Surroundings) -> None:
        self._key = key
        self._around = around
        self._connection: Connection | None = None
        self._mark: str | None = None
        """Of the instance that it publishes; None while it publishes none."""
        self._is_told = False
        """The member of this connection acknowledged that."""
        self.registered = asyncio.Event()

    async def last(self) -> None:
        """Publish an instance until this is cancelled."""
        try:
            self._mark = self._around.new_mark()
            while True:
                await self._go_on()
                await asyncio.sleep(HEALTH_S)
        finally:
            await self._hang_up()

    async def write_now_and_then(self, writing: asyncio.Event, pause_s: float) -> None:
        """Change, withdraw and move the instance while that is wanted, and keep it afterwards."""
        try:
            await asyncio.sleep(self._around.random.uniform(0, pause_s))
            while True:
                if writing.is_set():
                    await self._write()
                end_s = time.monotonic() + pause_s * self._around.random.uniform(1, 1.5)
                while (left_s := end_s - time.monotonic()) > 0:
                    await self._go_on()
                    await asyncio.sleep(min(left_s, HEALTH_S))
        finally:
            await self._hang_up()

    async def _write(self) -> None:
        chance = self._around.random.random()
        if self._mark is not None and chance < 0.35:
            if self._connection is not None and await self._say(None):
                self._mark = None
            return
        if chance > 0.75:
            # Its process ends, and another one publishes the same: by a member of its own choice.
            await self._hang_up()
        self._mark, self._is_told = self._around.new_mark(), False
        await self._go_on()

    async def _go_on(self) -> None:
        """See that there is a connection that counts, and that its member knows the instance."""
        if self._connection is not None and not await self._is_healthy(self._connection):
            await self._hang_up()
        if self._connection is not None and self._connection.is_to_go:
            await self._move(self._connection)
        if self._connection is None and not await self._connect(None):
            return
        if self._mark is not None and not self._is_told:
            self._is_told = await self._say(self._mark)
            if self._is_told:
                self.registered.set()

    async def _is_healthy(self, connection: Connection) -> bool:
        """Whether the member knows the connection; an acknowledged instance counts as heard then."""
        for _ in range(HEALTH_TRIES):
            begun_s = time.monotonic()
            if connection.ended:
                return False
            if await self._attempt(self._check(connection)):
                if self._mark is not None and self._is_told:
                    self._around.history.beats[self._key].append(Beat(connection.member, begun_s, time.monotonic()))
                return True
        return False

    @staticmethod
    async def _check(connection: Connection) -> None:
        if (await connection.call("HealthCheckRequest"))["resultCode"] != 200:
            raise ValueError("not known")

    async def _move(self, old: Connection) -> None:
        """Connect elsewhere before the connection that is over is let go."""
        self._connection = None
        await self._connect(old.member)
        self._is_told = False
        await old.close()

    async def _connect(self, after: int | None) -> bool:
        member = self._around.next_member(after)
        connection = Connection(member, self._around.addresses[member])
        await connection.__aenter__()
        if not await self._attempt(connection.set_up()) or connection.ended:
            await connection.close()
            return False
        self._connection = connection
        return True

    async def _hang_up(self) -> None:
        """Let the connection go; a member that notices that withdraws the instance, if it still runs."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        begun_s = time.monotonic()
        await connection.close()
        if self._mark is not None:
            word = Word(None, connection.member, begun_s, time.monotonic(), Outcome.LEFT)
            self._around.history.words[self._key].append(word)
        self._is_told = False

    async def _say(self, mark: str | None) -> bool:
        """Publish the instance with a mark, or withdraw it; return whether that was acknowledged."""
        assert self._connection is not None, "it says something on a connection"
        begun_s = time.monotonic()
        outcome, text = Outcome.UNKNOWN, "no answer"
        try:
            async with asyncio.timeout(CALL_S):
                if mark is None:
                    answer = await self._connection.deregister(self._key.service, self._key.ip, PORT)
                else:
                    metadata = {"mark": mark}
                    answer = await self._connection.register(self._key.service, self._key.ip, PORT, metadata=metadata)
            outcome = Outcome.DONE if answer["resultCode"] == 200 else Outcome.REFUSED
            text = "" if outcome is Outcome.DONE else orjson.dumps(answer).decode()[:120]
        except FAULTS as error:
            text = f"{type(error).__name__}: {error}"[:120]
        finally:
            word = Word(mark, self._connection.member, begun_s, time.monotonic(), outcome, text)
            self._around.history.words[self._key].append(word)
        if outcome is Outcome.DONE and mark is not None:
            self._around.history.beats[self._key].append(Beat(word.member, begun_s, word.ended_s))
        return outcome is Outcome.DONE

    @staticmethod
    async def _attempt(call: Awaitable[object]) -> bool:
        try:
            async with asyncio.timeout(CALL_S):
                await call
        except FAULTS:
            return False
        return True
