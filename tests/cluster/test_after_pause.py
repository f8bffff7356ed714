"""Reads that waited in the sockets of a member that stood still are not answered with the lists of before (R9)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from tests.cluster.conftest import StartCluster
from tests.support.processes import FAST, ClusterProcesses, Member, eventually
from tests.support.raw import RawConnection
from tests.support.sdk_client import SdkClient, run_client
from tests.support.wire import request

REMOVED, ADDED = "10.6.0.1", "10.6.0.2"
PORT = 8080
LONG = '{"preserved.heart.beat.timeout":"600000","preserved.ip.delete.timeout":"600000"}'
TARGETS = (
    "/nacos/v1/ns/instance/list?serviceName={0}",
    "/nacos/v2/ns/instance/list?serviceName={0}",
    "/nacos/v1/ns/instance?serviceName={0}&ip=10.6.0.1&port=8080",
    "/nacos/v1/ns/catalog/instances?serviceName={0}&clusterName=DEFAULT&pageNo=1&pageSize=10",
)
SDK_OFFSET = 1_000


def is_down(victim: Member, members: list[Member]) -> bool:
    return all(member.client.states()[victim.address] == "DOWN" for member in members)


def assert_not_of_before(status: int, body: bytes) -> None:
    """A refusal, or an answer that knows what happened meanwhile."""
    assert status in (200, 404, 503), (status, body)
    assert status != 200 or (REMOVED.encode() not in body and ADDED.encode() in body), body


def ips_of(answer: Mapping[str, Any]) -> set[str] | None:
    """The instances in an answer over gRPC; None in a refusal."""
    if answer["@type"] == "ErrorResponse":
        return None
    return {one["ip"] for one in answer["serviceInfo"]["hosts"]}


@pytest.mark.parametrize("owner", ["of its own", "of another"])
def test_reads_that_waited_know_what_happened_meanwhile(make_cluster: StartCluster, owner: str) -> None:
    cluster = make_cluster(3, FAST)
    cluster.start()
    victim, *survivors = cluster.members
    service = cluster.service_of(victim if owner == "of its own" else survivors[0], "read")
    assert victim.client.register(service, REMOVED, PORT, metadata=LONG).status == 200
    eventually(lambda: cluster.all_list(service, {f"{REMOVED}:{PORT}"}))

    async def main() -> None:
        async with SdkClient(int(victim.address.rpartition(":")[2]) + SDK_OFFSET) as sdk:
            await sdk.set_up()
            assert ips_of(await sdk.call("ServiceQueryRequest", serviceName=service)) == {REMOVED}
            connections = [RawConnection(victim.address) for _ in TARGETS]
            for raw, target in zip(connections, TARGETS, strict=True):
                assert raw.call(request(target.format(service))).status == 200
            victim.pause()
            await asyncio.to_thread(eventually, lambda: is_down(victim, survivors))
            # The owner may be another meanwhile.
            await asyncio.to_thread(
                eventually,
                lambda: (
                    survivors[0].client.deregister(service, REMOVED, PORT).status == 200
                    and survivors[1].client.register(service, ADDED, PORT, metadata=LONG).status == 200
                    and cluster.all_list(service, {f"{ADDED}:{PORT}"}, survivors)
                ),
            )
            for raw, target in zip(connections, TARGETS, strict=True):
                raw.send(request(target.format(service)))
            calls = [
                asyncio.ensure_future(sdk.call(kind, serviceName=service, **more))
                for kind, more in (("ServiceQueryRequest", {}), ("SubscribeServiceRequest", {"subscribe": True}))
            ]
            await asyncio.sleep(0)  # they are written before the victim goes on
            victim.resume()
            for raw in connections:
                answer = await asyncio.to_thread(raw.read)
                assert_not_of_before(answer.status, answer.body)
                raw.socket.close()
            for call in calls:
                assert ips_of(await call) in (None, {ADDED})

    run_client(main)
    eventually(lambda: cluster.all_list(service, {f"{ADDED}:{PORT}"}))


def test_a_cluster_that_stood_still_as_a_whole_comes_back_by_itself(make_cluster: StartCluster) -> None:
    cluster: ClusterProcesses = make_cluster()
    cluster.start()
    service = cluster.service_of(cluster.members[0], "whole")
    assert cluster.members[0].client.register(service, ADDED, PORT, metadata=LONG).status == 200
    eventually(lambda: cluster.all_list(service, {f"{ADDED}:{PORT}"}))
    for member in cluster:
        member.pause()
    waited = [RawConnection(member.address) for member in cluster]
    for raw in waited:
        raw.send(request(f"/nacos/v1/ns/instance/list?serviceName={service}"))
        raw.socket.settimeout(3.0)
        with pytest.raises(TimeoutError):
            raw.read()
        raw.socket.settimeout(60.0)
    for member in cluster:
        member.resume()
    for raw in waited:
        answer = raw.read()
        assert answer.status == 503 or {one["ip"] for one in orjson.loads(answer.body)["hosts"]} == {ADDED}
        raw.socket.close()
    eventually(lambda: cluster.all_list(service, {f"{ADDED}:{PORT}"}))
    for member in cluster:
        assert "this process was paused" in member.log_text()
