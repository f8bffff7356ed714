"""What SDKs of Nacos 2.x meet at a node: a raw client, a real process."""

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest

from tests.support.certificates import make_certificate, needs_openssl, tls_settings
from tests.support.processes import DIRECT_S, FAST, HANG_S, ClusterProcesses, Member, eventually, free_ports
from tests.support.relay import Relay
from tests.support.sdk_client import SdkClient, hosts_of, run_client
from tests.support.sdk_process import SdkProcess

QUIET_S = 0.3
"""For so long nothing comes where nothing may come."""


class RpcNode:
    """A standalone node and clients of it."""

    def __init__(self, member: Member, port: int) -> None:
        self.member = member
        self.sdk_port, self.cluster_port = port + 1_000, port + 1_001
        self.limit_rule = member.data / "loader" / "limitRule"

    def client(self, *, acknowledges: bool = True) -> SdkClient:
        return SdkClient(self.sdk_port, acknowledges=acknowledges)

    def set_limits(self, **rule: Any) -> None:
        self.limit_rule.parent.mkdir(exist_ok=True)
        self.limit_rule.write_bytes(orjson.dumps(rule))

    def lift_limits(self) -> None:
        """Take the rule back, and wait until that is followed."""
        if self.limit_rule.exists():
            eventually(lambda: self._said("limits of connections: Limit") > self._said("no limits"))
            self.limit_rule.unlink()
        eventually(lambda: self._said("limits of connections: Limit") == self._said("no limits"))

    def _said(self, text: str) -> int:
        return self.member.log_text().count(text)


ABSENT = "127.0.0.9"
"""Where a listed member should be."""


def started(folder: Path, port: int, settings: dict[str, str]) -> Iterator[RpcNode]:
    member = Member(port, folder / "node", {"rollcall.announce": "false", **settings})
    try:
        member.start()
        member.wait_ready()
        yield RpcNode(member, port)
        member.stop()
    finally:
        member.end()
    assert "Traceback" not in member.log_text(), member.log_text()[-6_000:]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcNode]:
    [port] = free_ports(1)
    yield from started(tmp_path_factory.mktemp("rpc"), port, {})


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcNode]:
    """A node whose list has another member, which does not run."""
    [port] = free_ports(1)
    members = {"nacos.member.list": f"127.0.0.1:{port},{ABSENT}:8848", "nacos.server.ip": "127.0.0.1"}
    yield from started(tmp_path_factory.mktemp("rpc-listed"), port, {**FAST, **members})


