"""Client libraries that speak gRPC, unchanged, with three members at default timings.

All live through one story side by side, chapter by chapter: at first each with clients at all three members, then one
member is killed, and started again. Each test tells how one library got through one chapter.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.sdk.environments import GRPC_INSTALLERS, Environment
from tests.sdk.program import Program, SdkError
from tests.sdk.stories import LONG, Chapters, Environments, Stories, tell, write
from tests.support.processes import ClusterProcesses, Member, eventually

SEEN_TIMEOUT_S = 3.0
EVENT_TIMEOUT_S = 3.0
BACK_TIMEOUT_S = 60.0
"""Libraries notice a dead connection when they next use it, after 5 s; those of Python redo all each 30 s."""
FROZEN_TIMEOUT_S = 26.0
"""For a connection that is open and silent: 20 s, then up to 3 s until it is asked, and 1 s to answer."""
ATTEMPTS_MAX = 40
"""Of three members a library takes any: all these miss one of them once in ten million times."""
PORT = 8080
METADATA = {"zone": "a b", "größe": "l&m=n"}
CHANGED_METADATA = {"zone": "c.d", "größe": "x l"}
TOLD_OF_NONE = ("java", "java-3")
"""The others' listeners do not hear of an empty list."""
FREEZABLE = ("go", "java", "python-3")
"""The first that is installed is frozen; the quickest to come back is first."""
OTHER = "other"
"""A namespace."""

# With the installation of all libraries, which is only once.
pytestmark = pytest.mark.timeout(480)


def register(
    program: Program,
    client: str,
    service: str,
    ip: str,
    weight: float = 1.0,
    metadata: Mapping[str, str] = METADATA,
    cluster: str = "DEFAULT",
) -> None:
    values = {"ip": ip, "port": PORT, "cluster": cluster, "weight": weight, "metadata": metadata}
    assert program.call("register", client, service=service, **values) is True


def deregister(program: Program, client: str, service: str, ip: str) -> None:
    assert program.call("deregister", client, service=service, ip=ip, port=PORT, cluster="DEFAULT") is True


def named(*ips: str) -> set[str]:
    return {f"{ip}:{PORT}" for ip in ips}


def all_list(cluster: ClusterProcesses, service: str, *ips: str, members: Sequence[Member] | None = None) -> None:
    """Return when the lists over HTTP have these instances and no others."""
    eventually(lambda: cluster.all_list(service, named(*ips), members), SEEN_TIMEOUT_S)


def homes(members: Sequence[Member], service: str, ip: str) -> list[Member]:
    """To which of the members the publishers of an instance are connected."""
    path = "/v2/ns/client/service/publisher/list"
    published = members[-1].client.call("GET", path, serviceName=service, ip=ip, port=PORT).json()["data"]
    publishers = {one["clientId"] for one in published}
    return [one for one in members if publishers & one.client.call("GET", "/v2/core/loader/current").json().keys()]


@pytest.fixture(scope="module")
def chapters(grpc_environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chapters]:
    if not any(isinstance(one, Environment) for one in grpc_environments.values()):
        yield {}
        return
    folder = tmp_path_factory.mktemp("grpc")
    cluster = ClusterProcesses(folder, 3, {})
    moved: dict[str, str] = {}
    try:
        cluster.start()
        with ExitStack() as stack, ThreadPoolExecutor(1) as beside:
            stories = Stories(grpc_environments, folder, stack)
            stories.chapter("life", lambda name, program: live(name, program, cluster))
            stories.chapter("two instances", lambda name, program: share(name, program, cluster))
            stories.chapter("batch", lambda name, program: batch(name, program, cluster))
            stories.chapter("namespaces", lambda name, program: stay_apart(name, program, cluster))
            stories.chapter("refusal", lambda name, program: be_refused(name, program, cluster))
            stories.phase(lambda name, program: moved.update({name: settle(name, program, cluster)}))
            first, *_ = cluster.members
            first.kill_all()
            stories.chapter("failover", lambda name, program: fail_over(name, program, cluster, moved[name]))
            first.restart()
            eventually(lambda: all(map(cluster.all_up, cluster)), BACK_TIMEOUT_S)
            freezable = {name: grpc_environments[name] for name in FREEZABLE}
            frozen = beside.submit(freeze, freezable, cluster, stack)
            stories.chapter("redo", lambda name, program: come_back(name, program, cluster))
            stories.chapter("end", lambda name, program: leave(name, program, cluster))
            yield {**stories.chapters, "frozen": {"": frozen.exception()}}
    finally:
        cluster.end()
    cluster.assert_no_traceback()


