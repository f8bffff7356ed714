"""What operators ask of running members about one instance, and leaving gracefully: an instance, and a whole member."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.conftest import StartCluster
from tests.support.processes import COMMAND, FAST, HANG_S, ClusterProcesses, Member, clean_environ, eventually
from tests.support.sdk_client import SdkClient, run_client

EXPLAIN, DRAIN = "/v1/ns/explain", "/v1/ns/instance/drain"
NODE_DRAIN = "/v1/ns/operator/drain"
IP = "10.7.0.1"
QUICK = '{"preserved.heart.beat.timeout":"1000","preserved.heart.beat.interval":"500"}'


def explained(member: Member, service: str, ip: str = IP, port: int = 8080) -> dict[str, Any]:
    answer = member.client.call("GET", EXPLAIN, serviceName=service, ip=ip, port=port)
    assert answer.status == 200, answer
    told: dict[str, Any] = answer.json()
    return told


def says(told: dict[str, Any], *words: str) -> bool:
    text = " ".join(told["verdict"])
    return all(word in text for word in words)


def drained(member: Member, service: str, ip: str = IP, port: int = 8080, **more: Any) -> dict[str, Any]:
    answer = member.client.call("PUT", DRAIN, serviceName=service, ip=ip, port=port, **more)
    assert answer.status == 200, answer
    told: dict[str, Any] = answer.json()
    return told


def sdk_port(member: Member) -> int:
    return int(member.address.rpartition(":")[2]) + 1_000


def explained_once(
    member: Member, service: str, check: Callable[[dict[str, Any]], bool], timeout_s: float = HANG_S
) -> dict[str, Any]:
    """What a member tells as soon as it tells what is expected."""

    def ask() -> dict[str, Any] | None:
        told = explained(member, service)
        return told if check(told) else None

    told = eventually(ask, timeout_s)
    assert told is not None
    return told


def all_have(told: dict[str, Any], part: str) -> bool:
    """Whether all three members told that part."""
    return [bool(one[part]) for one in told["members"].values()] == [True, True, True]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    made = ClusterProcesses(tmp_path_factory.mktemp("operator"), 3, FAST)
    try:
        made.start()
        yield made
    finally:
        made.end()
    made.assert_no_traceback()


class TestExplain:
    def test_an_instance_that_beats(self, cluster: ClusterProcesses) -> None:
        service = cluster.service_of(cluster.members[0], "beating")
        owner, *others = cluster.members
        owner.client.register(service, IP)
        eventually(lambda: cluster.all_list(service, {f"{IP}:8080"}))
        told = explained(others[0], service)
        assert says(told, f"{owner.address} is responsible", "modulo 3 members", "it is healthy")
        assert (told["differences"], told["notAnswered"]) == ([], [])
        assert sorted(told["members"]) == sorted(one.address for one in cluster)
        assert len({one["listed"]["version"] for one in told["members"].values()}) == 1

    def test_an_instance_without_beats_and_how_it_went(self, cluster: ClusterProcesses) -> None:
        service = "silent"
        owner = cluster.owner(service)
        owner.client.register(service, IP, metadata=QUICK)
        told = explained_once(owner, service, lambda one: says(one, "UNHEALTHY"))
        assert says(told, "Unhealthy because: no beat for", "time-out is 1000 ms")
        [happened] = told["members"][owner.address]["history"][-1:]
        assert happened["what"] == "made unhealthy, because no beat arrived"

    def test_an_instance_that_was_deregistered(self, cluster: ClusterProcesses) -> None:
        service = "left"
        owner = cluster.owner(service)
        owner.client.register(service, IP)
        owner.client.deregister(service, IP)
        told = explained_once(owner, service, lambda one: all_have(one, "removed"))
        assert says(told, f"{owner.address} removed it", f"at {owner.address}: deregistered by a call")
        assert says(explained(owner, service, "10.7.0.99"), "it was never registered")

    def test_a_persistent_instance(self, cluster: ClusterProcesses) -> None:
        service = "DEFAULT_GROUP@@kept"
        cluster.members[0].client.register(service, IP, ephemeral="false")
        told = explained_once(cluster.members[1], service, lambda one: all_have(one, "persistent"))
        assert says(told, "A persistent instance, held by", "checks it")
        cluster.members[0].client.deregister(service, IP, ephemeral="false")
        eventually(
            lambda: says(explained(cluster.members[1], service), "A persistent instance of this address was removed")
        )

    def test_the_instance_of_a_grpc_client_and_a_subscriber_that_does_not_answer(
        self, cluster: ClusterProcesses
    ) -> None:
        member, other, _ = cluster.members

        async def main() -> None:
            deaf = SdkClient(sdk_port(other), acknowledges=False)
            async with SdkClient(sdk_port(member)) as client, deaf:
                await deaf.introduce()
                await deaf.subscribe("published")
                await client.introduce()
                await client.register("published", IP, 8080)

                def ask() -> dict[str, Any] | None:
                    told = explained(other, "published")
                    behind = says(told, f"subscribers at {other.address} have not acknowledged")
                    return told if behind and all(one["published"] for one in told["members"].values()) else None

                told = await asyncio.to_thread(eventually, ask)
                assert says(told, "Published by the gRPC client", f"connected to {member.address}")
            await asyncio.to_thread(
                eventually,
                lambda: says(explained(other, "published"), f"at {member.address}: its gRPC client", "is gone"),
            )

        run_client(main)

    def test_the_command(self, cluster: ClusterProcesses) -> None:
        service = cluster.service_of(cluster.members[2], "printed")
        cluster.members[2].client.register(service, IP)
        eventually(lambda: cluster.all_list(service, {f"{IP}:8080"}))
        command = [COMMAND, "explain", f"{IP}:8080", "--service", service, "--server", cluster.members[0].address]
        done = subprocess.run(command, env=clean_environ(), capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{IP}:8080 (DEFAULT) of DEFAULT_GROUP@@" in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80
        done = subprocess.run([*command, "--json"], env=clean_environ(), capture_output=True, timeout=60, check=False)
        assert json.loads(done.stdout)["askedAt"] == cluster.members[0].address


class TestDrainOfAnInstance:
    def test_it_is_hidden_first_and_removed_when_subscribers_have_acknowledged(self, cluster: ClusterProcesses) -> None:
        service = cluster.service_of(cluster.members[0], "leaving")
        owner, member, entry = cluster.members
        for ip in (IP, "10.7.0.2"):
            owner.client.register(service, ip)

        async def main() -> None:
            async with SdkClient(sdk_port(member)) as client:
                await client.introduce()
                await client.subscribe(service)
                told = await asyncio.to_thread(drained, entry, service, minMs=0)
                assert (told["state"], told["subscribers"], told["behind"]) == ("drained", 1, 0)
                await client.wait(
                    lambda: client.pushes() and {one["ip"] for one in client.pushes()[-1]["hosts"]} == {"10.7.0.2"}
                )

        run_client(main)
        eventually(lambda: cluster.all_list(service, {"10.7.0.2:8080"}))
        for one in cluster:
            assert one.client.beat(service, IP).json()["code"] == 10_200, "or the client would register anew"
        assert cluster.all_list(service, {"10.7.0.2:8080"})
        assert drained(member, service)["state"] == "absent", "a repeated call has nothing to do"
        assert owner.client.register(service, IP).status == 200
        eventually(lambda: cluster.all_list(service, {f"{IP}:8080", "10.7.0.2:8080"}))

    def test_it_goes_in_time_though_a_subscriber_never_answers(self, cluster: ClusterProcesses) -> None:
        service = cluster.service_of(cluster.members[0], "late")
        cluster.members[0].client.register(service, IP)

        async def main() -> None:
            async with SdkClient(sdk_port(cluster.members[1]), acknowledges=False) as client:
                await client.introduce()
                await client.subscribe(service)
                told = await asyncio.to_thread(drained, cluster.members[2], service, minMs=0, timeoutMs=1500)
                assert told["state"] == "drained, not all acknowledged in time"
                assert (told["subscribers"], told["behind"]) == (1, 1)
                assert told["tookMs"] >= 1_500

        run_client(main)
        eventually(lambda: cluster.all_list(service, set()))

    def test_what_a_grpc_client_published_goes_at_its_own_member(self, cluster: ClusterProcesses) -> None:
        async def main() -> None:
            async with SdkClient(sdk_port(cluster.members[0])) as client:
                await client.introduce()
                await client.register("of-grpc", IP, 8080)
                await asyncio.to_thread(eventually, lambda: cluster.all_list("of-grpc", {f"{IP}:8080"}))
                told = await asyncio.to_thread(drained, cluster.members[1], "of-grpc", minMs=0)
                assert told["state"] == "drained"
                await asyncio.to_thread(eventually, lambda: cluster.all_list("of-grpc", set()))

        run_client(main)

    def test_calls_join_and_a_caller_that_hangs_up_stops_nothing(self, cluster: ClusterProcesses) -> None:
        service = cluster.service_of(cluster.members[0], "joined")
        owner = cluster.members[0]
        owner.client.register(service, IP)
        impatient = type(owner.client)(owner.address, timeout_s=0.5)
        with pytest.raises(TimeoutError):
            impatient.call("PUT", DRAIN, serviceName=service, ip=IP, port=8080, minMs=2_000)
        under_way = owner.client.call("GET", DRAIN, serviceName=service, ip=IP, port=8080)
        assert (under_way.status, under_way.json()["state"]) == (202, "draining")
        told = drained(owner, service, minMs=60_000, timeoutMs=60_000)
        assert told["state"] == "drained"
        assert told["tookMs"] < 20_000, "it is the job of the first call"


def test_a_paused_member_is_named_and_holds_nothing_up(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST)
    cluster.start()
    service = cluster.service_of(cluster.members[0], "paused")
    owner, other, silent = cluster.members
    owner.client.register(service, IP)
    eventually(lambda: cluster.all_list(service, {f"{IP}:8080"}))
    silent.pause()
    try:
        told = explained(other, service)
        assert told["notAnswered"] == [silent.address]
        assert says(told, f"No answer from {silent.address}", "is responsible")
        gone = drained(other, service, minMs=0, timeoutMs=5_000)
        assert gone["state"] == "drained"
        assert gone["notAnswered"] == [silent.address]
    finally:
        silent.resume()
    eventually(lambda: cluster.all_list(service, set()))


def test_a_member_is_drained_and_comes_back(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST)
    cluster.start()
    leaver, *others = cluster.members
    service = cluster.service_of(leaver, "handed-over")
    leaver.client.register(service, IP, ephemeral="true")

    def beat() -> None:
        others[0].client.beat(service, IP)

    async def main() -> None:
        async with SdkClient(sdk_port(leaver)) as client:
            await client.introduce()
            await client.register("moving", "10.7.0.5", 80)
            await asyncio.to_thread(eventually, lambda: cluster.all_list("moving", {"10.7.0.5:80"}))
            answer = await asyncio.to_thread(leaver.client.call, "PUT", NODE_DRAIN)
            assert answer.json()["draining"] is True
            await client.wait(lambda: client.of_type("ConnectResetRequest"))
            port = json.loads(client.of_type("ConnectResetRequest")[0].body)["serverPort"]
            assert port in {one.address.rpartition(":")[2] for one in others}

    run_client(main)
    assert leaver.client.call("GET", "/v1/console/health/readiness").status == 500
    assert leaver.client.register("refused", IP).status == 503

    def moved() -> bool:
        beat()
        return all(one.client.owner(service) != leaver.address for one in others)

    eventually(moved)
    # The client came back nowhere: what it published goes a while after its connection.
    eventually(lambda: cluster.all_list("moving", set(), others), 60)
    assert cluster.all_list(service, {f"{IP}:8080"}, others)
    assert leaver.client.call("PUT", NODE_DRAIN, enabled="false").json()["draining"] is False

    def back() -> bool:
        beat()
        return all(one.client.owner(service) == leaver.address for one in cluster)

    eventually(back, 60)
    assert leaver.client.register("taken", IP).status == 200
    assert cluster.all_list(service, {f"{IP}:8080"})
