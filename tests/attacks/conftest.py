"""Three members under attack, started once: each attack must leave them as they were."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.chaos.attack_calls import Victim
from scripts.support.beat_load import InstanceLoad
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
