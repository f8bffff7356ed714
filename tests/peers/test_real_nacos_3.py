"""Real Nacos 3.0.3 and Rollcall in one cluster, two of the one and one of the other, and the other way round."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.peers.conftest import taken
from tests.peers.real_members import MixedCluster
from tests.peers.test_real_nacos_2 import NAMES, PATIENT, SEEN_TIMEOUT_S, SERVICES_OF_2, listed, register, sdk_of
from tests.support.client import Client
from tests.support.processes import eventually
from tests.support.sdk_client import SdkClient, hosts_of, run_client

LISTED_S = 10.0
"""Real Nacos tells of a change after 1 s, and shows it after another half; a loaded machine adds to both."""
AGES_S = 20.0
"""Longer than the 15 s after which real Nacos takes an instance for unhealthy for which nobody speaks."""
HEALTH_S = 5.0
STYLES: Mapping[str, dict[str, bool] | None] = {
    "2.x": None,
    "3.x": {"supportPersistentInstanceByGrpc": True, "fuzzyWatch": True, "distributedLock": True},
}
"""The abilities that SDKs of these lines state in their setup; those before 2.3 state none."""
WRITES = ("/v1/ns/instance", "/v2/ns/instance", "/v3/client/ns/instance", "/v3/admin/ns/instance")


def listed_over_v3(client: Client, service: str) -> set[str]:
    names = {"namespaceId": "public", "groupName": "DEFAULT_GROUP"}
    answer = client.call("GET", "/v3/client/ns/instance/list", serviceName=service, **names)
    assert answer.status == 200, answer
    return {f"{host['ip']}:{host['port']}" for host in answer.json()["data"]}


def all_list(mixed: MixedCluster, service: str, *addresses: str) -> float:
    """Wait until every member lists exactly these over v1 and v3; return how long that took, in seconds."""
    begun_s = time.monotonic()

    def agree() -> bool:
        lists = [look(one, service) for one in mixed.clients for look in (listed, listed_over_v3)]
        assert all(one == set(addresses) for one in lists), f"{service}: {lists}, not {addresses}"
        return True

    eventually(agree, SEEN_TIMEOUT_S)
    return time.monotonic() - begun_s


@pytest.mark.parametrize("path", WRITES)
def test_what_is_registered_over_http_at_every_member_is_listed_at_every_member(
    mixed_3: MixedCluster, path: str
) -> None:
    """Over v2 and v3 real members keep what belongs to another member; so each gets an address of its own."""
    service = f"over{path.replace('/', '-')}"
    ips = [mixed_3.owned_ip(one, "10.1.0") for one in mixed_3.clients]
    for member, ip in zip(mixed_3.clients, ips, strict=True):
        write(member, "POST", path, serviceName=service, ip=ip, port=80, metadata=PATIENT)
    took_s = all_list(mixed_3, service, *(f"{ip}:80" for ip in ips))
    for member, ip in zip(mixed_3.clients, ips, strict=True):
        write(member, "DELETE", path, serviceName=service, ip=ip, port=80)
    gone_s = all_list(mixed_3, service)
    print(f"{path}: on all after {took_s:.2f} s, gone after {gone_s:.2f} s")
    assert max(took_s, gone_s) < LISTED_S


def write(member: Client, method: str, path: str, **values: object) -> None:
    if path.startswith("/v1"):
        taken(member, method, path, **values)
        return
    answer = member.call(method, path, **values)  # type: ignore[arg-type]
    assert (answer.status, answer.json()["data"]) == (200, "ok"), answer


@pytest.mark.parametrize("style", STYLES)
def test_clients_of_both_lines_at_every_member_see_each_other(mixed_3: MixedCluster, style: str) -> None:
    async def main() -> None:
        service = f"sdk-{style}"
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(sdk_of(one)) for one in mixed_3.clients]
            wanted = {f"10.2.0.{number}:80" for number in range(len(clients))}
            for sdk in clients:
                await sdk.set_up(abilities=STYLES[style])
                answer = await sdk.call("SubscribeServiceRequest", serviceName=service, subscribe=True, **NAMES)
                assert answer["resultCode"] == 200
            for number, sdk in enumerate(clients):
                await register(sdk, service, f"10.2.0.{number}", weight=2.0, metadata={"zone": "北京"})
            for sdk in clients:
                await sdk.wait(lambda sdk=sdk: any(set(hosts_of(one)) == wanted for one in sdk.pushes()))
                answer = await sdk.call("ServiceQueryRequest", serviceName=service, **NAMES)
                hosts = hosts_of(answer["serviceInfo"])
                assert set(hosts) == wanted
                assert {(one["weight"], one["metadata"]["zone"]) for one in hosts.values()} == {(2.0, "北京")}
            await asyncio.to_thread(all_list, mixed_3, service, *wanted)
            gone = {"ip": "10.2.0.0", "port": 80}
            await clients[0].call(
                "InstanceRequest", type="deregisterInstance", serviceName=service, instance=gone, **NAMES
            )
            await asyncio.to_thread(all_list, mixed_3, service, *sorted(wanted)[1:])
            await clients[1].close()
            await asyncio.to_thread(all_list, mixed_3, service, *sorted(wanted)[2:])

    run_client(main)


def test_names_of_nacos_2_show_on_all(mixed_3: MixedCluster) -> None:
    async def main() -> None:
        for member in (mixed_3.ours.client, mixed_3.first):
            async with sdk_of(member) as sdk:
                await sdk.set_up()
                for service in SERVICES_OF_2:
                    await register(sdk, service, "10.8.0.1")
                for service in SERVICES_OF_2:
                    await asyncio.to_thread(all_list, mixed_3, service, "10.8.0.1:80")
            for service in SERVICES_OF_2:
                await asyncio.to_thread(all_list, mixed_3, service)

    run_client(main)


def test_fuzzy_watches_at_every_member_hear_of_a_service_at_another(mixed_3: MixedCluster) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(sdk_of(one)) for one in mixed_3.clients]
            for sdk in clients:
                await sdk.set_up(abilities=STYLES["3.x"])
                answer = await sdk.call(
                    "NamingFuzzyWatchRequest",
                    namespace="public",
                    groupKeyPattern="public>>DEFAULT_GROUP>>watched-*",
                    receivedGroupKeys=[],
                    watchType="WATCH",
                    initializing=True,
                )
                assert answer["resultCode"] == 200, answer
            for number, sdk in enumerate(clients):
                service = f"watched-{number}"
                await register(sdk, service, f"10.3.0.{number}")
                for watcher in clients:
                    await watcher.wait(lambda watcher=watcher, service=service: is_told(watcher.messages, service))

    run_client(main)


def is_told(messages: list[Any], service: str) -> bool:
    """Whether a service was named to a fuzzy watch, in a batch or alone."""
    kinds = ("NamingFuzzyWatchChangeNotifyRequest", "NamingFuzzyWatchSyncRequest")
    return any(f"@@DEFAULT_GROUP@@{service}".encode() in one.body for one in messages if one.type in kinds)


def test_instances_stay_healthy_everywhere_while_their_clients_live(mixed_3: MixedCluster) -> None:
    """Real members expire what no verify round names, whichever kind of member has the client."""
    service = "aging"
    ips = [mixed_3.owned_ip(one, "10.4.0") for one in mixed_3.clients]
    beats = {"serviceName": service, "port": 80}

    async def main() -> None:
        async with sdk_of(mixed_3.ours.client) as at_ours, sdk_of(mixed_3.first) as at_real:
            for sdk, ip in ((at_ours, "10.4.1.1"), (at_real, "10.4.1.2")):
                await sdk.set_up()
                await register(sdk, service, ip)
            for member, ip in zip(mixed_3.clients, ips, strict=True):
                taken(member, "POST", "/v1/ns/instance", ip=ip, **beats)
            wanted = {f"{ip}:80" for ip in (*ips, "10.4.1.1", "10.4.1.2")}
            await asyncio.to_thread(all_list, mixed_3, service, *wanted)
            end_s = time.monotonic() + AGES_S
            while time.monotonic() < end_s:
                for member, ip in zip(mixed_3.clients, ips, strict=True):
                    assert member.call("PUT", "/v1/ns/instance/beat", ip=ip, **beats).json()["code"] == 10200
                for sdk in (at_ours, at_real):
                    await sdk.call("HealthCheckRequest")
                for member in mixed_3.clients:
                    hosts = member.call("GET", "/v1/ns/instance/list", serviceName=service).json()["hosts"]
                    assert {f"{one['ip']}:{one['port']}" for one in hosts if one["healthy"]} == wanted
                time.sleep(2.0)

    run_client(main)


def test_an_operators_change_holds_at_the_kind_of_member_that_it_was_made_at(mixed_3: MixedCluster) -> None:
    """A real member alone has no Raft leader, and refuses the change."""
    service, has_leader = "operated", len(mixed_3.reals) > 1
    change = {"weight": "5.0", "enabled": "true", "metadata": '{"by":"ops"}'}
    names = {"serviceName": service, "ip": "10.5.0.1", "port": 80}

    def weights() -> list[tuple[float, str | None]]:
        found = [
            one.call("GET", "/v1/ns/instance/list", serviceName=service).json()["hosts"] for one in mixed_3.clients
        ]
        return [(hosts[0]["weight"], hosts[0]["metadata"].get("by")) for hosts in found]

    async def main() -> None:
        async with sdk_of(mixed_3.ours.client) as sdk:
            await sdk.set_up()
            await register(sdk, service, "10.5.0.1", weight=1.0)
            await asyncio.to_thread(all_list, mixed_3, service, "10.5.0.1:80")
            changed, plain = (5.0, "ops"), (1.0, None)
            at_ours = [plain] * len(mixed_3.reals) + [changed] * len(mixed_3.nodes)
            assert mixed_3.ours.client.call("PUT", "/v3/admin/ns/instance", **names, **change).json()["data"] == "ok"
            eventually(lambda: weights() == at_ours)
            time.sleep(2.0)
            assert weights() == at_ours
            answer = mixed_3.first.call("PUT", "/v3/admin/ns/instance", **names, **change)
            assert (answer.status == 200) is has_leader, answer
            if has_leader:
                eventually(lambda: weights() == [changed] * 3)
            held = weights()
            await register(sdk, service, "10.5.0.1", weight=1.0)
            time.sleep(2.0)
            assert weights() == held

    run_client(main)


def test_each_member_comes_back_with_all_that_the_others_hold(mixed_3: MixedCluster) -> None:
    service = "kept"
    patient = {"serviceName": service, "port": 80, "metadata": PATIENT}

    def restart_ours() -> None:
        mixed_3.ours.stop()
        mixed_3.ours.restart()

    def restart_real() -> None:
        mixed_3.reals[-1].stop()
        mixed_3.reals[-1].begin()
        mixed_3.reals[-1].wait()

    restarts = {mixed_3.ours.client: restart_ours, mixed_3.reals[-1].client: restart_real}

    async def main() -> None:
        stays = next(one for one in mixed_3.clients if one not in restarts)
        ip = mixed_3.owned_ip(stays, "10.6.0")
        async with sdk_of(stays) as sdk:
            await sdk.set_up()
            await register(sdk, service, "10.6.1.1")
            taken(stays, "POST", "/v1/ns/instance", ip=ip, **patient)
            kept = (f"{ip}:80", "10.6.1.1:80")
            await asyncio.to_thread(all_list, mixed_3, service, *kept)
            alive = asyncio.ensure_future(keep_alive(sdk))
            for restart in restarts.values():
                await asyncio.to_thread(restart)
                await asyncio.to_thread(all_list, mixed_3, service, *kept)
            assert not alive.done()
            alive.cancel()

    run_client(main)


async def keep_alive(sdk: SdkClient) -> None:
    """Check the member's health from time to time, as SDKs do; real Nacos removes clients that are silent for 20 s."""
    while True:
        assert (await sdk.call("HealthCheckRequest"))["resultCode"] == 200
        await asyncio.sleep(HEALTH_S)
