"""A real Prometheus: it scrapes members, and finds targets through their service discovery."""

import json
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import ClusterProcesses, eventually, free_ports

TOKEN = "a-secret-of-some-length"
SETTINGS = {"nacos.prometheus.metrics.enabled": "true", "rollcall.metrics.token": TOKEN}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    members = ClusterProcesses(tmp_path / "cluster", 2, SETTINGS)
    try:
        members.start()
        yield members
    finally:
        members.end()


class Prometheus:
    """A Prometheus with two jobs: the members as listed, and what the first of them names as targets."""

    def __init__(self, program: str, folder: Path, members: list[str]) -> None:
        (port,) = free_ports(1)
        # Prometheus 2.42 sends no type of its own with calls of discovery.
        authorization = {"type": "Bearer", "credentials": TOKEN}
        jobs = [
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
                "relabel_configs": [{"source_labels": ["__meta_rollcall_service"], "target_label": "service"}],
            },
        ]
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))  # JSON is YAML
        self._url = f"http://127.0.0.1:{port}/api/v1"
        with (folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={folder / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            )

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._url}/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def targets(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Health and team of each target, by job and address."""
        found = self.ask("targets?state=active")["activeTargets"]
        labels = [(one, one["labels"]) for one in found]
        return {(name["job"], name["instance"]): (one["health"], name.get("team", "")) for one, name in labels}

    def query(self, text: str) -> list[Any]:
        return self.ask(f"query?query={urllib.parse.quote(text)}")["result"]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


@pytest.fixture
def prometheus(tmp_path: Path, cluster: ClusterProcesses) -> Iterator[Prometheus]:
    if (program := shutil.which("prometheus")) is None:
        pytest.skip("prometheus is not there: Debian's package prometheus has it")
    one = Prometheus(program, tmp_path, [member.address for member in cluster])
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
        seen = prometheus.targets()
        assert seen == listed | found, seen
        return True

    eventually(all_up)
    eventually(lambda: prometheus.query('sum(rollcall_ready{job="rollcall"})')[0]["value"][1] == "2")
    routes = eventually(lambda: prometheus.query('rollcall_http_requests_total{route="/v1/ns/instance"}'))
    assert {one["metric"]["status"] for one in routes} == {"200"}
