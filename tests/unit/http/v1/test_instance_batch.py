"""Metadata of many instances."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.naming.limits.admission import NamingLimits
from app.naming.model.keys import METADATA_CHARS_MAX
from tests.support.fake_node import PEER, FakeNode

INSTANCE = "/nacos/v1/ns/instance"
BATCH = f"{INSTANCE}/metadata/batch"
FIRST, SECOND = "10.0.0.1:80:unknown:DEFAULT", "10.0.0.2:80:unknown:c1"


@pytest.fixture(autouse=True)
def some_instances(client: FlaskClient) -> None:
    for values in (
        {"ip": "10.0.0.1", "metadata": "a=1,b=2"},
        {"ip": "10.0.0.2", "metadata": "a=1", "clusterName": "c1"},
        {"ip": "10.0.0.1", "metadata": "a=1", "ephemeral": "false"},
    ):
        client.post(INSTANCE, query_string={"serviceName": "s", "port": 80} | values)


def change(client: FlaskClient, method: str = "PUT", **values: Any) -> tuple[int, Any]:
    answer = client.open(BATCH, method=method, data={"serviceName": "s"} | values)
    return answer.status_code, answer.get_json() if answer.is_json else answer.get_data(as_text=True)


def metadata(client: FlaskClient) -> dict[tuple[str, bool], Any]:
    listed = client.get(f"{INSTANCE}/list", query_string={"serviceName": "s"}).get_json()["hosts"]
    return {(host["ip"], host["ephemeral"]): host["metadata"] for host in listed}


def test_all_of_one_kind(client: FlaskClient) -> None:
    updated = [f"{FIRST}:ephemeral", f"{SECOND}:ephemeral"]
    assert change(client, metadata="a=9,c=3", consistencyType="ephemeral") == (200, {"updated": updated})
    assert change(client, metadata="p=1", consistencyType="persist") == (200, {"updated": [f"{FIRST}:persist"]})
    assert metadata(client) == {
        ("10.0.0.1", True): {"a": "9", "b": "2", "c": "3"},
        ("10.0.0.2", True): {"a": "9", "c": "3"},
        ("10.0.0.1", False): {"a": "1", "p": "1"},
    }


def test_keys_are_taken_out_whatever_their_values(client: FlaskClient) -> None:
    body = {"metadata": '{"a":"other","zz":""}', "consistencyType": "ephemeral"}
    assert change(client, "DELETE", **body)[1]["updated"] == [f"{FIRST}:ephemeral", f"{SECOND}:ephemeral"]
    change(client, "DELETE", metadata="a=1", consistencyType="persist")
    assert set(map(str, metadata(client).values())) == {"{'b': '2'}", "{}"}


def test_the_instances_that_are_named(client: FlaskClient) -> None:
    named = [
        {"ip": "10.0.0.2", "port": "80", "clusterName": "c1"},
        {"ip": "10.0.0.1", "port": 80, "ephemeral": "false"},
        {"ip": "10.0.0.2", "port": 80},
        {"ip": "10.0.0.9", "port": 80},
        {"port": 80, "unknown": {}},
    ]
    updated = [f"{SECOND}:ephemeral", f"{FIRST}:persist"]
    assert change(client, metadata="n=1", instances=json.dumps(named)) == (200, {"updated": updated})
    assert metadata(client)["10.0.0.1", True] == {"a": "1", "b": "2"}
    assert metadata(client)["10.0.0.1", False] == {"a": "1", "n": "1"}


@pytest.mark.parametrize(
    "values",
    [
        {"consistencyType": "zzz"},
        {},
        {"instances": "{"},
        {"instances": "{}"},
        {"instances": '[{"ip":"10.0.0.1","port":"x"}]'},
        {"instances": "[1]"},
        {"consistencyType": "ephemeral", "serviceName": "unknown"},
        {"consistencyType": "ephemeral", "serviceName": "@@x"},
        {"consistencyType": "ephemeral", "serviceName": "  "},
        {"consistencyType": "ephemeral", "metadata": "null"},
    ],
)
def test_what_cannot_be_done_changes_nothing_and_is_no_error(client: FlaskClient, values: dict[str, str]) -> None:
    before = metadata(client)
    assert change(client, **({"metadata": "a=2"} | values)) == (200, {"updated": []})
    assert metadata(client) == before


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"serviceName": ""}, "Param 'serviceName' is required."),
        ({}, "Param 'metadata' is required."),
        ({"metadata": ""}, "Param 'metadata' is required."),
        ({"metadata": "zz"}, "metadata format incorrect:zz"),
    ],
)
def test_refusals(client: FlaskClient, values: dict[str, str], text: str) -> None:
    assert change(client, consistencyType="ephemeral", **values) == (400, text)


def test_metadata_does_not_grow_without_end(client: FlaskClient) -> None:
    change(client, metadata=json.dumps({"big": "x" * (METADATA_CHARS_MAX - 10)}), consistencyType="ephemeral")
    status, text = change(client, metadata=json.dumps({"more": "x" * 100}), consistencyType="ephemeral")
    assert (status, "'metadata'" in text) == (400, True)


def test_it_goes_to_the_owner(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.owner = PEER
    for values in ({"consistencyType": "ephemeral"}, {"serviceName": "unknown"}):
        client.put(BATCH, data={"serviceName": "s", "metadata": "a=2"} | values)
    assert node.forwarder.tags == ["DEFAULT_GROUP@@s", "DEFAULT_GROUP@@unknown"]
    assert node.forwarder.durable == [(), ()]


@pytest.mark.parametrize("kind", ["ephemeral", "persist", ""])
def test_a_change_beyond_the_limit_of_all_metadata_changes_no_instance(
    node: FakeNode, client: FlaskClient, kind: str
) -> None:
    before = metadata(client)
    held = sum(len(f"{name}{value}") for one in before.values() for name, value in one.items())
    node.limits.limits = NamingLimits(metadata_bytes=held + 1)
    named = json.dumps([{"ip": "10.0.0.1", "port": 80}, {"ip": "10.0.0.2", "port": 80, "clusterName": "c1"}])
    status, text = change(client, metadata="c=3", consistencyType=kind, instances=named)
    assert (status, f"rollcall.limit.metadataBytes={held + 1}" in text) == (413, True)
    assert metadata(client) == before
    assert change(client, metadata="a=9", consistencyType=kind, instances=named)[0] == 200
