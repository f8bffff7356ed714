"""The Java library of Nacos 3 watches services by patterns, unchanged, with three members."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.environments import NotInstallable, install_fuzzy
from tests.sdk.program import Program, SdkError
from tests.sdk.stories import LONG, running_cluster, write
from tests.support.processes import NO_VERIFY, ClusterProcesses, Member, eventually

PORT = 8080
SILENT_S = 180.0
"""A bound for the time until a member ends the connection of a client that was stopped: some 25 s."""
BACK_S = 240.0
"""A bound for what a client hears after it was away. It asks for the difference every three minutes, which repairs what
a member gave up, as the acknowledgements of a busy machine were late.
"""

# With the installation of the library, which is only once.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with running_cluster(tmp_path_factory.mktemp("fuzzy"), NO_VERIFY) as started:
        yield started


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Members with Nacos's own names of the limits, and low ones."""
    settings = {
        "nacos.naming.fuzzy.watch.max.pattern.count": "2",
        "nacos.naming.fuzzy.watch.max.pattern.match.service.count": "1",
    }
    with running_cluster(tmp_path_factory.mktemp("limited"), NO_VERIFY | settings) as started:
        yield started


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    try:
        environment = install_fuzzy()
    except NotInstallable as error:
        pytest.skip(str(error))
    with Program(environment, tmp_path / "java") as started:
        yield started


def register(member: Member, service: str, **more: str) -> None:
    write(lambda: member.client.register(service, "10.9.0.1", PORT, metadata=LONG, **more))


def deregister(member: Member, service: str, **more: str) -> None:
    write(lambda: member.client.deregister(service, "10.9.0.1", PORT, **more))


def all_list(cluster: ClusterProcesses, service: str, **more: str) -> None:
    """Return when all members list an instance of a service: a client at any of them is told of it at once."""
    for member in cluster:
        eventually(lambda member=member: member.client.hosts(service, **more))


def watched(program: Program, op: str, service: str, group: str) -> Any:
    """Have the client ``watcher`` watch a pattern; return its answer.

    A client that is not connected yet takes the servers for old ones, and refuses: it is asked again.
    """

    def answer() -> list[Any]:
        try:
            return [program.call(op, "watcher", service=service, group=group)]
        except SdkError as error:
            if "not support fuzzy watch" not in str(error):
                pytest.fail(str(error))
            return []

    [found] = eventually(answer)
    return found


def connections(cluster: ClusterProcesses) -> int:
    """The connections of clients, at all members."""
    return sum(one.client.metrics()["rpcSdkConnections"] for one in cluster)


def test_it_lists_what_matches_and_hears_of_what_comes_and_goes(cluster: ClusterProcesses, program: Program) -> None:
    one, other, third = cluster.members
    register(one, "first-a")
    register(one, "other-a")
    register(other, "first-b", groupName="shop")
    all_list(cluster, "first-a")
    all_list(cluster, "first-b", groupName="shop")
    program.open("watcher", third)
    keys = watched(program, "watch_keys", "first-*", "*")
    assert sorted(keys) == ["public@@DEFAULT_GROUP@@first-a", "public@@shop@@first-b"]
    watched(program, "watch", "first-*", "shop")
    program.wait_event("added", "watcher", "DEFAULT_GROUP@@first-a")
    program.wait_event("added", "watcher", "shop@@first-b")
    register(one, "other-b")
    register(other, "first-c")
    program.wait_event("added", "watcher", "DEFAULT_GROUP@@first-c")
    deregister(one, "first-a")
    deregister(one, "first-b", groupName="shop")
    program.wait_event("removed", "watcher", "DEFAULT_GROUP@@first-a")
    program.wait_event("removed", "watcher", "shop@@first-b")
    assert not any("other" in service for *_, service in program.events)


def test_what_another_client_publishes_is_heard_of_until_it_ends(cluster: ClusterProcesses, program: Program) -> None:
    one, other, _ = cluster.members
    program.open("watcher", one)
    program.open("publisher", other)
    assert watched(program, "watch_keys", "*-published", "DEFAULT_GROUP") == []
    program.call("register", "publisher", service="is-published", group="DEFAULT_GROUP", ip="10.9.0.2", port=PORT)
    program.wait_event("added", "watcher", "DEFAULT_GROUP@@is-published")
    program.call("close", "publisher")
    program.wait_event("removed", "watcher", "DEFAULT_GROUP@@is-published")


def test_an_ended_watch_hears_nothing(cluster: ClusterProcesses, program: Program) -> None:
    one, other, _ = cluster.members
    program.open("watcher", one)
    watched(program, "watch_keys", "ended-*", "DEFAULT_GROUP")
    watched(program, "watch_keys", "*-on", "DEFAULT_GROUP")
    program.call("cancel", "watcher", service="ended-*", group="DEFAULT_GROUP")
    eventually(lambda: one.client.metrics()["rpcFuzzyWatches"] == 1)
    register(other, "ended-a")
    register(other, "goes-on")
    program.wait_event("added", "watcher", "DEFAULT_GROUP@@goes-on")
    assert program.events == [("added", "watcher", "DEFAULT_GROUP@@goes-on")]


def test_a_client_that_was_away_hears_of_what_it_missed(cluster: ClusterProcesses, program: Program) -> None:
    one, *_ = cluster.members
    for service in ("away-kept", "away-gone"):
        register(one, service)
        all_list(cluster, service)
    eventually(lambda: connections(cluster) == 0)
    program.open("watcher", *cluster.members)
    assert len(watched(program, "watch_keys", "away-*", "DEFAULT_GROUP")) == 2
    program.wait_event("added", "watcher", "DEFAULT_GROUP@@away-kept")
    program.pause()
    eventually(lambda: connections(cluster) == 0, SILENT_S)
    deregister(one, "away-gone")
    register(one, "away-new")
    program.resume()
    program.wait_event("added", "watcher", "DEFAULT_GROUP@@away-new", BACK_S)
    program.wait_event("removed", "watcher", "DEFAULT_GROUP@@away-gone", BACK_S)
    register(one, "away-later")
    program.wait_event("added", "watcher", "DEFAULT_GROUP@@away-later")
    assert program.events.count(("added", "watcher", "DEFAULT_GROUP@@away-kept")) == 1


def test_it_learns_of_the_limits(limited: ClusterProcesses, program: Program) -> None:
    one, *_ = limited.members
    for service in ("over-a", "over-b"):
        register(one, service)
    program.open("watcher", one)
    watched(program, "watch", "over-*", "DEFAULT_GROUP")
    program.wait_event("changed", "watcher", "services over limit")
    watched(program, "watch", "over-a", "DEFAULT_GROUP")
    watched(program, "watch", "over-b", "DEFAULT_GROUP")
    program.wait_event("changed", "watcher", "patterns over limit")
    program.wait_event("added", "watcher", "DEFAULT_GROUP@@over-a")
