"""Acknowledged means kept (R18): every way in, a restart of all, and data folders with records that nobody takes."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from app.naming.records.record_keys import persistent_key, service_meta_key
from tests.cluster.conftest import StartCluster
from tests.support.client import OK, Client
from tests.support.processes import COMMAND, FAST, Member, eventually, free_ports
from tests.support.sdk_client import SdkClient, run_client

NAMES = ("a\nb", "a\u2028b", "x" * 700)
OF_NACOS_2 = (
    *("a$b", "a/b", "a*", "*", "#", "a#", "a##b", "##", "%", "%23", "a,b", "é", "x" * 512),
    *("providers:com.foo.Outer$Inner:1.0.0:", "consumers:X:1.0:*"),
)
BEFORE_2_3 = ("a b", "服务")
NAMESPACES = ("dev#", "a##b", "#", "n" * 513, "a\nb", "a\u2028b")
PATHS = ("/v1/ns/instance", "/v1/ns/api", "/v2/ns/instance")
INPUTS = 80


def deregister(client: Client, path: str, **changed: str) -> tuple[int, bytes]:
    asked = {"serviceName": "s", "ip": "1.1.1.1", "port": "80", "ephemeral": "false"} | changed
    answer = client.call("DELETE", path, **asked)
    return answer.status, answer.body


def records(member: Member) -> set[str]:
    """The keys in the file of a member."""
    with contextlib.closing(sqlite3.connect(member.data / "records.sqlite3")) as connection:
        return {row[0] for row in connection.execute("SELECT key FROM record")}


async def deregister_over_grpc(member: Member) -> None:
    """Ask for what no member can keep, by both requests of SDKs."""
    async with SdkClient(int(member.address.rpartition(":")[2]) + 1_000) as client:
        await client.set_up()
        instance = {"ip": "1.1.1.1", "port": 80, "clusterName": "DEFAULT"}
        for name, namespace in (*((name, "public") for name in NAMES), *(("s", namespace) for namespace in NAMESPACES)):
            named = {"namespace": namespace, "groupName": "DEFAULT_GROUP", "serviceName": name}
            for request in ("InstanceRequest", "PersistentInstanceRequest"):
                answer = await client.call(request, type="deregisterInstance", instance=instance, **named)
                assert answer["errorCode"] == 400, (request, name[:50], namespace[:50], answer)


async def write_over_grpc(member: Member, kind: str, names: tuple[str, ...], code: int) -> None:
    """Register persistent instances of services with these names, or deregister them."""
    async with SdkClient(int(member.address.rpartition(":")[2]) + 1_000) as client:
        await client.set_up()
        instance = {"ip": "1.1.1.1", "port": 80, "clusterName": "DEFAULT"}
        for name in names:
            named = {"namespace": "public", "groupName": "DEFAULT_GROUP", "serviceName": name}
            answer = await client.call("PersistentInstanceRequest", type=kind, instance=instance, **named)
            assert answer["errorCode"] == code, (name[:50], answer)


def test_all_members_restart_after_every_deregistration_that_none_can_keep(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST)
    cluster.start()
    kept = cluster.members[0]
    assert deregister(kept.client, PATHS[0], serviceName="unknown")[0] == 200
    changes = [{"serviceName": name} for name in (*NAMES, *BEFORE_2_3)] + [{"namespaceId": one} for one in NAMESPACES]
    changes += [{"clusterName": "a_b"}, {"ip": "a b"}, {"ip": "1.2.3.256"}, {"ip": "h" * 129}, {"port": "65536"}]
    for number, changed in enumerate(changes):
        for member in cluster:
            for ephemeral in ("false", "1", "true"):
                path = PATHS[number % len(PATHS)]
                status, body = deregister(member.client, path, ephemeral=ephemeral, **changed)
                assert status == 400, (changed, ephemeral, status, body)
    for member in cluster:
        run_client(lambda member=member: deregister_over_grpc(member))  # type: ignore[misc]
    only = {persistent_key("public", "DEFAULT_GROUP@@unknown", "1.1.1.1:80:unknown:DEFAULT")}
    for member in cluster:
        eventually(lambda member=member: records(member) == only)  # type: ignore[misc]
        assert member.client.metrics()["receivedFailed"] == 0
    for member in cluster:
        member.stop()
    cluster.start()
    for member in cluster:
        assert records(member) == only
        assert member.client.metrics()["recordsSetAside"] == 0


def test_every_name_that_a_client_may_use_is_kept_by_all(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST)
    cluster.start()
    first, second, third = cluster.members
    run_client(lambda: write_over_grpc(first, "registerInstance", OF_NACOS_2, 0))
    run_client(lambda: write_over_grpc(second, "registerInstance", BEFORE_2_3, 400))
    instances = {
        persistent_key("public", f"DEFAULT_GROUP@@{name}", "1.1.1.1:80:unknown:DEFAULT") for name in OF_NACOS_2
    }
    described = {service_meta_key("public", f"DEFAULT_GROUP@@{name}") for name in OF_NACOS_2}

    def listed(member: Member, name: str) -> list[str]:
        answer = member.client.call("GET", "/v2/ns/instance/list", serviceName=name)
        return [one["ip"] for one in answer.json()["data"]["hosts"]]

    def check() -> None:
        for member in cluster:
            eventually(lambda member=member: records(member) == instances | described)  # type: ignore[misc]
            assert member.client.metrics()["recordsSetAside"] == 0

    check()
    assert all(member.client.metrics()["receivedFailed"] == 0 for member in cluster)
    assert all(listed(member, name) == ["1.1.1.1"] for member in cluster for name in OF_NACOS_2)
    for member in cluster:
        member.stop()
    cluster.start()
    check()
    assert all(listed(member, name) == ["1.1.1.1"] for member in cluster for name in OF_NACOS_2)
    for number, name in enumerate(OF_NACOS_2):
        member, path = cluster.members[number % 3], PATHS[number % 3]
        assert deregister(member.client, path, serviceName=name)[0] == 200, "it is known, so v1 may, too"
    for member in cluster:
        eventually(lambda member=member: not any(listed(member, name) for name in OF_NACOS_2))  # type: ignore[misc]
    run_client(lambda: write_over_grpc(third, "deregisterInstance", ("unknown$",), 0))
    for member in cluster:
        member.stop()
    cluster.start()
    assert not any(listed(member, name) for member in cluster for name in OF_NACOS_2)
    assert all(member.client.metrics()["recordsSetAside"] == 0 for member in cluster)


def tombstone(folder: Path, *keys: str) -> None:
    """Put removals into the file, as an earlier release left them there."""
    with contextlib.closing(sqlite3.connect(folder / "records.sqlite3")) as connection:
        version = "1.1.127.0.0.1:1~1"
        rows = [(key, version, version, None, 1_700_000_000_000, 1_700_000_000_000) for key in keys]
        connection.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.commit()


def test_a_folder_with_records_that_cannot_be_read_starts(make_cluster: StartCluster) -> None:
    [node] = make_cluster(1, {"nacos.standalone": "true"})
    node.restart()
    assert node.client.register("kept", "10.0.0.1", ephemeral="false").body == OK
    node.stop()
    keys = [
        persistent_key("public", "DEFAULT_GROUP@@a\nb", "1.1.1.1:80:unknown:DEFAULT"),
        f"{service_meta_key('public', 'DEFAULT_GROUP@@a')}%",
        persistent_key("dev#", "DEFAULT_GROUP@@s", "1.1.1.1:80:unknown:DEFAULT"),
        service_meta_key("public", f"DEFAULT_GROUP@@{'x' * 700}"),
        "some.other.key",
    ]
    tombstone(node.data, *keys)
    for _ in ("the first start", "a later one"):
        node.restart()
        assert set(node.client.hosts("kept")) == {"10.0.0.1:8080"}
        assert node.client.metrics()["recordsSetAside"] == len(keys)
        assert all(key not in records(node) for key in keys)
        doctor = [COMMAND, "doctor", "--data", node.data, "--json"]
        found = subprocess.run(doctor, capture_output=True, text=True, check=False, env={"nacos.standalone": "true"})
        assert found.returncode != 0
        assert all(key[:200].replace("\n", r"\\n") in found.stdout for key in keys), found.stdout
        node.stop()
    text = node.log_text()
    assert all(text.count(f"the record {key[:150]!r}"[:-1]) == 1 for key in keys), "each is named, once"


@pytest.mark.parametrize("seed", [1])
def test_members_keep_what_they_acknowledge_of_any_input(tmp_path: Path, seed: int) -> None:
    """A short run of ``scripts/chaos/kept.py``: any keys by any way in, and restarts of all between them."""
    [port, *_] = free_ports(1)
    options = ["--inputs", str(INPUTS), "--between", str(INPUTS // 2), "--seed", str(seed)]
    command = [sys.executable, "-m", "scripts.chaos.kept", *options, "--port", str(port), "--logs", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert run.returncode == 0, run.stdout[-6_000:] + run.stderr[-2_000:]
    assert "| restarts of all members | 2 |" in run.stdout


def test_a_member_that_was_away_gets_what_came_meanwhile_in_a_namespace_with_a_comma(
    make_cluster: StartCluster,
) -> None:
    """Members ask each other for keys by a text with commas between them, as Nacos does."""
    cluster = make_cluster(3, FAST)
    cluster.start()
    away, *others = cluster.members
    away.stop()
    services = [f"s{number}" for number in range(6)]
    for number, service in enumerate(services):
        for ip, ephemeral in (("10.0.0.1", "true"), ("10.0.0.2", "false")):
            asked = {"serviceName": service, "ip": ip, "port": "80", "namespaceId": "a,b", "ephemeral": ephemeral}
            assert others[number % 2].client.call("POST", PATHS[0], **asked).body == OK

    def listed(service: str) -> set[str]:
        answer = away.client.call("GET", "/v1/ns/instance/list", serviceName=service, namespaceId="a,b")
        return {one["ip"] for one in answer.json()["hosts"]}

    for is_empty in (False, True):
        if is_empty:
            away.stop()
            shutil.rmtree(away.data)
        away.start()
        away.wait_ready()
        for service in services:
            eventually(lambda service=service: listed(service) == {"10.0.0.1", "10.0.0.2"})  # type: ignore[misc]
