"""Dumps of running members: alike when they agree, absent when they are silent, and few at a time."""

import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from app.tools.audit.format.layout import read_night
from app.tools.audit.format.manifest import DumpState
from app.tools.cli import main
from tests.support.dumps import rows_of
from tests.support.processes import FAST, ClusterProcesses, Member, eventually

NIGHT = "2026-11-21"
DUMP = "/v1/ns/operator/dump"
SERVICES = [f"dumped-{number}" for number in range(9)]
INSTANCES = 250
"""With metadata of nearly the allowed size: 16 MB, more than the system takes for one connection."""
AGES = ("beat_age_ms", "silent_ms")
Make = Callable[..., ClusterProcesses]


def dump(cluster: ClusterProcesses, out: Path, *options: str) -> int:
    addresses = ",".join(member.address for member in cluster)
    fast = ("--gap", "200ms", "--timeout", "60s", "--date", NIGHT)
    return main(["dump", "--members", addresses, "--out", str(out), *fast, *options])


def without_ages(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without what the owner of an instance alone tells of its beats."""
    return [{name: value for name, value in row.items() if name not in AGES} for row in rows]


def test_members_that_agree_have_the_same_rows_and_a_silent_one_none(make_cluster: Make, tmp_path: Path) -> None:
    cluster = make_cluster(3, FAST)
    cluster.start()
    members = cluster.members
    for number, service in enumerate(SERVICES):
        for ip in ("10.0.0.1", "10.0.0.2"):
            assert members[number % 3].client.register(service, ip, metadata='{"zone":"北"}').status == 200
        assert members[(number + 1) % 3].client.deregister(service, "10.0.0.2").status == 200
    assert members[0].client.register("durable", "10.0.0.3", ephemeral="false").status == 200
    switch = "/v1/ns/operator/switches"
    assert members[1].client.call("PUT", switch, entry="pushEnabled", value="true").status == 200
    described = {"serviceName": SERVICES[0], "protectThreshold": "0.5", "metadata": '{"team":"a"}'}
    assert members[2].client.call("PUT", "/v1/ns/service", **described).status == 200
    for service in SERVICES:
        eventually(lambda service=service: cluster.all_list(service, {"10.0.0.1:8080"}))
    eventually(lambda: cluster.all_list("durable", {"10.0.0.3:8080"}))

    assert dump(cluster, tmp_path / "all") == 0
    first, second = read_night(str(tmp_path / "all")).rounds
    for found in (first, second):
        dumps = found.manifest.members
        assert [one.address for one in dumps] == [member.address for member in members]
        assert {(one.services, one.instances) for one in dumps} == {(len(SERVICES) + 1, len(SERVICES) + 1)}
        assert {tuple(seen.state for seen in one.members) for one in dumps} == {("UP", "UP", "UP")}
        rows = {one.address: rows_of(found, one) for one in dumps}
        one, *others = (without_ages(each) for each in rows.values())
        assert all(other == one for other in others)
        assert {row["ip"] for row in one if row["kind"] == "instance"} == {"10.0.0.1", "10.0.0.3"}
        assert all(row.get("version") for row in one if row["kind"] == "instance")
        assert [row["name"] for row in one if row["kind"] == "record"] == ["switches"]
        of_first = next(row for row in one if row["kind"] == "service" and row["service"].endswith(SERVICES[0]))
        assert (of_first["protect_threshold"], of_first["metadata"]) == (0.5, {"team": "a"})
        owners = {service: cluster.owner(service).address for service in SERVICES}
        assert {row["service"].partition("@@")[2]: row.get("owner") for row in one}.items() >= owners.items()
        for address, each in rows.items():
            told = {row["service"] for row in each if "beat_age_ms" in row}
            assert told == {f"DEFAULT_GROUP@@{name}" for name, owner in owners.items() if owner == address}
            assert {row["service"] for row in each if "silent_ms" in row} <= told

    silent = members[2]
    silent.pause()
    assert dump(cluster, tmp_path / "two", "--timeout", "3s", "--retries", "1") == 1
    silent.resume()
    for found in read_night(str(tmp_path / "two")).rounds:
        *there, absent = found.manifest.members
        assert {one.state for one in there} == {DumpState.DUMPED}
        assert (absent.address, absent.state, absent.parts) == (silent.address, DumpState.ABSENT, [])
        assert absent.error == f"{DUMP}: no answer within 3 s"
        assert len(list(Path(found.folder).glob("member=*"))) == 2


@pytest.fixture
def alone(make_cluster: Make) -> Member:
    """One standalone node with instances of so much metadata that no buffer of the system holds their dump."""
    cluster = make_cluster(1, {"nacos.standalone": "true"})
    [node] = cluster.members
    node.start()
    node.wait_ready()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for number in range(INSTANCES):
        metadata = json.dumps({"filler": "x" * 65_000})
        body = urlencode({"serviceName": "big", "ip": f"10.0.0.{number}", "port": 80, "metadata": metadata})
        assert node.client.call("POST", "/v1/ns/instance", body.encode(), form).status == 200
    return node


def test_readers_that_stop_reading_take_two_places_and_no_more(alone: Member) -> None:
    host, _, port = alone.address.rpartition(":")
    with ExitStack() as slow:
        for _ in range(2):
            connection = slow.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(f"GET /nacos{DUMP} HTTP/1.1\r\nHost: {alone.address}\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        refused = alone.client.call("GET", DUMP)
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert alone.client.call("GET", "/v1/ns/operator/metrics").status == 200, "everything else goes on"

    def is_free() -> bool:
        answer = alone.client.call("GET", DUMP)
        return answer.status == 200 and answer.body.endswith(
            b'{"kind":"end","services":1,"instances":%d}\n' % INSTANCES
        )

    assert eventually(is_free), "who hangs up frees the place"


def test_the_dump_of_a_node_of_its_own(alone: Member, tmp_path: Path) -> None:
    arguments = ["dump", "--members", alone.address, "--out", str(tmp_path), "--gap", "0", "--date", NIGHT]
    assert main(arguments) == 0
    [dumped] = read_night(str(tmp_path)).rounds[0].manifest.members
    assert dumped.address == alone.address
    assert {row["owner"] for row in rows_of(read_night(str(tmp_path)).rounds[0], dumped)} == {alone.address}
    assert dumped.instances == INSTANCES
