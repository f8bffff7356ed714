"""Three members under attack, started once: each attack must leave them as they were."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.chaos.attack_calls import Victim
from scripts.chaos.attacks import fill
from scripts.support.beat_load import InstanceLoad
from scripts.support.member_processes import tls_of
from scripts.support.secured_members import auth_settings, certificate, make_first_administrator, tls_settings
from scripts.support.tls_tunnel import tunnelled
from tests.support.processes import ClusterProcesses, Member, eventually, running_cluster

LOAD = InstanceLoad(services=5, hosts=4, name="beside")
"""The instances whose beats are timed beside an attack."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder: members are started as processes."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    yield from running_cluster(tmp_path_factory.mktemp("attacked"), {})


@pytest.fixture(scope="session")
def first(attacked: ClusterProcesses) -> Member:
    """The member that is attacked."""
    return attacked.members[0]


@pytest.fixture(scope="session")
def victim(attacked: ClusterProcesses, first: Member) -> Victim:
    """The same as attackers see it, with what it must not lose: instances of both kinds, a namespace."""
    owner = attacked.members[1]
    service = attacked.service_of(owner, "witness")
    # Its beats need not come: the instance says so itself.
    patient = '{"preserved.heart.beat.timeout":"3600000","preserved.ip.delete.timeout":"7200000"}'
    assert owner.client.register(service, "10.1.1.1", 80, metadata=patient).status == 200
    kept = {"ephemeral": "false", "clusterName": "NONE"}
    assert first.client.register("kept", "10.1.1.2", 80, **kept).status == 200
    for name, ip in LOAD.instances():
        assert first.client.register(name, ip, 8_080, metadata=patient).status == 200
    named = {"customNamespaceId": "kept", "namespaceName": "kept"}
    assert first.client.call("POST", "/v1/console/namespaces", **named).status == 200
    for wanted, expected in ((service, {"10.1.1.1:80"}), ("kept", {"10.1.1.2:80"})):
        eventually(lambda wanted=wanted, expected=expected: attacked.all_list(wanted, expected))
    for name, _ in LOAD.instances():
        eventually(lambda name=name: all(len(one) == LOAD.hosts for one in attacked.lists(name)))
    others = (owner.address, attacked.members[2].address)
    return Victim(first.address, others, service)


@dataclass(frozen=True, slots=True)
class Scene:
    """Three members, the one that is attacked as attackers see it, and the instances that beat beside an attack."""

    members: ClusterProcesses
    victim: Victim
    load: InstanceLoad
    beaten_at: str
    """Where the first member takes beats without TLS: its own address, or that of a tunnel to it."""


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Members with users, an identity and TLS; attackers have an administrator's token, so that no lack of it helps."""
    folder = tmp_path_factory.mktemp("secured")
    settings = tls_settings(*certificate(folder)) | auth_settings()
    members = ClusterProcesses(folder, 3, settings)
    try:
        for member in members:
            member.start()
        for member in members:
            member.wait_ready()
        address, *others = (member.address for member in members)
        token = make_first_administrator(address, members.members[0].data, tls_of(settings))
        chain = settings["rollcall.http.tls.trustCollectionChainPath"]
        with tunnelled(address, chain) as attacked_at, tunnelled(address, chain) as beaten_at:
            made = Victim(address, tuple(others), "witness", settings=settings, plain_address=attacked_at, token=token)
            fill(made, LOAD)
            yield Scene(members, made, LOAD, beaten_at)
    finally:
        members.end()
    members.assert_no_traceback()


@pytest.fixture
def scene(request: pytest.FixtureRequest) -> Scene:
    """The members that a test's parameter names."""
    if request.param == "secured":
        found: Scene = request.getfixturevalue("secured")
        return found
    victim: Victim = request.getfixturevalue("victim")
    return Scene(request.getfixturevalue("attacked"), victim, LOAD, victim.address)
