"""Persistent instances through the instance endpoints."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.api.call import CLIENT_AGENT
from app.http.factory import create_app
from app.naming.records.record_keys import persistent_key, service_meta_key
from tests.support.fake_node import PEER, FakeNode

INSTANCE = "/nacos/v1/ns/instance"
BEAT = f"{INSTANCE}/beat"
JAVA = {"User-Agent": "Nacos-Java-Client:v1.4.8"}
NAME = "DEFAULT_GROUP@@a"
KEY = persistent_key("public", NAME, "10.0.0.1:80:unknown:DEFAULT")
META = service_meta_key("public", NAME)


def query(**values: Any) -> dict[str, Any]:
    return {"serviceName": "a", "ip": "10.0.0.1", "port": 80, "ephemeral": "false"} | values


def register(client: FlaskClient, **values: Any) -> None:
    assert client.post(INSTANCE, query_string=query(**values)).data == b"ok"


def hosts(client: FlaskClient) -> list[dict[str, Any]]:
    found = client.get(f"{INSTANCE}/list", query_string={"serviceName": "a"}).get_json()["hosts"]
    assert isinstance(found, list)
    return found


def test_register_and_deregister(client: FlaskClient) -> None:
    register(client, weight=2, metadata="k=v")
    (host,) = hosts(client)
    assert (host["ephemeral"], host["weight"], host["metadata"]) == (False, 2.0, {"k": "v"})
    assert client.delete(INSTANCE, query_string=query(ephemeral="true")).data == b"ok"
    assert len(hosts(client)) == 1, "another kind is another instance"
    assert client.delete(INSTANCE, query_string=query()).data == b"ok"
    assert hosts(client) == []
    assert client.delete(INSTANCE, query_string=query()).data == b"ok", "an unknown one is no error"


def test_both_kinds_at_one_address_persistent_first(client: FlaskClient) -> None:
    register(client, ephemeral="true", weight=1)
    register(client, weight=2)
    assert [(host["ephemeral"], host["weight"]) for host in hosts(client)] == [(False, 2.0), (True, 1.0)]
    assert client.get(INSTANCE, query_string=query()).get_json()["weight"] == 2.0
    assert client.patch(INSTANCE, query_string=query(weight=5)).data == b"ok"
    assert [host["weight"] for host in hosts(client)] == [5.0, 1.0]


def test_it_outlives_the_node(node: FakeNode, client: FlaskClient) -> None:
    register(client, metadata="k=v")
    again = FakeNode(disk=node.disk)
    again.durable._records.read_disk()
    assert [host["metadata"] for host in hosts(create_app(again).test_client())] == [{"k": "v"}]


def test_a_full_disk_refuses_and_changes_nothing(node: FakeNode, client: FlaskClient) -> None:
    node.disk.full = True
    answer = client.post(INSTANCE, query_string=query())
    assert answer.status_code == 507
    assert b"the data folder does not accept the change" in answer.data
    assert hosts(client) == []


def test_update_is_strict_for_java_sdks_alone(client: FlaskClient) -> None:
    answer = client.put(INSTANCE, query_string=query(), headers=JAVA)
    assert (answer.status_code, answer.data) == (
        400,
        b"service not found, namespace: public, service: DEFAULT_GROUP@@a",
    )
    register(client, ephemeral="true")
    answer = client.put(INSTANCE, query_string=query(), headers=JAVA)
    assert (answer.status_code, answer.data) == (
        400,
        b"instance not exist: 10.0.0.1:80:unknown:DEFAULT_1.0_true_false_DEFAULT",
    )
    assert client.put(INSTANCE, query_string=query(weight=3)).data == b"ok"
    assert client.put(INSTANCE, query_string=query(weight=4), headers=JAVA).data == b"ok"
    assert [host["weight"] for host in hosts(client)] == [4.0, 1.0]


def test_patch_finds_the_kind(client: FlaskClient) -> None:
    register(client, metadata="a=1")
    assert client.patch(INSTANCE, query_string=query(weight=3, ephemeral="true")).data == b"ok"
    assert [(host["weight"], host["metadata"]) for host in hosts(client)] == [(3.0, {"a": "1"})]
    answer = client.patch(INSTANCE, query_string=query(weight=-1))
    assert answer.data == b"instance format invalid: The weights range from 0.0 to 10000.0"


def test_a_beat_has_no_effect(node: FakeNode, client: FlaskClient) -> None:
    register(client, healthy="false", metadata='{"preserved.heart.beat.interval":"2000"}')
    answer = client.put(BEAT, query_string=query())
    assert answer.get_json() == {"clientBeatInterval": 2000, "code": 10200, "lightBeatEnabled": True}
    assert client.get(INSTANCE, query_string=query()).get_json()["healthy"] is False


def test_a_full_beat_of_a_persistent_instance_makes_it(client: FlaskClient) -> None:
    beat = '{"ip":"10.0.0.1","port":80,"weight":1.5,"ephemeral":false}'
    for _ in range(2):
        answer = client.put(BEAT, query_string={"serviceName": "a", "beat": beat})
        assert answer.get_json() == {"clientBeatInterval": 5000, "code": 10200, "lightBeatEnabled": True}
    assert [(host["ephemeral"], host["weight"], host["metadata"]) for host in hosts(client)] == [(False, 1.5, None)]


def test_a_full_beat_with_a_wrong_name_makes_nothing(client: FlaskClient) -> None:
    beat = '{"ip":"10.0.0.1","port":80,"ephemeral":false,"cluster":"a b"}'
    answer = client.put(BEAT, query_string={"serviceName": "a", "beat": beat})
    assert answer.data == b"cluster name can only have these characters: 0-9a-zA-Z-, current: a b"
    assert hosts(client) == []


def test_the_default_kind_is_a_switch(client: FlaskClient) -> None:
    client.put("/nacos/v1/ns/operator/switches", query_string={"entry": "defaultInstanceEphemeral", "value": "false"})
    plain = {"serviceName": "a", "ip": "10.0.0.1", "port": 80}
    client.post(INSTANCE, query_string=plain)
    assert [host["ephemeral"] for host in hosts(client)] == [False]
    client.delete(INSTANCE, query_string=plain)
    assert hosts(client) == []


@pytest.mark.parametrize(
    ("method", "path", "keys"),
    [
        ("POST", INSTANCE, (META, KEY)),
        ("PUT", INSTANCE, (META, KEY)),
        ("DELETE", INSTANCE, (KEY,)),
        ("PATCH", INSTANCE, (KEY,)),
        ("PUT", f"{INSTANCE}/metadata/batch", (KEY,)),
    ],
)
def test_writes_go_to_the_owner_of_the_records(node: FakeNode, method: str, path: str, keys: tuple[str, ...]) -> None:
    client = create_app(node).test_client()
    register(client)
    node.cluster.owner = PEER
    values = query(metadata="k=v", consistencyType="persist", weight=9)
    assert client.open(path, method=method, query_string=values).data == b"from the owner"
    assert (node.forwarder.tags, node.forwarder.durable) == ([NAME], [keys])
    passed_on = {"User-Agent": "Nacos-Server:1.4.8", CLIENT_AGENT: "curl/8"}
    refused = client.open(path, method=method, query_string=values, headers=passed_on)
    assert refused.status_code == 400, "what came from a member goes no further"
    assert b"receive invalid redirect request" in refused.data
    assert [host["weight"] for host in hosts(client)] == [1.0]


def test_a_beat_that_would_make_one_goes_there_too(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.owner = PEER
    beat = '{"ip":"10.0.0.1","port":80,"ephemeral":false}'
    assert client.put(BEAT, query_string={"serviceName": "a", "beat": beat}).data == b"from the owner"
    assert node.forwarder.durable == [(META, KEY)]
