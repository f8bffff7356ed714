"""Subscribers over UDP at members as they run: told of a change at any member, wherever they listen."""

import hashlib
import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.client import OK
from tests.support.listener import Listener, own_address
from tests.support.processes import ClusterProcesses, Member, eventually

JAVA, GO, PYTHON = "Nacos-Java-Client:v1.4.8", "Nacos-Go-Client:v1.1.6", "Nacos-Python-Client:v0.1.17"


@pytest.fixture
def listener() -> Iterator[Listener]:
    with closing(Listener()) as one:
        yield one


def subscribe(member: Member, listener: Listener, service: str, agent: str = JAVA, ip: str | None = None) -> int:
    """Ask for a list as a library does; return in how many ms it is to ask again."""
    answer = member.client.call(
        "GET",
        "/v1/ns/instance/list",
        headers={"User-Agent": agent},
        serviceName=f"DEFAULT_GROUP@@{service}",
        clientIP=listener.ip if ip is None else ip,
        udpPort=listener.port,
    )
    assert answer.status == 200
    cache_ms: int = answer.json()["cacheMillis"]
    return cache_ms


def hosts(push: dict[str, str]) -> dict[str, float]:
    """The weights in a push, by address."""
    return {host["ip"]: host["weight"] for host in json.loads(push["data"])["hosts"]}


@pytest.mark.parametrize("owner", range(3))
def test_a_change_at_any_member_is_pushed_from_the_one_that_was_asked(
    three: ClusterProcesses, listener: Listener, owner: int
) -> None:
    one, two, _ = three.members
    service = three.service_of(three.members[owner], "pushed")
    assert subscribe(two, listener, service) == 10_000
    one.client.register(service, "10.0.0.1", weight=2)
    push = listener.receive()
    assert (push["type"], hosts(push)) == ("dom", {"10.0.0.1": 2})
    listener.acknowledge(push["lastRefTime"])
    one.client.register(service, "10.0.0.1", weight=3)
    push = listener.receive()
    assert hosts(push) == {"10.0.0.1": 3}
    listener.acknowledge(push["lastRefTime"])
    one.client.deregister(service, "10.0.0.1")
    push = listener.receive()
    assert hosts(push) == {}
    listener.acknowledge(push["lastRefTime"])
    eventually(lambda: not waiting(two, service))


@pytest.mark.parametrize("owner", range(3))
def test_an_operators_change_at_any_member_is_pushed(three: ClusterProcesses, listener: Listener, owner: int) -> None:
    one, two, third = three.members
    service = three.service_of(three.members[owner], "operated")
    assert one.client.register(service, "10.0.0.1", weight=2).body == OK
    eventually(lambda: three.all_list(service, {"10.0.0.1:8080"}))
    subscribe(two, listener, service)
    change = {"serviceName": service, "ip": "10.0.0.1", "port": 8080, "weight": 5}
    assert third.client.call("PUT", "/v3/admin/ns/instance/partial", **change).json()["data"] == "ok"
    push = listener.receive()
    assert hosts(push) == {"10.0.0.1": 5}
    listener.acknowledge(push["lastRefTime"])


def waiting(member: Member, service: str) -> list[str]:
    """What the member has not got an acknowledgement for."""
    state = member.client.call("GET", "/v1/ns/operator/push/state", detail="true").json()
    return [text for text in state["data"] if service in text]


def test_members_on_loopback_reach_a_client_that_announces_another_address(three: ClusterProcesses) -> None:
    with closing(Listener(own_address(socket.AF_INET))) as listener:
        subscribe(three.members[0], listener, "announced")
        assert three.members[0].client.register("announced", "10.0.0.1").body == OK
        push = listener.receive()
        assert listener.server[0] == listener.ip
        listener.acknowledge(push["lastRefTime"])
        eventually(lambda: not waiting(three.members[0], "announced"))


def test_a_client_that_announces_nothing_is_told_where_it_asked_from(
    three: ClusterProcesses, listener: Listener
) -> None:
    subscribe(three.members[0], listener, "unannounced", ip="")
    three.members[0].client.register("unannounced", "10.0.0.1")
    assert hosts(listener.receive()) == {"10.0.0.1": 1}


def test_a_library_that_takes_no_pushes_gets_none(three: ClusterProcesses, listener: Listener) -> None:
    assert subscribe(three.members[0], listener, "deaf", agent=PYTHON) == 3_000
    three.members[0].client.register("deaf", "10.0.0.1")
    assert listener.hears_nothing()


def test_a_service_that_is_too_large_for_go_is_pushed_to_java_alone(three: ClusterProcesses) -> None:
    member = three.members[0]
    for number in range(80):
        noise = hashlib.sha512(bytes([number])).hexdigest()  # 64 bytes that do not compress
        member.client.register("large", f"10.0.0.{number}", metadata=json.dumps({"id": noise}))
    with closing(Listener()) as java, closing(Listener()) as go:
        subscribe(member, java, "large")
        subscribe(member, go, "large", GO)
        member.client.register("large", "10.0.0.200")
        # What other members replicate may come in between.
        while len(hosts(java.receive())) < 81:
            pass
        assert go.hears_nothing()
        assert not [text for text in waiting(member, "large") if GO in text]
