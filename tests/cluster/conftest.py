"""Clusters of real processes: one for all tests that leave it as it was, others for those that do harm."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.built import build
from tests.support.processes import NO_VERIFY, ClusterProcesses, Member, running_cluster

StartCluster = Callable[..., ClusterProcesses]
collect_ignore = ["sample_project"]
"""It has tests of its own, which are run where it is installed."""
STARTED_ANEW = {"test_worker", "test_sockets"}
"""Files whose tests look at the processes of a node, so that each is the new program that a user would start."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture
def new_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the nodes of a test as a user does: other nodes are forked from a process with the same modules."""
    monkeypatch.setattr(Member, "forks", False)


@pytest.fixture(autouse=True)
def new_programs_in_some_files(request: pytest.FixtureRequest) -> None:
    if request.path.stem in STARTED_ANEW:
        request.getfixturevalue("new_programs")


@pytest.fixture(scope="session")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three members with default settings, without verify rounds. Each test has its own services, and harms nobody."""
    yield from running_cluster(tmp_path_factory.mktemp("three"), NO_VERIFY)


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Source archive and wheel."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """Makes clusters of the test's own: ``make_cluster(count, settings)``, not started yet; all end with the test."""
    clusters: list[ClusterProcesses] = []

    def make(count: int = 3, settings: dict[str, str] | None = None) -> ClusterProcesses:
        clusters.append(ClusterProcesses(tmp_path / f"cluster{len(clusters)}", count, settings or {}))
        return clusters[-1]

    try:
        yield make
    finally:
        for cluster in clusters:
            cluster.end()
    for cluster in clusters:
        cluster.assert_no_traceback()
