"""Real Nacos servers beside one of ours, in one cluster. Skipped where they cannot be started."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from distro.members.mapper import DistroMapper
from tests.peers.real_members import (
    START_TIMEOUT_S,
    MixedCluster,
    PeerProcessFailed,
    RealMember,
    running,
    settings_beside,
)
from tests.sdk.environments import NotInstallable, install_helm
from tests.support.client import Client
from tests.support.helm import SHAPES, Helm, Rendered
from tests.support.processes import Member, eventually, free_ports

PORTS_APART = 100
"""As `nacos.sh` gives them to the nodes of a cluster."""
SEEN_TIMEOUT_S = 180
LONG = os.environ.get("PEERS_LONG") == "1"
"""Whether to run tests that take minutes beside others that go through the same states."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder. Where a real server's process failed, a test is run again once, and counted."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.peer)
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=[PeerProcessFailed.__name__]))
            item.add_marker(pytest.mark.timeout(3 * START_TIMEOUT_S))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Two real Nacos 1.4.1 and one of ours, with one identity; each sees the others."""
    yield from _mixed(["1.4"] * 2, tmp_path_factory.mktemp("mixed"))


@pytest.fixture(scope="module")
def mixed_2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Two real Nacos 2.3.1 and one of ours, with one identity; each sees the others."""
    yield from _mixed(["2"] * 2, tmp_path_factory.mktemp("mixed2"))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(2, id="two-real"),
        pytest.param(1, id="one-real", marks=pytest.mark.skipif(not LONG, reason="takes minutes: set PEERS_LONG=1")),
    ],
)
def mixed_3(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Two real Nacos 3.0.3 and one of ours, and the other way round, with one identity; each sees the others."""
    yield from _mixed(["3"] * request.param, tmp_path_factory.mktemp("mixed3"))


@pytest.fixture(scope="module")
def of_three_kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """A real Nacos 2.3.1, a real 3.0.3 and one of ours, with one identity; each sees the others."""
    if not LONG:
        pytest.skip("takes minutes: set PEERS_LONG=1")
    yield from _mixed(["2", "3"], tmp_path_factory.mktemp("kinds"))


def skip_without_tools() -> None:
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def _owner_of_batches(ports: list[int]) -> int:
    """Return the port of the member to which real Nacos since 2.0 sends all calls over v1 that name no address."""
    owner = DistroMapper.over("", [f"127.0.0.1:{port}" for port in ports]).map_srv("null:0")
    return int(owner.rpartition(":")[2])


def _mixed(releases: Sequence[str], folder: Path) -> Iterator[MixedCluster]:
    """A cluster of three. The real ones should be the majority, as their Raft counts all three."""
    skip_without_tools()
    ports, count = free_ports(3), len(releases)
    while _owner_of_batches(ports) not in ports[:count]:
        ports = free_ports(3)
    listed = [f"127.0.0.1:{port}" for port in ports]
    settings = settings_beside(listed[:count], listed)
    exempt = [address for address, release in zip(listed, releases, strict=False) if release == "2"]
    settings["rollcall.identity.grpcExempt"] = ",".join(exempt)  # they send no identity over gRPC
    places = zip(releases, ports, strict=False)
    members = [RealMember(release, port, folder / f"real-{port}", listed) for release, port in places]
    nodes = [Member(port, folder / f"ours-{port}", settings) for port in ports[count:]]
    with running(members, nodes) as cluster:
        eventually(lambda: all(map(sees_three, cluster.clients)), SEEN_TIMEOUT_S)
        eventually(lambda: all(map(has_loaded, cluster.clients)), SEEN_TIMEOUT_S)
        yield cluster


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

    Then they refuse what one forwards to the other (400), are DOWN (503), or forward to a member that ended (500). In
    all three cases nothing was done.
    """
    not_done = {503: b"", 400: b"receive invalid redirect request", 500: b"Connection refused"}

    def is_ok() -> bool:
        answer = client.call(method, path, **parameters)
        if answer.status in not_done and not_done[answer.status] in answer.body:
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


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    try:
        return Helm(install_helm(), tmp_path_factory.mktemp("helm"))
    except NotInstallable as error:
        pytest.skip(f"helm is not in the path, and cannot be compiled: {error}")


@pytest.fixture(scope="session")
def shapes(helm: Helm) -> dict[str, Rendered]:
    """The chart with the values of each example."""
    return {shape: helm.render(shape) for shape in SHAPES}
