"""HTTP v3 at three members: what it registers is listed by all APIs at every member, and its beats keep it there."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.support.client import Answer
from tests.support.processes import HANG_S, ClusterProcesses, Member, eventually
from tests.support.sdk_client import SdkClient, run_client

CLIENT, ADMIN = "/v3/client/ns/instance", "/v3/admin/ns/instance"
LISTED_S = 1.0
ADDRESSES = tuple(f"10.3.0.{number}:8080" for number in range(6))
BRIEF = json.dumps(
    {
        "preserved.heart.beat.interval": "500",
        "preserved.heart.beat.timeout": "8000",
        "preserved.ip.delete.timeout": "9000",
    }
)
"""Removed after 9 s without a beat: beats of tests may be late by seconds."""
BEATEN_S = 12
LONG_LIVED = json.dumps({f"preserved.{name}": "600000" for name in ("heart.beat.timeout", "ip.delete.timeout")})


def ask(member: Member, method: str, path: str, **parameters: str | int) -> Answer:
    return member.client.call(method, path, **parameters)


def done(member: Member, method: str, path: str, **parameters: str | int) -> Any:
    """The data of a success."""
    answer = ask(member, method, path, **parameters)
    assert (answer.status, answer.json()["code"]) == (200, 0), answer.body
    return answer.json()["data"]


def addresses(hosts: list[dict[str, Any]]) -> set[str]:
    return {f"{one['ip']}:{one['port']}" for one in hosts}


def listed_over_http(member: Member, service: str) -> list[set[str]]:
    """The instances of a service by v1, v2, the client's and the administrator's list of v3, in this order."""
    admin = ask(member, "GET", f"{ADMIN}/list", serviceName=service).json()
    return [
        set(member.client.hosts(service)),
        addresses(done(member, "GET", "/v2/ns/instance/list", serviceName=service)["hosts"]),
        addresses(done(member, "GET", f"{CLIENT}/list", serviceName=service)),
        addresses(admin["data"] if admin["code"] == 0 else []),
    ]


def with_clients(cluster: ClusterProcesses, check: Callable[[list[SdkClient]], Awaitable[None]]) -> None:
    """Run a check with a gRPC client at each member."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            clients = []
            for member in cluster:
                port = int(member.address.rpartition(":")[2]) + 1_000
                clients.append(await stack.enter_async_context(SdkClient(port)))
                await clients[-1].set_up()
            await check(clients)

    run_client(main)


@pytest.mark.parametrize("path", [CLIENT, ADMIN])
@pytest.mark.parametrize("kind", ["true", "false"])
def test_what_is_registered_is_listed_by_all_at_every_member(three: ClusterProcesses, path: str, kind: str) -> None:
    service = f"v3-{path.split('/')[2]}-{kind}"

    async def listed_by_all(clients: list[SdkClient], expected: set[str]) -> float:
        """Return when the lists were read that were as expected, at all members, in seconds from now."""
        begun_s = time.monotonic()
        while True:
            read_s = time.monotonic()
            found = [one for member in three for one in await asyncio.to_thread(listed_over_http, member, service)]
            found += [set(await client.hosts(service)) for client in clients]
            if found == [expected] * 5 * len(three.members):
                return read_s - begun_s
            assert read_s - begun_s < HANG_S, found

    async def write(method: str, member: Member, address: str) -> None:
        ip, _, port = address.partition(":")
        asked = {"serviceName": service, "ip": ip, "port": port, "ephemeral": kind, "metadata": LONG_LIVED}
        assert await asyncio.to_thread(done, member, method, path, **asked) == "ok"

    async def check(clients: list[SdkClient]) -> None:
        taken_s, expected = [], set()
        for number, address in enumerate(ADDRESSES):
            member = three.members[number % 3]
            await write("POST", member, address)
            expected.add(address)
            [_, _, own, _] = await asyncio.to_thread(listed_over_http, member, service)
            assert own == expected, "a member shows what it has taken"
            taken_s.append(await listed_by_all(clients, expected))
        for number, address in enumerate(ADDRESSES):
            await write("DELETE", three.members[(number + 1) % 3], address)
            expected.discard(address)
            taken_s.append(await listed_by_all(clients, expected))
        assert min(taken_s) < LISTED_S, "of all, as a busy machine delays some"

    with_clients(three, check)


def test_beats_at_any_member_keep_an_instance_and_their_end_removes_it(three: ClusterProcesses) -> None:
    service, one = "v3-beats", {"ip": "10.3.1.1", "port": 8080}
    beat = {"serviceName": service, **one, "heartBeat": "true"}
    unknown = ask(three.members[0], "POST", CLIENT, **beat)
    assert (unknown.status, unknown.json()) == (200, {"code": 21_003, "message": "instance not found", "data": None})
    done(three.members[0], "POST", CLIENT, serviceName=service, metadata=BRIEF, **one)
    ends_s, turn = time.monotonic() + BEATEN_S, 0
    while time.monotonic() < ends_s:
        turn += 1
        assert done(three.members[turn % 3], "POST", CLIENT, **beat) == "ok"
        time.sleep(0.2)
    assert all(set(member.client.hosts(service)) == {"10.3.1.1:8080"} for member in three)
    assert [one["healthy"] for member in three for one in member.client.hosts(service).values()] == [True] * 3
    eventually(lambda: not any(member.client.hosts(service) for member in three))
    assert ask(three.members[1], "POST", CLIENT, **beat).json()["code"] == 21_003


def test_services_and_namespaces_are_the_same_at_every_member(three: ClusterProcesses) -> None:
    first, second, third = three.members
    assert done(first, "POST", "/v3/admin/ns/service", serviceName="v3-made", metadata='{"a":"1"}') == "ok"
    eventually(
        lambda: (
            ask(second, "GET", "/v3/console/ns/service", serviceName="v3-made").json()["code"] == 0
            and ask(third, "GET", "/v3/console/ns/service", serviceName="v3-made").json()["code"] == 0
        )
    )
    assert done(second, "DELETE", "/v3/admin/ns/service", serviceName="v3-made") == "ok"
    assert done(third, "POST", "/v3/admin/core/namespace", namespaceId="v3-space", namespaceName="Space") is True
    eventually(
        lambda: all(
            "v3-space" in [one["namespace"] for one in done(member, "GET", "/v3/admin/core/namespace/list")]
            for member in three
        )
    )
    assert done(first, "DELETE", "/v3/admin/core/namespace", namespaceId="v3-space") is True


def test_subscribers_at_all_members_are_listed_at_each(three: ClusterProcesses) -> None:
    service = "v3-subscribed"

    async def check(clients: list[SdkClient]) -> None:
        for client in clients[:2]:
            await client.subscribe(service)
        asked = {"serviceName": service, "aggregation": "false"}
        counts = [
            (await asyncio.to_thread(done, member, "GET", "/v3/admin/ns/service/subscribers", **asked))["totalCount"]
            for member in three
        ]
        assert counts == [1, 1, 0]
        for member in three:
            page = await asyncio.to_thread(done, member, "GET", "/v3/admin/ns/service/subscribers", serviceName=service)
            assert [one["ip"] for one in page["pageItems"]] == ["127.0.0.1"], "equal ones are listed once"

    with_clients(three, check)
