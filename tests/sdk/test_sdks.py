"""The official v1 client libraries, unchanged, with a cluster of three at its default timings.

The libraries mostly wait, each for its own beats and polls. So all live through a chapter side by side, and each test
tells how one chapter was for one of them.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.sdk.environments import INSTALLERS
from tests.sdk.program import Program
from tests.sdk.stories import LONG, Environments, Failures, Story, tell, write
from tests.support.processes import NO_VERIFY, ClusterProcesses, eventually

ALIVE_S = float(os.environ.get("ROLLCALL_TEST_BEATS_S", "17"))
"""Longer than an instance without beats stays healthy. A minute, when a whole one is wanted."""
PUSHES_MAX_S = 60.0
"""For nine changes, each made when the one before was told; polls, which come each 10 s, would take longer."""
PUSHED = ("node", "java", "go")
TOLD_OF_NONE = ("java", "go")
"""Libraries whose listeners hear of the last removal; Node's keeps what it had."""
ROUNDS = 3
FIRST_POLL_S = 2.5
"""These libraries poll once more, a second after the first query; then they wait 10 s."""
PORT = 8080
OTHER = "other"
"""A namespace."""
SHARERS = ("leaver", "reader", "stayer")
METADATA = {"zone": "a b", "größe": "l&m=n"}
CHANGED_METADATA = {"zone": "c.d", "größe": "x l"}
"""Without signs that mean something in a form: Go sends an update as it is."""

# With the installation of all libraries, which is only once.
pytestmark = pytest.mark.timeout(1_200 + ALIVE_S)


def register(
    program: Program,
    client: str,
    service: str,
    ip: str,
    cluster: str = "DEFAULT",
    weight: float = 1.0,
    metadata: Mapping[str, str] = METADATA,
    op: str = "register",
) -> None:
    """Register an instance, or have it changed."""
    values = {"ip": ip, "port": PORT, "cluster": cluster, "weight": weight, "metadata": metadata}
    assert program.call(op, client, service=service, **values) is True


def deregister(program: Program, client: str, service: str, ip: str) -> None:
    assert program.call("deregister", client, service=service, ip=ip, port=PORT, cluster="DEFAULT") is True


def anchor(cluster: ClusterProcesses, service: str) -> str:
    """Register an instance that needs no beats for the length of a test, as Node's library ignores an empty list."""
    assert cluster.members[0].client.register(service, "10.7.0.1", PORT, metadata=LONG).status == 200
    return f"10.7.0.1:{PORT}"


# --- a life --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def story(environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Each library has clients at all three members, and no verify round brings what was not sent."""
    with ExitStack() as stack:
        yield Story(environments, CHAPTERS, tmp_path_factory.mktemp("story"), stack, NO_VERIFY)


