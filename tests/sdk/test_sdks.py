"""The official v1 client libraries, unchanged, with a cluster of three at its default timings.

The libraries mostly wait, each for its own beats and polls. So all live through the same story at once, and each test
tells how it was for one of them.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.sdk.environments import INSTALLERS, Environment
from tests.sdk.program import Program
from tests.sdk.stories import LONG, Chapters, Environments, Failures, Stories, tell, write
from tests.support.processes import ClusterProcesses, eventually

SEEN_TIMEOUT_S = 3.0
"""For a change to be on all members; it takes milliseconds."""
EVENT_TIMEOUT_S = 10.0
"""For a library that polls to tell its listener: Node polls every 3 s, and first after 1 s."""
ALIVE_S = float(os.environ.get("ROLLCALL_TEST_BEATS_S", "17"))
"""Longer than an instance without beats stays healthy. A minute, when a whole one is wanted."""
PUSH_TIMEOUT_S = 1.0
"""For a change to a listener; libraries that are pushed to poll every 10 s."""
PUSHED = ("node", "java", "go")
TOLD_OF_NONE = ("java", "go")
"""Libraries whose listeners hear of the last removal; Node's keeps what it had."""
ROUNDS = 3
FIRST_POLL_S = 2.5
"""These libraries poll once more, a second after the first query; then they wait 10 s."""
FAILOVER_TIMEOUT_S = 10.0
"""For a write to the services of a dead member: 4 s until it is DOWN, and two calls of the library that meet 503."""
BACK_TIMEOUT_S = 15.0
"""For the next beat after a restart, which libraries send 5 s after one that failed."""
PORT = 8080
OTHER = "other"
"""A namespace."""
METADATA = {"zone": "a b", "größe": "l&m=n"}
CHANGED_METADATA = {"zone": "c.d", "größe": "x l"}
"""Without signs that mean something in a form: Go sends an update as it is."""

