"""Members that refuse beats by their own will do not take that for the clients' silence."""

import time
from typing import Any

import pytest

from tests.cluster.conftest import StartCluster
from tests.support.processes import ClusterProcesses, Member, eventually

TIMEOUTS = '{"preserved.heart.beat.timeout":"5000","preserved.ip.delete.timeout":"8000"}'
WATCHED_S = 12.0
"""Longer than an instance without beats stays listed."""
PORT = 8080
SWITCHES = "/v1/ns/operator/switches"


def register_at_each_owner(cluster: ClusterProcesses) -> dict[str, str]:
    """The IP address of an instance, by its service; each member owns one service."""
    services = {cluster.service_of(one, "refused"): f"10.5.0.{number}" for number, one in enumerate(cluster)}
    for service, ip in services.items():
        assert cluster.members[0].client.register(service, ip, PORT, metadata=TIMEOUTS).status == 200
        eventually(lambda service=service, ip=ip: cluster.all_list(service, {f"{ip}:{PORT}"}))
    return services


def set_status(member: Member, status: str, **more: Any) -> None:
    values = {"entry": "overriddenServerStatus", "value": status, **more}
    assert member.client.call("PUT", SWITCHES, **values).status == 200


def beat(members: list[Member], services: dict[str, str], status: int) -> bool:
    return all(
        one.client.beat(service, ip, PORT).status == status for one in members for service, ip in services.items()
    )


def assert_all_listed(members: list[Member], services: dict[str, str]) -> None:
    for one in members:
        for service, ip in services.items():
            assert {name: host["healthy"] for name, host in one.client.hosts(service).items()} == {f"{ip}:{PORT}": True}


def test_nobody_goes_while_all_members_refuse_beats(make_cluster: StartCluster) -> None:
    cluster = make_cluster()
    cluster.start()
    services = register_at_each_owner(cluster)
    set_status(cluster.members[0], "READ_ONLY")
    eventually(lambda: beat(cluster.members, services, 503))
    restarted = cluster.members[2]
    restarted.stop()
    restarted.start()
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < WATCHED_S:
        assert beat(cluster.members[:2], services, 503)
        assert_all_listed(cluster.members[:2], services)
    eventually(lambda: beat(cluster.members, services, 503))
    assert_all_listed(cluster.members, services)
    set_status(cluster.members[1], "null")
    eventually(lambda: beat(cluster.members, services, 200))
    assert_all_listed(cluster.members, services)


@pytest.mark.parametrize("status", ["DOWN", "READ_ONLY"])
def test_nobody_goes_whose_member_alone_refuses_beats(make_cluster: StartCluster, status: str) -> None:
    cluster = make_cluster()
    cluster.start()
    services = register_at_each_owner(cluster)
    refusing, *others = cluster.members
    set_status(refusing, status, debug="true")
    eventually(lambda: beat([refusing], services, 503))
    readiness = refusing.client.call("GET", "/v1/console/health/readiness")
    assert readiness.status == 500, readiness
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < WATCHED_S:
        assert beat([refusing], services, 503)
        assert_all_listed(others, services)
    set_status(refusing, "null", debug="true")
    eventually(lambda: beat([refusing], services, 200))
    assert_all_listed(cluster.members, services)
    # Without beats, and without refusals, they go.
    eventually(lambda: all(one.client.hosts(service) == {} for one in cluster for service in services))
