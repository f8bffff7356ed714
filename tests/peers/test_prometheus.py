"""A real Prometheus: it scrapes members, and finds targets through their service discovery."""

import asyncio
import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import ClusterProcesses, eventually
from tests.support.prometheus import Prometheus
from tests.support.sdk_client import SdkClient

TOKEN = "a-secret-of-some-length"
BOARDS: dict[str, list[str]] = json.loads(
    (Path(__file__).parents[1] / "unit" / "metrics" / "nacos_boards.json").read_text(encoding="utf-8")
)["boards"]
"""The expressions of two boards of Nacos."""
ODD_NAMES = ("providers:com.foo.Outer$Inner:1.0.0:", "consumers:X:1.0:*", 'a"b\\c{d="e"}', "größe-%41#")
"""Names of services, by the rule of Nacos 2."""
ODD_TEXT = 'q"uote \\ back {x="1"} größe \t'
SETTINGS = {"nacos.prometheus.metrics.enabled": "true", "rollcall.metrics.token": TOKEN}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    members = ClusterProcesses(tmp_path / "cluster", 2, SETTINGS)
    try:
        members.start()
        yield members
    finally:
        members.end()


def jobs(members: list[str]) -> list[dict[str, Any]]:
    """Two jobs: the members as listed, and what the first of them names as targets."""
    # Prometheus 2.42 sends no type of its own with calls of discovery.
    authorization = {"type": "Bearer", "credentials": TOKEN}
    return [
        {"job_name": "rollcall", "authorization": authorization, "static_configs": [{"targets": members}]},
        {
            "job_name": "found",
            "authorization": authorization,
            "http_sd_configs": [
                {
                    "url": f"http://{members[0]}/nacos/prometheus",
                    "refresh_interval": "1s",
                    "authorization": authorization,
                }
            ],
            "relabel_configs": [
                {"source_labels": ["__meta_rollcall_service"], "target_label": "service"},
                {"source_labels": ["__meta_rollcall_group"], "target_label": "group"},
            ],
        },
    ]


def teams(prometheus: Prometheus) -> dict[tuple[str, str], tuple[str, str]]:
    """Health and team of each target, by job and address."""
    labels = [(one, one["labels"]) for one in prometheus.targets()]
    return {(name["job"], name["instance"]): (one["health"], name.get("team", "")) for one, name in labels}


def labels_of(prometheus: Prometheus, job: str) -> dict[str, dict[str, str]]:
    """The labels of each target of a job, by the service that it belongs to."""
    return {one["labels"]["service"]: one["labels"] for one in prometheus.targets() if one["labels"]["job"] == job}


@pytest.fixture
def prometheus(tmp_path: Path, cluster: ClusterProcesses) -> Iterator[Prometheus]:
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs([member.address for member in cluster])}
    one = Prometheus(tmp_path, config)
    try:
        yield one
    finally:
        one.stop()


def test_prometheus_scrapes_members_and_what_they_name(cluster: ClusterProcesses, prometheus: Prometheus) -> None:
    addresses = [member.address for member in cluster]
    metadata = json.dumps({"team": "a", "__address__": "127.0.0.1:9", "no label": "x"})
    for address in addresses:
        ip, port = address.split(":")
        asked = {"serviceName": "web", "ip": ip, "port": port, "ephemeral": "false", "metadata": metadata}
        url = f"http://{addresses[1]}/nacos/v1/ns/instance?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=10) as answer:
            assert answer.read() == b"ok"
    listed = {("rollcall", address): ("up", "") for address in addresses}
    found = {("found", address): ("up", "a") for address in addresses}

    def all_up() -> bool:
        seen = teams(prometheus)
        assert seen == listed | found, seen
        return True

    eventually(all_up)
    eventually(lambda: prometheus.query('sum(rollcall_ready{job="rollcall"})')[0]["value"][1] == "2")
    routes = eventually(lambda: prometheus.query('rollcall_http_requests_total{route="/v1/ns/instance"}'))
    assert {one["metric"]["status"] for one in routes} == {"200"}


def test_targets_of_services_with_odd_names_keep_their_names(cluster: ClusterProcesses, prometheus: Prometheus) -> None:
    member = cluster.members[0]
    metadata = json.dumps({"odd": ODD_TEXT, "größe": "x", "a.b-c": "y"})
    ip, _, port = member.address.rpartition(":")
    for name in ODD_NAMES:
        form: dict[str, Any] = {
            "serviceName": name,
            "ip": ip,
            "port": int(port),
            "ephemeral": "false",
            "metadata": metadata,
        }
        answer = member.client.call("POST", "/v2/ns/instance", **form)
        assert answer.status == 200, answer.body

    def all_found() -> bool:
        found = labels_of(prometheus, "found")
        assert set(found) == set(ODD_NAMES), found
        for labels in found.values():
            assert (labels["odd"], labels["a_b_c"], labels["group"]) == (ODD_TEXT, "y", "DEFAULT_GROUP"), labels
        return True

    eventually(all_found)
    eventually(lambda: len(prometheus.query('rollcall_ready{job="found"}')) == len(ODD_NAMES))


def test_every_query_of_two_boards_of_nacos_has_data(cluster: ClusterProcesses, prometheus: Prometheus) -> None:
    member = cluster.members[0]
    left = {query for queries in BOARDS.values() for query in queries}
    assert len(left) > 60

    async def call() -> None:
        async with SdkClient(int(member.address.rpartition(":")[2]) + 1_000) as client:
            await client.set_up()
            await client.register("over-grpc", "10.0.0.1")

    def all_have_data() -> bool:
        # A rate needs calls between two scrapes.
        member.client.call("GET", "/v1/ns/instance/list", serviceName="web")
        asyncio.run(call())
        for query in sorted(left):
            if prometheus.query(query.replace("$instance", member.address)):
                left.remove(query)
        assert not left, left
        return True

    eventually(all_have_data)
