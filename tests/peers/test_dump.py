"""Dumps of real Nacos: what the audit's tests need of 1.4.1, and of a 2.3.1 server by its catalog."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.tools.audit.format.layout import read_night
from app.tools.cli import main
from tests.peers.conftest import PORTS_APART
from tests.peers.real_members import SCRIPT, START_TIMEOUT_S, PeerProcessFailed
from tests.support.client import Client
from tests.support.dumps import rows_of
from tests.support.processes import clean_environ, eventually, ports_apart

NIGHT = "2026-11-21"
PATIENT = {"preserved.heart.beat.timeout": "300000", "preserved.ip.delete.timeout": "600000"}
"""Nobody beats here, and nothing is to expire."""
SYNC_TIMEOUT_S = 120.0
RAFT_TIMEOUT_S = 180.0


@contextmanager
def nacos(folder: Path, line: str, mode: str, count: int) -> Iterator[list[Client]]:
    """Real servers, started together and stopped at the end."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    base, *_ = ports_apart(count, PORTS_APART)
    # It is over before a second compiler would pay off.
    environ = {**os.environ, "NACOS_XMX": "400m", "NACOS_TIER": "1", "NACOS_READY_S": str(START_TIMEOUT_S)}
    try:
        started = subprocess.run(
            [SCRIPT, "start", line, mode, folder, str(base)],
            env=environ,
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S + 60,
            check=False,
        )
        if started.returncode != 0:
            if "Maven could not fetch" in started.stderr:
                pytest.skip("the jars of real Nacos cannot be fetched")
            raise PeerProcessFailed(started.stdout + started.stderr)
        yield [Client(f"127.0.0.1:{base + PORTS_APART * number}") for number in range(count)]
    finally:
        if folder.exists():
            subprocess.run([SCRIPT, "stop", folder], env=clean_environ(), stdout=subprocess.DEVNULL, check=False)


def address_of(client: Client) -> str:
    return f"{client._host}:{client._port}"


def keeps_records(client: Client) -> bool:
    """Whether a 1.4 member takes what goes through Raft, and keeps it; what it refused before would be half there.

    Each member begins with the Raft of older releases, and leaves it seconds later than the others: a record that is
    written meanwhile never reaches those that left first.
    """
    old = client.call("GET", "/v1/ns/raft/state")
    if (old.status, old.body) != (500, b"caused: old raft protocol already stop;"):
        return False
    answer = client.call("PUT", "/v1/ns/operator/switches", entry="pushEnabled", value="true")
    return (answer.status, answer.body) == (200, b"ok")


def register(client: Client, service: str, ip: str, **parameters: str) -> bool:
    metadata = json.dumps({**PATIENT, "zone": "北京"})
    answer = client.register(service, ip, metadata=metadata, **parameters)
    assert (answer.status, answer.body) == (200, b"ok")
    return True


def dump(out: Path, clients: list[Client], *options: str) -> int:
    members = ",".join(map(address_of, clients))
    return main(["dump", "--members", members, "--out", str(out), "--gap", "1s", "--date", NIGHT, *options])


def rows_by_member(out: Path, number: int = -1) -> dict[str, list[dict[str, Any]]]:
    """The rows of a round, the last one unless said, sorted."""
    found_round = read_night(str(out), NIGHT).rounds[number]
    return {member.address: rows_of(found_round, member) for member in found_round.manifest.members}


def fill_1_4(clients: list[Client]) -> list[str]:
    """Register eight services, once the members take what goes through Raft, and return six that members own."""
    eventually(lambda: all(map(keeps_records, clients)), RAFT_TIMEOUT_S)
    services = [f"dumped-{number}" for number in range(6)]
    for number, service in enumerate(services):
        register(clients[number % 3], service, "10.0.0.1")
        register(clients[number % 3], service, "10.0.0.2", clusterName="c2")
    register(clients[0], "elsewhere", "10.0.0.1", namespaceId="another")
    register(clients[0], "durable", "10.0.0.3", ephemeral="false")
    for client in clients:
        for service in services:
            eventually(lambda client=client, service=service: len(client.hosts(service)) == 2, SYNC_TIMEOUT_S)
        eventually(lambda client=client: client.hosts("durable"), SYNC_TIMEOUT_S)
        eventually(lambda client=client: client.hosts("elsewhere", namespaceId="another"), SYNC_TIMEOUT_S)
    return services


def assert_dumped_1_4(out: Path, clients: list[Client], services: list[str]) -> None:
    """A dump of what ``fill_1_4`` registered has all of it, of every member alike, with owners and ages of beats."""
    members = read_night(str(out), NIGHT).rounds[-1].manifest.members
    assert [(one.kind, one.version, one.services, one.instances) for one in members] == [
        ("nacos-1", "1.4.1", 8, 14)
    ] * 3
    assert {tuple(seen.state for seen in one.members) for one in members} == {("UP", "UP", "UP")}
    assert {tuple(one.tells) for one in members} == {("record",)}
    found = rows_by_member(out)
    assert list(found) == list(map(address_of, clients))
    owners = {service: clients[0].owner(service) for service in services}
    for address, rows in found.items():
        assert {row["layer"] for row in rows if row["kind"] == "instance"} == {"both"}
        assert next(row["name"] for row in rows if row["kind"] == "record") == "switches"
        assert all(row["selector"] == '{"type":"none"}' for row in rows if row["kind"] == "service")
        named = {row["service"].partition("@@")[2]: row["owner"] for row in rows if row["kind"] == "service"}
        assert named.items() >= owners.items(), "the owner is worked out as the members do"
        told = {row["service"] for row in rows if "beat_age_ms" in row and row["namespace"] == "public"}
        assert told == {f"DEFAULT_GROUP@@{name}" for name, owner in owners.items() if owner == address}
    same = [[{k: v for k, v in row.items() if k != "beat_age_ms"} for row in rows] for rows in found.values()]
    assert same[0] == same[1] == same[2]
    assert [row["client"] for row in same[0] if row["service"].endswith("durable") and "ip" in row] == ["durable"]


def test_a_server_of_2_3(tmp_path: Path) -> None:
    with nacos(tmp_path / "nacos", "2", "standalone", 1) as [client]:
        register(client, "orders", "10.0.0.1")
        register(client, "orders", "10.0.0.2", clusterName="c2", weight="2.5", enabled="false")
        register(client, "durable", "10.0.0.3", ephemeral="false")
        register(client, "elsewhere", "10.0.0.4", namespaceId="another")
        eventually(lambda: client.hosts("durable"), SYNC_TIMEOUT_S)
        assert dump(tmp_path / "out", [client], "--namespaces", "another") == 0
        [member] = read_night(str(tmp_path / "out"), NIGHT).rounds[-1].manifest.members
        assert (member.kind, member.version, member.services, member.instances) == ("catalog", "2.3.1", 3, 4)
        [rows] = rows_by_member(tmp_path / "out").values()
        by_ip = {row["ip"]: row for row in rows if row["kind"] == "instance"}
        assert {ip: row["ephemeral"] for ip, row in by_ip.items()} == {
            "10.0.0.1": True,
            "10.0.0.2": True,
            "10.0.0.3": False,
            "10.0.0.4": True,
        }
        assert member.tells == ["record", "client"]
        fields = ("cluster", "weight", "enabled", "healthy", "delete_timeout_ms", "layer")
        assert [by_ip["10.0.0.2"][name] for name in fields] == ["c2", 2.5, False, True, 600_000, "both"]
        assert by_ip["10.0.0.1"]["metadata"]["zone"] == "北京"
        assert by_ip["10.0.0.4"]["namespace"] == "another"
