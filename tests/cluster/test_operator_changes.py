"""Operators' changes of instances at three members: pushed everywhere, and in force until the instance is gone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from app.testing import Cluster
from tests.cluster.conftest import StartCluster
from tests.support.processes import FAST, HANG_S, ClusterProcesses, Member, eventually
from tests.support.sdk_client import SdkClient, hosts_of, run_client

EXPIRY_MS = 3_000
SETTINGS = FAST | {"nacos.naming.clean.expired-metadata.expired-time": str(EXPIRY_MS)}
ADDRESS = {"ip": "10.0.0.1", "port": 80}
INSTANCE = "10.0.0.1:80"
V1, V2 = "/v1/ns/instance", "/v2/ns/instance"
PARTIAL = {V1: ("PATCH", V1), V2: ("PUT", "/v3/admin/ns/instance/partial")}
"""Changes single attributes; PATCH of v2 needs all of them."""
UNPAUSED = {"rollcall.distro.pauseMs": 60_000}
"""A busy machine is no pause: members that stood still refuse reads."""
LONG = {"preserved.heart.beat.timeout": "600000", "preserved.ip.delete.timeout": "600000"}
"""Keeps an instance without beats."""


def sdk_of(member: Member) -> SdkClient:
    return SdkClient(int(member.address.rpartition(":")[2]) + 1_000)


async def soon(check: Callable[[], bool], timeout_s: float = HANG_S) -> None:
    await asyncio.to_thread(eventually, check, timeout_s)


async def change(member: Member, method: str, path: str, service: str, **parameters: str) -> None:
    """Change an instance at a member."""
    values: dict[str, Any] = {"serviceName": service, **ADDRESS, **parameters}
    answer = await asyncio.to_thread(lambda: member.client.call(method, path, **values))
    assert (answer.status, b"ok" in answer.body or b"updated" in answer.body) == (200, True), answer.body


def weights(cluster: ClusterProcesses, service: str) -> list[list[float]]:
    """Return the weights of the listed instances at each member."""
    return [[one["weight"] for one in member.client.hosts(service).values()] for member in cluster]


@pytest.mark.parametrize("path", [V1, V2])
def test_a_change_at_any_member_reaches_subscribers_and_readers_of_all(make_cluster: StartCluster, path: str) -> None:
    cluster = make_cluster(3, SETTINGS)
    cluster.start()
    service = cluster.service_of(cluster.members[1], "changed")

    async def main() -> None:
        holder, owner, other = cluster.members
        async with sdk_of(holder) as provider, sdk_of(owner) as near, sdk_of(other) as far:
            for sdk in (provider, near, far):
                await sdk.set_up()
            await provider.register(service, "10.0.0.1", weight=1.0, metadata={"zone": "a"})
            await soon(lambda: weights(cluster, service) == [[1.0]] * 3)
            for sdk in (near, far):
                await sdk.subscribe(service)
            for entry, weight in zip(cluster.members, (2.0, 3.0, 4.0), strict=True):
                await change(entry, "PUT", path, service, weight=str(weight))
                found = await asyncio.to_thread(entry.client.hosts, service)
                assert [one["weight"] for one in found.values()] == [weight], "the next read at the entry shows it"
                for sdk in (near, far):

                    def is_pushed(sdk: SdkClient = sdk, weight: float = weight) -> bool:
                        pushes = sdk.pushes(service)
                        hosts = hosts_of(pushes[-1]) if pushes else {}
                        return INSTANCE in hosts and hosts[INSTANCE]["weight"] == weight

                    await sdk.wait(is_pushed)
            await change(holder, *PARTIAL[path], service, enabled="false")
            for sdk in (near, far):
                await sdk.wait(lambda sdk=sdk: hosts_of(sdk.pushes(service)[-1]) == {})  # type: ignore[misc]
            instances = [{**ADDRESS, "clusterName": "DEFAULT", "ephemeral": True}]
            await change(
                other,
                "PUT",
                f"{path}/metadata/batch",
                service,
                instances=str(instances).replace("'", '"').replace("True", "true"),
                metadata='{"by":"ops"}',
            )
            await change(other, *PARTIAL[path], service, enabled="true")
            for sdk in (near, far):
                await sdk.wait(lambda sdk=sdk: hosts_of(sdk.pushes(service)[-1]) != {})  # type: ignore[misc]
            await soon(
                lambda: all(
                    one["metadata"].get("by") == "ops"
                    for member in cluster
                    for one in member.client.hosts(service).values()
                )
            )
            assert weights(cluster, service) == [[4.0]] * 3, "no second instance"

    run_client(main)
    cluster.assert_no_traceback()


def test_a_change_outlives_registrations_connections_and_a_restart_of_all(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, SETTINGS)
    cluster.start()
    service = cluster.service_of(cluster.members[0], "kept")

    async def register(member: Member, weight: float) -> None:
        async with sdk_of(member) as sdk:
            await sdk.set_up()
            await sdk.register(service, "10.0.0.1", weight=weight)
            await soon(lambda: weights(cluster, service) == [[7.0]] * 3)

    async def main() -> None:
        first, second, third = cluster.members
        async with sdk_of(first) as sdk:
            await sdk.set_up()
            await sdk.register(service, "10.0.0.1", weight=1.0)
            await soon(lambda: weights(cluster, service) == [[1.0]] * 3)
            await change(third, *PARTIAL[V2], service, weight="7")
            await sdk.register(service, "10.0.0.1", weight=2.0)
            await soon(lambda: weights(cluster, service) == [[7.0]] * 3)
        await register(second, 3.0)
        for member in cluster:
            await asyncio.to_thread(member.kill_all)
        for member in cluster:
            await asyncio.to_thread(member.start)
        for member in cluster:
            await asyncio.to_thread(member.wait_ready)
        await register(third, 4.0)

    run_client(main)


def test_a_change_is_dropped_everywhere_when_its_instance_is_gone(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, SETTINGS)
    cluster.start()

    def counts() -> list[float]:
        return [member.client.metrics()["overrides"] for member in cluster]

    async def main() -> None:
        first, second, _ = cluster.members
        async with sdk_of(first) as sdk:
            await sdk.set_up()
            await sdk.register("gone", "10.0.0.1")
            await soon(lambda: weights(cluster, "gone") == [[1.0]] * 3)
            await change(second, "PUT", V2, "gone", weight="7")
            await soon(lambda: counts() == [1, 1, 1])
            await asyncio.sleep(2 * EXPIRY_MS / 1_000 + 5.0)
            assert counts() == [1, 1, 1], "it is in use"
        await soon(lambda: counts() == [0, 0, 0])
        async with sdk_of(second) as sdk:
            await sdk.set_up()
            await sdk.register("gone", "10.0.0.1", weight=2.0)
            await soon(lambda: weights(cluster, "gone") == [[2.0]] * 3)

    run_client(main)


@pytest.mark.parametrize("service", ["orders", "stock", "carts"])
def test_after_a_partition_the_later_change_holds_everywhere(service: str) -> None:
    """Each side accepts changes; three services have several owners."""
    with Cluster(3, settings=UNPAUSED) as cluster:
        cluster[0].register(service, "10.0.0.1", 80, metadata=LONG)
        cluster.wait_for_instances(service, 1)

        def change(member: int, **parameters: object) -> None:
            cluster[member].call(*PARTIAL[V2], serviceName=service, ip="10.0.0.1", port=80, **parameters)

        change(1, weight=2)
        cluster[0].wait_until(lambda: _weights_and_labels(cluster, service) == [(2.0, None)] * 3)
        cluster.partition(0)
        cluster.settle()
        change(0, weight=3, metadata='{"by":"ops"}')
        cluster.clock.advance(1.0)
        change(2, weight=4)
        apart = [(3.0, "ops"), (4.0, None), (4.0, None)]
        cluster[0].wait_until(lambda: _weights_and_labels(cluster, service) == apart)
        cluster.heal()
        cluster.settle()
        cluster[0].wait_until(lambda: _weights_and_labels(cluster, service) == [(4.0, None)] * 3)


def _weights_and_labels(cluster: Cluster, service: str) -> list[tuple[float, str | None]]:
    found = [one for member in cluster for one in member.instances(service)]
    return [(one.weight, one.metadata.get("by")) for one in found]
