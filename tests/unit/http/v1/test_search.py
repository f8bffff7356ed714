"""The search for instances: what a text finds, in which order, for whom, and how far it goes."""

import threading
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.factory import create_app
from app.naming.clients.client_model import ClientInfo
from app.operator import instance_search
from app.operator.instance_search import InstanceSearches, SearchRequest
from tests.support.auth import ADMIN, add_user, node_with_users, token_of
from tests.support.fake_node import FakeNode

SEARCH = "/nacos/v1/ns/instance/search"


def register(client: FlaskClient, **values: str) -> None:
    query = {"serviceName": "orders", "ip": "10.0.0.1", "port": "8080"} | values
    assert client.post("/nacos/v1/ns/instance", query_string=query).data == b"ok"


def search(client: FlaskClient, **values: str | int) -> Any:
    answer = client.get(SEARCH, query_string=values)
    assert answer.status_code == 200, answer.text
    return answer.get_json()


def addresses(client: FlaskClient, **values: str | int) -> list[str]:
    return [f"{one['ip']}:{one['port']}" for one in search(client, **values)["instances"]]


@pytest.fixture
def registered(client: FlaskClient) -> FlaskClient:
    """Instances in two namespaces, two clusters, of two families."""
    register(client, metadata='{"zone":"Berlin","image":"orders:1.2.3"}')
    register(client, ip="10.0.0.10", port="9090", weight="3", metadata='{"zone":"a=b","empty":"","x":"\\"\u00e5\\\\B"}')
    register(client, ip="10.0.0.1", port="8081", serviceName="billing", namespaceId="dev", clusterName="east")
    register(client, ip="2001:db8:0:0:0:0:0:1", port="8080", serviceName="g2@@mail", enabled="false")
    register(client, ip="db.example", port="3306", serviceName="g2@@mail", ephemeral="false", healthy="false")
    return client


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.1", ["10.0.0.1:8081", "10.0.0.1:8080"]),
        ("10.0.0.1:8081", ["10.0.0.1:8081"]),
        ("10.0.0.1:1", []),
        ("10.0.0", ["10.0.0.1:8081", "10.0.0.1:8080", "10.0.0.10:9090"]),
        ("2001:DB8::1", ["2001:db8:0:0:0:0:0:1:8080"]),
        ("[2001:db8::1]:8080", ["2001:db8:0:0:0:0:0:1:8080"]),
        ("[2001:db8::1]:81", []),
        ("9090", ["10.0.0.10:9090"]),
        ("db.example", ["db.example:3306"]),
        ("db.example:3306", ["db.example:3306"]),
        ("zone=Berlin", ["10.0.0.1:8080"]),
        ("zone=berlin", []),
        ("zone=a=b", ["10.0.0.10:9090"]),
        ("zone=", ["10.0.0.1:8080", "10.0.0.10:9090"]),
        ("BERL", ["10.0.0.1:8080"]),
        ("IMAGE", ["10.0.0.1:8080"]),
        ("orders:1.2", ["10.0.0.1:8080"]),
        ("nowhere", []),
        ("zone\nberlin", []),
        ('","', []),
        ('"Å\\', ["10.0.0.10:9090"]),
        ("å\\b", ["10.0.0.10:9090"]),
        ("]", []),
    ],
)
def test_a_text_finds_addresses_and_metadata_in_all_namespaces(
    registered: FlaskClient, text: str, found: list[str]
) -> None:
    assert addresses(registered, text=text) == found


def test_a_found_instance_says_all_of_it(registered: FlaskClient) -> None:
    assert search(registered, text="9090") == {
        "count": 1,
        "complete": True,
        "instances": [
            {
                "namespaceId": "public", "serviceName": "DEFAULT_GROUP@@orders", "clusterName": "DEFAULT",
                "ip": "10.0.0.10", "port": 9090, "healthy": True, "enabled": True, "ephemeral": True, "weight": 3.0,
                "source": "HTTP", "metadata": {"zone": "a=b", "empty": "", "x": '"\u00e5\\B'},
            }
        ],
        "serviceCount": 0,
        "services": [],
    }  # fmt: skip


