"""What clients of Nacos 2.x may rely on, as far as no other test shows it: `docs/scenarios-2x.md` has all of it."""

import asyncio
import itertools
import json
import time
from typing import Any

from tests.cluster.conftest import StartCluster
from tests.support.client import CODE_NOT_FOUND, CODE_OK, OK
from tests.support.processes import DIRECT_S, ClusterProcesses, Member, eventually
from tests.support.sdk_client import SdkClient, hosts_of, run_client
from tests.support.sdk_process import SdkProcess

MERGE_S = 0.05
"""Changes that come within this of the last push of their service are told together."""
NODE = "Nacos-Server:v2.2.3"


def rpc_port(member: Member) -> int:
    return int(member.address.rpartition(":")[2]) + 1_000


def sdk(member: Member) -> SdkClient:
    return SdkClient(rpc_port(member))


def is_native(member: Member, connection_id: str) -> bool | None:
    """Whether a client is connected to the member; None when that knows nothing of it."""
    answer = member.client.call("GET", "/v2/ns/client", clientId=connection_id)
    return answer.json()["data"]["isNative"] if answer.status == 200 else None


class TestWhatOthersSee:
    def test_what_is_registered_is_in_the_next_query_of_whoever_asks(self, three: ClusterProcesses) -> None:
        here, there, _ = three.members

        async def main() -> None:
            async with sdk(here) as publisher, sdk(here) as reader, sdk(there) as other:
                for one in (publisher, reader, other):
                    await one.set_up()
                # Read before, so that an answer from then could be kept somewhere.
                assert await reader.hosts("scenario-seen") == {}
                assert await other.hosts("scenario-seen") == {}
                await publisher.register("scenario-seen", "1.1.1.1")
                assert set(await reader.hosts("scenario-seen")) == {"1.1.1.1:80"}
                begun_s = time.monotonic()
                while not await other.hosts("scenario-seen"):
                    assert time.monotonic() - begun_s < DIRECT_S
                for version in ("v1", "v2"):
                    answer = here.client.call("GET", f"/{version}/ns/instance/list", serviceName="scenario-seen").json()
                    info = answer if version == "v1" else answer["data"]
                    assert info["name"] == "DEFAULT_GROUP@@scenario-seen"
                    assert [one["ip"] for one in info["hosts"]] == ["1.1.1.1"]

        run_client(main)

    def test_a_killed_process_takes_its_instances_along_everywhere(self, three: ClusterProcesses) -> None:
        here, there, _ = three.members

        async def main() -> None:
            async with sdk(here) as near, sdk(there) as far:
                with SdkProcess(rpc_port(here), "scenario-killed", "1.1.1.1") as process:
                    for one in (near, far):
                        await one.set_up()
                        await one.subscribe("scenario-killed")
                        await one.wait(lambda one=one: any(push["hosts"] for push in one.pushes()))
                    await asyncio.to_thread(process.kill)
                    begun_s = time.monotonic()
                    await near.wait(lambda: not near.pushes()[-1]["hosts"], DIRECT_S)
                    await far.wait(lambda: not far.pushes()[-1]["hosts"], DIRECT_S)
                    assert time.monotonic() - begun_s < DIRECT_S
                    assert await near.hosts("scenario-killed") == {}
                    assert is_native(here, process.connection_id) is None

        run_client(main)

    def test_a_client_is_native_where_it_is_connected_and_a_copy_elsewhere(self, three: ClusterProcesses) -> None:
        here, *others = three.members

        async def main() -> None:
            async with sdk(here) as client:
                connection_id = await client.set_up()
                await client.register("scenario-native", "1.1.1.1")
                assert is_native(here, connection_id) is True
                for member in others:
                    await asyncio.to_thread(
                        eventually, lambda member=member: is_native(member, connection_id) is False, DIRECT_S
                    )
                    assert set(member.client.hosts("scenario-native")) == {"1.1.1.1:80"}

        run_client(main)

    def test_of_a_client_that_came_and_went_within_the_delay_members_are_told_the_end(
        self, make_cluster: StartCluster
    ) -> None:
        """Sends of a key are merged, and read when they go: within the delay nobody is told of the middle."""
        cluster = make_cluster(2, {"nacos.core.protocol.distro.data.sync.delayMs": "6000"})
        cluster.start()
        here, there = cluster.members

        async def main() -> None:
            async with sdk(there) as watcher:
                await watcher.set_up()
                await watcher.subscribe("scenario-brief")
                async with sdk(here) as brief:
                    connection_id = await brief.set_up()
                    await brief.register("scenario-brief", "1.1.1.1")
                    assert set(here.client.hosts("scenario-brief")) == {"1.1.1.1:80"}
                await asyncio.to_thread(eventually, lambda: is_native(here, connection_id) is None, DIRECT_S)
                async with sdk(here) as later:
                    await later.set_up()
                    await later.register("scenario-after", "1.1.1.2")
                    after = {"1.1.1.2:80"}
                    await asyncio.to_thread(eventually, lambda: cluster.all_list("scenario-after", after))
                assert not any(push["hosts"] for push in watcher.pushes("scenario-brief"))
                assert is_native(there, connection_id) is None
                assert there.client.hosts("scenario-brief") == {}

        run_client(main)


