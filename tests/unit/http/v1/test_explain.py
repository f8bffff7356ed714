"""The calls about one instance name what of its address is wrong."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.factory import create_app
from app.naming.clients.client_model import ClientInfo
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.operator.instance_facts import AskedInstance
from tests.support.fake_node import PEER, SELF, FakeNode, make_settings

CALLS = [("GET", "explain"), ("PUT", "instance/drain"), ("GET", "instance/drain")]


@pytest.mark.parametrize("registered", ["[fe80::1]", "fe80::1", "FE80:0::1"])
@pytest.mark.parametrize("asked", ["[fe80::1]", "fe80::1", "fe80:0:0::1"])
def test_an_instance_is_found_in_every_spelling_of_its_address(
    node: FakeNode, client: FlaskClient, registered: str, asked: str
) -> None:
    node.naming.register(RegisterInstance("DEFAULT_GROUP@@orders", registered, 80))
    query = {"serviceName": "orders", "ip": asked, "port": "80"}
    answer = client.get("/nacos/v1/ns/explain", query_string=query).get_json()
    assert answer["instance"]["ip"] == registered
    assert answer["members"][answer["askedAt"]]["listed"]


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize(
    ("ip", "port", "named"),
    [
        ("10.0.0.1", "-177", "port"),
        ("10.0.0.1", "65536", "port"),
        ("10.0.0.1", "x", "port"),
        ("%C2%9E", "1", "ip"),
        ("10.0.0.256", "1", "IPv4"),
    ],
)
def test_an_address_that_no_instance_can_have(
    client: FlaskClient, method: str, path: str, ip: str, port: str, named: str
) -> None:
    answer = client.open(f"/nacos/v1/ns/{path}?serviceName=orders&ip={ip}&port={port}", method=method)
    assert answer.status_code == 400
    assert named in answer.text


@pytest.mark.parametrize(("service", "cluster"), [("DEFAULT_GROUP@@orders", "gray"), ("shop@@orders", "DEFAULT")])
def test_an_instance_is_found_in_every_cluster_and_group(
    node: FakeNode, client: FlaskClient, service: str, cluster: str
) -> None:
    node.naming.register(RegisterInstance(service, "10.0.0.1", 80, cluster=cluster))
    query = {"serviceName": "orders", "ip": "10.0.0.1", "port": "80"}
    answer = client.get("/nacos/v1/ns/explain", query_string=query).get_json()
    assert (answer["instance"]["serviceName"], answer["instance"]["clusterName"]) == (service, cluster)
    assert answer["members"][answer["askedAt"]]["listed"]
    assert answer["elsewhere"] == []


def test_a_named_cluster_is_kept_and_the_other_places_are_named(node: FakeNode, client: FlaskClient) -> None:
    for service, cluster in (("DEFAULT_GROUP@@orders", "gray"), ("shop@@orders", "DEFAULT"), ("shop@@carts", "gray")):
        node.naming.register(RegisterInstance(service, "10.0.0.1", 80, cluster=cluster))
    query = {"serviceName": "orders", "ip": "10.0.0.1", "port": "80", "clusterName": "DEFAULT"}
    answer = client.get("/nacos/v1/ns/explain", query_string=query).get_json()
    assert (answer["instance"]["serviceName"], answer["instance"]["clusterName"]) == (
        "DEFAULT_GROUP@@orders",
        "DEFAULT",
    )
    assert answer["verdict"][-1] == (
        "The same address is also registered in DEFAULT_GROUP@@orders (cluster gray), shop@@orders (cluster DEFAULT)."
    )


def test_a_removed_instance_is_found_in_its_cluster() -> None:
    node = FakeNode(
        settings=make_settings(nacos_standalone="false", nacos_member_list=f"{SELF},{PEER}")
    )  # a node alone keeps no removals
    client = create_app(node).test_client()  # type: ignore[arg-type]
    node.naming.register(RegisterInstance("DEFAULT_GROUP@@orders", "10.0.0.1", 80, cluster="gray"))
    node.naming.deregister(DeregisterInstance("DEFAULT_GROUP@@orders", "10.0.0.1", 80, cluster="gray"))
    query = {"serviceName": "orders", "ip": "10.0.0.1", "port": "80"}
    answer = client.get("/nacos/v1/ns/explain", query_string=query).get_json()
    assert answer["instance"]["clusterName"] == "gray"
    assert answer["members"][answer["askedAt"]]["removed"]


def test_an_instance_that_only_another_member_holds_is_found(
    node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = FakeNode()
    other.naming.register(RegisterInstance("shop@@orders", "10.0.0.1", 80, cluster="gray"))

    def ask(_services: object, _method: str, _path: str, parameters: dict[str, str], _s: float, **_: Any) -> object:
        asked = AskedInstance("public", parameters["serviceName"], "10.0.0.1", 80, parameters["clusterName"])
        places = other.explainer.places("public", asked.service, asked.ip, asked.port)
        told = other.explainer.facts(asked) | {"address": PEER, "places": [one.facts() for one in places]}
        return {PEER: told}, []

    monkeypatch.setattr("app.peers.asked.ask_members", ask)
    query = {"serviceName": "orders", "ip": "10.0.0.1", "port": "80"}
    answer = client.get("/nacos/v1/ns/explain", query_string=query).get_json()
    assert (answer["instance"]["serviceName"], answer["instance"]["clusterName"]) == ("shop@@orders", "gray")
    assert answer["members"][PEER]["listed"]
    assert answer["differences"] == [f"the instance list: not at {node.cluster.self_address}, held by {PEER}"]


def test_an_instance_that_its_grpc_client_published_as_unhealthy(node: FakeNode, client: FlaskClient) -> None:
    node.clients.own.connect(ClientInfo("1_10.0.0.9_7", "10.0.0.9", 7, "shop", "Nacos-Java-Client:v2.5.1"))
    node.clients.own.register("1_10.0.0.9_7", RegisterInstance("DEFAULT_GROUP@@orders", "10.0.0.1", 80, healthy=False))
    query = {"serviceName": "orders", "ip": "10.0.0.1", "port": "80"}
    verdict = client.get("/nacos/v1/ns/explain", query_string=query).get_json()["verdict"]
    assert "Unhealthy because: its client published it as unhealthy. No beats or checks change that." in verdict
