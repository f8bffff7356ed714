"""Publishers of instances as real ones behave: they beat or keep a connection, and come back after a failure."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from typing import Any

import grpc

from tests.peers.kept_changes.rows import PORT, REGISTERED, Attributes
from tests.peers.test_real_nacos_2 import register
from tests.support.client import CODE_NOT_FOUND, Answer, Client
from tests.support.sdk_client import SdkClient

CALL_TIMEOUT_S = 4.0
BEAT_S, ALIVE_S, RETRY_S = 5.0, 3.0, 0.5
CONNECT_TIMEOUT_S = 8.0
CALLS = ThreadPoolExecutor(48)
"""Calls wait here for members that do not answer."""
NO_ANSWER = (OSError, HTTPException, ValueError)


async def call(member: Client, method: str, path: str, values: Mapping[str, str | int]) -> Answer | None:
    """Return the answer of a member; None without a whole one."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(*NO_ANSWER):
        return await loop.run_in_executor(CALLS, partial(member.call, method, path, None, None, **values))
    return None


class Publisher:
    """A client with one instance in each of some services, at one of the members."""

    def __init__(self, members: Sequence[str], at: int, instances: Mapping[str, str]) -> None:
        """``members``: their addresses. ``instances``: the instance's ip, by service."""
        self.at = at
        self.values: Attributes = REGISTERED
        self._members = [Client(one, timeout_s=CALL_TIMEOUT_S) for one in members]
        self._instances = instances

    async def register(self) -> None:
        """Register all instances with the present values, until the member has accepted each."""
        await asyncio.gather(*map(self._register_one, self._instances))

    async def _register_one(self, service: str) -> None:
        while not await self._is_registered(service):
            await asyncio.sleep(RETRY_S)

    async def _is_registered(self, service: str) -> bool:
        raise NotImplementedError

    async def move(self, at: int) -> None:
        """Use another member from now on."""
        self.at = at

    async def live(self) -> None:
        """Keep the instances until cancelled."""

    async def end(self) -> None:
        """Close what is open."""

    async def _call(self, method: str, path: str, **values: str | int) -> Answer | None:
        return await call(self._members[self.at], method, path, values)

    async def _register_over_http(self, path: str, service: str, ephemeral: bool) -> bool:
        values = {
            "serviceName": service,
            "ip": self._instances[service],
            "port": PORT,
            "weight": self.values["weight"],
            "enabled": "true",
            "metadata": json.dumps(self.values["metadata"]),
            "ephemeral": "true" if ephemeral else "false",
        }
        answer = await self._call("POST", path, **values)
        return answer is not None and answer.status == 200


class OfBeats(Publisher):
    """A client of 1.x: beats, and a registration where its instance is unknown."""

    async def _is_registered(self, service: str) -> bool:
        return await self._register_over_http("/v1/ns/instance", service, ephemeral=True)

    async def live(self) -> None:
        while True:
            await asyncio.gather(*map(self._beat, self._instances))
            await asyncio.sleep(BEAT_S)

    async def _beat(self, service: str) -> None:
        ip = self._instances[service]
        answer = await self._call("PUT", "/v1/ns/instance/beat", serviceName=service, ip=ip, port=PORT)
        if answer is not None and answer.status == 200 and answer.json().get("code") == CODE_NOT_FOUND:
            await self._is_registered(service)


class OfConnection(Publisher):
    """A client of 2.x: one connection, and all registrations anew over the next one."""

    def __init__(self, members: Sequence[str], at: int, instances: Mapping[str, str]) -> None:
        super().__init__(members, at, instances)
        self._sdk: SdkClient | None = None
        self._one_at_a_time = asyncio.Lock()

    async def _connect(self) -> SdkClient:
        host, _, port = self._members[self.at].address.rpartition(":")
        sdk = SdkClient(int(port) + 1_000, host=host)
        await sdk.__aenter__()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await sdk.set_up()
        except BaseException:
            await sdk.close()
            raise
        return sdk

    async def register(self) -> None:
        async with self._one_at_a_time:
            if self._sdk is None:
                self._sdk = await self._connect()
            await self._register_all()

    async def _register_all(self) -> None:
        assert self._sdk is not None
        for service, ip in self._instances.items():
            await register(self._sdk, service, ip, healthy=True, **self.values)

    async def move(self, at: int) -> None:
        """Connect elsewhere first, and then close, as SDKs do."""
        async with self._one_at_a_time:
            self.at = at
            former, self._sdk = self._sdk, await self._connect()
            if former is not None:
                await former.close()
            await self._register_all()

    async def live(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_S)
            with contextlib.suppress(grpc.RpcError, TimeoutError, AssertionError, KeyError):
                async with self._one_at_a_time:
                    await self._look()

    async def _look(self) -> None:
        if self._sdk is not None and not self._sdk.ended:
            answer: dict[str, Any] = await self._sdk.call("HealthCheckRequest")
            if answer["@type"] == "HealthCheckResponse":
                return
        await self.end()
        self._sdk = await self._connect()
        await self._register_all()

    async def end(self) -> None:
        former, self._sdk = self._sdk, None
        if former is not None:
            await former.close()


class OfRecords(Publisher):
    """A tool that registers persistent instances, which then stay by themselves."""

    async def _is_registered(self, service: str) -> bool:
        return await self._register_over_http("/v2/ns/instance", service, ephemeral=False)

    async def move(self, at: int) -> None:
        """Register at another member."""
        self.at = at
        await self.register()


PUBLISHERS: dict[str, type[Publisher]] = {"http": OfBeats, "grpc": OfConnection, "persistent": OfRecords}
"""By kind."""