# --- with all members ----------------------------------------------------------------------------


def live(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """What one connection publishes is told to another elsewhere, and seen over HTTP; what HTTP registers, too."""
    service, ours, others = f"life-{name}", f"10.7.0.2:{PORT}", f"10.7.0.1:{PORT}"
    assert cluster.members[2].client.register(service, "10.7.0.1", PORT, metadata=LONG).status == 200
    for client, member in zip(("first", "second", "third"), cluster, strict=True):
        program.open(client, member)
    program.call("subscribe", "second", service=service)
    program.wait_event("added", "second", others, EVENT_TIMEOUT_S)

    register(program, "first", service, "10.7.0.2", weight=2.5)
    program.wait_event("added", "second", ours, EVENT_TIMEOUT_S)
    host = program.hosts("second", service)[ours]
    assert (host["weight"], host["metadata"], host["clusterName"]) == (2.5, METADATA, "DEFAULT")
    assert (host["healthy"], host["enabled"], host["ephemeral"]) == (True, True, True)
    all_list(cluster, service, "10.7.0.1", "10.7.0.2")
    eventually(lambda: service in program.call("services", "third"), SEEN_TIMEOUT_S)

    register(program, "first", service, "10.7.0.2", weight=0.5, metadata=CHANGED_METADATA)
    program.wait_event("changed", "second", ours, EVENT_TIMEOUT_S)
    for member in cluster:
        shown = eventually(lambda: member.client.hosts(service)[ours], SEEN_TIMEOUT_S)  # noqa: B023
        assert (shown["weight"], shown["metadata"]) == (0.5, CHANGED_METADATA)

    deregister(program, "first", service, "10.7.0.2")
    program.wait_event("removed", "second", ours, EVENT_TIMEOUT_S)
    all_list(cluster, service, "10.7.0.1")


def share(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """Two clients publish an instance of one service each; one leaves, and the other stays."""
    service, one, other = f"two-{name}", "10.7.3.1", "10.7.3.2"
    program.call("subscribe", "second", service=service)
    for client, ip in (("first", one), ("third", other)):
        register(program, client, service, ip)
        program.wait_event("added", "second", f"{ip}:{PORT}", EVENT_TIMEOUT_S)
    for client in ("first", "second", "third"):
        eventually(lambda: program.hosts(client, service).keys() == named(one, other), SEEN_TIMEOUT_S)  # noqa: B023
    all_list(cluster, service, one, other)

    deregister(program, "first", service, one)
    program.wait_event("removed", "second", f"{one}:{PORT}", EVENT_TIMEOUT_S)
    for client in ("first", "second", "third"):
        eventually(lambda: program.hosts(client, service).keys() == named(other), SEEN_TIMEOUT_S)  # noqa: B023
    all_list(cluster, service, other)
    assert ("removed", "second", f"{other}:{PORT}") not in program.events


def batch(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """Connections stand for several instances of a service at once, and a later batch replaces an earlier one."""
    service = f"batch-{name}"
    program.call("subscribe", "second", service=service)
    publish(program, "first", service, "10.7.2.1", "10.7.2.2", "10.7.2.3")
    publish(program, "third", service, "10.7.2.4", "10.7.2.5")
    all_list(cluster, service, *(f"10.7.2.{number}" for number in range(1, 6)))
    program.wait_event("added", "second", f"10.7.2.5:{PORT}", EVENT_TIMEOUT_S)
    publish(program, "first", service, "10.7.2.1", "10.7.2.3")
    program.wait_event("removed", "second", f"10.7.2.2:{PORT}", EVENT_TIMEOUT_S)
    left = ("10.7.2.1", "10.7.2.3", "10.7.2.4", "10.7.2.5")
    assert program.hosts("second", service).keys() == named(*left)
    all_list(cluster, service, *left)


def publish(program: Program, client: str, service: str, *ips: str) -> None:
    instances = [{"ip": ip, "port": PORT} for ip in ips]
    assert program.call("batch", client, service=service, instances=instances) is True


def stay_apart(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """A service of one name in several namespaces: an empty one is ``public``, and any other sees nothing of that."""
    service = f"spaces-{name}"
    spaces = {"unnamed": "", "public": "public", "apart": OTHER}
    seen = {"unnamed": named("10.7.5.0", "10.7.5.1"), "apart": named("10.7.5.2")}
    seen["public"] = seen["unnamed"]
    for number, (client, namespace) in enumerate(spaces.items()):
        program.open(client, cluster.members[number], namespace=namespace)
        program.call("subscribe", client, service=service)
        register(program, client, service, f"10.7.5.{number}")
    for client, instances in seen.items():
        for instance in instances:
            program.wait_event("added", client, instance, EVENT_TIMEOUT_S)
        eventually(lambda: program.hosts(client, service).keys() == seen[client], SEEN_TIMEOUT_S)  # noqa: B023
        assert {where for _, told, where in program.events if told == client} == instances
    all_list(cluster, service, "10.7.5.0", "10.7.5.1")
    for member in cluster:
        eventually(lambda: member.client.hosts(service, namespaceId=OTHER).keys() == seen["apart"], SEEN_TIMEOUT_S)  # noqa: B023
    for client in spaces:
        program.call("close", client)


def be_refused(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """The caller is told. Libraries try such a one again whenever they redo, so it has a client of its own."""
    program.open("refused", cluster.members[1])
    with pytest.raises(SdkError):
        register(program, "refused", f"refused-{name}", "10.7.0.2", cluster="a_b")
    program.call("close", "refused")


# --- with one member dead, and back --------------------------------------------------------------


def settle(name: str, program: Program, cluster: ClusterProcesses) -> str:
    """Have a client that knows all members and is connected to the first; return the address that it publishes.

    Another that knows the first alone publishes and listens too.
    """
    service = f"roaming-{name}"
    register(program, "first", f"kept-{name}", "10.7.1.1")
    for client in ("first", "second"):
        program.call("subscribe", client, service=f"kept-{name}")
    for number in range(ATTEMPTS_MAX):
        ip = f"10.7.4.{number}"
        program.open("roaming", *cluster)
        register(program, "roaming", service, ip)
        if eventually(lambda: homes(cluster.members, service, ip), SEEN_TIMEOUT_S) == cluster.members[:1]:  # noqa: B023
            program.call("subscribe", "roaming", service=f"told-{name}")
            all_list(cluster, service, ip)
            return ip
        program.call("close", "roaming")
    raise AssertionError(f"never connected to {cluster.members[0]}")


def fail_over(name: str, program: Program, cluster: ClusterProcesses, ip: str) -> None:
    """The library goes to another member by itself, and takes along what it publishes and listens to."""
    _, *left = cluster.members
    service, told = f"roaming-{name}", f"told-{name}"
    # Listed it is all the time, at first as what is left of the dead member.
    [home] = eventually(lambda: homes(left, service, ip), BACK_TIMEOUT_S)
    all_list(cluster, service, ip, members=left)
    [other] = [member for member in left if member is not home]
    write(lambda: other.client.register(told, "10.7.6.1", PORT, metadata=LONG))
    program.wait_event("added", "roaming", f"10.7.6.1:{PORT}", BACK_TIMEOUT_S)
    # Maybe it heard of that when it subscribed anew; of this it is told.
    write(lambda: other.client.register(told, "10.7.6.2", PORT, metadata=LONG))
    program.wait_event("added", "roaming", f"10.7.6.2:{PORT}", EVENT_TIMEOUT_S)
    register(program, "roaming", f"new-{name}", ip)
    all_list(cluster, f"new-{name}", ip, members=left)


def come_back(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """A member forgot all; those that know no other tell it again, what they publish and what they listen to."""
    first, _, third = cluster.members
    eventually(lambda: homes(cluster.members, f"kept-{name}", "10.7.1.1") == [first], BACK_TIMEOUT_S)
    all_list(cluster, f"kept-{name}", "10.7.1.1")
    eventually(lambda: homes(cluster.members, f"batch-{name}", "10.7.2.1") == [first], BACK_TIMEOUT_S)
    all_list(cluster, f"batch-{name}", "10.7.2.1", "10.7.2.3", "10.7.2.4", "10.7.2.5")
    write(lambda: third.client.register(f"kept-{name}", "10.7.1.2", PORT, metadata=LONG))
    program.wait_event("added", "first", f"10.7.1.2:{PORT}", BACK_TIMEOUT_S)
    write(lambda: third.client.deregister(f"kept-{name}", "10.7.1.2", PORT))
    program.wait_event("removed", "first", f"10.7.1.2:{PORT}", EVENT_TIMEOUT_S)


def leave(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """With the connection goes all that it published."""
    program.call("close", "first")
    all_list(cluster, f"kept-{name}")
    all_list(cluster, f"batch-{name}", "10.7.2.4", "10.7.2.5")
    if name in TOLD_OF_NONE:
        program.wait_event("removed", "second", f"10.7.1.1:{PORT}", EVENT_TIMEOUT_S)


def freeze(environments: Environments, cluster: ClusterProcesses, stack: ExitStack) -> None:
    """A machine stops as it is: its connection stays open, and nobody closes it."""
    installed = [one for one in environments.values() if isinstance(one, Environment)]
    if not installed:
        return
    service, ip, told = "frozen", "10.7.7.1", "told-frozen"
    _, second, third = cluster.members
    program = stack.enter_context(Program(installed[0], second.folder / "frozen"))
    program.open("frozen", second)
    program.call("subscribe", "frozen", service=told)
    register(program, "frozen", service, ip)
    all_list(cluster, service, ip)
    program.pause()
    begun_s = time.monotonic()
    eventually(lambda: cluster.all_list(service, set()), FROZEN_TIMEOUT_S)
    print(f"gone on all members after {time.monotonic() - begun_s:.1f} s")
    program.resume()
    eventually(lambda: cluster.all_list(service, named(ip)), BACK_TIMEOUT_S)
    write(lambda: third.client.register(told, "10.7.7.2", PORT, metadata=LONG))
    program.wait_event("added", "frozen", f"10.7.7.2:{PORT}", BACK_TIMEOUT_S)


# --- how it was ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GRPC_INSTALLERS)
@pytest.mark.parametrize(
    "title", ["life", "two instances", "batch", "namespaces", "refusal", "failover", "redo", "end"]
)
def test_a_library_gets_through(title: str, name: str, grpc_environments: Environments, chapters: Chapters) -> None:
    tell(name, grpc_environments, chapters.get(title, {}))


def test_a_frozen_publisher_is_gone_and_comes_back(grpc_environments: Environments, chapters: Chapters) -> None:
    installed = [name for name in FREEZABLE if isinstance(grpc_environments[name], Environment)]
    if not installed:
        pytest.skip(str(grpc_environments[FREEZABLE[0]]))
    if failure := chapters["frozen"][""]:
        raise failure
