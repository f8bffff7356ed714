"""The Rust SDK over gRPC, which drops each request of a server that lacks a field it expects."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.environments import NotInstallable, install_rust
from tests.sdk.program import Program, SdkError
from tests.sdk.stories import LONG, running_cluster, write
from tests.support.processes import DIRECT_S, NO_VERIFY, ClusterProcesses, Member, eventually

PORT = 8080
STAYS = "10.8.0.9"
"""An instance that stays: the library keeps its list when an empty one comes."""
CACHE_MS = 3_600_000
"""With this cache time the library asks for a list that it subscribes to again after a minute, its longest time."""
PUSHED_S = 40.0
"""What it hears within this time was pushed."""

# With the installation of the library, which is only once.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with running_cluster(tmp_path_factory.mktemp("rust"), NO_VERIFY) as started:
        set_cache = {"entry": "pushCacheMillis", "value": CACHE_MS}
        assert started.members[0].client.call("PUT", "/v1/ns/operator/switches", **set_cache).status == 200
        eventually(lambda: all(cache_ms(one) == CACHE_MS for one in started))
        yield started


def cache_ms(member: Member) -> int:
    shown: int = member.client.call("GET", "/v1/ns/operator/switches").json()["defaultPushCacheMillis"]
    return shown


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    try:
        environment = install_rust()
    except NotInstallable as error:
        pytest.skip(str(error))
    with Program(environment, tmp_path / "rust") as started:
        yield started


def test_a_subscription_hears_of_what_others_register_over_http(cluster: ClusterProcesses, program: Program) -> None:
    other = cluster.members[1].client
    assert other.register("rust-http", STAYS, PORT, metadata=LONG).status == 200
    program.open("reader", cluster.members[0])
    program.call("subscribe", "reader", service="rust-http")
    program.wait_event("added", "reader", f"{STAYS}:{PORT}")
    assert other.register("rust-http", "10.8.0.1", PORT, metadata=LONG).status == 200
    program.wait_event("added", "reader", f"10.8.0.1:{PORT}", PUSHED_S)
    assert other.deregister("rust-http", "10.8.0.1", PORT).status == 200
    program.wait_event("removed", "reader", f"10.8.0.1:{PORT}", PUSHED_S)


def test_its_instance_is_listed_and_pushed_until_it_deregisters(cluster: ClusterProcesses, program: Program) -> None:
    assert cluster.members[1].client.register("rust", STAYS, PORT, metadata=LONG).status == 200
    program.open("reader", cluster.members[0])
    program.open("writer", cluster.members[2])
    program.call("subscribe", "reader", service="rust")
    program.wait_event("added", "reader", f"{STAYS}:{PORT}")
    ours = {"service": "rust", "ip": "10.8.0.2", "port": PORT}
    assert program.call("register", "writer", **ours, metadata={"zone": "a b"})
    program.wait_event("added", "reader", f"10.8.0.2:{PORT}", PUSHED_S)
    assert program.hosts("reader", "rust")[f"10.8.0.2:{PORT}"]["metadata"] == {"zone": "a b"}
    eventually(lambda: cluster.all_list("rust", {f"{STAYS}:{PORT}", f"10.8.0.2:{PORT}"}), DIRECT_S)
    assert program.call("deregister", "writer", **ours)
    program.wait_event("removed", "reader", f"10.8.0.2:{PORT}", PUSHED_S)
    eventually(lambda: cluster.all_list("rust", {f"{STAYS}:{PORT}"}), DIRECT_S)


def test_a_batch_is_one_registration(cluster: ClusterProcesses, program: Program) -> None:
    """A batch is listed by all members; the next one takes its place; a deregistration ends one of its instances."""
    two = [{"ip": f"10.8.1.{number}", "port": PORT, "metadata": {"number": str(number)}} for number in (1, 2)]
    program.open("writer", cluster.members[0])
    assert program.call("batch", "writer", service="rust-batch", instances=two)
    eventually(lambda: cluster.all_list("rust-batch", {f"10.8.1.1:{PORT}", f"10.8.1.2:{PORT}"}), DIRECT_S)
    three = [*two[1:], {"ip": "10.8.1.3", "port": PORT, "weight": 2.0}]
    assert program.call("batch", "writer", service="rust-batch", instances=three)
    eventually(lambda: cluster.all_list("rust-batch", {f"10.8.1.2:{PORT}", f"10.8.1.3:{PORT}"}), DIRECT_S)
    found = program.hosts("writer", "rust-batch")
    assert found[f"10.8.1.2:{PORT}"]["metadata"] == {"number": "2"}
    assert found[f"10.8.1.3:{PORT}"]["weight"] == 2.0


def test_it_selects_healthy_instances(cluster: ClusterProcesses, program: Program) -> None:
    """Of three persistent instances an operator sets one unhealthy, and takes one out of service."""
    writer = cluster.members[1].client
    names = {"serviceName": "rust-select", "clusterName": "DEFAULT"}
    for ip in ("10.8.2.1", "10.8.2.2", "10.8.2.3"):
        assert writer.register("rust-select", ip, PORT, ephemeral="false").status == 200
    unchecked = {"checkPort": 80, "useInstancePort4Check": "true", "healthChecker": '{"type":"NONE"}'}
    assert writer.call("PUT", "/v3/admin/ns/cluster", **names, **unchecked).status == 200
    unwell = {"ip": "10.8.2.1", "port": PORT, "healthy": "false"}
    assert writer.call("PUT", "/v3/admin/ns/health/instance", **names, **unwell).status == 200
    out = {"ip": "10.8.2.2", "port": PORT, "ephemeral": "false", "enabled": "false"}
    assert writer.call("PUT", "/v3/admin/ns/instance/partial", **names, **out).status == 200
    program.open("reader", cluster.members[0])

    def selected(*, healthy: bool) -> list[str]:
        return [one["ip"] for one in program.call("select", "reader", service="rust-select", healthy=healthy)]

    eventually(lambda: selected(healthy=True) == ["10.8.2.3"], DIRECT_S)
    assert selected(healthy=False) == ["10.8.2.1"]
    assert program.call("select_one", "reader", service="rust-select")["ip"] == "10.8.2.3"
    with pytest.raises(SdkError):
        program.call("select_one", "reader", service="rust-select-none")


def test_an_operators_change_reaches_it(cluster: ClusterProcesses, program: Program) -> None:
    """Weight, metadata and state that an operator sets at another member are pushed, and stay after it registers."""
    operator = cluster.members[1].client
    assert operator.register("rust-changed", STAYS, PORT, metadata=LONG).status == 200
    program.open("reader", cluster.members[0])
    program.open("writer", cluster.members[2])
    program.call("subscribe", "reader", service="rust-changed")
    ours = {"service": "rust-changed", "ip": "10.8.3.1", "port": PORT}
    assert program.call("register", "writer", **ours, metadata={"zone": "a"})
    program.wait_event("added", "reader", f"10.8.3.1:{PORT}", PUSHED_S)

    def change(**values: str) -> None:
        names = {"serviceName": "rust-changed", "ip": "10.8.3.1", "port": PORT}
        assert operator.call("PUT", "/v3/admin/ns/instance/partial", **names, **values).status == 200

    change(weight="5.0", metadata='{"by":"operator"}')
    program.wait_event("changed", "reader", f"10.8.3.1:{PORT}", PUSHED_S)
    wanted = {"zone": "a", "by": "operator"}
    eventually(lambda: program.hosts("reader", "rust-changed")[f"10.8.3.1:{PORT}"]["metadata"] == wanted, DIRECT_S)
    assert program.call("register", "writer", **ours, metadata={"zone": "b"})

    def is_kept() -> bool:
        found = program.hosts("reader", "rust-changed")[f"10.8.3.1:{PORT}"]
        return (found["weight"], found["metadata"]) == (5.0, {"zone": "b", "by": "operator"})

    eventually(is_kept, DIRECT_S)
    change(enabled="false")
    program.wait_event("removed", "reader", f"10.8.3.1:{PORT}", PUSHED_S)


def test_it_moves_to_another_member(program: Program, tmp_path: Path) -> None:
    """The member that it is connected to is killed: it publishes and hears at another, and each member lists it."""
    with running_cluster(tmp_path / "moves", NO_VERIFY) as cluster:
        assert cluster.members[0].client.register("rust-heard", STAYS, PORT, metadata=LONG).status == 200
        eventually(lambda: cluster.all_list("rust-heard", {f"{STAYS}:{PORT}"}))
        program.open("roaming", *cluster)
        assert program.call("register", "roaming", service="rust-roams", ip="10.8.5.1", port=PORT)
        program.call("subscribe", "roaming", service="rust-heard")
        program.wait_event("added", "roaming", f"{STAYS}:{PORT}")
        eventually(lambda: cluster.all_list("rust-roams", {f"10.8.5.1:{PORT}"}))
        [home] = eventually(lambda: connected(cluster.members))
        left = cluster.others(home)
        home.kill_all()
        eventually(lambda: len(connected(left)) == 1)
        eventually(lambda: cluster.all_list("rust-roams", {f"10.8.5.1:{PORT}"}, left))
        write(lambda: left[0].client.register("rust-heard", "10.8.5.2", PORT, metadata=LONG))
        program.wait_event("added", "roaming", f"10.8.5.2:{PORT}")
        write(lambda: left[1].client.register("rust-heard", "10.8.5.3", PORT, metadata=LONG))
        program.wait_event("added", "roaming", f"10.8.5.3:{PORT}", PUSHED_S)
        assert program.call("register", "roaming", service="rust-new", ip="10.8.5.1", port=PORT)
        eventually(lambda: cluster.all_list("rust-new", {f"10.8.5.1:{PORT}"}, left))
        home.restart()
        eventually(lambda: cluster.all_list("rust-roams", {f"10.8.5.1:{PORT}"}))


def connected(members: list[Member]) -> list[Member]:
    """The members that a client over gRPC is connected to."""
    return [one for one in members if one.client.metrics()["rpcSdkConnections"]]
