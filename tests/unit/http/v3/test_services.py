"""Services, clusters, subscribers and clients over HTTP v3, beside the answers of Nacos 3."""

from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app.naming.clients.client_model import ClientInfo
from app.naming.push.udp_subscribers import Subscriber
from app.naming.registry.operations import RegisterInstance
from tests.support.fake_node import FakeNode

ADMIN, CONSOLE = "/nacos/v3/admin/ns", "/nacos/v3/console/ns"
SERVICE = {"serviceName": "orders"}
ONE = SERVICE | {"ip": "10.0.0.1", "port": "8080"}
NAMES = {"namespaceId": "public", "groupName": "DEFAULT_GROUP", "serviceName": "orders"}
FULL = "DEFAULT_GROUP@@orders"
CONNECTION = "1700000000000_10.1.2.3_51234"


def data(answer: TestResponse) -> Any:
    body = answer.get_json()
    assert (answer.status_code, body["code"], body["message"], len(body)) == (200, 0, "success", 3), answer.data
    return body["data"]


def refused(answer: TestResponse) -> tuple[int, int]:
    return answer.status_code, answer.get_json()["code"]


@pytest.mark.parametrize("base", [ADMIN, CONSOLE, CONSOLE.removeprefix("/nacos")])
class TestServices:
    def test_the_life_of_one(self, client: FlaskClient, base: str) -> None:
        described = SERVICE | {"protectThreshold": "0.5", "metadata": '{"a":"1"}', "ephemeral": "false"}
        assert data(client.post(f"{base}/service", data=described)) == "ok"
        assert refused(client.post(f"{base}/service", data=SERVICE)) == (400, 21_007)
        assert data(client.get(f"{base}/service", query_string=SERVICE)) == {
            **NAMES,
            "clusterMap": {},
            "metadata": {"a": "1"},
            "protectThreshold": 0.5,
            "selector": {"type": "none", "contextType": "NONE"},
            "ephemeral": False,
        }
        assert data(client.put(f"{base}/service", data=SERVICE | {"metadata": '{"b":"2"}'})) == "ok"
        assert data(client.get(f"{base}/service", query_string=SERVICE))["metadata"] == {"b": "2"}
        client.post(f"{ADMIN}/instance", data=ONE)
        assert refused(client.delete(f"{base}/service", query_string=SERVICE)) == (400, 21_009)
        client.delete(f"{ADMIN}/instance", query_string=ONE)
        assert data(client.delete(f"{base}/service", query_string=SERVICE)) == "ok"
        assert refused(client.delete(f"{base}/service", query_string=SERVICE)) == (400, 21_008)

    @pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
    def test_a_missing_name_is_named(self, client: FlaskClient, base: str, method: str) -> None:
        answer = client.open(f"{base}/service", method=method)
        assert refused(answer) == (400, 10_000)
        assert answer.get_json()["data"] == "Required parameter 'serviceName' type String is not present"

    def test_an_unknown_one(self, client: FlaskClient, base: str) -> None:
        of_console = base != ADMIN
        assert refused(client.get(f"{base}/service", query_string=SERVICE)) == (
            (404, 30_000) if of_console else (400, 21_008)
        )
        assert refused(client.put(f"{base}/service", data=SERVICE)) == (404 if of_console else 400, 21_008)

    def test_pages(self, client: FlaskClient, base: str) -> None:
        for number in range(3):
            client.post(f"{base}/service", data={"serviceName": f"s{number}", "groupName": "G1"})
        client.post(f"{ADMIN}/instance", data=ONE)

        def page(**asked: object) -> dict[str, Any]:
            found: dict[str, Any] = data(client.get(f"{base}/service/list", query_string=asked))
            return found

        first = page(pageNo=1, pageSize=3)
        assert (first["totalCount"], first["pageNumber"], first["pagesAvailable"]) == (4, 1, 2)
        assert first["pageItems"][0] == {
            "name": "orders",
            "groupName": "DEFAULT_GROUP",
            "clusterCount": 1,
            "ipCount": 1,
            "healthyInstanceCount": 1,
            "triggerFlag": "false",
        }
        assert [one["name"] for one in page(groupNameParam="G1", serviceNameParam="2")["pageItems"]] == ["s2"]
        assert [one["name"] for one in page(ignoreEmptyService="true")["pageItems"]] == ["orders"]
        assert page(pageNo=9)["pageItems"] == []
        assert page(namespaceId="none") == {"totalCount": 0, "pageNumber": 1, "pagesAvailable": 0, "pageItems": []}
        [detailed] = page(withInstances="true", serviceNameParam="orders")["pageItems"]
        assert {name: detailed[name] for name in NAMES} == NAMES
        assert [one["ip"] for one in detailed["clusterMap"]["DEFAULT"]["hosts"]] == ["10.0.0.1"]

    @pytest.mark.parametrize("wrong", [{"pageNo": "0"}, {"pageSize": "0"}, {"pageSize": "501"}, {"pageNo": "x"}])
    def test_a_page_that_is_none_is_refused(self, client: FlaskClient, base: str, wrong: dict[str, str]) -> None:
        answer = client.get(f"{base}/service/list", query_string=wrong)
        assert refused(answer) == (400, 20_002)
        assert next(iter(wrong)) in answer.get_json()["data"]

    def test_selectors(self, client: FlaskClient, base: str) -> None:
        assert data(client.get(f"{base}/service/selector/types")) == ["none", "label"]


