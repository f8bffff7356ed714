"""The client libraries of Java and Go since 2.0, unchanged: a life, a batch, a node that is killed, and the end."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.sdk.environments import GRPC_INSTALLERS, Environment
from tests.sdk.program import Program
from tests.sdk.stories import Environments, Failures, Stories, tell
from tests.support.processes import ClusterProcesses, Member, eventually

SEEN_TIMEOUT_S = 3.0
EVENT_TIMEOUT_S = 3.0
BACK_TIMEOUT_S = 60.0
"""Libraries notice a dead connection when they next use it, and tell all again some seconds later."""
PORT = 8080
METADATA = {"zone": "a b", "größe": "l&m=n"}
CHANGED_METADATA = {"zone": "c.d", "größe": "x l"}
TOLD_OF_NONE = ("java",)
"""Go's listener does not hear of an empty list."""

# With the installation of all libraries, which is only once.
pytestmark = pytest.mark.timeout(420)


def register(
    program: Program, client: str, service: str, ip: str, weight: float = 1.0, metadata: Mapping[str, str] = METADATA
) -> None:
    values = {"ip": ip, "port": PORT, "cluster": "DEFAULT", "weight": weight, "metadata": metadata}
    assert program.call("register", client, service=service, **values) is True


def lists(member: Member, service: str, *ips: str) -> bool:
    """Whether the list over HTTP has these instances and no others."""
    return member.client.hosts(service).keys() == {f"{ip}:{PORT}" for ip in ips}


@pytest.fixture(scope="module")
def life(grpc_environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failures]:
    """Each library lives with a node of its own kind of data: it publishes, listens, and lives through a restart."""
    if not any(isinstance(one, Environment) for one in grpc_environments.values()):
        yield {}
        return
    folder = tmp_path_factory.mktemp("grpc")
    cluster = ClusterProcesses(folder, 1, {"nacos.standalone": "true"})
    try:
        cluster.start()
        (node,) = cluster.members
        with ExitStack() as stack:
            stories = Stories(grpc_environments, folder, stack)
            stories.phase(lambda name, program: live(name, program, node))
            stories.phase(lambda name, program: batch(name, program, node))
            node.kill_all()
            cluster.start()
            stories.phase(lambda name, program: come_back(name, program, node))
            stories.phase(lambda name, program: leave(name, program, node))
        yield stories.failures
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def live(name: str, program: Program, node: Member) -> None:
    """What one connection publishes is told to another, and seen over HTTP; what HTTP registers, too."""
    service, ours, others = f"life-{name}", f"10.7.0.2:{PORT}", f"10.7.0.1:{PORT}"
    assert node.client.register(service, "10.7.0.1", PORT).status == 200
    for client in ("first", "second"):
        program.open(client, node)
    program.call("subscribe", "second", service=service)
    program.wait_event("added", "second", others, EVENT_TIMEOUT_S)

    register(program, "first", service, "10.7.0.2", weight=2.5)
    program.wait_event("added", "second", ours, EVENT_TIMEOUT_S)
    host = program.hosts("second", service)[ours]
    assert (host["weight"], host["metadata"], host["clusterName"]) == (2.5, METADATA, "DEFAULT")
    assert (host["healthy"], host["enabled"], host["ephemeral"]) == (True, True, True)
    assert lists(node, service, "10.7.0.1", "10.7.0.2")

    register(program, "first", service, "10.7.0.2", weight=0.5, metadata=CHANGED_METADATA)
    program.wait_event("changed", "second", ours, EVENT_TIMEOUT_S)
    shown = node.client.hosts(service)[ours]
    assert (shown["weight"], shown["metadata"]) == (0.5, CHANGED_METADATA)

    removal = {"service": service, "ip": "10.7.0.2", "port": PORT, "cluster": "DEFAULT"}
    assert program.call("deregister", "first", **removal) is True
    program.wait_event("removed", "second", ours, EVENT_TIMEOUT_S)
    assert lists(node, service, "10.7.0.1")


def batch(name: str, program: Program, node: Member) -> None:
    """A connection stands for several instances of a service at once."""
    service = f"batch-{name}"
    for count in (3, 2):
        instances = [{"ip": f"10.7.2.{number}", "port": PORT} for number in range(count)]
        assert program.call("batch", "first", service=service, instances=instances) is True
        eventually(lambda: lists(node, service, *(one["ip"] for one in instances)), SEEN_TIMEOUT_S)  # noqa: B023
    register(program, "first", f"kept-{name}", "10.7.1.1")


def come_back(name: str, program: Program, node: Member) -> None:
    """The node forgot all; the libraries tell it again, what they publish and what they want to be told of."""
    eventually(lambda: lists(node, f"kept-{name}", "10.7.1.1"), BACK_TIMEOUT_S)
    eventually(lambda: lists(node, f"batch-{name}", "10.7.2.0", "10.7.2.1"), BACK_TIMEOUT_S)
    program.events.clear()

    def is_told() -> bool:
        register(program, "first", f"life-{name}", "10.7.0.3")
        program.wait_event("added", "second", f"10.7.0.3:{PORT}", 1.0)
        return True

    eventually(is_told, BACK_TIMEOUT_S)


def leave(name: str, program: Program, node: Member) -> None:
    """With the connection goes all that it published."""
    program.call("close", "first")
    eventually(lambda: lists(node, f"kept-{name}") and lists(node, f"batch-{name}"), SEEN_TIMEOUT_S)
    if name in TOLD_OF_NONE:
        program.wait_event("removed", "second", f"10.7.0.3:{PORT}", EVENT_TIMEOUT_S)


@pytest.mark.parametrize("name", GRPC_INSTALLERS)
def test_what_a_connection_publishes(name: str, grpc_environments: Environments, life: Failures) -> None:
    tell(name, grpc_environments, life)
