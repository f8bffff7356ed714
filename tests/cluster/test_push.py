"""Subscribers over UDP at members as they run: told of a change at any member, wherever they listen."""

import gzip
import hashlib
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from app.background.push_udp import GZIP_FROM_BYTES
from tests.conformance.compare import Target
from tests.conformance.recordings import Recordings
from tests.conformance.replay import Step, load, send
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


# --- clients that cannot be started here, whose requests are written from their sources ----------

MANY = 30
RECORDED_PORT = "19999"
HOST_FIELDS = {"ip": str, "port": int, "weight": float, "healthy": bool, "enabled": bool}


@pytest.mark.parametrize("client", ["cpp", "nginx"])
def test_the_recorded_subscription_of_a_client_leads_to_pushes_that_it_reads(
    three: ClusterProcesses, listener: Listener, client: str
) -> None:
    asked, other, _ = three.members
    host, _, port = asked.address.rpartition(":")
    target, run, service = Target(host, int(port)), f"pushed-{client}", f"pushed-{client}.{client}-udp"
    first, subscription = recorded_steps(f"{client}-udp", listener.port)
    assert send(target, first, target.variables(run)).text == "ok"
    listed_ms = send(target, subscription, target.variables(run)).body["lastRefTime"]
    for number in range(MANY):
        where = f"{run}-{client}-udp" if client == "cpp" else "public"
        noise = hashlib.sha256(bytes([number])).hexdigest()
        other.client.register(service, f"10.9.0.{number}", metadata=json.dumps({"id": noise}), namespaceId=where)
        datagram = listener.receive_datagram()
        reference, info = (read_as_cpp if client == "cpp" else read_as_nginx)(datagram)
        assert info["name"] == f"DEFAULT_GROUP@@{service}"
        assert info["lastRefTime"] > listed_ms, "the client leaves an older list out"
        listed_ms = info["lastRefTime"]
        assert f"10.9.0.{number}" in {one["ip"] for one in info["hosts"]}
        told = f'"{reference}"' if client == "cpp" else str(reference)
        listener.send(f'{{"type": "push-ack", "lastRefTime":{told}, "data":""}}'.encode())
        eventually(lambda: not waiting(asked, service))
    assert len(info["hosts"]) == MANY + 1
    # The C++ client reads both; nginx knows no gzip.
    assert datagram.startswith(b"\x1f\x8b") == (client == "cpp")
    assert client == "cpp" or len(datagram) > GZIP_FROM_BYTES


def recorded_steps(name: str, port: int) -> list[Step]:
    """Return the steps of a recorded conversation, with the UDP port of this run."""
    [steps] = [one.steps for one in load(folder=Recordings("_clients").folder) if one.name == name]
    own: list[Step] = json.loads(json.dumps(steps).replace(RECORDED_PORT, str(port)))
    return own


def read_as_cpp(datagram: bytes) -> tuple[int, dict[str, Any]]:
    """Return reference and list of a push; Source: nacos-sdk-cpp 1.1.0 UdpNamingServiceListener and JSON.cpp."""
    push = json.loads(gzip.decompress(datagram) if datagram.startswith(b"\x1f\x8b") else datagram)
    assert (push["type"], type(push["lastRefTime"])) == ("dom", int)
    info = json.loads(push["data"])
    wanted = {"name": str, "clusters": str, "cacheMillis": int, "lastRefTime": int, "hosts": list, "checksum": str}
    assert {name: type(info[name]) for name in wanted} == wanted
    for one in info["hosts"]:
        assert {name: type(one[name]) for name in HOST_FIELDS} == HOST_FIELDS
        assert all(type(value) is str for value in one["metadata"].values())
    return push["lastRefTime"], info


def read_as_nginx(datagram: bytes) -> tuple[int, dict[str, Any]]:
    """Return reference and list of a push; Source: nginx-nacos-upstream at 59019d7, ngx_nacos_udp.c."""
    push = json.loads(datagram)
    assert (push["type"], type(push["lastRefTime"])) == ("dom", int)
    info: dict[str, Any] = json.loads(push["data"])
    for one in info["hosts"]:
        assert {name: type(one[name]) for name in HOST_FIELDS} == HOST_FIELDS
    return push["lastRefTime"], info