@pytest.mark.parametrize("path", [f"{ADMIN}/cluster", f"{CONSOLE}/service/cluster"])
def test_a_cluster_is_set(client: FlaskClient, path: str) -> None:
    asked = SERVICE | {
        "clusterName": "c1",
        "checkPort": "81",
        "useInstancePort4Check": "false",
        "healthChecker": '{"type":"NONE"}',
    }
    assert refused(client.put(path, data=asked)) == (400, 30_000)
    client.post(f"{ADMIN}/service", data=SERVICE)
    assert data(client.put(path, data=asked)) == "ok"
    assert data(client.get(f"{ADMIN}/service", query_string=SERVICE))["clusterMap"] == {
        "c1": {
            "clusterName": "c1",
            "healthChecker": {"type": "NONE"},
            "healthyCheckPort": 81,
            "useInstancePortForCheck": False,
            "metadata": {},
            "hosts": None,
        }
    }
    answer = client.put(path, data={name: asked[name] for name in asked if name != "useInstancePort4Check"})
    assert answer.get_json()["data"] == "Required parameter 'useInstancePort4Check' type Boolean is not present"


def test_health_by_hand(client: FlaskClient) -> None:
    persistent = ONE | {"ephemeral": "false", "clusterName": "c1"}
    client.post(f"{ADMIN}/instance", data=persistent)
    asked = persistent | {"healthy": "false"}
    assert refused(client.put(f"{ADMIN}/health/instance", data=asked)) == (400, 30_000), "TCP checks it"
    client.put(
        f"{ADMIN}/cluster",
        data=SERVICE
        | {"clusterName": "c1", "checkPort": "1", "useInstancePort4Check": "true", "healthChecker": '{"type":"NONE"}'},
    )
    assert data(client.put(f"{ADMIN}/health/instance", data=asked)) == "ok"
    assert data(client.get(f"{ADMIN}/instance", query_string=persistent))["healthy"] is False
    answer = client.put(f"{ADMIN}/health/instance", data=persistent)
    assert refused(answer) == (400, 10_000)
    assert set(data(client.get(f"{ADMIN}/health/checkers"))) == {"TCP", "HTTP", "MYSQL", "NONE"}


# --- subscribers and clients -----------------------------------------------------------------------


@pytest.fixture
def published(node: FakeNode, client: FlaskClient) -> None:
    """One service of a connection, an ephemeral and a persistent instance; the connection subscribes to it, too."""
    node.clients.own.connect(ClientInfo(CONNECTION, "10.1.2.3", 51_234, "shop", "Nacos-Java-Client:v3.0.3"))
    node.clients.own.register(CONNECTION, RegisterInstance(FULL, "10.0.0.1", 80, cluster="c1"))
    node.clients.subscriptions.subscribe(CONNECTION, "public", FULL, "")
    client.post(f"{ADMIN}/instance", data=SERVICE | {"ip": "10.0.0.2", "port": "80"})
    client.post(f"{ADMIN}/instance", data=SERVICE | {"ip": "10.0.0.3", "port": "81", "ephemeral": "false"})


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("base", [ADMIN, CONSOLE])
def test_subscribers_of_both_kinds(node: FakeNode, client: FlaskClient, base: str) -> None:
    node.push.subscribe(Subscriber("public", FULL, "", "10.1.2.4", 5_555, "Nacos-Go-Client:v1.1.6", "web", 4_024))
    page = data(client.get(f"{base}/service/subscribers", query_string=SERVICE))
    assert (page["totalCount"], page["pageNumber"], page["pagesAvailable"]) == (2, 1, 1)
    assert page["pageItems"] == [
        {
            **NAMES,
            "ip": "10.1.2.3",
            "port": 0,
            "agent": "Nacos-Java-Client:v3.0.3",
            "appName": "shop",
            "address": "10.1.2.3:0",
        },
        {
            **NAMES,
            "ip": "10.1.2.4",
            "port": 5_555,
            "agent": "Nacos-Go-Client:v1.1.6",
            "appName": "web",
            "address": "10.1.2.4:5555",
        },
    ]
    assert data(client.get(f"{base}/service/subscribers", query_string={"serviceName": "no"}))["pageItems"] == []


