"""The Rust SDK over gRPC, which drops each request of a server that lacks a field it expects."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.environments import NotInstallable, install_rust
from tests.sdk.program import Program
from tests.sdk.stories import LONG, running_cluster
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