def test_a_text_finds_services_by_their_names(registered: FlaskClient) -> None:
    found = search(registered, text="G2@@MA")
    assert (found["count"], found["serviceCount"]) == (0, 1)
    assert found["services"] == [
        {
            "namespaceId": "public", "serviceName": "g2@@mail", "instanceCount": 2, "healthyInstanceCount": 1,
            "unhealthyInstanceCount": 1,
        }
    ]  # fmt: skip


def test_states_sources_clusters_and_services_narrow_it(registered: FlaskClient, node: FakeNode) -> None:
    node.clients.own.connect(ClientInfo("7_10.0.0.9_1", "10.0.0.9", 7, "shop", "v3"))
    assert addresses(registered, state="unhealthy") == ["db.example:3306"]
    assert addresses(registered, state="disabled") == ["2001:db8:0:0:0:0:0:1:8080"]
    assert addresses(registered, state="healthy", namespaceId="dev") == ["10.0.0.1:8081"]
    assert addresses(registered, serviceName="mail", groupName="g2", source="persistent") == ["db.example:3306"]
    assert addresses(registered, serviceName="orders", source="gRPC") == []
    assert addresses(registered, serviceName="billing", namespaceId="dev", clusterName="west") == []
    assert len(addresses(registered, serviceName="orders", text="zone=")) == 2
    assert addresses(registered, serviceName="nobody-knows-it") == []


def test_an_instance_that_an_operator_disabled_is_not_unhealthy(registered: FlaskClient) -> None:
    place = {"serviceName": "mail", "groupName": "g2", "ip": "db.example", "port": "3306", "enabled": "false"}
    assert registered.put("/nacos/v3/admin/ns/instance/partial", data=place).status_code == 200
    assert addresses(registered, state="unhealthy") == []
    assert addresses(registered, state="disabled") == ["2001:db8:0:0:0:0:0:1:8080", "db.example:3306"]


@pytest.mark.parametrize(
    ("order", "found", "backwards"),
    [
        ("service", "2 3 10", "10 2 3"),
        ("address", "2 3 10", "10 3 2"),
        ("namespace", "10 2 3", "2 3 10"),
        ("cluster", "3 2 10", "10 2 3"),
        ("health", "3 10 2", "10 2 3"),
        ("enabled", "10 2 3", "2 3 10"),
        ("weight", "2 10 3", "3 10 2"),
        ("source", "10 2 3", "3 10 2"),
        ("metadata", "10 3 2", "2 3 10"),
    ],
)
def test_every_column_sorts_both_ways(client: FlaskClient, order: str, found: str, backwards: str) -> None:
    register(client, ip="10.0.0.10", weight="2", enabled="false", namespaceId="dev", clusterName="c", serviceName="z")
    register(client, ip="10.0.0.3", weight="3", clusterName="a", ephemeral="false", healthy="false", metadata="a=1")
    register(client, ip="10.0.0.2", weight="1", clusterName="b", metadata="b=1")
    rows = addresses(client, text="8080", orderBy=order)
    assert rows == [f"10.0.0.{one}:8080" for one in found.split()]
    rows = addresses(client, text="8080", orderBy=order, descending="true")
    assert rows == [f"10.0.0.{one}:8080" for one in backwards.split()], "equal ones keep their order"