@pytest.mark.usefixtures("published")
class TestClients:
    def test_all_are_listed(self, client: FlaskClient) -> None:
        assert data(client.get(f"{ADMIN}/client/list")) == [CONNECTION, "10.0.0.2:80#true", "10.0.0.3:81#false"]

    def test_a_connection(self, node: FakeNode, client: FlaskClient) -> None:
        found = data(client.get(f"{ADMIN}/client", query_string={"clientId": CONNECTION}))
        assert found.pop("lastUpdatedTime") == node.wall_ms()
        assert found == {
            "clientId": CONNECTION,
            "ephemeral": True,
            "clientType": "connection",
            "connectType": "GRPC",
            "appName": "shop",
            "version": "Nacos-Java-Client:v3.0.3",
            "clientIp": "10.1.2.3",
            "clientPort": 51_234,
        }

    @pytest.mark.parametrize("client_id", ["10.0.0.2:80#true", "10.0.0.3:81#false"])
    def test_an_address(self, node: FakeNode, client: FlaskClient, client_id: str) -> None:
        found = data(client.get(f"{ADMIN}/client", query_string={"clientId": client_id}))
        assert found.pop("lastUpdatedTime") == node.wall_ms()
        assert found == {
            "clientId": client_id,
            "ephemeral": client_id.endswith("true"),
            "clientType": "ipPort",
            "connectType": None,
            "appName": None,
            "version": None,
            "clientIp": None,
            "clientPort": 0,
        }

    def test_services_of_one(self, client: FlaskClient) -> None:
        asked = {"clientId": CONNECTION}
        place = {"clientId": None, "ip": "10.0.0.1", "port": 80, "clusterName": "c1"}
        assert data(client.get(f"{ADMIN}/client/publish/list", query_string=asked)) == [
            {**NAMES, "publisherInfo": place, "subscriberInfo": None}
        ]
        told = {"clientId": None, "appName": "shop", "agent": "Nacos-Java-Client:v3.0.3", "address": "10.1.2.3"}
        assert data(client.get(f"{ADMIN}/client/subscribe/list", query_string=asked)) == [
            {**NAMES, "publisherInfo": None, "subscriberInfo": told}
        ]
        of_address = {"clientId": "10.0.0.2:80#true"}
        assert data(client.get(f"{ADMIN}/client/subscribe/list", query_string=of_address)) == []

    def test_clients_of_a_service(self, client: FlaskClient) -> None:
        found = data(client.get(f"{ADMIN}/client/service/publisher/list", query_string=SERVICE))
        assert {"clientId": CONNECTION, "ip": "10.0.0.1", "port": 80, "clusterName": "c1"} in found
        assert len(found) == 3
        one = SERVICE | {"ip": "10.0.0.2", "port": "80"}
        [found] = data(client.get(f"{ADMIN}/client/service/publisher/list", query_string=one))
        assert found["clientId"] == "10.0.0.2:80#true"
        assert data(client.get(f"{ADMIN}/client/service/subscriber/list", query_string=SERVICE)) == [
            {"clientId": CONNECTION, "appName": "shop", "agent": "Nacos-Java-Client:v3.0.3", "address": "10.1.2.3"}
        ]

    def test_a_subscriber_over_grpc_is_found_by_the_port_that_lists_show(self, client: FlaskClient) -> None:
        [listed] = data(client.get(f"{ADMIN}/service/subscribers", query_string=SERVICE))["pageItems"]
        one = SERVICE | {"ip": listed["ip"], "port": listed["port"]}
        [found] = data(client.get(f"{ADMIN}/client/service/subscriber/list", query_string=one))
        assert (found["clientId"], listed["port"]) == (CONNECTION, 0)
        other = SERVICE | {"ip": listed["ip"], "port": 1}
        assert data(client.get(f"{ADMIN}/client/service/subscriber/list", query_string=other)) == []

    def test_the_responsible_member(self, node: FakeNode, client: FlaskClient) -> None:
        asked = {"ip": "10.0.0.2", "port": "80"}
        assert data(client.get(f"{ADMIN}/client/distro", query_string=asked)) == {
            "responsibleServer": node.cluster.self_address
        }
        assert refused(client.get(f"{ADMIN}/client/distro", query_string={"ip": "10.0.0.2"})) == (400, 10_000)

    @pytest.mark.parametrize("path", ["", "/publish/list", "/subscribe/list"])
    def test_an_unknown_one(self, client: FlaskClient, path: str) -> None:
        assert refused(client.get(f"{ADMIN}/client{path}", query_string={"clientId": "x"})) == (404, 20_004)
        assert refused(client.get(f"{ADMIN}/client{path}")) == (400, 10_000)
