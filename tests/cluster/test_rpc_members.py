"""Clients between members of our kind, as they run: over the port for members, and without it."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.cluster.conftest import StartCluster
from tests.support.certificates import make_certificate, needs_openssl, tls_settings
from tests.support.nacos_peer import CLUSTER_LABELS, CLUSTER_OFFSET, distro
from tests.support.processes import FAST, HANG_S, Member, eventually
from tests.support.sdk_client import SdkClient, run_client

CROWD = 200
AGREED_S = 120.0
WITHDRAWN_S = 60.0
"""Well below the time for which a copy lives."""


def sdk_of(member: Member) -> SdkClient:
    return SdkClient(port_of(member) + 1_000)


def port_of(member: Member) -> int:
    return int(member.address.rpartition(":")[2])


async def revisions(member: Member) -> dict[str, int]:
    """What a member knows of all clients, as another kind of member is told."""
    async with SdkClient(port_of(member) + CLUSTER_OFFSET) as link:
        await link.set_up(labels=CLUSTER_LABELS)
        clients = (await distro(link, "SNAPSHOT"))["content"]["clientSyncDataList"]
    return {one["clientId"]: one["attributes"]["clientAttributes"]["revision"] for one in clients}


async def soon(check: Callable[[], bool], timeout_s: float = HANG_S) -> None:
    await asyncio.to_thread(eventually, check, timeout_s)


def test_a_crowd_is_known_everywhere_after_a_member_restarted(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST)
    cluster.start()

    async def main() -> None:
        async with AsyncExitStack() as stack:
            ids: dict[str, Member] = {}
            for number in range(CROWD):
                member = cluster.members[number % 3]
                sdk = await stack.enter_async_context(sdk_of(member))
                ids[await sdk.set_up()] = member
                for _ in range(1 + number % 3):
                    await sdk.register(f"crowd-{number % 7}", "10.0.0.1", number + 1)
            restarted = cluster.members[1]
            await asyncio.to_thread(restarted.kill_all)
            await asyncio.to_thread(restarted.restart)
            left = {client_id for client_id, member in ids.items() if member is not restarted}
            async with asyncio.timeout(AGREED_S):
                while True:
                    first, *others = [await revisions(member) for member in cluster]
                    if first.keys() == left and all(one == first for one in others):
                        break
                    await asyncio.sleep(0.1)

    run_client(main)


@needs_openssl
def test_what_a_client_withdraws_after_its_member_was_killed_is_listed_nowhere(make_cluster: StartCluster) -> None:
    """The copy of its first connection lives for three minutes (R15)."""
    cluster = make_cluster(3, FAST)
    cluster.start()
    first, *left = cluster.members

    def are_listed(*services: str) -> bool:
        listed = [[bool(member.client.hosts(service)) for service in ("kept", "withdrawn")] for member in left]
        return listed == [[service in services for service in ("kept", "withdrawn")]] * len(left)

    async def main() -> None:
        async with sdk_of(first) as sdk:
            await sdk.set_up()
            for service in ("kept", "withdrawn"):
                await sdk.register(service, "10.0.0.1")
            await soon(lambda: are_listed("kept", "withdrawn"))
            await asyncio.to_thread(first.kill_all)
        await soon(lambda: all(member.client.states()[first.address] == "DOWN" for member in left))
        async with sdk_of(left[0]) as sdk:
            await sdk.set_up()
            await sdk.register("withdrawn", "10.0.0.1")
            assert are_listed("kept", "withdrawn")
            await sdk.deregister("withdrawn", "10.0.0.1")
            await soon(lambda: are_listed("kept"), WITHDRAWN_S)

    run_client(main)


def test_members_speak_tls_with_each_other(make_cluster: StartCluster, tmp_path: Path) -> None:
    """Each trusts its own certificate. The loads of all members are told over this port alone."""
    cluster = make_cluster(2, FAST | tls_settings("peer", *make_certificate(tmp_path)))
    cluster.start()
    first, _ = cluster.members

    def is_complete() -> bool:
        found = first.client.call("GET", "/v2/core/loader/cluster").json()
        return found["completed"] is True and found["metricsCount"] == 2

    eventually(is_complete)

    async def main() -> None:
        async with sdk_of(first) as sdk:
            await sdk.set_up()
            await sdk.register("by-tls", "10.0.0.1")
            await soon(lambda: cluster.all_list("by-tls", {"10.0.0.1:80"}))
        await soon(lambda: cluster.all_list("by-tls", set()))

    run_client(main)


def test_one_without_that_port_is_told_over_http(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST)
    without = cluster.members[2]
    without.settings["rollcall.rpc.enabled"] = "false"
    cluster.start()

    async def main() -> None:
        async with sdk_of(cluster.members[0]) as sdk:
            await sdk.set_up()
            await sdk.register("told", "10.0.0.1")
            await soon(lambda: cluster.all_list("told", {"10.0.0.1:80"}))
        await soon(lambda: cluster.all_list("told", set()))

    run_client(main)
    assert "Traceback" not in without.log_text()


def test_clients_of_a_member_that_stops_have_time_to_connect_elsewhere(make_cluster: StartCluster) -> None:
    """One that is cut while it connects elsewhere moves once more, and what it published there is gone (R17)."""
    cluster = make_cluster(2, FAST)
    cluster.start()
    stopping, other = cluster.members

    async def main() -> None:
        async with sdk_of(stopping) as old, sdk_of(other) as new:
            await old.set_up()
            await old.register("moving", "10.0.0.1")
            await soon(lambda: cluster.all_list("moving", {"10.0.0.1:80"}))
            stopped = asyncio.create_task(asyncio.to_thread(stopping.stop))
            [reset] = await old.wait(lambda: old.of_type("ConnectResetRequest"))
            assert reset.json()["serverPort"] == str(port_of(other))
            with pytest.raises(TimeoutError):
                await old.wait(lambda: old.ended, timeout_s=1.0)
            await new.set_up()
            await new.register("moving", "10.0.0.1")
            await old.close()
            await stopped
            assert other.client.hosts("moving").keys() == {"10.0.0.1:80"}

    run_client(main)
