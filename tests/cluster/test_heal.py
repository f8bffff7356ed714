"""Running members that differ for good, and the command that brings them together on one service."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from app.naming.records.record_keys import persistent_key, service_meta_key
from tests.cluster.conftest import StartCluster
from tests.support.client import Answer
from tests.support.damage import LONG, MARKER, owner_of, plant, plant_client, plant_record
from tests.support.departures import DEPARTURES, EXTRA, ONE, TWO, Instances, having_more, lacking
from tests.support.processes import (
    FAST,
    VERIFY_WITHOUT_SAMPLES,
    ClusterProcesses,
    Member,
    clean_environ,
    eventually,
)
from tests.support.ran_here import run_here
from tests.support.sdk_client import SdkClient, run_client


def ran(*arguments: str) -> tuple[int, str, str]:
    done = run_here(*arguments, environ=clean_environ())
    return done.returncode, done.stdout, done.stderr


def healed(cluster: ClusterProcesses, service: str, *more: str) -> tuple[int, list[dict[str, Any]], str]:
    members = ",".join(one.address for one in cluster.members)
    code, text, said = ran("heal", "--service", service, "--members", members, "--gap", "100ms", "--json", *more)
    return code, [json.loads(line) for line in text.splitlines()], said


def departures(lines: list[dict[str, Any]], stage: str = "before") -> list[tuple[str, str, str]]:
    return [
        (one["finding_class"], one["what"], one["member"]) for one in lines if one["stage"] == stage and "what" in one
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three members with verify rounds, which the damage of these tests outlasts."""
    made = ClusterProcesses(tmp_path_factory.mktemp("heal"), 3, VERIFY_WITHOUT_SAMPLES)
    try:
        made.start()
        yield made
    finally:
        made.end()
    made.assert_no_traceback()


def service_of_two(cluster: ClusterProcesses, name: str) -> tuple[str, Member, list[Member]]:
    """A service with two instances, which all list; its owner and the others."""
    for ip in (ONE, TWO):
        assert cluster.members[0].client.register(name, ip, metadata=LONG).status == 200
    eventually(lambda: cluster.all_list(name, {f"{ONE}:8080", f"{TWO}:8080"}))
    owner = cluster.owner(name)
    return name, owner, cluster.others(owner)


@pytest.mark.parametrize(("finding_class", "depart"), DEPARTURES)
def test_what_verify_rounds_do_not_notice_is_healed(
    cluster: ClusterProcesses, request: pytest.FixtureRequest, finding_class: str, depart: Callable[[Instances], None]
) -> None:
    name = f"healed-{request.node.callspec.indices['depart']}"
    service, owner, [target, other] = service_of_two(cluster, name)
    plant(cluster.members, service, [target], depart)
    before = {one: one.client.hosts(service) for one in (owner, other)}
    code, lines, _ = healed(cluster, service, "--dry-run")
    assert code == 1
    assert [(found, member) for found, _, member in departures(lines)] == [(finding_class, target.address)], lines
    code, lines, said = healed(cluster, service)
    assert (code, said) == (0, ""), lines
    assert departures(lines) == [(finding_class, departures(lines)[0][1], target.address)]
    assert departures(lines, "after") == []
    assert lines[-1]["text"] == "healed, differences: 1"
    assert {one: one.client.hosts(service) for one in (owner, other)} == before, "what was right stays"
    code, lines, _ = healed(cluster, service)
    assert (code, lines[-1]["text"]) == (0, "the members agree")
    code, text, _ = ran("compare", owner.address, target.address, "--service", service, "--gap", "0")
    assert (code, text) == (0, "no difference\n")


def test_the_owner_takes_back_what_it_lost(cluster: ClusterProcesses) -> None:
    service, owner, others = service_of_two(cluster, "lost-by-its-owner")
    plant(cluster.members, service, others, having_more)
    code, lines, said = healed(cluster, service)
    assert (code, said) == (0, ""), lines
    assert departures(lines) == [("MISSING", f"{EXTRA}:8080#DEFAULT", owner.address)]
    assert cluster.all_list(service, {f"{ip}:8080" for ip in (ONE, TWO, EXTRA, MARKER)})


def test_settings_of_a_service_are_healed(cluster: ClusterProcesses) -> None:
    name = "with-settings"
    first = cluster.members[0]
    assert first.client.call("POST", "/v1/ns/service", serviceName=name, protectThreshold="0.1").status == 200
    eventually(lambda: all(one.client.call("GET", "/v1/ns/service", serviceName=name).status == 200 for one in cluster))
    owner = cluster.owner(name)
    target, other = cluster.others(owner)

    def update(one: Member) -> Answer:
        return one.client.call("PUT", "/v1/ns/service", serviceName=name, protectThreshold="0.5")

    key = service_meta_key("public", f"DEFAULT_GROUP@@{name}")
    plant_record(cluster.members, key, target, lambda value: {**value, "protectThreshold": 0.9}, update)
    code, lines, said = healed(cluster, name)
    assert (code, said) == (0, ""), lines
    assert departures(lines) == [("SETTINGS", "protect_threshold", target.address)]
    told = [one.client.call("GET", "/v1/ns/service", serviceName=name).json() for one in (owner, target, other)]
    assert [one["protectThreshold"] for one in told] == [0.5] * 3