def live(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """It registers at one member, subscribes at another, beats, and deregisters at the third."""
    one, two, three = cluster.members
    service, ours = f"life-{name}", f"10.7.0.2:{PORT}"
    others = anchor(cluster, service)
    eventually(lambda: cluster.all_list(service, {others}))
    for client, member in (("first", one), ("second", two), ("third", three)):
        program.open(client, member)
    program.call("subscribe", "second", service=service)
    register(program, "first", service, "10.7.0.2", weight=2.5)
    register(program, "first", f"{service}-c1", "10.7.0.2", cluster="c1")

    eventually(lambda: ours in program.hosts("second", service))
    host = program.hosts("second", service)[ours]
    assert (host["weight"], host["metadata"], host["clusterName"]) == (2.5, METADATA, "DEFAULT")
    assert (host["healthy"], host["enabled"], host["ephemeral"]) == (True, True, True)
    eventually(lambda: program.hosts("third", f"{service}-c1")[ours]["clusterName"] == "c1")
    program.wait_event("added", "second", ours)
    register(program, "first", service, "10.7.0.2", weight=0.5, metadata=CHANGED_METADATA, op="change")
    program.wait_event("changed", "second", ours)

    # The listener may hear of it before the last member does.
    eventually(lambda: assert_alive(cluster, service, ours) or True)
    program.watch(lambda: assert_alive(cluster, service, ours), ALIVE_S, 1.0)
    assert [found["healthy"] for found in program.hosts("third", f"{service}-c1").values()] == [True]

    # Its beats would bring it back.
    program.call("close", "first")
    deregister(program, "third", service, "10.7.0.2")
    eventually(lambda: cluster.all_list(service, {others}))
    program.wait_event("removed", "second", ours)
    assert program.hosts("second", service).keys() == {others}


def assert_alive(cluster: ClusterProcesses, service: str, instance: str) -> None:
    for member in cluster:
        host = member.client.hosts(service).get(instance)
        assert host, f"{instance} is missing at {member}"
        assert host["healthy"], f"{instance} is unhealthy at {member}"
        assert (host["weight"], host["metadata"]) == (0.5, CHANGED_METADATA)


def share(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """Two clients register an instance of one service each; one leaves, and the other stays."""
    service, one, other = f"two-{name}", f"10.7.4.1:{PORT}", f"10.7.4.2:{PORT}"
    for client, member in zip(SHARERS, cluster, strict=True):
        program.open(client, member)
    leaver, reader, stayer = SHARERS
    program.call("subscribe", reader, service=service)
    register(program, leaver, service, "10.7.4.1")
    program.wait_event("added", reader, one)
    register(program, stayer, service, "10.7.4.2")
    program.wait_event("added", reader, other)
    assert_seen(program, service, {one, other})
    eventually(lambda: cluster.all_list(service, {one, other}))

    deregister(program, leaver, service, "10.7.4.1")
    program.wait_event("removed", reader, one)
    assert_seen(program, service, {other})
    eventually(lambda: cluster.all_list(service, {other}))
    assert ("removed", reader, other) not in program.events


def assert_seen(program: Program, service: str, expected: set[str]) -> None:
    for client in SHARERS:
        eventually(lambda: program.hosts(client, service).keys() == expected)  # noqa: B023


def stay_apart(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """A service of one name in several namespaces: an empty one is ``public``, and any other sees nothing of that."""
    service = f"spaces-{name}"
    spaces = {"unnamed": "", "public": "public", "apart": OTHER}
    for number, (client, namespace) in enumerate(spaces.items()):
        program.open(client, cluster.members[number], namespace=namespace)
        register(program, client, service, f"10.7.5.{number}")
    shared, apart = {f"10.7.5.0:{PORT}", f"10.7.5.1:{PORT}"}, {f"10.7.5.2:{PORT}"}
    for client, expected in (("unnamed", shared), ("public", shared), ("apart", apart)):
        eventually(lambda: program.hosts(client, service).keys() == expected)  # noqa: B023
    eventually(lambda: cluster.all_list(service, shared))
    for member in cluster:
        eventually(lambda: member.client.hosts(service, namespaceId=OTHER).keys() == apart)  # noqa: B023


@pytest.mark.parametrize("name", INSTALLERS)
@pytest.mark.parametrize("title", ["life", "two instances", "namespaces"])
def test_a_library_gets_through(
    title: str, name: str, environments: Environments, request: pytest.FixtureRequest
) -> None:
    tell(title, name, environments, request)


# --- pushes --------------------------------------------------------------------------------------


def pushes(story: Story) -> Failures:
    """Each library that listens for pushes is told by one member of what another was told."""
    with story.apart("pushes", PUSHED) as (chapter, cluster):
        chapter.phase(lambda name, program: be_pushed(name, program, cluster))
        return chapter.phase(lambda name, program: acknowledge(name, cluster))


def be_pushed(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """Every callback comes long before the next poll."""
    one, two, _ = cluster.members
    kept, emptied = f"kept-{name}", f"emptied-{name}"
    anchor(cluster, kept)
    program.open("writer", one)
    program.open("reader", two)
    register(program, "writer", emptied, "10.7.2.1")
    eventually(lambda: cluster.all_list(emptied, {f"10.7.2.1:{PORT}"}))
    for service in (kept, emptied):
        program.call("subscribe", "reader", service=service)
    program.watch(lambda: None, FIRST_POLL_S, FIRST_POLL_S)
    begun_s = time.monotonic()
    for number in range(ROUNDS):
        ip = f"10.7.3.{number + 1}"
        register(program, "writer", kept, ip)
        program.wait_event("added", "reader", f"{ip}:{PORT}")
        register(program, "writer", kept, ip, weight=0.5, op="change")
        program.wait_event("changed", "reader", f"{ip}:{PORT}")
        deregister(program, "writer", kept, ip)
        program.wait_event("removed", "reader", f"{ip}:{PORT}")
    assert time.monotonic() - begun_s < PUSHES_MAX_S
    if name in TOLD_OF_NONE:
        deregister(program, "writer", emptied, "10.7.2.1")
        program.wait_event("removed", "reader", f"10.7.2.1:{PORT}")


def acknowledge(name: str, cluster: ClusterProcesses) -> None:
    """The member knows that all its pushes arrived."""

    def settled() -> bool:
        state = cluster.members[1].client.call("GET", "/v1/ns/operator/push/state", detail="true").json()
        assert not [text for text in state["data"] if f"-{name} " in text], state
        return bool(state["total"] and state["succeed"] == state["total"])

    eventually(settled)


@pytest.mark.parametrize("name", PUSHED)
def test_listeners_are_told_by_push(name: str, environments: Environments, request: pytest.FixtureRequest) -> None:
    tell("pushes", name, environments, request)


# --- harm ----------------------------------------------------------------------------------------


def harm(story: Story) -> Failures:
    """Each library knows all members, of which one is killed; later all are killed, and start again with nothing."""
    with story.apart("harm") as (chapter, cluster):
        chapter.phase(lambda name, program: prepare(name, program, cluster))
        # The first of the list: that one Python's library uses until it fails.
        cluster.members[0].kill_all()
        chapter.phase(lambda name, program: go_on(name, program, cluster))
        for member in cluster.members[1:]:
            member.kill_all()
        cluster.start()
        return chapter.phase(lambda name, program: come_back(name, program, cluster))


def prepare(name: str, program: Program, cluster: ClusterProcesses) -> None:
    program.open("client", *cluster)
    register(program, "client", f"kept-{name}", "10.7.1.1")
    eventually(lambda: cluster.all_list(f"kept-{name}", {f"10.7.1.1:{PORT}"}))
    anchor(cluster, f"told-{name}")
    for service in (f"kept-{name}", f"told-{name}"):
        program.call("subscribe", "client", service=service)


def go_on(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """With one member dead: reads at once, writes to its services soon, listeners are told, and nothing is lost."""
    dead, *alive = cluster.members
    kept = f"10.7.1.1:{PORT}"
    # Not the first time for sure: a connection that was just made is reset, which Python's library leaves to its user.
    eventually(lambda: program.hosts("client", f"kept-{name}").keys() == {kept})
    service = cluster.service_of(dead, f"new-{name}")

    def registers() -> bool:
        register(program, "client", service, "10.7.1.2")
        return True

    eventually(registers)
    eventually(lambda: cluster.all_list(service, {f"10.7.1.2:{PORT}"}, alive))
    write(lambda: alive[-1].client.register(f"told-{name}", "10.7.1.5", PORT, metadata=LONG))

    def assert_kept() -> None:
        for member in alive:
            host = member.client.hosts(f"kept-{name}").get(kept)
            assert host, f"{kept} is missing at {member}"
            assert host["healthy"], f"{kept} is unhealthy at {member}"

    program.watch(assert_kept, ALIVE_S, 1.0)
    assert program.hosts("client", service).keys() == {f"10.7.1.2:{PORT}"}
    # The polls of Python's library end for good with the first that fails.
    if name in PUSHED:
        program.wait_event("added", "client", f"10.7.1.5:{PORT}")


def come_back(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """With the memory of all members gone: full beats bring the instances back, and listeners hear of what is new."""
    eventually(lambda: cluster.all_list(f"kept-{name}", {f"10.7.1.1:{PORT}"}))
    host = program.hosts("client", f"kept-{name}")[f"10.7.1.1:{PORT}"]
    assert (host["healthy"], host["metadata"]) == (True, METADATA)
    register(program, "client", f"kept-{name}", "10.7.1.3")
    if name in PUSHED:
        program.wait_event("added", "client", f"10.7.1.3:{PORT}")


@pytest.mark.parametrize("name", INSTALLERS)
def test_a_killed_member_and_a_restart_of_all_are_survived(
    name: str, environments: Environments, request: pytest.FixtureRequest
) -> None:
    tell("harm", name, environments, request)


CHAPTERS = {
    "life": lambda story: story.each(live),
    "two instances": lambda story: story.each(share),
    "namespaces": lambda story: story.each(stay_apart),
    "pushes": pushes,
    "harm": harm,
}
