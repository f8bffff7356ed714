"""Three real Nacos 3.0.3 become three Rollcall members, one after the other, under clients that want their lists."""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.peers.conftest import LONG, SEEN_TIMEOUT_S, has_loaded, sees_three, skip_without_tools
from tests.peers.real_members import RealMember, running, settings_beside
from tests.peers.test_real_nacos_2 import NAMES, listed, register, sdk_of
from tests.support.client import CODE_NOT_FOUND, Client
from tests.support.processes import Member, eventually, free_ports
from tests.support.sdk_client import SdkClient, hosts_of, run_client

SERVICE = "rolled"
AT_CONNECTIONS = [f"10.7.0.{number}:80" for number in range(3)]
AT_HTTP = [f"10.7.1.{number}:80" for number in range(3)]
WANTED = {*AT_CONNECTIONS, *AT_HTTP}
BEAT_S, POLL_S, RETRY_S = 2.0, 0.3, 0.2
CONNECT_TIMEOUT_S = 5.0
QUIET_S = 50.0 if LONG else 16.0
"""Between two changes: more than three verify rounds, and in the long form more than a hand-over of clients (R17)."""


@dataclass
class Seen:
    """The lists that clients got since ``begun``, and the instances that each lacked."""

    begun: bool = False
    lists: int = 0
    gaps: list[str] = field(default_factory=list)

    def take(self, whose: str, hosts: set[str]) -> None:
        if self.begun:
            self.lists += 1
            if missing := WANTED - hosts:
                self.gaps.append(f"{time.strftime('%X')} {whose} lacks {sorted(missing)}")


async def live(number: int, members: Sequence[Client], seen: Seen) -> None:
    """Publish an instance and subscribe to all, at one member after the other as connections end; as SDKs do."""
    for member in itertools.islice(itertools.cycle(members), number, None):
        with suppress(grpc.RpcError, TimeoutError, AssertionError, KeyError):
            async with sdk_of(member) as sdk:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await sdk.set_up()
                await register(sdk, SERVICE, AT_CONNECTIONS[number].partition(":")[0])
                await watch(f"client {number} at {member.address}", sdk, seen)
        await asyncio.sleep(RETRY_S)


async def watch(whose: str, sdk: SdkClient, seen: Seen) -> None:
    """Note all lists that the member gives to this client, until the connection ends."""
    answer = await sdk.call("SubscribeServiceRequest", serviceName=SERVICE, subscribe=True, **NAMES)
    seen.take(f"{whose}, the answer", set(hosts_of(answer["serviceInfo"])))
    read = 0
    while not sdk.ended:
        await sdk.call("HealthCheckRequest")
        for info in sdk.pushes(SERVICE)[read:]:
            read += 1
            seen.take(f"{whose}, a push", set(hosts_of(info)))
        await asyncio.sleep(POLL_S)


def call(member: Client, method: str, path: str, **values: str | int) -> Any:
    """Return the status and the body of an answer; None without one."""
    with suppress(OSError, HTTPException):
        answer = member.call(method, path, **values)
        return answer.status, answer
    return None


async def beat(number: int, members: Sequence[Client]) -> None:
    """Beat for an instance over HTTP v1, at whichever member answers; register it where it is unknown."""
    ip = AT_HTTP[number].partition(":")[0]
    values: dict[str, str | int] = {"serviceName": SERVICE, "ip": ip, "port": 80}
    for member in itertools.islice(itertools.cycle(members), number, None):
        while (told := await asyncio.to_thread(call, member, "PUT", "/v1/ns/instance/beat", **values)) is not None:
            if told[0] != 200:
                break
            if told[1].json().get("code") == CODE_NOT_FOUND:
                await asyncio.to_thread(call, member, "POST", "/v1/ns/instance", **values)
            await asyncio.sleep(BEAT_S)
        await asyncio.sleep(RETRY_S)


async def poll(members: Sequence[Client], seen: Seen) -> None:
    """Note the list of each member that answers."""
    while True:
        for member in members:
            told = await asyncio.to_thread(call, member, "GET", "/v1/ns/instance/list", serviceName=SERVICE)
            if told is not None and told[0] == 200:
                hosts = {f"{one['ip']}:{one['port']}" for one in told[1].json()["hosts"]}
                seen.take(f"a list over HTTP of {member.address}", hosts)
        await asyncio.sleep(POLL_S)


def all_know_all(members: Sequence[Client]) -> bool:
    return all(sees_three(one) and has_loaded(one) and listed(one, SERVICE) == WANTED for one in members)


@pytest.fixture
def places(tmp_path: Path) -> Iterator[tuple[list[RealMember], list[Member]]]:
    """Three real members that run, and the three Rollcall members that take their places, at the same ports."""
    skip_without_tools()
    ports = free_ports(3)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    reals = [RealMember("3", port, tmp_path / f"real-{port}", addresses) for port in ports]
    settings = settings_beside(addresses, addresses)
    nodes = [Member(port, tmp_path / f"ours-{port}", settings) for port in ports]
    try:
        with running(reals, ()) as cluster:
            eventually(lambda: all(map(sees_three, cluster.clients)), SEEN_TIMEOUT_S)
            yield reals, nodes
    finally:
        for node in nodes:
            node.end()


def test_no_list_lacks_an_instance_while_members_are_replaced(places: tuple[list[RealMember], list[Member]]) -> None:
    reals, nodes = places
    members, seen = [one.client for one in reals], Seen()

    async def replace(real: RealMember, node: Member) -> None:
        await asyncio.to_thread(real.stop)
        await asyncio.to_thread(node.restart)
        await asyncio.to_thread(eventually, lambda: all_know_all(members), SEEN_TIMEOUT_S)
        await asyncio.sleep(QUIET_S)

    async def main() -> None:
        tasks = [asyncio.ensure_future(live(number, members, seen)) for number in range(len(AT_CONNECTIONS))]
        tasks += [asyncio.ensure_future(beat(number, members)) for number in range(len(AT_HTTP))]
        tasks.append(asyncio.ensure_future(poll(members, seen)))
        try:
            await asyncio.to_thread(eventually, lambda: all_know_all(members), SEEN_TIMEOUT_S)
            seen.begun = True
            for real, node in zip(reals, nodes, strict=True):
                print(f"{time.strftime('%X')} {real.address} is replaced, {len(seen.gaps)} gaps in {seen.lists} lists")
                await replace(real, node)
            assert not [one for one in tasks if one.done()], "a client failed"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run_client(main)
    assert seen.lists > len(members)
    assert not seen.gaps
