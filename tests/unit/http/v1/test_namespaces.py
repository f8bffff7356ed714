"""Namespaces as a console makes them."""

import json
import uuid
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.naming.records.record_keys import namespace_key
from tests.support.fake_node import PEER, FakeNode

NAMESPACES = "/nacos/v1/console/namespaces"
PUBLIC = {"namespace": "", "namespaceShowName": "public", "quota": 200, "configCount": 0, "type": 0}


def create(client: FlaskClient, name: str, **values: Any) -> Any:
    return client.post(NAMESPACES, data={"customNamespaceId": name, "namespaceName": f"the {name}"} | values).get_json()


def listed(client: FlaskClient) -> list[Any]:
    found = client.get(NAMESPACES).get_json()
    assert (found["code"], found["message"]) == (200, None)
    assert isinstance(found["data"], list)
    return found["data"]


LOOKALIKES = ["Public", "\uff50ublic", "publi\u0441", "public\u00a0", "pub\u200blic", "DEV", "dev\u00a0"]


@pytest.mark.parametrize("name", LOOKALIKES, ids=ascii)
def test_what_looks_like_another_namespace_cannot_begin(client: FlaskClient, name: str) -> None:
    assert client.post(NAMESPACES, data={"customNamespaceId": "dev", "namespaceName": "n"}).get_json() is True
    named = {"namespaceId": name, "serviceName": "s", "ip": "10.0.0.1", "port": "80"}
    for path, more in (
        ("/nacos/v1/ns/instance", {}),
        ("/nacos/v1/ns/instance", {"ephemeral": "false"}),
        ("/nacos/v2/ns/instance", {}),
        ("/nacos/v1/ns/service", {}),
    ):
        answer = client.post(path, data=named | more)
        assert answer.status_code == 400, (path, more)
        assert "'namespaceId' is illegal" in answer.text
        assert "looks like the namespace" in answer.text
    beat = {"ip": "10.0.0.1", "port": 80, "cluster": "DEFAULT"}
    full = client.put("/nacos/v1/ns/instance/beat", data=named | {"beat": json.dumps(beat)})
    assert full.status_code == 400
    created = client.post(NAMESPACES, data={"customNamespaceId": name, "namespaceName": "n"})
    assert created.status_code == 400 or created.text == "false", "the latter says of other characters what Nacos says"
    assert [one["namespace"] for one in client.get(NAMESPACES).get_json()["data"]] == ["", "dev"]


def test_the_public_one_is_always_there(client: FlaskClient) -> None:
    assert listed(client) == [PUBLIC]
    public = PUBLIC | {"namespaceShowName": "Public", "namespaceDesc": "Public Namespace"}
    for query in ("show=all", "show=all&namespaceId=", "show=all&namespaceId=public"):
        assert client.get(f"{NAMESPACES}?{query}").get_json() == public


def test_create_rename_and_forget(client: FlaskClient) -> None:
    assert create(client, "dev", namespaceDesc="for us") is True
    assert create(client, "dev") is False, "it is taken"
    dev = {"namespace": "dev", "namespaceShowName": "the dev", "quota": 200, "configCount": 0, "type": 2}
    assert listed(client) == [PUBLIC, dev]
    assert client.get(f"{NAMESPACES}?show=all&namespaceId=dev").get_json() == dev | {"namespaceDesc": "for us"}
    renamed = {"namespace": "dev", "namespaceShowName": "new", "namespaceDesc": "d"}
    assert client.put(NAMESPACES, data=renamed).get_json() is True
    assert [one["namespaceShowName"] for one in listed(client)] == ["public", "new"]
    assert client.delete(f"{NAMESPACES}?namespaceId=dev").get_json() is True
    assert listed(client) == [PUBLIC]
    assert create(client, "dev") is True, "it may be made again"


def test_what_is_in_it_stays(client: FlaskClient) -> None:
    create(client, "dev")
    one = {"namespaceId": "dev", "serviceName": "a", "ip": "10.0.0.1", "port": 80}
    client.post("/nacos/v1/ns/instance", query_string=one)
    client.delete(f"{NAMESPACES}?namespaceId=dev")
    found = client.get("/nacos/v1/ns/instance/list", query_string={"namespaceId": "dev", "serviceName": "a"})
    assert len(found.get_json()["hosts"]) == 1


@pytest.mark.parametrize("name", ["a b", "a.b", "é", "x" * 129, "public", "a/b"])
def test_ids_that_are_not_allowed(client: FlaskClient, name: str) -> None:
    assert create(client, name) is False
    assert listed(client) == [PUBLIC]


def test_an_id_of_its_own(client: FlaskClient) -> None:
    assert create(client, " ") is True
    _, made = listed(client)
    assert uuid.UUID(made["namespace"]).version == 4


def test_an_id_of_its_own_is_one_that_this_node_may_make(
    node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node.cluster, "responsible_durable", lambda key: key.endswith("7"))
    assert create(client, "") is True
    assert listed(client)[1]["namespace"].endswith("7")
    monkeypatch.setattr(node.cluster, "responsible_durable", lambda key: False)
    assert client.post(NAMESPACES, data={"customNamespaceId": "", "namespaceName": "n"}).status_code == 503


@pytest.mark.parametrize(("name", "taken"), [("dev", True), (" dev ", True), ("zz", False), ("", False)])
def test_whether_an_id_is_taken(client: FlaskClient, name: str, taken: bool) -> None:
    create(client, "dev")
    query = {"checkNamespaceIdExist": "true", "customNamespaceId": name}
    assert client.get(NAMESPACES, query_string=query).get_json() is taken


def test_unknown_ones(client: FlaskClient) -> None:
    answer = client.get(f"{NAMESPACES}?show=all&namespaceId=zz")
    assert (answer.status_code, answer.data) == (404, b"namespace zz is not found!")
    assert client.put(NAMESPACES, data={"namespace": "zz", "namespaceShowName": "n"}).get_json() is True
    assert client.delete(f"{NAMESPACES}?namespaceId=zz").get_json() is True
    assert client.delete(f"{NAMESPACES}?namespaceId=").get_json() is True
    assert listed(client) == [PUBLIC]


@pytest.mark.parametrize(
    ("method", "values", "text"),
    [
        ("POST", {"namespaceName": "n"}, "Parameter 'customNamespaceId' is missing"),
        ("POST", {"customNamespaceId": "dev"}, "Parameter 'namespaceName' is missing"),
        ("PUT", {"namespaceShowName": "n"}, "Parameter 'namespace' is missing"),
        ("PUT", {"namespace": "dev"}, "Parameter 'namespaceShowName' is missing"),
        (
            "PUT",
            {"namespace": "", "namespaceShowName": "n"},
            "Parameter 'namespace' is illegal: the public namespace keeps its name",
        ),
        ("DELETE", {}, "Parameter 'namespaceId' is missing"),
    ],
)
def test_refusals(client: FlaskClient, method: str, values: dict[str, str], text: str) -> None:
    answer = client.open(NAMESPACES, method=method, data=values)
    assert (answer.status_code, answer.get_data(as_text=True)) == (400, text)


def test_they_are_written_by_their_owner(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.owner = PEER
    client.post(NAMESPACES, data={"customNamespaceId": "dev", "namespaceName": "n"})
    client.put(NAMESPACES, data={"namespace": "dev", "namespaceShowName": "n"})
    client.delete(f"{NAMESPACES}?namespaceId=dev")
    assert node.forwarder.durable == [(namespace_key("dev"),)] * 3
    assert node.forwarder.tags == [namespace_key("dev")] * 3
