"""What is too large for one call between members: it is refused before the answer, and keeps nothing else from them."""

import itertools
import json
import shutil
from urllib.parse import urlencode

import pytest

from tests.cluster.conftest import StartCluster
from tests.support.client import Answer, Client
from tests.support.processes import DIRECT_S, ClusterProcesses, Member, eventually

SMALL_BODIES = {"rollcall.distro.bodyBytesMax": "1048576", "rollcall.limit.recordBytes": "900000"}
SMALLER_BODIES = {"rollcall.distro.bodyBytesMax": "65536", "rollcall.limit.recordBytes": "900000"}
VERIFY_OFTEN = {"nacos.core.protocol.distro.data.verify.intervalMs": "1000"}
METADATA = json.dumps({"a": "b" * 60_000})
CHECKER = json.dumps({"type": "HTTP", "path": "/" + "p" * 1_000, "headers": "h" * 1_000})


def by_form(client: Client, method: str, path: str, **fields: str) -> Answer:
    return client.call(method, path, urlencode(fields).encode(), {"Content-Type": "application/x-www-form-urlencoded"})


def put_cluster(client: Client, service: str, name: str, **parameters: str) -> Answer:
    asked = {"checkPort": "80", "useInstancePort4Check": "true", "healthChecker": CHECKER} | parameters
    return by_form(client, "PUT", "/v1/ns/cluster", serviceName=service, clusterName=name, **asked)


def register(client: Client, service: str, ip: str) -> Answer:
    """Register an instance with much metadata."""
    return by_form(
        client, "POST", "/v1/ns/instance", serviceName=service, ip=ip, port="8080", metadata=METADATA, ephemeral="true"
    )


def clusters_of(member: Member, service: str) -> set[str]:
    answer = member.client.call("GET", "/v1/ns/service", serviceName=service)
    assert answer.status == 200
    return {one["name"] for one in answer.json()["clusters"]}


def start_empty(member: Member) -> None:
    """Start a member that is to load all from the others."""
    shutil.rmtree(member.data)
    member.start()
    member.wait_ready(DIRECT_S)


@pytest.fixture
def three_small(make_cluster: StartCluster) -> ClusterProcesses:
    cluster = make_cluster(3, SMALL_BODIES | VERIFY_OFTEN)
    cluster.start()
    return cluster


def test_clusters_of_a_service_are_refused_by_number_and_bytes_on_all_members_alike(
    three_small: ClusterProcesses,
) -> None:
    members = list(three_small)
    services = {name: three_small.service_of(members[0], name) for name in ("many", "large")}
    for service in services.values():
        assert members[0].client.call("POST", "/v1/ns/service", serviceName=service).status == 200
    many = [put_cluster(members[at % 3].client, services["many"], f"c{at}") for at in range(150)]
    assert [one.status for one in many] == [200] * 128 + [413] * 22
    assert "rollcall.limit.clustersPerService=128" in many[-1].body.decode()
    large = [put_cluster(members[at % 3].client, services["large"], f"c{at}", metadata=METADATA) for at in range(30)]
    taken = [f"c{at}" for at, one in enumerate(large) if one.status == 200]
    assert taken == [f"c{at}" for at in range(14)]
    assert "rollcall.limit.recordBytes=900000" in large[-1].body.decode()
    assert "field 'clusters'" in large[-1].body.decode()
    last = members[2]
    last.stop()
    start_empty(last)
    for member, (service, expected) in itertools.product(
        members, {services["large"]: set(taken), services["many"]: {f"c{at}" for at in range(128)}}.items()
    ):
        eventually(lambda one=member, of=service, names=expected: clusters_of(one, of) == names)  # type: ignore[misc]


def test_a_list_that_members_could_not_send_is_refused_before_the_answer(three_small: ClusterProcesses) -> None:
    members = list(three_small)
    service = three_small.service_of(members[0], "instances")
    answers = [register(members[at % 3].client, service, f"10.8.0.{at}") for at in range(30)]
    taken = {f"10.8.0.{at}:8080" for at, one in enumerate(answers) if one.status == 200}
    refused = [one for one in answers if one.status != 200]
    assert taken
    assert {one.status for one in refused} == {413}
    assert "rollcall.distro.bodyBytesMax=1048576" in refused[-1].body.decode()
    assert "field 'metadata'" in refused[-1].body.decode()
    eventually(lambda: three_small.all_list(service, taken))
    members[2].kill_all()
    start_empty(members[2])
    assert set(members[2].client.hosts(service)) == taken


def test_a_record_from_before_that_no_call_can_bring_keeps_nothing_else_back(make_cluster: StartCluster) -> None:
    """It is read at a start, and a member that starts empty is UP without it; a metric and the log name it."""
    cluster = make_cluster(3, SMALL_BODIES | VERIFY_OFTEN)
    cluster.start()
    members = list(cluster)
    service, other = (cluster.service_of(members[0], name) for name in ("large", "other"))
    for one in (service, other):
        assert members[0].client.call("POST", "/v1/ns/service", serviceName=one).status == 200
        assert members[0].client.register(one, "10.8.1.1", ephemeral="false").status == 200
    for at in range(3):
        assert put_cluster(members[0].client, service, f"c{at}", metadata=METADATA).status == 200
    for member in members:
        eventually(lambda one=member: {"c0", "c1", "c2"} <= clusters_of(one, service))  # type: ignore[misc]
    for member in members:
        member.stop()
    for member in members:
        member.change(SMALLER_BODIES)
    for member in members[:2]:
        member.start()
    for member in members[:2]:
        member.wait_ready(DIRECT_S)
        assert {"c0", "c1", "c2"} <= clusters_of(member, service)
    start_empty(members[2])
    assert set(members[2].client.hosts(other)) == {"10.8.1.1:8080"}
    assert set(members[2].client.hosts(service)) == {"10.8.1.1:8080"}
    assert members[2].client.metrics()["keysUnfit"] > 0
    assert service in members[2].log_text()
    assert members[0].client.register(other, "10.8.1.2", ephemeral="false").status == 200
    eventually(lambda: cluster.all_list(other, {"10.8.1.1:8080", "10.8.1.2:8080"}))
