"""Real Nacos servers beside one of ours, in one cluster. Skipped where they cannot be started."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.processes import Member, clean_environ, eventually, free_ports

SCRIPT = Path(__file__).parent / "nacos" / "nacos.sh"
START_TIMEOUT_S = 600
PORTS_APART = 100
"""As `nacos.sh` gives them to the nodes of a cluster."""
SEEN_TIMEOUT_S = 180
IDENTITY = {"key": "Cluster-Identity", "value": "mYc3LZq8vN2kW5xT0pR7"}
"""Of all three members, in the settings of both kinds."""


class PeerProcessFailed(Exception):
    """A real server did not start, for a reason of its own."""


@dataclass(frozen=True, slots=True)
class MixedCluster:
    """Two real servers and one of ours: the real ones must be the majority, as their Raft counts all three."""

    first: Client
    second: Client
    ours: Member
    folders: tuple[Path, Path]

    @property
    def clients(self) -> tuple[Client, Client, Client]:
        return self.first, self.second, self.ours.client

    def stop_first(self) -> None:
        subprocess.run([SCRIPT, "stop", self.folders[0]], check=True, stdout=subprocess.DEVNULL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder. Where a real server's process failed, a test is run again once, and counted."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.peer)
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=[PeerProcessFailed.__name__]))
            item.add_marker(pytest.mark.timeout(3 * START_TIMEOUT_S))


def _start(release: str, work: Path, port: int, environ: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(
            [SCRIPT, "start", release, "cluster", work, str(port)],
            env=environ,
            stdout=out,
            stderr=subprocess.STDOUT,
        )


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Two real Nacos 1.4.1 and one of ours, with one identity; each sees the others."""
    yield from _mixed("1.4", tmp_path_factory.mktemp("mixed"), {})


@pytest.fixture(scope="module")
def mixed_2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Two real Nacos 2.3.1 and one of ours, with one identity; each sees the others."""
    # They send no identity over gRPC.
    yield from _mixed("2", tmp_path_factory.mktemp("mixed2"), {"rollcall.identity.grpcExempt": "{first},{second}"})


def _mixed(release: str, folder: Path, settings: dict[str, str]) -> Iterator[MixedCluster]:
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    ports = free_ports(3)
    listed = ",".join(f"127.0.0.1:{port}" for port in ports)
    environ = {
        **os.environ,
        "NACOS_MEMBERS": listed,
        "NACOS_XMX": "400m",
        "NACOS_TIER": "1",
        "NACOS_READY_S": str(START_TIMEOUT_S),
        **{f"NACOS_IDENTITY_{name.upper()}": text for name, text in IDENTITY.items()},
    }
    folders = (folder / "first", folder / "second")
    first, second, _ = listed.split(",")
    named = {"rollcall.identity.nacosMembers": "{first},{second}"}
    given = {name: text.format(first=first, second=second) for name, text in (named | settings).items()}
    given |= {f"nacos.core.auth.server.identity.{name}": text for name, text in IDENTITY.items()}
    ours = Member(ports[2], folder / "ours", {"nacos.member.list": listed, **given})
    starts = [
        _start(release, work, port, environ, folder / f"{port}.log") for work, port in zip(folders, ports, strict=False)
    ]
    try:
        ours.start()
        for start, port in zip(starts, ports, strict=False):
            if start.wait(START_TIMEOUT_S) != 0:
                text = (folder / f"{port}.log").read_text(errors="replace")
                if "Maven could not fetch" in text:
                    pytest.skip("the jars of real Nacos cannot be fetched")
                raise PeerProcessFailed(text)
        ours.wait_ready()
        cluster = MixedCluster(Client(f"127.0.0.1:{ports[0]}"), Client(f"127.0.0.1:{ports[1]}"), ours, folders)
        eventually(lambda: all(map(sees_three, cluster.clients)), SEEN_TIMEOUT_S)
        eventually(lambda: all(map(has_loaded, cluster.clients)), SEEN_TIMEOUT_S)
        yield cluster
    finally:
        for start in starts:
            start.kill()
            start.wait()
        for work in folders:
            if work.exists():
                subprocess.run([SCRIPT, "stop", work], env=clean_environ(), stdout=subprocess.DEVNULL, check=False)
        ours.end()


def sees_three(client: Client) -> bool:
    """Whether a member sees all three UP, with the release of each: real ones then use their present protocol."""
    nodes = client.call("GET", "/v1/core/cluster/nodes").json()["data"]
    return sum(one["state"] == "UP" and "version" in one["extendInfo"] for one in nodes) == 3


def has_loaded(client: Client) -> bool:
    """Whether a member takes writes. A real one whose first load found nobody is DOWN until the next, 30 s later."""
    status: str = client.call("GET", "/v1/ns/operator/metrics").json()["status"]
    return status == "UP"


def taken(client: Client, method: str, path: str, **parameters: object) -> None:
    """Call until it is taken, as a client would: on a busy machine real members lose sight of each other for seconds.

    Then they refuse what one forwards to the other (400), or are DOWN (503); both mean that nothing was done.
    """

    def is_ok() -> bool:
        answer = client.call(method, path, **parameters)
        if answer.status == 503 or (answer.status == 400 and b"receive invalid redirect request" in answer.body):
            return False
        told = (answer.status, answer.body)
        if told != (200, b"ok"):
            pytest.fail(f"{method} {path}: {told}")
        return True

    eventually(is_ok, SEEN_TIMEOUT_S)


def metrics(mixed: MixedCluster) -> dict[str, int]:
    """The counters of our member."""
    found: dict[str, int] = mixed.ours.client.call("GET", "/v1/ns/operator/metrics", onlyStatus="false").json()
    return found
