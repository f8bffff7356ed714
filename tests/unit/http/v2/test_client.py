"""Clients over HTTP v2: connections and addresses side by side."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from app.naming.clients.client_model import ClientInfo
from app.naming.registry.operations import RegisterInstance
from tests.support.fake_node import FakeNode

V2 = "/nacos/v2/ns"
CLIENT = f"{V2}/client"
FULL = "DEFAULT_GROUP@@orders"
SERVICE = {"serviceName": "orders"}
CONNECTION = "1700000000000_10.1.2.3_51234"


@pytest.fixture(autouse=True)
def published(node: FakeNode, client: FlaskClient) -> None:
    """One service of a connection, an ephemeral and a persistent instance; the connection is subscribed to another."""
    node.clients.own.connect(ClientInfo(CONNECTION, "10.1.2.3", 51_234, "shop", "Nacos-Java-Client:v2.5.1"))
    node.clients.own.register(CONNECTION, RegisterInstance(FULL, "10.0.0.1", 80, cluster="c1"))
    node.clients.subscriptions.subscribe(CONNECTION, "public", "G1@@stock", "")
    client.post(f"{V2}/instance", data=SERVICE | {"ip": "10.0.0.2", "port": "80"})
    client.post(f"{V2}/instance", data=SERVICE | {"ip": "10.0.0.3", "port": "81", "ephemeral": "false"})


def data(client: FlaskClient, path: str, **values: object) -> Any:
    answer = client.get(f"{CLIENT}{path}", query_string=values)
    assert (answer.status_code, answer.get_json()["code"]) == (200, 0), answer.data
    return answer.get_json()["data"]


def test_all_are_listed(client: FlaskClient) -> None:
    assert data(client, "/list") == [CONNECTION, "10.0.0.2:80#true", "10.0.0.3:81#false"]


def test_they_come_in_pages_connections_first(client: FlaskClient) -> None:
    for port in (8, 9):
        client.post(f"{V2}/instance", data=SERVICE | {"ip": "10.0.0.2", "port": port})
    everything = [CONNECTION, "10.0.0.2:80#true", "10.0.0.2:8#true", "10.0.0.2:9#true", "10.0.0.3:81#false"]
    pages = [data(client, "/search", pageNo=number, pageSize=2) for number in (1, 2, 3, 4)]
    assert [one["clientIds"] for one in pages] == [everything[:2], everything[2:4], everything[4:], []]
    assert {(one["count"], one["connected"]) for one in pages} == {(5, 1)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.2", ["10.0.0.2:80#true"]),
        ("#false", ["10.0.0.3:81#false"]),
        ("5123", [CONNECTION]),
        ("10.", [CONNECTION, "10.0.0.2:80#true", "10.0.0.3:81#false"]),
        ("nobody", []),
    ],
)
def test_they_are_found_by_a_part_of_their_ids(client: FlaskClient, text: str, found: list[str]) -> None:
    assert data(client, "/search", clientId=text) == {"count": len(found), "connected": 1, "clientIds": found}


@pytest.mark.parametrize("wrong", [{"pageNo": 0}, {"pageSize": 0}, {"pageSize": 1_001}, {"pageNo": "x"}])
def test_a_page_that_is_none_is_refused(client: FlaskClient, wrong: dict[str, object]) -> None:
    assert client.get(f"{CLIENT}/search", query_string=wrong).status_code == 400


def test_a_connection(client: FlaskClient) -> None:
    assert data(client, "", clientId=CONNECTION) == {
        "clientId": CONNECTION,
        "ephemeral": True,
        "clientType": "connection",
        "isNative": True,
        "connectType": "GRPC",
        "appName": "shop",
        "version": "Nacos-Java-Client:v2.5.1",
        "clientIp": "10.1.2.3",
        "clientPort": "51234",
    }
    assert data(client, "/publish/list", clientId=CONNECTION) == [
        {
            "namespace": "public",
            "group": "DEFAULT_GROUP",
            "serviceName": "orders",
            "registeredInstance": {"ip": "10.0.0.1", "port": 80, "cluster": "c1"},
        }
    ]
    assert data(client, "/subscribe/list", clientId=CONNECTION) == [
        {
            "namespace": "public",
            "group": "G1",
            "serviceName": "stock",
            "subscriberInfo": {"app": "shop", "agent": "Nacos-Java-Client:v2.5.1", "addr": "10.1.2.3"},
        }
    ]


@pytest.mark.parametrize(("client_id", "ephemeral"), [("10.0.0.2:80#true", True), ("10.0.0.3:81#false", False)])
def test_an_address(client: FlaskClient, client_id: str, ephemeral: bool) -> None:
    found = data(client, "", clientId=client_id)
    ip, port = client_id.split("#")[0].split(":")
    kind = {"ephemeral": ephemeral, "clientType": "ipPort"}
    assert found == {"clientId": client_id, **kind, "clientIp": ip, "clientPort": port}
    (one,) = data(client, "/publish/list", clientId=client_id)
    assert client_id.startswith(f"{one['registeredInstance']['ip']}:{one['registeredInstance']['port']}#")


@pytest.mark.parametrize("path", ["", "/publish/list", "/subscribe/list"])
def test_an_unknown_one(client: FlaskClient, path: str) -> None:
    answer = client.get(f"{CLIENT}{path}", query_string={"clientId": "10.9.9.9:1#true"})
    assert (answer.status_code, answer.get_json()["code"]) == (404, 20_004)
    answer = client.get(f"{CLIENT}{path}")
    assert (answer.status_code, answer.get_json()["code"]) == (400, 10_000)


def test_who_publishes(client: FlaskClient) -> None:
    def ids(**values: object) -> set[str]:
        return {one["clientId"] for one in data(client, "/service/publisher/list", **SERVICE, **values)}

    assert ids() == {CONNECTION, "10.0.0.2:80#true", "10.0.0.3:81#false"}
    assert ids(ip="10.0.0.1") == {CONNECTION}
    assert ids(ip="10.0.0.2", port=80) == {"10.0.0.2:80#true"}
    assert ids(port=81) == {"10.0.0.3:81#false"}
    assert data(client, "/service/publisher/list", serviceName="nobody") == []


def test_who_is_subscribed(client: FlaskClient) -> None:
    asked = {"serviceName": "stock", "groupName": "G1"}
    known = {"clientId": CONNECTION, "ip": "10.1.2.3", "port": 51_234}
    assert data(client, "/service/subscriber/list", **asked) == [known]
    assert data(client, "/service/subscriber/list", **asked, ip="10.9.9.9") == []
    assert data(client, "/service/subscriber/list", **SERVICE) == []
    answer = client.get(f"{CLIENT}/service/subscriber/list")
    assert (answer.status_code, answer.get_json()["code"]) == (400, 10_000)


def test_what_a_connection_published_goes_with_it(node: FakeNode, client: FlaskClient) -> None:
    node.clients.own.disconnect(CONNECTION)
    assert data(client, "/list") == ["10.0.0.2:80#true", "10.0.0.3:81#false"]
    assert len(data(client, "/service/publisher/list", **SERVICE)) == 2
