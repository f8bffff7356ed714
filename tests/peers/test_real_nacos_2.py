"""One cluster of two real Nacos 2.3.1 servers and one node of ours: clients travel both ways."""

import json
import time

import pytest

from tests.peers.conftest import metrics, taken
from tests.peers.real_members import MixedCluster
from tests.support.client import Client
from tests.support.processes import eventually
from tests.support.sdk_client import SdkClient, run_client

SEEN_TIMEOUT_S = 120.0
"""Real Nacos tells of a change after 1 s, and shows it after another half."""
REAL_UNHEALTHY_S = 18.0
"""A real member takes an instance for unhealthy after 15 s in which nobody speaks for it."""
PATIENT = json.dumps({"preserved.heart.beat.timeout": "300000", "preserved.ip.delete.timeout": "600000"})


def listed(client: Client, service: str) -> set[str]:
    answer = client.call("GET", "/v1/ns/instance/list", serviceName=service)
    assert answer.status == 200, answer
    return {f"{host['ip']}:{host['port']}" for host in answer.json()["hosts"]}


def all_list(mixed: MixedCluster, service: str, *addresses: str) -> float:
    """Wait until every member lists exactly these; return how long that took, in seconds."""
    begun_s = time.monotonic()

    def agree() -> bool:
        lists = [listed(one, service) for one in mixed.clients]
        assert all(one == set(addresses) for one in lists), f"{service}: {lists}, not {addresses}"
        return True

    eventually(agree, SEEN_TIMEOUT_S)
    return time.monotonic() - begun_s


def sdk_of(member: Client) -> SdkClient:
    return SdkClient(int(member.address.rpartition(":")[2]) + 1_000)


NAMES = {"namespace": "public", "groupName": "DEFAULT_GROUP"}
"""Real Nacos knows no defaults for these over gRPC."""


async def register(sdk: SdkClient, service: str, ip: str, **instance: object) -> None:
    whole = {"ip": ip, "port": 80, **instance}
    answer = await sdk.call("InstanceRequest", type="registerInstance", serviceName=service, instance=whole, **NAMES)
    assert answer["resultCode"] == 200


@pytest.mark.parametrize("where", ["ours", "real"])
def test_what_a_connection_publishes_shows_on_all(mixed_2: MixedCluster, where: str) -> None:
    member = mixed_2.ours.client if where == "ours" else mixed_2.first

    async def main() -> None:
        service, batch = f"rpc-{where}", f"rpc-batch-{where}"
        async with sdk_of(member) as sdk:
            await sdk.set_up()
            await register(sdk, service, "10.0.0.1", weight=2.0, metadata={"zone": "北京"})
            print(f"registered at {where}: {all_list(mixed_2, service, '10.0.0.1:80'):.2f} s")
            for one in mixed_2.clients:
                [host] = one.call("GET", "/v1/ns/instance/list", serviceName=service).json()["hosts"]
                assert (host["weight"], host["metadata"]) == (2.0, {"zone": "北京"})
            instances = [{"ip": "10.0.0.1", "port": port} for port in (1, 2, 3)]
            kind = "batchRegisterInstance"
            await sdk.call("BatchInstanceRequest", type=kind, serviceName=batch, instances=instances, **NAMES)
            all_list(mixed_2, batch, "10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3")
            await register(sdk, service, "10.0.0.2")
            all_list(mixed_2, service, "10.0.0.2:80")
            gone = {"ip": "10.0.0.2", "port": 80}
            await sdk.call("InstanceRequest", type="deregisterInstance", serviceName=service, instance=gone, **NAMES)
            all_list(mixed_2, service)
            await register(sdk, service, "10.0.0.3")
            all_list(mixed_2, service, "10.0.0.3:80")
        cut_s = time.monotonic()
        eventually(lambda: listed(mixed_2.ours.client, service) == set(), SEEN_TIMEOUT_S)
        print(f"cut at {where}: gone on ours after {time.monotonic() - cut_s:.2f} s")
        if where == "ours":
            all_list(mixed_2, service)
            all_list(mixed_2, batch)

    run_client(main)