class TestCalls:
    def test_a_server_check_names_the_connection_and_every_call_of_it_is_the_same(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                first = await client.call("ServerCheckRequest")
                again = await client.call("ServerCheckRequest")
                assert first["@type"] == "ServerCheckResponse"
                assert first["connectionId"] == again["connectionId"]
                wall_ms, ip, port = first["connectionId"].split("_")
                assert abs(int(wall_ms) - time.time() * 1_000) < 60_000
                assert (ip, port.isdecimal()) == ("127.0.0.1", True)
                assert first["supportAbilityNegotiation"] is True
            async with node.client() as other:
                assert (await other.call("ServerCheckRequest"))["connectionId"] != first["connectionId"]

        run_client(main)

    def test_an_instance_request_before_the_setup_is_refused_with_301(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                answer = await client.register("before", "1.1.1.1")
                assert (answer["@type"], answer["errorCode"], answer["success"]) == ("ErrorResponse", 301, False)

        run_client(main)

    def test_an_unknown_type_is_answered_with_302_before_and_after_the_setup(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                for _ in range(2):
                    assert (await client.call("ConfigQueryRequest"))["errorCode"] == 302
                    await client.set_up()

        run_client(main)

    def test_what_cannot_be_read_is_answered_and_the_connection_lives_on(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                await client.set_up()
                for body in (b"{", b"[]", b"\xff"):
                    answer = await client.send("InstanceRequest", body)
                    assert (answer.type, answer.json()["errorCode"]) == ("ErrorResponse", 502)
                assert (await client.raw(b"\xff\xff")).json()["errorCode"] == 502
                for field in ({"serviceName": 1}, {"instance": []}, {}, {"instance": {"ip": "1.1.1.1", "port": "x"}}):
                    fields = {"type": "registerInstance", "serviceName": "wrong", **field}
                    answer = await client.send("InstanceRequest", orjson.dumps(fields))
                    assert (answer.type, answer.json()["errorCode"]) == ("ErrorResponse", 400), field
                assert (await client.call("InstanceRequest", type="x", serviceName="y"))["errorCode"] == 400
                assert await client.hosts("wrong") == {}
                assert not client.ended

        run_client(main)

    def test_rubbish_on_the_stream_is_answered_and_the_stream_stays(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                await client.set_up()
                await client.write("NoSuchRequest", b"{}")
                await client.write("NotifySubscriberResponse", b"{")
                await client.write("NotifySubscriberResponse", orjson.dumps({"requestId": 7}))
                await client.write("NotifySubscriberResponse", orjson.dumps({"requestId": "unknown"}))
                await client.wait(lambda: len(client.of_type("ErrorResponse")) == 3)
                codes = [one.json()["errorCode"] for one in client.of_type("ErrorResponse")]
                assert codes == [302, 502, 502]
                assert (await client.register("rubbish", "1.1.1.1"))["success"] is True

        run_client(main)

    def test_fields_that_nobody_knows_are_left_alone(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                await client.set_up()
                answer = await client.register("extra", "1.1.1.1", valid=True, instanceHeartBeatInterval=0, other=[1])
                assert answer["success"] is True
                assert set(await client.hosts("extra")) == {"1.1.1.1:80"}

        run_client(main)

    def test_abilities_are_acknowledged_to_clients_that_name_theirs_only(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as old, node.client() as new:
                await old.set_up()
                await new.set_up(abilities={})
                [acknowledged] = await new.wait(lambda: new.of_type("SetupAckRequest"))
                abilities = {"supportPersistentInstanceByGrpc": True, "fuzzyWatch": True}
                assert acknowledged.json()["abilityTable"] == abilities
                assert old.messages == []

        run_client(main)


class TestInstances:
    def test_a_second_registration_takes_the_place_of_the_first(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client, node.client() as other:
                await client.set_up()
                await other.set_up()
                await client.register("twice", "1.1.1.1", 80)
                await client.register("twice", "1.1.1.1", 81, weight=2, metadata={"a": "b"})
                await other.register("twice", "1.1.1.2")
                hosts = await other.hosts("twice")
                assert set(hosts) == {"1.1.1.1:81", "1.1.1.2:80"}
                assert hosts["1.1.1.1:81"]["weight"] == 2.0
                assert hosts["1.1.1.1:81"]["metadata"] == {"a": "b"}
                assert None not in hosts["1.1.1.1:81"].values()

        run_client(main)

    def test_curl_sees_what_a_connection_publishes_and_the_reverse(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                await client.set_up()
                await client.register("mixed", "1.1.1.1")
                assert node.member.client.register("mixed", "1.1.1.2").body == b"ok"
                both = {"1.1.1.1:80", "1.1.1.2:8080"}
                assert set(node.member.client.hosts("mixed")) == both
                assert set(await client.hosts("mixed")) == both
                # "" is the namespace that SDKs of Python name, and public the one of the others.
                assert set(await client.hosts("mixed", namespace="public")) == both
                assert set(await client.hosts("mixed", namespace="")) == both
                assert await client.hosts("mixed", namespace="other") == {}

        run_client(main)

    def test_a_batch_takes_the_place_of_the_one_before(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                await client.set_up()
                for count in (3, 2, 0):
                    instances = [{"ip": "1.1.1.1", "port": 80 + number} for number in range(count)]
                    fields = {"type": "batchRegisterInstance", "serviceName": "batch", "instances": instances}
                    answer = await client.call("BatchInstanceRequest", **fields)
                    assert (answer["@type"], answer["success"]) == ("BatchInstanceResponse", True)
                    assert len(await client.hosts("batch")) == count

        run_client(main)

    def test_a_deregistration_with_another_address_takes_back_what_is_there(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                await client.set_up()
                await client.register("leave", "1.1.1.1")
                answer = await client.deregister("leave", "9.9.9.9")
                assert (answer["@type"], answer["type"]) == ("InstanceResponse", "deregisterInstance")
                assert await client.hosts("leave") == {}
                assert (await client.deregister("never", "9.9.9.9"))["success"] is True

        run_client(main)

    def test_a_connection_that_is_cut_leaves_nothing_behind(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as watcher:
                await watcher.set_up()
                client = node.client()
                async with client:
                    await client.set_up()
                    await client.register("cut", "1.1.1.1")
                    await watcher.subscribe("cut")
                    await watcher.wait(lambda: any(one["hosts"] for one in watcher.pushes("cut")))
                await watcher.wait(lambda: not watcher.pushes("cut")[-1]["hosts"], DIRECT_S)
                assert await watcher.hosts("cut") == {}

        run_client(main)

    def test_a_persistent_instance_outlives_its_connection(self, node: RpcNode) -> None:
        async def main() -> None:
            instance = {"ip": "1.1.1.1", "port": 80, "ephemeral": False, "metadata": {"a": "é=&"}}
            async with node.client() as client:
                await client.set_up()
                fields = {"serviceName": "kept", "instance": instance}
                answer = await client.call("PersistentInstanceRequest", type="registerInstance", **fields)
                assert (answer["@type"], answer["type"]) == ("InstanceResponse", "registerInstance")
            async with node.client() as client:
                await client.set_up()
                [host] = (await client.hosts("kept")).values()
                assert (host["ephemeral"], host["metadata"]) == (False, {"a": "é=&"})
                wrong = await client.call(
                    "PersistentInstanceRequest", type="registerInstance", serviceName="kept", instance={"ip": "1.1"}
                )
                assert wrong["success"] is False or wrong["resultCode"] == 200
                await client.call("PersistentInstanceRequest", type="deregisterInstance", **fields)
                assert "1.1.1.1:80" not in await client.hosts("kept")

        run_client(main)

    def test_a_connection_that_is_not_for_naming_publishes_nothing(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                await client.set_up(labels={"source": "sdk", "module": "config"})
                assert (await client.register("config", "1.1.1.1"))["errorCode"] == -401
                assert (await client.subscribe("config"))["errorCode"] == -401

        run_client(main)


class TestViews:
    def test_names_come_in_pages(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                await client.set_up()
                for number in range(5):
                    fields = {"type": "registerInstance", "groupName": "PAGES", "serviceName": f"s{number}"}
                    await client.call("InstanceRequest", **fields, instance={"ip": "1.1.1.1", "port": 80})
                pages = [
                    await client.call("ServiceListRequest", groupName="PAGES", pageNo=page, pageSize=2)
                    for page in (0, 1, 3, 4)
                ]
                assert [one["count"] for one in pages] == [5] * 4
                assert [one["serviceNames"] for one in pages] == [["s0", "s1"], ["s0", "s1"], ["s4"], []]

        run_client(main)

    def test_clusters_are_chosen_and_echoed(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as one, node.client() as two:
                await one.set_up()
                await two.set_up()
                await one.register("clusters", "1.1.1.1", clusterName="A")
                await two.register("clusters", "1.1.1.2", clusterName="C")
                answer = await one.subscribe("clusters", clusters="A,B")
                assert (answer["serviceInfo"]["clusters"], set(hosts_of(answer["serviceInfo"]))) == (
                    "A,B",
                    {"1.1.1.1:80"},
                )
                await two.register("clusters", "1.1.1.2", clusterName="B")
                push = await one.wait(lambda: next((p for p in one.pushes("clusters") if len(p["hosts"]) == 2), None))
                assert push["clusters"] == "A,B"
                assert set(await two.hosts("clusters", cluster="B")) == {"1.1.1.2:80"}

        run_client(main)

    def test_a_disabled_instance_is_in_no_answer_and_an_unhealthy_one_where_it_is_asked_for(
        self, node: RpcNode
    ) -> None:
        async def main() -> None:
            async with node.client() as one, node.client() as two:
                await one.set_up()
                await two.set_up()
                await one.register("states", "1.1.1.1", enabled=False)
                await two.register("states", "1.1.1.2", healthy=False)
                shown = await one.hosts("states")
                assert {name: host["healthy"] for name, host in shown.items()} == {"1.1.1.2:80": False}
                assert await one.hosts("states", healthyOnly=True) == {}
                push = await one.subscribe("states")
                assert set(hosts_of(push["serviceInfo"])) == {"1.1.1.2:80"}

        run_client(main)

    def test_below_the_threshold_all_are_shown_as_healthy_but_not_to_who_wants_only_these(self, node: RpcNode) -> None:
        async def main() -> None:
            created = node.member.client.call("POST", "/v1/ns/service", serviceName="threshold", protectThreshold="0.5")
            assert created.body == b"ok"
            async with node.client() as client:
                await client.set_up()
                instances = [{"ip": "1.1.1.1", "port": 80 + n, "healthy": n == 0} for n in range(3)]
                fields = {"type": "batchRegisterInstance", "serviceName": "threshold", "instances": instances}
                await client.call("BatchInstanceRequest", **fields)
                info = (await client.call("ServiceQueryRequest", serviceName="threshold"))["serviceInfo"]
                assert info["reachProtectionThreshold"] is True
                assert [one["healthy"] for one in info["hosts"]] == [True] * 3
                answer = await client.call("ServiceQueryRequest", serviceName="threshold", healthyOnly=True)
                assert answer["serviceInfo"]["reachProtectionThreshold"] is False
                assert set(hosts_of(answer["serviceInfo"])) == {"1.1.1.1:80"}

        run_client(main)


class TestPushes:
    def test_who_subscribes_to_an_unknown_service_is_told_when_it_is_there(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                await client.set_up()
                answer = await client.subscribe("later")
                assert (answer["success"], answer["serviceInfo"]["hosts"]) == (True, [])
                # The first subscription is followed by one push, changed or not.
                await client.wait(lambda: client.pushes("later"))
                names = await client.call("ServiceListRequest", pageNo=1, pageSize=1_000)
                assert "later" not in names["serviceNames"]
                node.member.client.register("later", "1.1.1.1")
                await client.wait(lambda: client.pushes("later")[-1]["hosts"])
                times = [one["lastRefTime"] for one in client.pushes("later")]
                assert times == sorted(set(times))
                await asyncio.sleep(QUIET_S)
                assert len(client.pushes("later")) == 2

        run_client(main)

    def test_a_change_that_leaves_the_list_as_it_was_is_not_pushed(self, node: RpcNode) -> None:
        """As when clients move from a member that stops: for a moment two connections publish the same instance."""

        async def main() -> None:
            async with node.client() as client, node.client() as old, node.client() as new:
                for one in (client, old, new):
                    await one.set_up()
                for number in range(3):
                    await old.register("moving", f"1.1.1.{number}")
                await client.subscribe("moving")
                await client.wait(lambda: len(hosts_of((client.pushes("moving") or [{"hosts": []}])[-1])) == 1)
                seen = len(client.pushes("moving"))
                await new.register("moving", "1.1.1.2")
                await old.deregister("moving", "1.1.1.2")
                await asyncio.sleep(QUIET_S)
                assert len(client.pushes("moving")) == seen
                await new.register("moving", "1.1.1.3")
                await client.wait(lambda: set(hosts_of(client.pushes("moving")[-1])) == {"1.1.1.3:80"})

        run_client(main)

    def test_a_burst_of_changes_is_a_few_pushes_and_the_last_is_the_last_state(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client, node.client() as publisher:
                await client.set_up()
                await publisher.set_up()
                await client.subscribe("burst")
                await client.wait(lambda: client.pushes("burst"))
                begun_s = time.monotonic()
                for number in range(200):
                    await publisher.register("burst", "1.1.1.1", 1_000 + number)
                took_s = time.monotonic() - begun_s
                await client.wait(lambda: "1.1.1.1:1199" in hosts_of(client.pushes("burst")[-1]))
                assert len(client.pushes("burst")) <= 3 + took_s / 0.05

        run_client(main)

    def test_who_unsubscribed_is_told_no_more(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as client:
                await client.set_up()
                await client.subscribe("no-more")
                await client.wait(lambda: client.pushes("no-more"))
                answer = await client.subscribe("no-more", on=False)
                assert answer["@type"] == "SubscribeServiceResponse"
                await client.register("no-more", "1.1.1.1")
                await asyncio.sleep(QUIET_S)
                assert len(client.pushes("no-more")) == 1

        run_client(main)

    def test_a_client_that_reads_nothing_delays_nobody(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as stuck, node.client() as client:
                await stuck.set_up()
                stuck.reads.clear()  # from here on its window fills
                await client.set_up()
                instances = [{"ip": "1.1.1.1", "port": n, "metadata": {"x": "y" * 200}} for n in range(1, 1_001)]
                for one in (stuck, client):
                    await one.subscribe("stuck")
                await client.wait(lambda: client.pushes("stuck"))
                for count in range(1_000, 980, -1):
                    fields = {"type": "batchRegisterInstance", "serviceName": "stuck", "instances": instances[:count]}
                    await client.call("BatchInstanceRequest", **fields)
                    await client.wait(lambda count=count: len(client.pushes("stuck")[-1]["hosts"]) == count)
                assert len(stuck.messages) <= 1
                stuck.reads.set()
                # It is not told of what was overtaken while it did not read.
                await stuck.wait(lambda: stuck.pushes("stuck") and len(stuck.pushes("stuck")[-1]["hosts"]) == 981)
                assert len(stuck.pushes("stuck")) < 10

        run_client(main)

    def test_a_push_without_its_acknowledgement_is_repeated_a_refused_one_sooner(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client(acknowledges=False) as silent, node.client(acknowledges=False) as refusing:
                await silent.set_up()
                await refusing.set_up()
                await silent.subscribe("acks")
                await refusing.subscribe("acks")
                [first] = await refusing.wait(lambda: refusing.of_type("NotifySubscriberRequest"))
                begun_s = time.monotonic()
                await refusing.acknowledge(first.type, first.json()["requestId"], 500)
                await refusing.wait(lambda: len(refusing.pushes("acks")) == 2)
                assert time.monotonic() - begun_s > 0.9
                await silent.wait(lambda: len(silent.pushes("acks")) == 2)
                assert time.monotonic() - begun_s > 5.5

        run_client(main)


class TestConnections:
    def test_silent_clients_are_asked_and_who_does_not_answer_is_gone(self, node: RpcNode) -> None:
        """Whatever the reason: it does not want to, its network lost its route, its process stands still."""

        async def main() -> None:
            async with (
                node.client(acknowledges=False) as dead,
                node.client(acknowledges=False) as alive,
                node.client() as busy,
                Relay(node.sdk_port) as relay,
                SdkClient(relay.port) as cut,
            ):
                alive.answers_detection = True
                for number, one in enumerate((dead, alive, cut)):
                    await one.set_up()
                    await one.register("silent", f"1.1.1.{number}")
                await busy.set_up()
                with SdkProcess(node.sdk_port, "silent", "1.1.1.9") as stopped:
                    assert len(await busy.hosts("silent")) == 4
                    begun_s = time.monotonic()
                    stopped.freeze()
                    relay.swallow()
                    while (hosts := set(await busy.hosts("silent"))) != {"1.1.1.1:80"}:
                        assert {"1.1.1.2:80", "1.1.1.9:80"} <= hosts or time.monotonic() - begun_s > 19
                        assert time.monotonic() - begun_s < HANG_S
                        await busy.call("HealthCheckRequest")
                        await asyncio.sleep(0.5)
                await dead.wait(lambda: dead.ended)
                assert not cut.ended, "it was told nothing, as nothing reaches it"
                assert len(dead.of_type("ClientDetectionRequest")) == 1
                assert not busy.of_type("ClientDetectionRequest")
                await alive.wait(lambda: alive.of_type("ClientDetectionRequest"))
                await asyncio.sleep(1.5)
                assert not alive.ended

        run_client(main)

    def test_connections_above_a_limit_are_refused_and_reset_and_in_the_end_closed(self, node: RpcNode) -> None:
        async def main() -> None:
            async with node.client() as one, node.client() as two, node.client() as three:
                # The limit goes by where they come from, not by what they say.
                await one.set_up("10.9.9.1")
                await two.set_up("10.9.9.2")
                node.set_limits(countLimitPerClientIp={"127.0.0.1": 1, "10.9.9.1": 0, "10.9.9.3": 9})
                await two.wait(lambda: two.of_type("ConnectResetRequest"))
                await three.set_up("10.9.9.3")
                assert [message.type for message in three.messages] == ["ConnectResetRequest"]
                assert three.ended
                # It stays where it is, as some SDKs do; so its stream is ended.
                await two.wait(lambda: two.ended)
                assert not one.ended
                assert one.messages == []

        try:
            run_client(main)
        finally:
            node.lift_limits()

    def test_the_limit_of_all_leaves_members_alone(self, listed: RpcNode) -> None:
        async def main() -> None:
            async with listed.client() as one, listed.client() as two:
                await one.set_up()
                listed.set_limits(countLimit=1)
                # Who is one too many from the start is refused once the rule is read.
                await two.set_up()
                await two.wait(lambda: two.of_type("ConnectResetRequest"))
                async with SdkClient(listed.cluster_port) as member:
                    await member.set_up(labels={"source": "cluster"})
                    assert not member.ended
                async with listed.client() as third:
                    await third.set_up()
                    assert [message.type for message in third.messages] == ["ConnectResetRequest"]
                    assert third.ended
                assert one.messages == []

        try:
            run_client(main)
        finally:
            listed.lift_limits()


class TestLoader:
    def test_operators_see_connections_and_send_one_elsewhere(self, listed: RpcNode) -> None:
        call = listed.member.client.call

        async def main() -> None:
            async with listed.client() as stays, listed.client() as goes:
                await stays.set_up()
                connection_id = await goes.set_up("10.7.7.7", labels={"module": "naming", "AppName": "shop"})
                shown = call("GET", "/v2/core/loader/current").json()[connection_id]["metaInfo"]
                assert (shown["clientIp"], shown["appName"], shown["remoteIp"]) == ("10.7.7.7", "shop", "127.0.0.1")
                assert abs(shown["lastActiveTime"] - time.time() * 1_000) < 60_000
                chosen = {"connectionId": connection_id, "redirectAddress": f"{ABSENT}:8848"}
                assert call("GET", "/v2/core/loader/reloadClient", **chosen).body == b"success"
                [reset] = await goes.wait(lambda: goes.of_type("ConnectResetRequest"))
                assert (reset.json()["serverIp"], reset.json()["serverPort"]) == (ABSENT, "8848")
                assert stays.messages == []
                # It does not follow, so its stream is ended.
                await goes.wait(lambda: goes.ended)
                assert connection_id not in call("GET", "/v2/core/loader/current").json()

        run_client(main)

    def test_so_many_are_sent_away_that_a_number_is_left(self, node: RpcNode) -> None:
        call = node.member.client.call

        async def main() -> None:
            async with node.client() as first, node.client() as second:
                await first.set_up()
                await asyncio.sleep(0.01)
                await second.set_up()
                others = len(call("GET", "/v2/core/loader/current").json()) - 2
                assert call("GET", "/v2/core/loader/reloadCurrent", count=others + 1).body == b"success"
                await second.wait(lambda: second.of_type("ConnectResetRequest"))
                assert first.messages == []

        run_client(main)

    def test_what_is_wrong_is_refused(self, node: RpcNode) -> None:
        call = node.member.client.call
        assert call("GET", "/v2/core/loader/reloadClient", connectionId="nobody").status == 404
        assert call("GET", "/v2/core/loader/reloadClient").status == 400
        assert call("GET", "/v2/core/loader/reloadCurrent", count="x").status == 400
        assert call("GET", "/v2/core/loader/reloadCurrent", count=9, redirectAddress="a b").status == 400
        assert call("GET", "/v2/core/loader/smartReloadCluster", loaderFactor="x").status == 400

    def test_a_member_asks_for_the_load_and_has_the_latest_client_sent_to_another(self, listed: RpcNode) -> None:
        async def main() -> None:
            async with (
                listed.client() as first,
                listed.client() as second,
                SdkClient(listed.cluster_port) as member,
            ):
                await first.set_up()
                await asyncio.sleep(0.01)
                await second.set_up()
                await member.set_up(labels={"source": "cluster"})
                told = await member.call("ServerLoaderInfoRequest")
                assert told["@type"] == "ServerLoaderInfoResponse"
                count = int(told["loaderMetrics"]["sdkConCount"])
                assert int(told["loaderMetrics"]["conCount"]) > count >= 2
                wanted = {"reloadCount": count - 1, "reloadServer": f"{ABSENT}:8848"}
                for type_name in ("ServerLoaderInfoRequest", "ServerReloadRequest"):
                    assert (await first.call(type_name, **wanted))["errorCode"] == 502
                ignored = await member.call("ServerReloadRequest", **{**wanted, "reloadCount": count})
                assert (ignored["@type"], ignored["message"]) == ("ServerReloadResponse", "ignore")
                assert (await member.call("ServerReloadRequest", **wanted))["message"] == "ok"
                [reset] = await second.wait(lambda: second.of_type("ConnectResetRequest"))
                assert (reset.json()["serverIp"], reset.json()["serverPort"]) == (ABSENT, "8848")
                assert first.messages == []

        run_client(main)

    def test_a_node_alone_tells_what_it_carries_and_has_nobody_to_send_clients_to(self, node: RpcNode) -> None:
        call = node.member.client.call

        async def main() -> None:
            async with node.client() as one, node.client() as two:
                await one.set_up()
                await two.set_up()
                shown = await asyncio.to_thread(call, "GET", "/v2/core/loader/cluster")
                told = shown.json()
                [detail] = told["detail"]
                assert detail["address"] == node.member.address
                assert detail["metric"]["sdkConCount"] == str(told["total"])
                assert float(detail["metric"]["load"]) >= 0
                assert told["total"] >= 2
                assert (told["memberCount"], told["metricsCount"], told["completed"]) == (1, 1, True)
                evened = await asyncio.to_thread(call, "GET", "/v2/core/loader/smartReloadCluster")
                assert evened.body == b"Ok"
                assert (one.messages, two.messages) == ([], [])

        run_client(main)


def test_a_port_that_is_taken_is_said_and_ends_the_start(tmp_path: Path) -> None:

    [port] = free_ports(1)
    member = Member(port, tmp_path / "node", {"rollcall.announce": "false"})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1_001))
        taken.listen()
        try:
            member.start()
            assert member.wait_exit() == 2
        finally:
            member.end()
    assert f"cannot listen on port {port + 1_001} for gRPC" in member.log_text()


def test_a_node_without_grpc_does_not_need_its_ports(tmp_path: Path) -> None:
    [port] = free_ports(1)
    member = Member(port, tmp_path / "node", {"rollcall.announce": "false", "rollcall.rpc.enabled": "false"})
    try:
        member.start()
        member.wait_ready()

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port + 1_000))
        member.stop()
    finally:
        member.end()


def test_a_node_that_stops_asks_its_clients_to_go_and_ends_their_streams(tmp_path: Path) -> None:
    [port] = free_ports(1)
    member = Member(port, tmp_path / "node", {"rollcall.announce": "false"})

    async def main() -> None:
        async with SdkClient(port + 1_000) as client:
            await client.set_up()
            await client.register("stops", "1.1.1.1")
            await asyncio.to_thread(member.stop)
            await client.wait(lambda: client.ended)
            assert [message.type for message in client.messages] == ["ConnectResetRequest"]

    try:
        member.start()
        member.wait_ready()
        run_client(main)
    finally:
        member.end()
    assert "Traceback" not in member.log_text(), member.log_text()[-6_000:]


def test_a_persistent_instance_is_written_by_its_owner_whichever_member_is_asked(three: ClusterProcesses) -> None:
    owner, *others = three.members
    service = three.service_of(owner, "rpc-kept")
    asked = others[0]
    asked_port = int(asked.address.rpartition(":")[2])

    async def main() -> None:
        async with SdkClient(asked_port + 1_000) as client:
            await client.set_up()
            fields = {"serviceName": service, "instance": {"ip": "1.1.1.1", "port": 80}}
            answer = await client.call("PersistentInstanceRequest", type="registerInstance", **fields)
            assert answer["success"] is True, answer
            assert set(await client.hosts(service)) == {"1.1.1.1:80"}
            await asyncio.to_thread(eventually, lambda: three.all_list(service, {"1.1.1.1:80"}))
            answer = await client.call("PersistentInstanceRequest", type="deregisterInstance", **fields)
            assert answer["success"] is True, answer
            assert await client.hosts(service) == {}

    run_client(main)


def test_what_one_member_is_told_by_a_connection_is_pushed_on_the_others_and_goes_with_it(
    three: ClusterProcesses,
) -> None:
    ports = [int(member.address.rpartition(":")[2]) + 1_000 for member in three]

    async def main() -> None:
        async with SdkClient(ports[1]) as second, SdkClient(ports[2]) as third:
            for watcher in (second, third):
                await watcher.set_up()
                await watcher.subscribe("rpc-everywhere")
            async with SdkClient(ports[0]) as publisher:
                await publisher.set_up()
                await publisher.register("rpc-everywhere", "1.1.1.1", metadata={"a": "b"})
                for watcher in (second, third):
                    await watcher.wait(lambda watcher=watcher: any(p["hosts"] for p in watcher.pushes()))
                expected = {"1.1.1.1:80"}
                await asyncio.to_thread(eventually, lambda: three.all_list("rpc-everywhere", expected))
            for watcher in (second, third):
                await watcher.wait(lambda watcher=watcher: not watcher.pushes()[-1]["hosts"], DIRECT_S)

    run_client(main)


@needs_openssl
def test_both_ports_speak_tls_from_files(tmp_path: Path) -> None:
    [port] = free_ports(1)
    certificate, private_key = make_certificate(tmp_path)
    settings = {}
    for side in ("server", "peer"):
        settings |= tls_settings(side, certificate, private_key)
    member = Member(port, tmp_path / "node", {"rollcall.announce": "false", **settings})

    async def main() -> None:
        for offset in (1_000, 1_001):
            async with SdkClient(port + offset, certificate=certificate.read_bytes()) as client:
                await client.set_up()
                assert (await client.register("tls", "1.1.1.1"))["success"] is True
            async with SdkClient(port + offset) as plain:
                with pytest.raises(grpc.RpcError):
                    await plain.call("ServerCheckRequest")

    try:
        member.start()
        member.wait_ready()
        run_client(main)
        member.stop()
    finally:
        member.end()
    assert "Traceback" not in member.log_text(), member.log_text()[-6_000:]
