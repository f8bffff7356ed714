"""Health between members in the way of real Nacos."""

import json
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from flask.testing import FlaskClient

from app.http.v1 import health_sync
from app.naming.model.events import InstancesChanged, Origin
from app.naming.wire.checksum import checksum
from distro.model.types import Member, MemberState
from tests.support.fake_node import SELF, FakeNode
from tests.support.tiny_server import Given, TinyServer, tiny_server

INSTANCE = "/nacos/v1/ns/instance"
STATUSES = f"{INSTANCE}/statuses"
STATUS = "/nacos/v1/ns/service/status"
NAME = "DEFAULT_GROUP@@a"
OTHER = "0" * 32


def register(client: FlaskClient, **values: Any) -> None:
    query = {"serviceName": "a", "ip": "10.0.0.1", "port": 80} | values
    assert client.post(INSTANCE, query_string=query).data == b"ok"


def health(client: FlaskClient, **values: str) -> list[str]:
    found = client.get(STATUSES, query_string={"key": f"public##{NAME}"} | values).get_json()["ips"]
    assert isinstance(found, list)
    return sorted(found)


# --- what is asked of this node -------------------------------------------------------------------


def test_statuses(client: FlaskClient) -> None:
    register(client)
    register(client, ip="10.0.0.2", healthy="false", enabled="false")
    assert health(client) == ["10.0.0.1:80_true", "10.0.0.2:80_false"]
    assert health(client, key=NAME) == health(client)
    register(client, namespaceId="ns")
    assert health(client, key=f"ns##{NAME}") == ["10.0.0.1:80_true"]
    assert client.get("/nacos/v1/ns/api/statuses", query_string={"key": NAME}).status_code == 200


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({}, 400, "Parameter 'key' is missing"),
        ({"key": f"ns##{NAME}"}, 404, f"service: {NAME} not found."),
        (
            {"key": "ns##a"},
            400,
            "Param 'serviceName' is illegal, it should be format as 'groupName@@serviceName'",
        ),
        ({"key": "ns##"}, 400, "Param 'serviceName' is illegal, it should be format as 'groupName@@serviceName'"),
        ({"key": ""}, 400, "Param 'serviceName' is illegal, it should be format as 'groupName@@serviceName'"),
    ],
)
def test_statuses_that_cannot_be_told(client: FlaskClient, query: dict[str, str], status: int, text: str) -> None:
    answer = client.get(STATUSES, query_string=query)
    assert (answer.status_code, answer.get_data(as_text=True)) == (status, text)


# --- what members tell this node ------------------------------------------------------------------


def tell(client: FlaskClient, sender: str, digests: object, namespace: str = "public", **headers: str) -> Any:
    statuses = json.dumps({"namespaceId": namespace, "serviceName2Checksum": digests})
    body = json.dumps({"statuses": statuses, "clientIP": sender})
    return client.post(STATUS, data=quote(body), headers={"User-Agent": "Nacos-Server:1.4.1"} | headers)


def join(node: FakeNode, server: TinyServer, *, owns: bool = True) -> None:
    node.cluster.standalone = False
    node.cluster.others = [Member(server.address, MemberState.UP)]
    node.cluster.owner = server.address if owns else SELF


def hold(node: FakeNode, client: FlaskClient) -> None:
    """Two instances, one healthy and one not."""
    register(client)
    register(client, ip="10.0.0.2", healthy="false")
    node.events.clear()


def test_health_is_taken_over_from_the_owner(node: FakeNode, client: FlaskClient) -> None:
    hold(node, client)
    version = node.registry.lists.version("com.alibaba.nacos.naming.iplist.ephemeral.public##" + NAME)
    answer = {"ips": ["10.0.0.1:80_false", "10.0.0.2:80_true", "10.0.0.3:80_true", "zz", 5]}
    with tiny_server(lambda _: Given(200, json.dumps(answer).encode())) as server:
        join(node, server)
        assert tell(client, server.address, {NAME: OTHER}).data == b"ok"
        (asked,) = server.received
    assert urlsplit(asked.target).path == STATUSES
    assert parse_qs(urlsplit(asked.target).query) == {"key": [f"public##{NAME}"]}
    assert health(client) == ["10.0.0.1:80_false", "10.0.0.2:80_true"]
    (changed,) = node.events
    assert isinstance(changed, InstancesChanged)
    assert changed.origin is Origin.PEER, "subscribers are told, members are not"
    assert node.registry.lists.version(changed.key) == version, "the list is the owner's"


