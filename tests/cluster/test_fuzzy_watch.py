"""Fuzzy watches at members that run: a client at one of them hears of services that came at another, in every way."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.cluster.conftest import StartCluster
from tests.support.processes import FAST, ClusterProcesses, Member, eventually
from tests.support.sdk_client import SdkClient, run_client

LONG = '{"preserved.heart.beat.timeout":"600000","preserved.ip.delete.timeout":"600000"}'
"""Metadata of an instance for which nobody beats while a test lasts."""
NAMESPACE = "fuzzy"
ALL = f"{NAMESPACE}>>*>>*"


def sdk_of(member: Member, *, acknowledges: bool = True) -> SdkClient:
    return SdkClient(int(member.address.rpartition(":")[2]) + 1_000, acknowledges=acknowledges)


async def watch(client: SdkClient, pattern: str, known: Iterable[str] = (), **more: Any) -> dict[str, Any]:
    fields = {"namespace": NAMESPACE, "groupKeyPattern": pattern, "watchType": "WATCH", "initializing": not known}
    return await client.call("NamingFuzzyWatchRequest", **{**fields, "receivedGroupKeys": sorted(known), **more})


def known(client: SdkClient, before: Iterable[str] = ()) -> set[str]:
    """The services, without the namespace, that a client takes to be there after all that it was sent."""
    found = set(before)
    for message in client.messages:
        fields = message.json()
        changes: list[Mapping[str, str]] = []
        if message.type == "NamingFuzzyWatchSyncRequest":
            changes = fields["contexts"]
        elif message.type == "NamingFuzzyWatchChangeNotifyRequest":
            changes = [fields]
        for one in changes:
            name = one["serviceKey"].removeprefix(f"{NAMESPACE}@@")
            found.add(name) if one["changedType"] == "ADD_SERVICE" else found.discard(name)
    return found


def sync_types(client: SdkClient) -> list[str]:
    return [one.json()["syncType"] for one in client.of_type("NamingFuzzyWatchSyncRequest")]


async def wait(client: SdkClient, *names: str, before: Iterable[str] = ()) -> None:
    """Return when a client knows these services and no others."""
    wanted = set(names)
    await client.wait(lambda: known(client, before) == wanted)


async def there(call: Callable[..., Any], *values: Any, **fields: Any) -> None:
    """Make a call over HTTP beside the loop."""
    answer = await asyncio.to_thread(call, *values, **fields)
    assert answer.status == 200, answer.body


def test_all_that_comes_and_goes_anywhere_is_told_at_every_member(three: ClusterProcesses) -> None:
    one, other, third = three.members
    v1 = one.client.register, one.client.deregister
    v2 = {"namespaceId": NAMESPACE, "serviceName": "v2", "ip": "10.0.0.2", "port": 80}

    async def main() -> None:
        async with sdk_of(other) as watcher, sdk_of(third) as shop, sdk_of(one) as publisher:
            for client in (watcher, shop, publisher):
                await client.set_up()
            assert (await watch(watcher, ALL))["success"]
            assert (await watch(shop, f"{NAMESPACE}>>shop>>*"))["success"]
            await watcher.wait(lambda: sync_types(watcher) == ["FINISH_FUZZY_WATCH_INIT_NOTIFY"])
            grpc = {"namespace": NAMESPACE, "groupName": "shop", "serviceName": "grpc"}
            instance = {"ip": "10.0.0.1", "port": 80}
            await publisher.call("InstanceRequest", type="registerInstance", instance=instance, **grpc)
            await there(v1[0], "v1", "10.0.0.3", 80, namespaceId=NAMESPACE, metadata=LONG)
            await there(one.client.call, "POST", "/v2/ns/instance", metadata=LONG, **v2)
            await there(v1[0], "durable", "10.0.0.4", 80, namespaceId=NAMESPACE, ephemeral="false")
            group = "DEFAULT_GROUP"
            names = ["shop@@grpc", f"{group}@@v1", f"{group}@@v2", f"{group}@@durable"]
            await wait(watcher, *names)
            await wait(shop, "shop@@grpc")
            await publisher.call("InstanceRequest", type="deregisterInstance", instance=instance, **grpc)
            await there(v1[1], "v1", "10.0.0.3", 80, namespaceId=NAMESPACE)
            await there(v1[1], "durable", "10.0.0.4", 80, namespaceId=NAMESPACE, ephemeral="false")
            await wait(watcher, f"{group}@@v2")
            await wait(shop)
            await there(one.client.call, "DELETE", "/v2/ns/instance", **v2)
            await wait(watcher)
            assert sync_types(watcher) == ["FINISH_FUZZY_WATCH_INIT_NOTIFY"]

    run_client(main)


def test_a_client_that_goes_to_another_member_is_sent_what_it_missed(three: ClusterProcesses) -> None:
    one, other, third = three.members
    instance = {"ip": "10.0.0.1", "port": 80}

    async def publish(client: SdkClient, service: str, kind: str = "registerInstance") -> None:
        fields = {"namespace": NAMESPACE, "groupName": "moved", "serviceName": service}
        await client.call("InstanceRequest", type=kind, instance=instance, **fields)

    async def main() -> None:
        pattern = f"{NAMESPACE}>>moved>>*"
        async with sdk_of(one) as publisher:
            await publisher.set_up()
            async with sdk_of(other) as watcher:
                await watcher.set_up()
                for service in ("kept", "gone"):
                    await publish(publisher, service)
                await watch(watcher, pattern)
                await wait(watcher, "moved@@kept", "moved@@gone")
                before = known(watcher)
            await publish(publisher, "gone", "deregisterInstance")
            await publish(publisher, "new")
            async with sdk_of(third) as watcher:
                await watcher.set_up()
                await watch(watcher, pattern, [f"{NAMESPACE}@@{name}" for name in before])
                await wait(watcher, "moved@@kept", "moved@@new", before=before)
                assert set(sync_types(watcher)) <= {"FUZZY_WATCH_DIFF_SYNC_NOTIFY"}
        async with sdk_of(third) as watcher:  # the publisher is gone
            await watcher.set_up()
            await watch(watcher, pattern, [f"{NAMESPACE}@@moved@@kept"])
            await wait(watcher, before=["moved@@kept"])

    run_client(main)


def test_a_watch_goes_on_after_a_member_was_killed(make_cluster: StartCluster) -> None:
    """The services of the dead member's clients go, once the others give them up, and those of others stay."""
    cluster = make_cluster(2, FAST)
    cluster.start()
    first, left = cluster.members

    async def main() -> None:
        async with sdk_of(left) as watcher, sdk_of(first) as publisher:
            await watcher.set_up()
            await publisher.set_up()
            await watch(watcher, "public>>*>>*")
            await publisher.register("of-the-dead", "10.0.0.1")
            await there(left.client.register, "stays", "10.0.0.2", 80, ephemeral="false")
            group = "public@@DEFAULT_GROUP"
            await wait(watcher, f"{group}@@of-the-dead", f"{group}@@stays")
            await asyncio.to_thread(first.kill_all)
            async with sdk_of(left) as moved:
                await moved.set_up()
                await moved.register("of-the-dead", "10.0.0.1")
                # Its owner is the dead member, until that is given up.
                await asyncio.to_thread(
                    eventually, lambda: left.client.register("new", "10.0.0.3", 80, metadata=LONG).status == 200
                )
                await wait(watcher, *(f"{group}@@{name}" for name in ("of-the-dead", "stays", "new")))

    run_client(main)