class TestMoves:
    def test_a_client_that_is_sent_to_a_member_goes_there_and_takes_its_instance_along(
        self, three: ClusterProcesses
    ) -> None:
        here, there, _ = three.members

        async def main() -> None:
            async with sdk(here) as client, sdk(here) as stays:
                connection_id = await client.set_up()
                await stays.set_up()
                await client.register("scenario-moved", "1.1.1.1")
                chosen = {"connectionId": connection_id, "redirectAddress": there.address}
                assert here.client.call("GET", "/v2/core/loader/reloadClient", **chosen).body == b"success"
                [reset] = await client.wait(lambda: client.of_type("ConnectResetRequest"))
                # As an SDK does: to the listed member of that address, and there all over again.
                told = f"{reset.json()['serverIp']}:{reset.json()['serverPort']}"
                [target] = [member for member in three if member.address == told]
                async with sdk(target) as moved:
                    moved_id = await moved.set_up()
                    await client.close()
                    await moved.register("scenario-moved", "1.1.1.1")
                    assert is_native(there, moved_id) is True
                    await asyncio.to_thread(eventually, lambda: is_native(here, connection_id) is None, DIRECT_S)
                    expected = {"1.1.1.1:80"}
                    await asyncio.to_thread(eventually, lambda: three.all_list("scenario-moved", expected), DIRECT_S)
                assert stays.messages == []

        run_client(main)


class TestPushes:
    def test_twenty_changes_in_a_third_of_a_second_are_a_few_pushes(self, three: ClusterProcesses) -> None:
        async def main() -> None:
            async with sdk(three.members[0]) as client, sdk(three.members[0]) as publisher:
                await client.set_up()
                await publisher.set_up()
                await client.subscribe("scenario-burst")
                await client.wait(lambda: client.pushes("scenario-burst"))
                before, begun_s = len(client.pushes("scenario-burst")), time.monotonic()
                for number in range(20):
                    await publisher.register("scenario-burst", "1.1.1.1", 1_000 + number)
                    await asyncio.sleep(max(begun_s + 0.015 * (number + 1) - time.monotonic(), 0))
                took_s = time.monotonic() - begun_s
                await client.wait(lambda: "1.1.1.1:1019" in hosts_of(client.pushes("scenario-burst")[-1]), DIRECT_S)
                pushes = client.pushes("scenario-burst")[before:]
                # The first at once, then one in each 50 ms that saw a change.
                assert len(pushes) <= 2 + took_s / MERGE_S
                times = [one["lastRefTime"] for one in pushes]
                assert all(earlier < later for earlier, later in itertools.pairwise(times))
                await asyncio.sleep(4 * MERGE_S)
                assert len(client.pushes("scenario-burst")) == before + len(pushes), "the last state is told once"

        run_client(main)

    def test_a_disabled_instance_is_pushed_to_nobody_and_operators_see_it(self, three: ClusterProcesses) -> None:
        here = three.members[0]

        async def main() -> None:
            async with sdk(here) as watcher, sdk(here) as off, sdk(here) as on:
                for one in (watcher, off, on):
                    await one.set_up()
                await watcher.subscribe("scenario-off")
                await off.register("scenario-off", "1.1.1.1", enabled=False)
                await on.register("scenario-off", "1.1.1.2")
                await watcher.wait(lambda: watcher.pushes() and watcher.pushes()[-1]["hosts"], DIRECT_S)
                # It was there before; and now it changes, which makes another push.
                await off.register("scenario-off", "1.1.1.1", enabled=False, metadata={"a": "b"})
                await on.register("scenario-off", "1.1.1.2", metadata={"a": "b"})
                await watcher.wait(lambda: [one["metadata"] for one in watcher.pushes()[-1]["hosts"]] == [{"a": "b"}])
                assert not any("1.1.1.1:80" in hosts_of(push) for push in watcher.pushes())
                assert set(await on.hosts("scenario-off")) == {"1.1.1.2:80"}
                for version in ("v1", "v2"):
                    listed = catalog(here, version, "scenario-off")
                    assert {one["ip"]: one["enabled"] for one in listed} == {"1.1.1.1": False, "1.1.1.2": True}

        run_client(main)

    def test_who_is_connected_is_told_of_beats_that_stop(self, three: ClusterProcesses) -> None:
        """With the times of Nacos this is 15 s and 30 s; the instance says others of its own."""
        times = {"preserved.heart.beat.timeout": "4000", "preserved.ip.delete.timeout": "9000"}
        times["preserved.heart.beat.interval"] = "500"

        async def main() -> None:
            async with sdk(three.members[0]) as client:
                await client.set_up()
                await client.subscribe("scenario-beats")
                parameters = {"metadata": json.dumps(times)}
                begun_s = time.monotonic()
                register = three.members[1].client.register
                assert (await asyncio.to_thread(register, "scenario-beats", "1.1.1.1", **parameters)).body == OK

                def states() -> list[list[bool]]:
                    return [[one["healthy"] for one in push["hosts"]] for push in client.pushes()]

                await client.wait(lambda: [True] in states(), DIRECT_S)
                await client.wait(lambda: states()[-1] == [False])
                assert time.monotonic() - begun_s > 3.9
                await client.wait(lambda: states()[-1] == [])
                assert time.monotonic() - begun_s > 8.9

        run_client(main)