@pytest.mark.parametrize("is_removed", [False, True])
def test_durable_instances_are_healed(cluster: ClusterProcesses, is_removed: bool) -> None:
    """A member lacks one that the owner has, or has one that the owner removed: the owner's word goes to all."""
    name = f"durable-{is_removed}".lower()
    for ip in (ONE, TWO):
        assert cluster.members[0].client.register(name, ip, ephemeral="false").status == 200
    eventually(lambda: cluster.all_list(name, {f"{ip}:8080" for ip in (ONE, TWO)}))
    owner = cluster.owner(name)
    target, _ = cluster.others(owner)
    key = persistent_key("public", f"DEFAULT_GROUP@@{name}", f"{TWO}:8080:unknown:DEFAULT")

    def write(one: Member) -> Answer:
        if is_removed:
            return one.client.deregister(name, TWO, ephemeral="false")
        return one.client.register(name, TWO, ephemeral="false", weight="3")

    plant_record(cluster.members, key, target, lambda value: value if is_removed else None, write)
    code, lines, said = healed(cluster, name)
    assert (code, said) == (0, ""), lines
    # Of a removal nothing is told: it looks as if the owner and others had lost the instance.
    wrong = [one.address for one in cluster.members if (one is not target) is is_removed]
    assert sorted(departures(lines)) == sorted(("MISSING", f"{TWO}:8080#DEFAULT durable", one) for one in wrong)
    assert cluster.all_list(name, {f"{ip}:8080" for ip in ((ONE,) if is_removed else (ONE, TWO))})


def test_a_copy_of_a_client_with_a_connection_is_healed(cluster: ClusterProcesses) -> None:
    member, target, _ = cluster.members
    service = "of-a-connection"

    async def main() -> None:
        async with SdkClient(int(member.address.rpartition(":")[2]) + 1_000) as sdk:
            client_id = await sdk.set_up()
            await sdk.register(service, ONE, weight=1.0)
            await asyncio.to_thread(eventually, lambda: cluster.all_list(service, {f"{ONE}:80"}))
            await asyncio.to_thread(plant_client, member, target, client_id, 7.0)
            await sdk.register(service, ONE, weight=2.0)

            def weights() -> list[float]:
                return [one.client.hosts(service)[f"{ONE}:80"]["weight"] for one in cluster.members]

            await asyncio.to_thread(eventually, lambda: weights() == [2.0, 7.0, 2.0])
            code, lines, said = await asyncio.to_thread(healed, cluster, service)
            assert (code, said) == (0, ""), lines
            assert departures(lines) == [("WEIGHT", f"{ONE}:80#DEFAULT", target.address)]
            assert await asyncio.to_thread(weights) == [2.0] * 3

    run_client(main)


def test_a_service_that_nobody_has_and_a_member_that_does_not_answer(cluster: ClusterProcesses) -> None:
    code, lines, said = healed(cluster, "nobody-has-it")
    assert (code, lines) == (2, [])
    assert "no member has a service DEFAULT_GROUP@@nobody-has-it in public" in said
    code, text, said = ran("heal", "--service", "a", "--members", f"{cluster.members[0].address},127.0.0.1:1")
    assert (code, text) == (2, "")
    assert "fewer than two members answered: 127.0.0.1:1" in said


def test_the_others_are_healed_while_a_member_is_gone(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST)
    cluster.start()
    *left, gone = cluster.members
    gone.kill_all()
    eventually(lambda: all(one.client.states()[gone.address] == "DOWN" for one in left))
    service, listed = "while-one-is-gone", {f"{ip}:8080" for ip in (ONE, TWO)}
    for ip in (ONE, TWO):
        assert left[0].client.register(service, ip, metadata=LONG).status == 200
    eventually(lambda: cluster.all_list(service, listed, left))
    target = next(one for one in left if one is not owner_of(left, service))
    plant(left, service, [target], lacking)
    code, lines, said = healed(cluster, service, "--retries", "0")
    assert code == 1, lines
    assert f"{gone.address} did not answer, so it is unknown whether it agrees" in said
    assert departures(lines) == [("MISSING", f"{TWO}:8080#DEFAULT", target.address)]
    assert departures(lines, "after") == []
    assert cluster.all_list(service, {*listed, f"{MARKER}:8080"}, left)