# With the installation of all libraries, which is only once.
pytestmark = pytest.mark.timeout(420 + ALIVE_S)


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
def life(environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chapters]:
    """Each library has clients at all three members."""
    if not any(isinstance(one, Environment) for one in environments.values()):
        yield {}
        return
    folder = tmp_path_factory.mktemp("life")
    cluster = ClusterProcesses(folder, 3, {})
    try:
        cluster.start()
        with ExitStack() as stack:
            stories = Stories(environments, folder, stack)
            stories.chapter("life", lambda name, program: live(name, program, cluster))
            stories.chapter("two instances", lambda name, program: share(name, program, cluster))
            stories.chapter("namespaces", lambda name, program: stay_apart(name, program, cluster))
        yield stories.chapters
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def live(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """It registers at one member, subscribes at another, beats, and deregisters at the third."""
    one, two, three = cluster.members
    service, ours = f"life-{name}", f"10.7.0.2:{PORT}"
    others = anchor(cluster, service)
    eventually(lambda: cluster.all_list(service, {others}), SEEN_TIMEOUT_S)
    for client, member in (("first", one), ("second", two), ("third", three)):
        program.open(client, member)
    program.call("subscribe", "second", service=service)
    register(program, "first", service, "10.7.0.2", weight=2.5)
    register(program, "first", f"{service}-c1", "10.7.0.2", cluster="c1")

    eventually(lambda: ours in program.hosts("second", service), SEEN_TIMEOUT_S)
    host = program.hosts("second", service)[ours]
    assert (host["weight"], host["metadata"], host["clusterName"]) == (2.5, METADATA, "DEFAULT")
    assert (host["healthy"], host["enabled"], host["ephemeral"]) == (True, True, True)
    eventually(lambda: program.hosts("third", f"{service}-c1")[ours]["clusterName"] == "c1", SEEN_TIMEOUT_S)
    program.wait_event("added", "second", ours, EVENT_TIMEOUT_S)
    register(program, "first", service, "10.7.0.2", weight=0.5, metadata=CHANGED_METADATA, op="change")
    program.wait_event("changed", "second", ours, EVENT_TIMEOUT_S)

    # The listener may hear of it before the last member does.
    eventually(lambda: assert_alive(cluster, service, ours) or True, SEEN_TIMEOUT_S)
    program.watch(lambda: assert_alive(cluster, service, ours), ALIVE_S, 1.0)
    assert [found["healthy"] for found in program.hosts("third", f"{service}-c1").values()] == [True]

    # Its beats would bring it back.
    program.call("close", "first")
    deregister(program, "third", service, "10.7.0.2")
    eventually(lambda: cluster.all_list(service, {others}), SEEN_TIMEOUT_S)
    program.wait_event("removed", "second", ours, EVENT_TIMEOUT_S)
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
    program.open("fourth", cluster.members[0])
    program.call("subscribe", "second", service=service)
    register(program, "fourth", service, "10.7.4.1")
    program.wait_event("added", "second", one, EVENT_TIMEOUT_S)
    register(program, "third", service, "10.7.4.2")
    program.wait_event("added", "second", other, EVENT_TIMEOUT_S)
    assert_seen(program, service, {one, other})
    eventually(lambda: cluster.all_list(service, {one, other}), SEEN_TIMEOUT_S)

    deregister(program, "fourth", service, "10.7.4.1")
    program.wait_event("removed", "second", one, EVENT_TIMEOUT_S)
    assert_seen(program, service, {other})
    eventually(lambda: cluster.all_list(service, {other}), SEEN_TIMEOUT_S)
    assert ("removed", "second", other) not in program.events


def assert_seen(program: Program, service: str, expected: set[str]) -> None:
    for client in ("second", "third", "fourth"):
        eventually(lambda: program.hosts(client, service).keys() == expected, EVENT_TIMEOUT_S)  # noqa: B023


def stay_apart(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """A service of one name in several namespaces: an empty one is ``public``, and any other sees nothing of that."""
    service = f"spaces-{name}"
    spaces = {"unnamed": "", "public": "public", "apart": OTHER}
    for number, (client, namespace) in enumerate(spaces.items()):
        program.open(client, cluster.members[number], namespace=namespace)
        register(program, client, service, f"10.7.5.{number}")
    shared, apart = {f"10.7.5.0:{PORT}", f"10.7.5.1:{PORT}"}, {f"10.7.5.2:{PORT}"}
    for client, expected in (("unnamed", shared), ("public", shared), ("apart", apart)):
        eventually(lambda: program.hosts(client, service).keys() == expected, EVENT_TIMEOUT_S)  # noqa: B023
    eventually(lambda: cluster.all_list(service, shared), SEEN_TIMEOUT_S)
    for member in cluster:
        eventually(lambda: member.client.hosts(service, namespaceId=OTHER).keys() == apart, SEEN_TIMEOUT_S)  # noqa: B023


@pytest.mark.parametrize("name", INSTALLERS)
@pytest.mark.parametrize("title", ["life", "two instances", "namespaces"])
def test_a_library_gets_through(title: str, name: str, environments: Environments, life: Chapters) -> None:
    tell(name, environments, life.get(title, {}))


# --- pushes --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pushes(environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failures]:
    """Each library that listens for pushes is told by one member of what another was told."""
    chosen = {name: environments[name] for name in PUSHED}
    if not any(isinstance(one, Environment) for one in chosen.values()):
        yield {}
        return
    folder = tmp_path_factory.mktemp("pushes")
    cluster = ClusterProcesses(folder, 3, {})
    try:
        cluster.start()
        with ExitStack() as stack:
            stories = Stories(chosen, folder, stack)
            stories.phase(lambda name, program: be_pushed(name, program, cluster))
            stories.phase(lambda name, program: acknowledge(name, cluster))
        yield stories.failures
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def be_pushed(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """Every callback comes long before the next poll."""
    one, two, _ = cluster.members
    kept, emptied = f"kept-{name}", f"emptied-{name}"
    anchor(cluster, kept)
    program.open("writer", one)
    program.open("reader", two)
    register(program, "writer", emptied, "10.7.2.1")
    eventually(lambda: cluster.all_list(emptied, {f"10.7.2.1:{PORT}"}), SEEN_TIMEOUT_S)
    for service in (kept, emptied):
        program.call("subscribe", "reader", service=service)
    program.watch(lambda: None, FIRST_POLL_S, FIRST_POLL_S)
    for number in range(ROUNDS):
        ip = f"10.7.3.{number + 1}"
        register(program, "writer", kept, ip)
        program.wait_event("added", "reader", f"{ip}:{PORT}", PUSH_TIMEOUT_S)
        register(program, "writer", kept, ip, weight=0.5, op="change")
        program.wait_event("changed", "reader", f"{ip}:{PORT}", PUSH_TIMEOUT_S)
        deregister(program, "writer", kept, ip)
        program.wait_event("removed", "reader", f"{ip}:{PORT}", PUSH_TIMEOUT_S)
    if name in TOLD_OF_NONE:
        deregister(program, "writer", emptied, "10.7.2.1")
        program.wait_event("removed", "reader", f"10.7.2.1:{PORT}", PUSH_TIMEOUT_S)


def acknowledge(name: str, cluster: ClusterProcesses) -> None:
    """The member knows that all its pushes arrived."""

    def settled() -> bool:
        state = cluster.members[1].client.call("GET", "/v1/ns/operator/push/state", detail="true").json()
        assert not [text for text in state["data"] if f"-{name} " in text], state
        return bool(state["total"] and state["succeed"] == state["total"])

    eventually(settled, SEEN_TIMEOUT_S)


@pytest.mark.parametrize("name", PUSHED)
def test_listeners_are_told_by_push(name: str, environments: Environments, pushes: Failures) -> None:
    tell(name, environments, pushes)


# --- harm ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def harm(environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failures]:
    """Each library knows all members, of which one is killed; later all are killed, and start again with nothing."""
    if not any(isinstance(one, Environment) for one in environments.values()):
        yield {}
        return
    folder = tmp_path_factory.mktemp("harm")
    cluster = ClusterProcesses(folder, 3, {})
    try:
        cluster.start()
        with ExitStack() as stack:
            stories = Stories(environments, folder, stack)
            stories.phase(lambda name, program: prepare(name, program, cluster))
            # The first of the list: that one Python's library uses until it fails.
            cluster.members[0].kill_all()
            stories.phase(lambda name, program: go_on(name, program, cluster))
            for member in cluster.members[1:]:
                member.kill_all()
            cluster.start()
            stories.phase(lambda name, program: come_back(name, program, cluster))
        yield stories.failures
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def prepare(name: str, program: Program, cluster: ClusterProcesses) -> None:
    program.open("client", *cluster)
    register(program, "client", f"kept-{name}", "10.7.1.1")
    eventually(lambda: cluster.all_list(f"kept-{name}", {f"10.7.1.1:{PORT}"}), SEEN_TIMEOUT_S)
    anchor(cluster, f"told-{name}")
    for service in (f"kept-{name}", f"told-{name}"):
        program.call("subscribe", "client", service=service)


def go_on(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """With one member dead: reads at once, writes to its services soon, listeners are told, and nothing is lost."""
    dead, *alive = cluster.members
    kept = f"10.7.1.1:{PORT}"
    # Not the first time for sure: a connection that was just made is reset, which Python's library leaves to its user.
    eventually(lambda: program.hosts("client", f"kept-{name}").keys() == {kept}, SEEN_TIMEOUT_S)
    service = cluster.service_of(dead, f"new-{name}")

    def registers() -> bool:
        register(program, "client", service, "10.7.1.2")
        return True

    eventually(registers, FAILOVER_TIMEOUT_S)
    eventually(lambda: cluster.all_list(service, {f"10.7.1.2:{PORT}"}, alive), SEEN_TIMEOUT_S)
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
        program.wait_event("added", "client", f"10.7.1.5:{PORT}", EVENT_TIMEOUT_S)


def come_back(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """With the memory of all members gone: full beats bring the instances back, and listeners hear of what is new."""
    eventually(lambda: cluster.all_list(f"kept-{name}", {f"10.7.1.1:{PORT}"}), BACK_TIMEOUT_S)
    host = program.hosts("client", f"kept-{name}")[f"10.7.1.1:{PORT}"]
    assert (host["healthy"], host["metadata"]) == (True, METADATA)
    register(program, "client", f"kept-{name}", "10.7.1.3")
    if name in PUSHED:
        program.wait_event("added", "client", f"10.7.1.3:{PORT}", BACK_TIMEOUT_S)


@pytest.mark.parametrize("name", INSTALLERS)
def test_a_killed_member_and_a_restart_of_all_are_survived(
    name: str, environments: Environments, harm: Failures
) -> None:
    tell(name, environments, harm)