class TestRefusals:
    def test_a_persistent_service_takes_no_instance_of_a_connection(self, three: ClusterProcesses) -> None:
        here = three.members[0]
        assert here.client.register("scenario-durable", "1.1.1.1", ephemeral="false").body == OK

        async def main() -> None:
            async with sdk(here) as client:
                await client.set_up()
                answer = await client.register("scenario-durable", "1.1.1.2")
                assert (answer["@type"], answer["errorCode"]) == ("ErrorResponse", 400)
                assert "is persistent service" in answer["message"]
                assert set(await client.hosts("scenario-durable")) == {"1.1.1.1:8080"}

        run_client(main)
        assert here.client.deregister("scenario-durable", "1.1.1.1", ephemeral="false").body == OK

    def test_requests_for_configurations_are_refused_and_naming_goes_on(self, three: ClusterProcesses) -> None:
        here = three.members[0]
        listened = [{"group": "g", "md5": "", "dataId": "d", "tenant": ""}]
        requests: dict[str, dict[str, Any]] = {
            "ConfigBatchListenRequest": {"listen": True, "configListenContexts": listened},
            "ConfigQueryRequest": {"dataId": "d", "group": "g", "tenant": ""},
            "ConfigPublishRequest": {"dataId": "d", "group": "g", "content": "x"},
            "ConfigRemoveRequest": {"dataId": "d", "group": "g"},
        }

        async def main() -> None:
            async with sdk(here) as naming, sdk(here) as config:
                await naming.set_up()
                # A client for configurations has a connection of its own, which is taken like any.
                await config.set_up(labels={"source": "sdk", "module": "config"})
                await naming.subscribe("scenario-config")
                for one in (naming, config):
                    for request_type, fields in requests.items():
                        answer = await one.call(request_type, **fields)
                        assert (answer["@type"], answer["errorCode"]) == ("ErrorResponse", 302), request_type
                assert (await config.call("HealthCheckRequest"))["success"] is True
                await naming.register("scenario-config", "1.1.1.1")
                await naming.wait(lambda: naming.pushes() and naming.pushes()[-1]["hosts"], DIRECT_S)
                assert not naming.of_type("ErrorResponse")
                assert not naming.ended

        run_client(main)


class TestHttp:
    def test_a_beat_that_says_all_registers_and_one_that_says_little_does_not(self, three: ClusterProcesses) -> None:
        owner, other, _ = three.members
        for member, name in ((owner, "scenario-beat-here"), (other, "scenario-beat-there")):
            service = three.service_of(owner, name)
            assert member.client.beat(service, "1.1.1.1").json()["code"] == CODE_NOT_FOUND
            assert member.client.hosts(service) == {}
            beat = json.dumps(
                {"serviceName": f"DEFAULT_GROUP@@{service}", "ip": "1.1.1.1", "port": 8080, "weight": 2.5}
            )
            answer = member.client.beat(service, "1.1.1.1", beat=beat).json()
            assert (answer["code"], answer["lightBeatEnabled"]) == (CODE_OK, True)
            assert [one["weight"] for one in member.client.hosts(service).values()] == [2.5]
            assert member.client.beat(service, "1.1.1.1").json()["code"] == CODE_OK

    def test_a_write_is_passed_on_once_and_one_of_a_member_not_at_all(self, three: ClusterProcesses) -> None:
        owner, other, _ = three.members
        service = three.service_of(owner, "scenario-passed")
        direct, passed = owner.client.register(service, "1.1.1.1"), other.client.register(service, "1.1.1.2")
        assert (passed.status, passed.body, passed.content_type) == (direct.status, direct.body, direct.content_type)
        both = {"1.1.1.1:8080", "1.1.1.2:8080"}
        assert set(other.client.hosts(service)) == both
        eventually(lambda: three.all_list(service, both), DIRECT_S)
        for path in ("/v1/ns/instance", "/v2/ns/instance"):
            values: dict[str, str | int] = {"serviceName": service, "ip": "1.1.1.3", "port": 8080}
            refused = other.client.call("POST", path, headers={"User-Agent": NODE}, **values)
            assert refused.status == 400
            assert b"receive invalid redirect request from peer 127.0.0.1" in refused.body
        assert set(other.client.hosts(service)) == both


def catalog(member: Member, version: str, service: str) -> list[dict[str, Any]]:
    """The instances as operators see them."""
    values: dict[str, str | int] = {"serviceName": service, "clusterName": "DEFAULT", "pageNo": 1, "pageSize": 10}
    answer = member.client.call("GET", f"/{version}/ns/catalog/instances", **values)
    assert answer.status == 200, answer.body
    body = answer.json() if version == "v1" else answer.json()["data"]
    listed: list[dict[str, Any]] = body["list"] if "list" in body else body["instances"]
    return listed
