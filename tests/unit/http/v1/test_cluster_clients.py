"""Clients and subscribers are those of the whole cluster, whichever member is asked."""

from collections.abc import Mapping
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.factory import create_app
from app.http.v1 import cluster_clients
from app.naming.clients.client_model import ClientInfo
from app.naming.push.udp_subscribers import Subscriber
from app.naming.registry.operations import RegisterInstance
from tests.support.fake_node import PEER, SELF, FakeNode

NS = "/nacos/v1/ns"
SERVICE = "DEFAULT_GROUP@@orders"
SILENT = "127.0.0.3:8848"
THERE, HERE = "2_10.0.0.8_7", "1_10.0.0.9_7"


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """The other member, which answers what it is asked."""
    node = FakeNode()
    node.cluster.self_address = PEER
    app = create_app(node)  # type: ignore[arg-type]
    node.cluster.listed.add("127.0.0.1")

    def ask(_: object, __: str, path: str, parameters: Mapping[str, Any], ___: float, **____: Any) -> object:
        answer = app.test_client().get(f"/nacos{path}", query_string=dict(parameters))
        return {PEER: answer.get_json() if answer.status_code == 200 else None, SILENT: None}, ["127.0.0.4:8848"]

    monkeypatch.setattr("app.peers.asked.ask_members", ask)
    return node


@pytest.fixture
def both(node: FakeNode, other: FakeNode, client: FlaskClient) -> FlaskClient:
    """Two members, each with a connection that subscribes, and one with a subscriber over UDP."""
    for member, name, ip in ((node, HERE, "10.0.0.9"), (other, THERE, "10.0.0.8")):
        member.clients.own.connect(ClientInfo(name, ip, 7, "shop", "Nacos-Java-Client:v2.5.1"))
        member.clients.subscriptions.subscribe(name, "public", SERVICE, "")
    other.push.subscribe(Subscriber("public", SERVICE, "", "10.0.0.7", 5_000, "Go", "app", 1_000, False))
    node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 80))
    return client


def test_clients_of_all_members_come_in_pages(both: FlaskClient) -> None:
    told = both.get(f"{NS}/operator/clients").get_json()
    assert [(one["clientId"], one["member"]) for one in told["clients"]] == [
        (HERE, SELF), (THERE, PEER), ("10.0.0.1:80#true", ""),
    ]  # fmt: skip
    assert (told["count"], told["connected"], told["notAnswered"]) == (3, 2, [SILENT])
    pages = [both.get(f"{NS}/operator/clients?pageSize=1&pageNo={number}").get_json() for number in (1, 2, 3, 4)]
    assert [[one["clientId"] for one in page["clients"]] for page in pages] == [
        [HERE], [THERE], ["10.0.0.1:80#true"], [],
    ]  # fmt: skip
    found = both.get(f"{NS}/operator/clients?clientId=0.8").get_json()
    assert [one["clientId"] for one in found["clients"]] == [THERE]


def ids(client: FlaskClient, **asked: object) -> list[str]:
    told = client.get(f"{NS}/operator/clients", query_string={name: str(value) for name, value in asked.items()})
    return [one["clientId"] for one in told.get_json()["clients"]]


def test_clients_of_all_members_are_sorted_by_each_column(both: FlaskClient, node: FakeNode) -> None:
    node.naming.register(RegisterInstance(SERVICE, "10.0.0.2", 80))
    addresses = ["10.0.0.1:80#true", "10.0.0.2:80#true"]
    assert ids(both) == [HERE, THERE, *addresses]
    assert ids(both, descending="true") == [THERE, HERE, *reversed(addresses)]
    assert ids(both, orderBy="address") == [THERE, HERE, *addresses]
    assert ids(both, orderBy="address", descending="true") == [HERE, THERE, *addresses]
    assert ids(both, orderBy="member")[:2] == ([HERE, THERE] if SELF < PEER else [THERE, HERE])
    assert ids(both, orderBy="application") == ids(both, orderBy="sdk") == [HERE, THERE, *addresses]
    whole = ids(both, orderBy="kind", descending="true")
    assert whole == [*addresses, HERE, THERE]
    for order, down in (("kind", "true"), ("client", "true"), ("address", "false")):
        asked = {"orderBy": order, "descending": down}
        assert [one for number in range(1, 6) for one in ids(both, pageSize=1, pageNo=number, **asked)] == ids(
            both, **asked
        )
    assert both.get(f"{NS}/operator/clients?orderBy=shoe").status_code == 400


