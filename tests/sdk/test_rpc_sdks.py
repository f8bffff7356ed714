"""Client libraries that speak gRPC, unchanged, with one node: what each does and hears."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.environments import PYTHON_RPC_SDKS, NotInstallable, install_python_rpc
from tests.sdk.program import Program, SdkError
from tests.support.processes import ClusterProcesses, Member, eventually

SOON_S = 1.0
"""For a change to reach a listener."""
REDO_S = 50.0
"""For a library to connect again and to bring all back: it looks every 30 s for what it has to."""
PORT = 8080
METADATA = {"zone": "a b", "größe": "l&m=n"}

pytestmark = pytest.mark.timeout(420)


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    cluster = ClusterProcesses(tmp_path_factory.mktemp("rpc-sdks"), 1, {"nacos.standalone": "true"})
    [member] = cluster
    try:
        member.start()
        member.wait_ready()
        yield member
    finally:
        cluster.end()
    cluster.assert_no_traceback()


@pytest.fixture(params=PYTHON_RPC_SDKS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Program]:
    try:
        environment = install_python_rpc(request.param)
    except NotInstallable as error:
        pytest.skip(str(error))
    with Program(environment, tmp_path / "program") as running:
        yield running


def register(program: Program, client: str, service: str, ip: str, **more: object) -> None:
    values = {"ip": ip, "port": PORT, "cluster": "DEFAULT", "weight": 2.5, "metadata": METADATA, **more}
    assert program.call("register", client, service=service, **values) is True


def test_a_life(program: Program, member: Member) -> None:
    service = "rpc-life"
    program.open("one", member)
    program.open("two", member)
    program.call("subscribe", "two", service=service)

    register(program, "one", service, "10.7.0.2")
    program.wait_event("added", "two", f"10.7.0.2:{PORT}", SOON_S)
    host = program.hosts("two", service)[f"10.7.0.2:{PORT}"]
    assert (host["weight"], host["metadata"], host["clusterName"]) == (2.5, METADATA, "DEFAULT")
    assert service in program.call("services", "two")
    assert set(member.client.hosts(service)) == {f"10.7.0.2:{PORT}"}

    member.client.register(service, "10.7.0.3", PORT)
    program.wait_event("added", "two", f"10.7.0.3:{PORT}", SOON_S)
    member.client.deregister(service, "10.7.0.3", PORT)
    program.wait_event("removed", "two", f"10.7.0.3:{PORT}", SOON_S)

    assert program.call("batch", "one", service="rpc-batch", ip="10.7.0.2", ports=[1, 2, 3]) is True
    assert len(program.hosts("two", "rpc-batch")) == 3
    where = {"ip": "10.7.0.2", "port": PORT, "cluster": "DEFAULT"}
    assert program.call("deregister", "one", service=service, **where) is True
    # The subscriber keeps what it had, as these libraries take no empty list; who asks sees none.
    assert member.client.hosts(service) == {}
    assert len(member.client.hosts("rpc-batch")) == 3
    program.end()
    eventually(lambda: not member.client.hosts("rpc-batch"), SOON_S)


def test_all_comes_back_after_the_node_restarts(program: Program, member: Member) -> None:
    service = "rpc-redo"
    program.open("one", member)
    program.open("two", member)
    program.call("subscribe", "two", service=service)
    register(program, "one", service, "10.7.0.2")
    program.wait_event("added", "two", f"10.7.0.2:{PORT}", SOON_S)
    member.stop()
    member.restart()
    eventually(lambda: f"10.7.0.2:{PORT}" in member.client.hosts(service), REDO_S)
    member.client.register(service, "10.7.0.9", PORT)
    program.wait_event("added", "two", f"10.7.0.9:{PORT}", REDO_S)


def test_a_refusal_is_told_to_the_caller(program: Program, member: Member) -> None:
    program.open("one", member)
    with pytest.raises(SdkError):
        register(program, "one", "rpc-refused", "10.7.0.2", cluster="a_b")
