"""The service endpoints."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.naming.records.record_keys import persistent_key, service_meta_key
from tests.support.fake_node import PEER, FakeNode

SERVICE = "/nacos/v1/ns/service"
INSTANCE = "/nacos/v1/ns/instance"


def create(client: FlaskClient, name: str, **values: Any) -> None:
    assert client.post(SERVICE, query_string={"serviceName": name} | values).data == b"ok"


def names(client: FlaskClient, **values: Any) -> Any:
    return client.get(f"{SERVICE}/list", query_string={"pageNo": 1, "pageSize": 10} | values).get_json()


def test_create_and_query(client: FlaskClient) -> None:
    create(client, "a", protectThreshold="0.8", metadata='{"a":"1"}', groupName="G1", namespaceId="ns")
    found = client.get(SERVICE, query_string={"serviceName": "G1@@a", "namespaceId": "ns"}).get_json()
    assert list(found.items()) == [
        ("name", "a"), ("namespaceId", "ns"), ("protectThreshold", 0.8), ("metadata", {"a": "1"}),
        ("selector", {"type": "none"}), ("groupName", "G1"), ("clusters", []),
    ]  # fmt: skip


def test_clusters_come_with_instances(client: FlaskClient) -> None:
    client.post(INSTANCE, query_string={"serviceName": "a", "ip": "10.0.0.1", "port": 80, "clusterName": "c1"})
    found = client.get(SERVICE, query_string={"serviceName": "a"})
    assert found.get_json()["clusters"] == [{"name": "c1", "healthChecker": {"type": "TCP"}, "metadata": {}}]
    assert b'"protectThreshold":0.0' in found.data


@pytest.mark.parametrize(
    ("values", "status", "text"),
    [
        ({}, 400, "Parameter 'serviceName' is missing"),
        ({"serviceName": "@@"}, 400, "Param 'serviceName' is illegal, it should be format as 'groupName@@serviceName'"),
        (
            {"serviceName": "a b"},
            400,
            "dom name can only have these characters: 0-9a-zA-Z-._:, current: DEFAULT_GROUP@@a b",
        ),
        ({"serviceName": "a", "metadata": "zz"}, 400, "metadata format incorrect:zz"),
        ({"serviceName": "a", "selector": '{"type":"unknown"}'}, 400, "not match any type of selector!"),
    ],
)  # fmt: skip
def test_create_refuses(client: FlaskClient, values: dict[str, str], status: int, text: str) -> None:
    answer = client.post(SERVICE, data=values)
    assert (answer.status_code, answer.get_data(as_text=True)) == (status, text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("protectThreshold", "abc"),
        ("protectThreshold", "NaN"),
        ("protectThreshold", "Infinity"),
        ("selector", "{}"),
        ("selector", "zzz"),
        ("selector", '{"type":"zzz"}'),
    ],
)
def test_a_refusal_names_its_field(client: FlaskClient, name: str, value: str) -> None:
    answer = client.post(SERVICE, query_string={"serviceName": "a", name: value})
    assert answer.status_code == 400
    assert f"'{name}'" in answer.get_data(as_text=True)


@pytest.mark.parametrize("selector", ["", '{"type":"none"}', "%7B%22type%22%3A%22none%22%7D"])
def test_no_selector(client: FlaskClient, selector: str) -> None:
    create(client, "a", selector=selector, protectThreshold="")


def test_create_twice(client: FlaskClient) -> None:
    create(client, "a")
    answer = client.post(SERVICE, query_string={"serviceName": "a"})
    assert (answer.status_code, answer.data) == (
        400,
        b"specified service already exists, serviceName : DEFAULT_GROUP@@a",
    )


def test_remove(client: FlaskClient) -> None:
    create(client, "a")
    assert client.delete(SERVICE, data={"serviceName": "a"}).data == b"ok"
    answer = client.delete(SERVICE, query_string={"serviceName": "a"})
    assert (answer.status_code, answer.data) == (400, b"specified service not exist, serviceName : DEFAULT_GROUP@@a")


def test_query_of_an_unknown_service(client: FlaskClient) -> None:
    answer = client.get(SERVICE, query_string={"serviceName": "a"})
    assert (answer.status_code, answer.data) == (404, b"service DEFAULT_GROUP@@a is not found!")
    assert client.get(SERVICE).data == b"Parameter 'serviceName' is missing"


def test_names_are_paged_without_their_group(client: FlaskClient) -> None:
    for name in ("s2", "s0", "s1", "G1@@s9"):
        create(client, name)
    assert names(client) == {"doms": ["s0", "s1", "s2"], "count": 3}
    assert names(client, pageNo=2, pageSize=2) == {"doms": ["s2"], "count": 3}
    assert names(client, pageNo=9, pageSize=2) == {"doms": [], "count": 3}
    assert names(client, pageSize=0) == {"doms": [], "count": 3}
    for first in ("x", 0, -3):
        assert names(client, pageNo=first, pageSize=2) == {"doms": ["s0", "s1"], "count": 3}
    assert names(client, groupName="G1") == {"doms": ["s9"], "count": 1}
    assert names(client, groupName="nope") == names(client, namespaceId="other") == {"doms": [], "count": 0}


def test_all_groups_keep_their_names(client: FlaskClient) -> None:
    create(client, "G1@@s0")
    create(client, "s0")
    assert names(client, groupName="*") == {"doms": ["DEFAULT_GROUP@@s0", "G1@@s0"], "count": 2}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"pageSize": 10}, "Param 'pageNo' is required."),
        ({"pageNo": 1, "pageSize": ""}, "Param 'pageSize' is required."),
        ({"pageNo": 1, "pageSize": -5}, "Param 'pageSize' is illegal, it should not be negative."),
    ],
)
def test_list_refuses(client: FlaskClient, values: dict[str, Any], text: str) -> None:
    answer = client.get(f"{SERVICE}/list", query_string=values)
    assert (answer.status_code, answer.get_data(as_text=True)) == (400, text)


@pytest.mark.parametrize(
    ("expression", "doms"),
    [
        ("SERVICE.metadata.env = 'x'", ["a"]),
        ("INSTANCE.metadata.zone = 'z'", ["b"]),
        ("INSTANCE.metadata.zone = 'y'", []),
        ("zzz", ["a", "b"]),
    ],
)
def test_names_by_metadata(client: FlaskClient, expression: str, doms: list[str]) -> None:
    create(client, "a", metadata="env=x")
    client.post(INSTANCE, query_string={"serviceName": "b", "ip": "10.0.0.1", "port": 80, "metadata": "zone=z"})
    selector = json.dumps({"type": "label", "expression": expression})
    assert names(client, selector=selector) == {"doms": doms, "count": len(doms)}
    assert names(client, selector="") == {"doms": ["a", "b"], "count": 2}


# --- what others may have done meanwhile, and where it is written ------------------------------------


def test_a_name_that_is_taken_is_refused_before_the_rest_is_read(client: FlaskClient) -> None:
    create(client, "a")
    answer = client.post(SERVICE, query_string={"serviceName": "a", "metadata": "zz"})
    assert answer.data == b"specified service already exists, serviceName : DEFAULT_GROUP@@a"


@pytest.mark.parametrize(("method", "values"), [("POST", {}), ("DELETE", {}), ("PUT", {"protectThreshold": "0.5"})])
def test_services_are_written_by_their_owner(
    node: FakeNode, client: FlaskClient, method: str, values: dict[str, str]
) -> None:
    persistent = {"serviceName": "a", "ip": "10.0.0.1", "port": 80, "ephemeral": "false"}
    client.post(INSTANCE, query_string=persistent)
    node.cluster.owner = PEER
    assert client.open(SERVICE, method=method, data={"serviceName": "a"} | values).data == b"from the owner"
    key = service_meta_key("public", "DEFAULT_GROUP@@a")
    instance = persistent_key("public", "DEFAULT_GROUP@@a", "10.0.0.1:80:unknown:DEFAULT")
    assert node.forwarder.durable == [(key, instance) if method == "DELETE" else (key,)]
    assert node.forwarder.tags == ["DEFAULT_GROUP@@a"]


def test_a_service_goes_with_its_instances(client: FlaskClient) -> None:
    for ephemeral in ("true", "false"):
        one = {"serviceName": "a", "ip": "10.0.0.1", "port": 80, "ephemeral": ephemeral}
        client.post(INSTANCE, query_string=one)
    assert client.delete(SERVICE, query_string={"serviceName": "a"}).data == b"ok"
    assert client.get(SERVICE, query_string={"serviceName": "a"}).status_code == 404
    assert client.get(f"{INSTANCE}/list?serviceName=a").get_json()["hosts"] == []


# --- update ---------------------------------------------------------------------------------------


def update(client: FlaskClient, **values: Any) -> tuple[int, str]:
    answer = client.put(SERVICE, data={"serviceName": "a"} | values)
    return answer.status_code, answer.get_data(as_text=True)


def query(client: FlaskClient) -> Any:
    return client.get(SERVICE, query_string={"serviceName": "a"}).get_json()


def test_update_replaces_all_but_clusters(client: FlaskClient) -> None:
    create(client, "a", metadata="a=1", protectThreshold="0.5")
    client.post(INSTANCE, query_string={"serviceName": "a", "ip": "10.0.0.1", "port": 80})
    selector = {
        "type": "label",
        "expression": "CONSUMER.label.A = PROVIDER.label.A & CONSUMER.label.B=PROVIDER.label.B",
    }
    assert update(client, protectThreshold="0.123456789", metadata="b=2", selector=json.dumps(selector)) == (200, "ok")
    found = query(client)
    assert (found["protectThreshold"], found["metadata"]) == (0.12345679, {"b": "2"})
    assert found["selector"] == selector | {"labels": ["A", "B"]}
    assert update(client, protectThreshold="0") == (200, "ok")
    found = query(client)
    assert (found["protectThreshold"], found["metadata"], found["selector"]) == (0.0, {}, {"type": "none"})
    assert len(found["clusters"]) == 1


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"serviceName": ""}, "Param 'serviceName' is required."),
        ({}, "Param 'protectThreshold' is required."),
        ({"protectThreshold": " "}, "Param 'protectThreshold' is required."),
        ({"protectThreshold": "abc"}, "Parameter 'protectThreshold' is illegal: For input string: \"abc\""),
        ({"protectThreshold": "1e40"}, "Parameter 'protectThreshold' is illegal: it should be a finite number"),
        ({"protectThreshold": "0", "metadata": "zz"}, "metadata format incorrect:zz"),
        ({"protectThreshold": "0", "serviceName": "zz"}, "service DEFAULT_GROUP@@zz not found!"),
        ({"protectThreshold": "0", "selector": '{"type":"label","expression":"zzz"}'}, "parse expression failed!"),
    ],
)
def test_update_refuses(client: FlaskClient, values: dict[str, str], text: str) -> None:
    create(client, "a", protectThreshold="0.5")
    assert update(client, **values) == (400, text)
    assert query(client)["protectThreshold"] == 0.5


def test_the_threshold_protects(client: FlaskClient) -> None:
    create(client, "a", protectThreshold="0.6")
    for last, healthy in ((1, "true"), (2, "false")):
        one = {"serviceName": "a", "ip": f"10.0.0.{last}", "port": 80, "healthy": healthy}
        client.post(INSTANCE, query_string=one)
    hosts = client.get(f"{INSTANCE}/list?serviceName=a&healthyOnly=true").get_json()["hosts"]
    assert [host["healthy"] for host in hosts] == [True, True]


# --- names and digests ----------------------------------------------------------------------------


def searched(client: FlaskClient, **values: Any) -> Any:
    return client.get(f"{SERVICE}/names", query_string=values).get_json()


def test_names_by_namespace(client: FlaskClient) -> None:
    for name in ("s2", "s1", "G1@@s1"):
        create(client, name)
    create(client, "s3", namespaceId="ns")
    assert searched(client) == {"services": {"ns": ["s3"], "public": ["s1", "s2"]}, "count": 2}
    assert searched(client, namespaceId="ns") == {"services": {"ns": ["s3"]}, "count": 1}
    assert searched(client, namespaceId="nowhere") == {"services": {"nowhere": []}, "count": 1}
    assert searched(client, expr="s2")["services"] == {"ns": [], "public": ["s2"]}
    assert searched(client, namespaceId="public", expr="G1.*1")["services"] == {"public": ["s1"]}


def test_names_of_this_member(node: FakeNode, client: FlaskClient) -> None:
    create(client, "a")
    assert searched(client, responsibleOnly="yes")["services"] == {"public": ["a"]}
    node.cluster.owner = PEER
    assert searched(client, responsibleOnly="yes")["services"] == {"public": []}
    assert searched(client, responsibleOnly="no")["services"] == searched(client)["services"] == {"public": ["a"]}


@pytest.mark.parametrize(("name", "value"), [("responsibleOnly", "maybe"), ("expr", "(a+)+$"), ("expr", "*")])
def test_names_refuse(client: FlaskClient, name: str, value: str) -> None:
    answer = client.get(f"{SERVICE}/names", query_string={name: value})
    assert (answer.status_code, f"'{name}'" in answer.get_data(as_text=True)) == (400, True)


def test_a_digest_changes_with_the_health(client: FlaskClient) -> None:
    one = {"serviceName": "a", "ip": "10.0.0.1", "port": 80}
    client.post(INSTANCE, query_string=one)
    before = client.put(f"{SERVICE}/checksum", data={"serviceName": "a"}).get_json()["checksum"]
    assert len(before) == 32
    client.patch(INSTANCE, query_string=one | {"healthy": "false"})
    assert client.put(f"{SERVICE}/checksum", query_string={"serviceName": "a"}).get_json()["checksum"] != before
    answer = client.put(f"{SERVICE}/checksum", data={"serviceName": "b"})
    assert (answer.status_code, answer.data) == (404, b"serviceName not found: DEFAULT_GROUP@@b")
    assert client.put(f"{SERVICE}/checksum").data == b"Param 'serviceName' is required."


def test_the_calls_of_nacos_controller_create_a_service_and_switch_its_checks_off(client: FlaskClient) -> None:
    """Source: nacos-controller 7c9af96, pkg/nacos/naming/http_sdk.go: it looks for a text of Nacos 2."""
    agent = {"User-Agent": "Go-http-client/1.1"}
    asked = {"namespaceId": "public", "serviceName": "DEFAULT_GROUP@@orders"}
    answer = client.get(SERVICE, query_string=asked, headers=agent)
    assert (answer.status_code, answer.text) == (
        400,
        "service not found, namespace: public, serviceName: DEFAULT_GROUP@@orders",
    )
    made = {"namespaceId": "public", "serviceName": "orders", "groupName": "DEFAULT_GROUP"}
    assert client.post(SERVICE, query_string=made, data=made, headers=agent).data == b"ok"
    assert client.get(SERVICE, query_string=asked, headers=agent).get_json()["clusters"] == []
    cluster = {"namespaceId": "public", "serviceName": "orders", "clusterName": "DEFAULT", "checkPort": "80"}
    cluster |= {"useInstancePort4Check": "true", "healthChecker": '{"type":"NONE"}'}
    assert client.put("/nacos/v1/ns/cluster", query_string=cluster, data=cluster, headers=agent).data == b"ok"
    persistent = {"serviceName": "DEFAULT_GROUP@@orders", "ip": "10.0.0.1", "port": "80", "ephemeral": "false"}
    assert client.post(INSTANCE, data=persistent | {"weight": "100"}).data == b"ok"
    found = client.get(SERVICE, query_string=asked, headers=agent).get_json()
    assert [(one["name"], one["healthChecker"]["type"]) for one in found["clusters"]] == [("DEFAULT", "NONE")]