def test_subscribers_of_all_members_are_sorted_by_each_column(both: FlaskClient) -> None:
    def ips(order: str, *, down: bool) -> list[str]:
        asked = {"orderBy": order, "descending": str(down).lower()}
        told = both.get(f"{NS}/service/subscribers/search", query_string=asked).get_json()
        return [one["ip"] for one in told["subscribers"]]

    assert ips("address", down=False) == ["10.0.0.7", "10.0.0.8", "10.0.0.9"]
    assert ips("address", down=True) == ["10.0.0.9", "10.0.0.8", "10.0.0.7"]
    assert ips("over", down=False)[2] == ips("over", down=True)[0] == "10.0.0.7"
    assert ips("application", down=False)[0] == "10.0.0.7"
    assert ips("sdk", down=False)[0] == "10.0.0.7"
    assert ips("member", down=False).index("10.0.0.9") == (0 if SELF < PEER else 2)
    assert sorted(ips("service", down=True)) == ["10.0.0.7", "10.0.0.8", "10.0.0.9"]


def test_a_page_of_connections_has_an_end(both: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_clients, "LISTED_MAX", 1)
    answer = both.get(f"{NS}/operator/clients?pageSize=1&pageNo=2")
    assert answer.status_code == 400
    assert "pageNo" in answer.text
    assert both.get(f"{NS}/operator/clients?pageSize=1&pageNo=3").get_json()["clients"] != []


def test_one_client_is_described_by_its_member(both: FlaskClient) -> None:
    for name, member in ((HERE, SELF), (THERE, PEER)):
        told = both.get(f"{NS}/operator/client", query_string={"clientId": name}).get_json()
        assert told["client"]["member"] == member
        assert told["subscribed"] == [{"namespaceId": "public", "serviceName": SERVICE}]
    told = both.get(f"{NS}/operator/client?clientId=nobody").get_json()
    assert (told["client"], told["notAnswered"]) == (None, [SILENT])


def test_subscribers_of_all_members(both: FlaskClient) -> None:
    told = both.get(f"{NS}/service/subscribers/all?serviceName=orders").get_json()
    assert [(one["over"], one["ip"], one["member"]) for one in told["subscribers"]] == [
        ("UDP", "10.0.0.7", PEER), ("gRPC", "10.0.0.8", PEER), ("gRPC", "10.0.0.9", SELF),
    ]  # fmt: skip
    assert (told["count"], told["notAnswered"], told["otherKinds"]) == (3, [SILENT], ["127.0.0.4:8848"])


def test_subscribers_are_found_by_their_service(both: FlaskClient) -> None:
    search = f"{NS}/service/subscribers/search"
    told = both.get(f"{search}?name=rder").get_json()
    assert [one["ip"] for one in told["subscribers"]] == ["10.0.0.7", "10.0.0.8", "10.0.0.9"]
    pages = [both.get(f"{search}?pageSize=2&pageNo={number}").get_json() for number in (1, 2, 3)]
    assert [[one["ip"] for one in page["subscribers"]] for page in pages] == [
        ["10.0.0.7", "10.0.0.8"],
        ["10.0.0.9"],
        [],
    ]
    assert {page["count"] for page in pages} == {3}
    assert both.get(f"{search}?name=rder&group=other").get_json()["count"] == 0
    assert both.get(f"{search}?namespaceId=dev").get_json()["count"] == 0
    assert both.get(f"{search}?pageSize=1000&pageNo=11").status_code == 400
    page = both.get("/nacos/console/subscribers").text
    for one in ("10.0.0.7:5000", "10.0.0.8:7", "gRPC", "UDP", PEER, f"No answer from {SILENT}"):
        assert one in page


def test_pages_show_them_with_their_members(both: FlaskClient) -> None:
    service = both.get("/nacos/console/service?serviceName=orders").text
    for one in (HERE, THERE, "10.0.0.7", PEER, f"No answer from {SILENT}"):
        assert one in service
    clients = both.get("/nacos/console/clients").text
    assert THERE in clients
    assert "to all members: 2" in clients
    client = both.get("/nacos/console/client", query_string={"id": THERE}).text
    assert f"to {PEER}" in client
    assert SERVICE in client


@pytest.mark.parametrize("wrong", [[], {"count": -1, "subscribers": []}, {"count": 1, "subscribers": [5, {"a": 1}]}])
def test_an_answer_that_is_none_adds_nothing(
    node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch, wrong: Any
) -> None:
    answer = wrong if isinstance(wrong, dict) else None
    monkeypatch.setattr("app.peers.asked.ask_members", lambda *_, **__: ({PEER: answer}, []))
    told = client.get(f"{NS}/service/subscribers/all?serviceName=orders").get_json()
    assert told["subscribers"] == []