def test_an_instance_that_the_owner_does_not_name_keeps_its_health(node: FakeNode, client: FlaskClient) -> None:
    hold(node, client)
    with tiny_server(lambda _: Given(200, b'{"ips":[]}')) as server:
        join(node, server)
        tell(client, server.address, {NAME: OTHER})
    assert health(client) == ["10.0.0.1:80_true", "10.0.0.2:80_false"]
    assert not node.events


def test_equal_digests_and_unknown_services_ask_nothing(node: FakeNode, client: FlaskClient) -> None:
    hold(node, client)
    view = node.naming.service_view("public", NAME)
    assert view is not None
    with tiny_server(lambda _: Given(200, b'{"ips":["10.0.0.1:80_false"]}')) as server:
        join(node, server)
        tell(client, server.address, {NAME: checksum(view), "DEFAULT_GROUP@@zz": OTHER, "": OTHER})
        tell(client, server.address, {NAME: OTHER}, namespace="elsewhere")
        tell(client, server.address, {NAME: ""})
        assert not server.received


def test_only_the_owner_is_believed(node: FakeNode, client: FlaskClient) -> None:
    hold(node, client)
    with tiny_server(lambda _: Given(200, b'{"ips":["10.0.0.1:80_false"]}')) as server:
        join(node, server, owns=False)
        assert tell(client, server.address, {NAME: OTHER}).data == b"ok"
        assert not server.received


def test_from_itself(node: FakeNode, client: FlaskClient) -> None:
    hold(node, client)
    assert tell(client, SELF, {NAME: OTHER}).data == b"ok"


def test_not_from_a_member(node: FakeNode, client: FlaskClient) -> None:
    answer = tell(client, "127.0.0.9:1", {})
    assert (answer.status_code, answer.data) == (400, b"ip: 127.0.0.9:1 is not in serverlist")
    node.cluster.listed = set()
    assert tell(client, SELF, {}).status_code == 403, "nor from an address of one"


@pytest.mark.parametrize(
    "body",
    [b"", b"zzz", b"[]", b"{}", b'{"statuses":1,"clientIP":"x"}', b'{"statuses":"{}"}', b"%", b"\xff", b"[" * 100_000],
)
def test_bodies_that_say_nothing(client: FlaskClient, body: bytes) -> None:
    answer = client.post(STATUS, data=body)
    assert (answer.status_code, b"'statuses'" in answer.data) == (400, True)


@pytest.mark.parametrize("inner", ["{}", "zzz", '{"namespaceId":1,"serviceName2Checksum":{}}', "[]", ""])
def test_inner_texts_that_say_nothing(client: FlaskClient, inner: str) -> None:
    body = json.dumps({"statuses": inner, "clientIP": SELF})
    assert client.post(STATUS, data=body).data == b"ok"


def test_null_fails_as_in_nacos(client: FlaskClient) -> None:
    assert client.post(STATUS, data=json.dumps({"statuses": "null", "clientIP": SELF})).data == b"fail"


@pytest.mark.parametrize("given", [Given(404, b"service not found"), Given(200, b"zzz"), Given(hang_up=True)])
def test_a_member_that_does_not_answer_is_asked_once(node: FakeNode, client: FlaskClient, given: Given) -> None:
    hold(node, client)
    register(client, serviceName="b")
    with tiny_server(lambda _: given) as server:
        join(node, server)
        assert tell(client, server.address, {NAME: OTHER, "DEFAULT_GROUP@@b": OTHER}).data == b"ok"
        assert len(server.received) == 1
    assert health(client) == ["10.0.0.1:80_true", "10.0.0.2:80_false"]


def test_one_message_asks_for_a_bounded_number(
    node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_sync, "FETCHES_MAX", 2)
    names = [f"DEFAULT_GROUP@@s{number}" for number in range(4)]
    for name in names:
        register(client, serviceName=name)
    with tiny_server(lambda _: Given(200, b'{"ips":[]}')) as server:
        join(node, server)
        tell(client, server.address, dict.fromkeys(names, OTHER))
        assert len(server.received) == 2