def test_http_instances_of_real_members_show_on_ours(mixed_2: MixedCluster) -> None:
    for number, member in enumerate((mixed_2.first, mixed_2.second)):
        service = f"http-{number}"
        values = {"serviceName": service, "ip": "10.0.1.1", "port": 80}
        taken(member, "POST", "/v1/ns/instance", metadata=PATIENT, **values)
        all_list(mixed_2, service, "10.0.1.1:80")
        taken(member, "DELETE", "/v1/ns/instance", **values)
        all_list(mixed_2, service)


def test_http_instances_of_ours_show_on_real_members_and_stay_while_they_beat(mixed_2: MixedCluster) -> None:
    """Real members expire by beats: ours vouches for its own, also for those that the real ones' hash gives to them."""
    service = "http-ours"
    here = {f"10.0.4.{number}:80" for number in range(1, 9)}
    values = {one: {"serviceName": service, "ip": one.partition(":")[0], "port": 80} for one in here}
    for one in here:
        assert mixed_2.ours.client.call("POST", "/v1/ns/instance", **values[one]).body == b"ok"
    print(f"registered over HTTP at ours: {all_list(mixed_2, service, *here):.2f} s")

    def beat_all() -> None:
        for one in here:
            assert mixed_2.ours.client.call("PUT", "/v1/ns/instance/beat", **values[one]).json()["code"] == 10200

    end_s = time.monotonic() + REAL_UNHEALTHY_S
    while time.monotonic() < end_s:
        beat_all()
        for member in mixed_2.clients:
            hosts = member.call("GET", "/v1/ns/instance/list", serviceName=service).json()["hosts"]
            assert {(f"{one['ip']}:{one['port']}", one["healthy"]) for one in hosts} == {(one, True) for one in here}
        time.sleep(2.0)
    gone = here.pop()
    assert mixed_2.ours.client.call("DELETE", "/v1/ns/instance", **values[gone]).body == b"ok"
    all_list(mixed_2, service, *here)


def test_clients_keep_their_revision_through_verify_rounds(mixed_2: MixedCluster) -> None:
    """What fails one is sent again, each five seconds: then the two would not understand each other's revisions."""

    async def main() -> None:
        async with sdk_of(mixed_2.ours.client) as sdk:
            await sdk.set_up()
            await register(sdk, "verified", "10.0.2.1")
            all_list(mixed_2, "verified", "10.0.2.1:80")
            before = metrics(mixed_2)
            eventually(lambda: metrics(mixed_2)["verifySent"] >= before["verifySent"] + 4)
            after = metrics(mixed_2)
            for name in ("verifyWanted", "verifyFailed"):
                assert after[name] == before[name], name

    run_client(main)


def test_ours_comes_back_with_all_that_the_others_hold(mixed_2: MixedCluster) -> None:
    async def main() -> None:
        async with sdk_of(mixed_2.second) as sdk:
            await sdk.set_up()
            await register(sdk, "kept", "10.0.3.1")
            all_list(mixed_2, "kept", "10.0.3.1:80")
            mixed_2.ours.stop()
            mixed_2.ours.restart()
            eventually(lambda: listed(mixed_2.ours.client, "kept") == {"10.0.3.1:80"}, SEEN_TIMEOUT_S)

    run_client(main)


def test_the_load_of_all_is_known(mixed_2: MixedCluster) -> None:
    def is_complete() -> bool:
        found = mixed_2.ours.client.call("GET", "/v2/core/loader/cluster").json()
        return found["completed"] is True and found["metricsCount"] == 3

    eventually(is_complete, SEEN_TIMEOUT_S)


SERVICES_OF_2 = ("providers:com.foo.Outer$Inner:1.0.0:", "consumers:X:1.0:*", "a##b", "a/b,c")
"""Names that Nacos takes since 2.0."""


def test_names_of_nacos_2_show_on_all(mixed_2: MixedCluster) -> None:
    async def publish(member: Client, service: str) -> None:
        async with sdk_of(member) as sdk:
            await sdk.set_up()
            await register(sdk, service, "10.0.5.1")
            all_list(mixed_2, service, "10.0.5.1:80")
            gone = {"ip": "10.0.5.1", "port": 80}
            await sdk.call("InstanceRequest", type="deregisterInstance", serviceName=service, instance=gone, **NAMES)
            all_list(mixed_2, service)

    for number, name in enumerate(SERVICES_OF_2):
        member = (mixed_2.ours.client, mixed_2.first)[number % 2]
        run_client(lambda member=member, name=name: publish(member, name))  # type: ignore[misc]