def test_a_slow_client_is_repeated_to_and_holds_nobody_up(three: ClusterProcesses) -> None:
    one, other, _ = three.members

    async def main() -> None:
        pattern = f"{NAMESPACE}>>slow>>*"
        async with sdk_of(other, acknowledges=False) as slow, sdk_of(other) as quick, sdk_of(one) as publisher:
            slow_id = await slow.set_up()
            await quick.set_up()
            await publisher.set_up()
            await watch(slow, pattern)
            await watch(quick, pattern)
            fields = {"namespace": NAMESPACE, "groupName": "slow", "serviceName": "s"}
            await publisher.call(
                "InstanceRequest", type="registerInstance", instance={"ip": "10.0.0.1", "port": 80}, **fields
            )
            await wait(quick, "slow@@s")
            first = await slow.wait(lambda: slow.of_type("NamingFuzzyWatchChangeNotifyRequest"))
            again = await slow.wait(lambda: slow.of_type("NamingFuzzyWatchChangeNotifyRequest")[1:])
            assert first[0].json()["serviceKey"] == again[0].json()["serviceKey"]
            for message in slow.messages:
                await slow.acknowledge(message.type, message.json().get("requestId", ""))
            [shown] = [
                one["metaInfo"]["fuzzyWatches"]
                for key, one in other.client.call("GET", "/v2/core/loader/current").json().items()
                if key == slow_id
            ]
            assert shown == [pattern]
            counts = other.client.metrics()
            assert (counts["rpcFuzzyWatches"], counts["rpcFuzzyPatterns"]) >= (2, 1)

    run_client(main)