@pytest.mark.parametrize("size", [1, 3, 4, 7, 100])
def test_pages_continue_each_other_through_services_of_two_namespaces(client: FlaskClient, size: int) -> None:
    for namespace in ("dev", "public"):
        for service in ("a", "b", "c"):
            for host in (9, 10, 2, 1):
                register(client, serviceName=service, namespaceId=namespace, ip=f"10.0.0.{host}")
    expected = [
        (service, namespace, f"10.0.0.{host}")
        for service in ("a", "b", "c")
        for namespace in ("dev", "public")
        for host in (1, 2, 9, 10)
    ]
    found: list[tuple[str, str, str]] = []
    for number in range(1, len(expected) // size + 2):
        page = search(client, text="8080", pageNo=number, pageSize=size)
        assert page["count"] == len(expected)
        found += [
            (one["serviceName"].removeprefix("DEFAULT_GROUP@@"), one["namespaceId"], one["ip"])
            for one in page["instances"]
        ]
    assert found == expected
    assert addresses(client, text="8080", pageNo=1_000) == []


def test_pages_and_their_bounds(registered: FlaskClient) -> None:
    for number in range(30):
        register(registered, serviceName="many", ip=f"10.1.0.{number}")
    found = search(registered, text="10.1.", pageNo=2)
    assert (found["count"], len(found["instances"])) == (30, 10)
    assert found["instances"][0]["ip"] == "10.1.0.20", "addresses are sorted as numbers"
    assert search(registered, text="10.1.", pageNo=9)["instances"] == []


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "Param 'text' is required, or 'state', or 'serviceName'."),
        ({"text": "x" * 257}, "Parameter 'text' is illegal: it should have at most 256 characters"),
        ({"state": "ill"}, "Parameter 'state' is illegal: it should be one of healthy, unhealthy, disabled"),
        ({"text": "a", "source": "x"}, "Parameter 'source' is illegal: it should be one of HTTP, gRPC, persistent"),
        ({"text": "a", "pageSize": "1001"}, "Parameter 'pageSize' is illegal: it should be from 1 to 1000"),
        ({"text": "a", "pageNo": "0"}, "Parameter 'pageNo' is illegal: it should be 1 or more"),
    ],
)
def test_wrong_questions_are_refused_by_name(client: FlaskClient, values: dict[str, str], text: str) -> None:
    answer = client.get(SEARCH, query_string=values)
    assert (answer.status_code, answer.text) == (400, text)


def test_a_search_ends_where_it_has_found_enough(registered: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_search, "FOUND_MAX", 2)
    monkeypatch.setattr(instance_search, "REST_INSTANCES", 1)
    found = search(registered, text="10.0.0")
    assert (found["count"], found["complete"]) == (2, False)
    assert search(registered, text="zone=")["complete"]


def test_services_are_found_by_name_after_the_last_instance(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_search, "FOUND_MAX", 1)
    monkeypatch.setattr(instance_search, "PART_INSTANCES", 1)
    for number in range(3):
        register(client, serviceName=f"shop-{number}", metadata=f'{{"of":"shop-{number}"}}')
    found = search(client, text="shop")
    assert (found["count"], found["complete"], found["serviceCount"]) == (1, False, 3)
    assert [one["instanceCount"] for one in found["services"]] == [1, 1, 1]


def test_only_a_few_searches_run_at_a_time(node: FakeNode) -> None:
    node.searches = InstanceSearches(most=1, wait_s=0.01)
    client = create_app(node).test_client()  # type: ignore[arg-type]
    register(client)
    entered, leave = threading.Event(), threading.Event()

    def may_read(_namespace: str, _name: str) -> bool:
        entered.set()
        return leave.wait(10)

    slow = threading.Thread(target=node.searches.run, args=(node.naming, SearchRequest("a"), may_read))
    slow.start()
    try:
        assert entered.wait(10)
        answer = client.get(SEARCH, query_string={"text": "a"})
        assert answer.status_code == 429
        assert "searches" in answer.text
    finally:
        leave.set()
        slow.join()
    assert search(client, text="10.0.0.1")["count"] == 1


def test_a_user_finds_what_he_may_read(node: FakeNode) -> None:
    node = node_with_users()
    client = create_app(node).test_client()  # type: ignore[arg-type]
    tokens = {"boss": token_of(node, ADMIN), "dev": add_user(node, "dev", ("dev:*:*", "r"))}
    for namespace in ("public", "dev"):
        register(client, namespaceId=namespace, accessToken=tokens["boss"])
    assert client.get(SEARCH, query_string={"text": "8080"}).status_code == 403
    assert search(client, text="orders", accessToken=tokens["boss"])["serviceCount"] == 2
    assert search(client, text="8080", accessToken=tokens["boss"])["count"] == 2
    found = search(client, text="8080", accessToken=tokens["dev"])
    assert [one["namespaceId"] for one in found["instances"]] == ["dev"]
    assert search(client, text="orders", accessToken=tokens["dev"])["serviceCount"] == 1
