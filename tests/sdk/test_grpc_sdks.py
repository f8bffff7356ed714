"""Client libraries that speak gRPC, unchanged, with three members at default timings.

All live through a chapter side by side: in some each with clients at all three members, in others one member is killed,
and started again. Each test tells how one library got through one chapter.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from tests.sdk.environments import GRPC_INSTALLERS, Environment
from tests.sdk.program import Program, SdkError
from tests.sdk.stories import LONG, Environments, Failures, Programs, Story, tell, write
from tests.support.processes import DIRECT_S, NO_VERIFY, ClusterProcesses, Member, eventually

BACK_TIMEOUT_S = 120.0
"""Libraries notice a dead connection when they next use it, after 5 s; those of Python redo all each 30 s."""
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
SHARERS = ("leaver", "reader", "stayer")
BATCHERS = ("many", "batch-reader", "few")

# With the installation of all libraries, which is only once.
pytestmark = pytest.mark.timeout(1_200)


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
    eventually(lambda: cluster.all_list(service, named(*ips), members), DIRECT_S)


def homes(members: Sequence[Member], service: str, ip: str) -> list[Member]:
    """To which of the members the publishers of an instance are connected."""
    path = "/v2/ns/client/service/publisher/list"
    published = members[-1].client.call("GET", path, serviceName=service, ip=ip, port=PORT).json()["data"]
    publishers = {one["clientId"] for one in published}
    return [one for one in members if publishers & one.client.call("GET", "/v2/core/loader/current").json().keys()]


@pytest.fixture(scope="module")
def story(grpc_environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with ExitStack() as stack:
        yield Story(grpc_environments, CHAPTERS, tmp_path_factory.mktemp("grpc"), stack, NO_VERIFY)


# --- with all members ----------------------------------------------------------------------------


def live(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """What one connection publishes is told to another elsewhere, and seen over HTTP; what HTTP registers, too."""
    service, ours, others = f"life-{name}", f"10.7.0.2:{PORT}", f"10.7.0.1:{PORT}"
    assert cluster.members[2].client.register(service, "10.7.0.1", PORT, metadata=LONG).status == 200
    for client, member in zip(("first", "second", "third"), cluster, strict=True):
        program.open(client, member)
    program.call("subscribe", "second", service=service)
    program.wait_event("added", "second", others)

    register(program, "first", service, "10.7.0.2", weight=2.5)
    program.wait_event("added", "second", ours)
    host = program.hosts("second", service)[ours]
    assert (host["weight"], host["metadata"], host["clusterName"]) == (2.5, METADATA, "DEFAULT")
    assert (host["healthy"], host["enabled"], host["ephemeral"]) == (True, True, True)
    all_list(cluster, service, "10.7.0.1", "10.7.0.2")
    eventually(lambda: service in program.call("services", "third"))

    register(program, "first", service, "10.7.0.2", weight=0.5, metadata=CHANGED_METADATA)
    program.wait_event("changed", "second", ours)
    eventually(lambda: all(is_changed(member.client.hosts(service)[ours]) for member in cluster))

    deregister(program, "first", service, "10.7.0.2")
    program.wait_event("removed", "second", ours)
    all_list(cluster, service, "10.7.0.1")


def is_changed(host: Mapping[str, Any]) -> bool:
    assert (host["weight"], host["metadata"]) == (0.5, CHANGED_METADATA)
    return True


def share(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """Two clients publish an instance of one service each; one leaves, and the other stays."""
    service, one, other = f"two-{name}", "10.7.3.1", "10.7.3.2"
    for client, member in zip(SHARERS, cluster, strict=True):
        program.open(client, member)
    leaver, reader, stayer = SHARERS
    program.call("subscribe", reader, service=service)
    for client, ip in ((leaver, one), (stayer, other)):
        register(program, client, service, ip)
        program.wait_event("added", reader, f"{ip}:{PORT}")
    for client in SHARERS:
        eventually(lambda: program.hosts(client, service).keys() == named(one, other))  # noqa: B023
    all_list(cluster, service, one, other)

    deregister(program, leaver, service, one)
    program.wait_event("removed", reader, f"{one}:{PORT}")
    for client in SHARERS:
        eventually(lambda: program.hosts(client, service).keys() == named(other))  # noqa: B023
    all_list(cluster, service, other)
    assert ("removed", reader, f"{other}:{PORT}") not in program.events


def batch(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """Connections stand for several instances of a service at once, and a later batch replaces an earlier one."""
    service = f"batch-{name}"
    for client, member in zip(BATCHERS, cluster, strict=True):
        program.open(client, member)
    first, reader, other = BATCHERS
    program.call("subscribe", reader, service=service)
    publish(program, first, service, "10.7.2.1", "10.7.2.2", "10.7.2.3")
    publish(program, other, service, "10.7.2.4", "10.7.2.5")
    all_list(cluster, service, *(f"10.7.2.{number}" for number in range(1, 6)))
    for number in (2, 5):  # what was never told is not told to be gone
        program.wait_event("added", reader, f"10.7.2.{number}:{PORT}")
    publish(program, first, service, "10.7.2.1", "10.7.2.3")
    program.wait_event("removed", reader, f"10.7.2.2:{PORT}")
    left = ("10.7.2.1", "10.7.2.3", "10.7.2.4", "10.7.2.5")
    assert program.hosts(reader, service).keys() == named(*left)
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
            program.wait_event("added", client, instance)
        eventually(lambda: program.hosts(client, service).keys() == seen[client])  # noqa: B023
        assert {where for _, told, where in program.events if told == client} == instances
    all_list(cluster, service, "10.7.5.0", "10.7.5.1")
    for member in cluster:
        eventually(lambda: member.client.hosts(service, namespaceId=OTHER).keys() == seen["apart"])  # noqa: B023
    for client in spaces:
        program.call("close", client)


def be_refused(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """The caller is told. Libraries try such a one again whenever they redo, so it has a client of its own."""
    program.open("refused", cluster.members[1])
    with pytest.raises(SdkError):
        register(program, "refused", f"refused-{name}", "10.7.0.2", cluster="a_b")
    program.call("close", "refused")


# --- with one member dead, and back --------------------------------------------------------------


def failover(story: Story) -> Failures:
    """The member that a client of each library is connected to is killed."""
    moved: dict[str, str] = {}
    with story.apart("failover") as (chapter, cluster):
        chapter.phase(lambda name, program: moved.update({name: settle(name, program, cluster)}))
        cluster.members[0].kill_all()
        return chapter.phase(lambda name, program: fail_over(name, program, cluster, moved[name]))


def settle(name: str, program: Program, cluster: ClusterProcesses) -> str:
    """Have a client that knows all members and is connected to the first; return the address that it publishes."""
    service = f"roaming-{name}"
    for number in range(ATTEMPTS_MAX):
        ip = f"10.7.4.{number}"
        program.open("roaming", *cluster)
        register(program, "roaming", service, ip)
        if eventually(lambda: homes(cluster.members, service, ip)) == cluster.members[:1]:  # noqa: B023
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
    program.wait_event("added", "roaming", f"10.7.6.2:{PORT}")
    register(program, "roaming", f"new-{name}", ip)
    all_list(cluster, f"new-{name}", ip, members=left)


def redo(story: Story) -> Failures:
    """A member is killed and started again, to which clients of each library are connected that know no other."""
    with story.beside("frozen"), story.apart("redo") as (chapter, cluster):
        chapter.phase(lambda name, program: publish_at_the_first(name, program, cluster))
        first, *others = cluster.members
        first.kill_all()
        eventually(lambda: all(one.client.states()[first.address] == "DOWN" for one in others))
        first.restart()
        eventually(lambda: all(map(cluster.all_up, cluster)))
        return chapter.phase(lambda name, program: come_back(name, program, cluster))


def publish_at_the_first(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """Have a client at the first member that publishes one instance, two more by a batch, and listens."""
    program.open("first", cluster.members[0])
    register(program, "first", f"kept-{name}", "10.7.1.1")
    publish(program, "first", f"batch-{name}", "10.7.2.1", "10.7.2.3")
    program.call("subscribe", "first", service=f"kept-{name}")
    all_list(cluster, f"kept-{name}", "10.7.1.1")
    all_list(cluster, f"batch-{name}", "10.7.2.1", "10.7.2.3")


def come_back(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """A member forgot all; those that know no other tell it again, what they publish and what they listen to."""
    first, _, third = cluster.members
    eventually(lambda: homes(cluster.members, f"kept-{name}", "10.7.1.1") == [first], BACK_TIMEOUT_S)
    all_list(cluster, f"kept-{name}", "10.7.1.1")
    eventually(lambda: homes(cluster.members, f"batch-{name}", "10.7.2.1") == [first], BACK_TIMEOUT_S)
    all_list(cluster, f"batch-{name}", "10.7.2.1", "10.7.2.3")
    write(lambda: third.client.register(f"kept-{name}", "10.7.1.2", PORT, metadata=LONG))
    program.wait_event("added", "first", f"10.7.1.2:{PORT}", BACK_TIMEOUT_S)
    write(lambda: third.client.deregister(f"kept-{name}", "10.7.1.2", PORT))
    program.wait_event("removed", "first", f"10.7.1.2:{PORT}")
    program.call("close", "first")
    all_list(cluster, f"kept-{name}")
    all_list(cluster, f"batch-{name}")


# --- the end of a connection ---------------------------------------------------------------------


def leave(name: str, program: Program, cluster: ClusterProcesses) -> None:
    """With the connection goes all that it published."""
    service, batched = f"leaves-{name}", f"leaves-batch-{name}"
    for client, member in zip(("leaves", "told-of-it", "goes-on"), cluster, strict=True):
        program.open(client, member)
    program.call("subscribe", "told-of-it", service=service)
    register(program, "leaves", service, "10.7.1.1")
    publish(program, "leaves", batched, "10.7.2.1", "10.7.2.3")
    publish(program, "goes-on", batched, "10.7.2.4", "10.7.2.5")
    program.wait_event("added", "told-of-it", f"10.7.1.1:{PORT}")
    all_list(cluster, service, "10.7.1.1")
    all_list(cluster, batched, "10.7.2.1", "10.7.2.3", "10.7.2.4", "10.7.2.5")
    program.call("close", "leaves")
    all_list(cluster, service)
    all_list(cluster, batched, "10.7.2.4", "10.7.2.5")
    if name in TOLD_OF_NONE:
        program.wait_event("removed", "told-of-it", f"10.7.1.1:{PORT}")


def freeze(story: Story) -> Failures:
    """A machine stops as it is: its connection stays open, and nobody closes it. With one library."""
    cluster = story.cluster
    [name, *_] = [one for one in FREEZABLE if isinstance(story.environments[one], Environment)]
    with ExitStack() as stack:
        chapter = Programs({name: story.environments[name]}, cluster.members[0].folder / "frozen", stack).chapter()
        failures = chapter.phase(lambda _, program: be_frozen(program, cluster))
    # It stands for all.
    return dict.fromkeys(FREEZABLE, failures[name])


def be_frozen(program: Program, cluster: ClusterProcesses) -> None:
    service, ip, told = "frozen", "10.7.7.1", "told-frozen"
    _, second, third = cluster.members
    program.open("frozen", second)
    program.call("subscribe", "frozen", service=told)
    register(program, "frozen", service, ip)
    all_list(cluster, service, ip)
    program.pause()
    begun_s = time.monotonic()
    eventually(lambda: cluster.all_list(service, set()))
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
def test_a_library_gets_through(
    title: str, name: str, grpc_environments: Environments, request: pytest.FixtureRequest
) -> None:
    tell(title, name, grpc_environments, request)


def test_a_frozen_publisher_is_gone_and_comes_back(
    grpc_environments: Environments, request: pytest.FixtureRequest
) -> None:
    installed = [name for name in FREEZABLE if isinstance(grpc_environments[name], Environment)]
    tell("frozen", next(iter([*installed, *FREEZABLE])), grpc_environments, request)


CHAPTERS = {
    "life": lambda story: story.each(live),
    "two instances": lambda story: story.each(share),
    "batch": lambda story: story.each(batch),
    "namespaces": lambda story: story.each(stay_apart),
    "refusal": lambda story: story.each(be_refused),
    "failover": failover,
    "redo": redo,
    "end": lambda story: story.each(leave),
    "frozen": freeze,
}
