"""The instance endpoints through Flask, with the real domain behind them."""

import json
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.api.answers import NOT_RESPONSIBLE
from app.http.api.call import CHANGE, CLIENT_AGENT, SHORT_CHANGE, WANTS_CHANGE
from distro.model.types import CAPABILITY_CLIENTS_ONLY, Member, MemberState
from tests.support.fake_node import PEER, FakeNode

INSTANCE = "/nacos/v1/ns/instance"
BEAT = f"{INSTANCE}/beat"
JAVA = {"User-Agent": "Nacos-Java-Client:v1.4.8"}
FORWARDED = {"User-Agent": "Nacos-Server:1.4.8"}
WRITES = [("POST", INSTANCE), ("PUT", INSTANCE), ("DELETE", INSTANCE), ("PATCH", INSTANCE), ("PUT", BEAT)]


def query(**values: Any) -> dict[str, Any]:
    return {"serviceName": "a", "ip": "10.0.0.1", "port": 80} | values


def hosts(client: FlaskClient, **values: Any) -> list[dict[str, Any]]:
    found = client.get(f"{INSTANCE}/list", query_string={"serviceName": "a"} | values).get_json()["hosts"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(("wanted", "form"), [("1", "instance"), (SHORT_CHANGE, "short"), ("3", "instance")])
def test_a_member_is_told_the_change_in_the_form_that_it_reads(
    client: FlaskClient, node: FakeNode, wanted: str, form: str
) -> None:
    node.cluster.others = [PEER]
    given = client.post(INSTANCE, query_string=query(), headers={**FORWARDED, WANTS_CHANGE: wanted})
    told = json.loads(given.headers[CHANGE])
    assert {"instance", "short"} & told.keys() == {form}
    assert told[form]["ip"] == "10.0.0.1"


def test_register_by_query_and_by_form(client: FlaskClient) -> None:
    answer = client.post(INSTANCE, query_string=query(weight="2.5", metadata='{"k":"v"}'))
    assert (answer.status_code, answer.data) == (200, b"ok")
    assert answer.headers["Content-Type"] == "text/plain;charset=UTF-8"
    assert client.post(INSTANCE, data=query(ip="10.0.0.2")).data == b"ok"
    first, second = hosts(client)
    assert (first["ip"], first["weight"], first["metadata"]) == ("10.0.0.1", 2.5, {"k": "v"})
    assert second["instanceId"] == "10.0.0.2#80#DEFAULT#DEFAULT_GROUP@@a"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"port": "x"}, 'For input string: "x"'),
        ({"weight": "NaN"}, "instance format invalid: The weights range from 0.0 to 10000.0"),
        ({"weight": "10000.1"}, "instance format invalid: The weights range from 0.0 to 10000.0"),
        (
            {"serviceName": "服务"},
            "dom name can only have these characters: 0-9a-zA-Z-._:, current: DEFAULT_GROUP@@服务",
        ),
        ({"clusterName": "a b"}, "cluster name can only have these characters: 0-9a-zA-Z-, current: a b"),
        (
            {"ephemeral": "false", "clusterName": "a b"},
            "cluster name can only have these characters: 0-9a-zA-Z-, current: a b",
        ),
        (
            {"ephemeral": "false", "weight": "-1"},
            "instance format invalid: The weights range from 0.0 to 10000.0",
        ),
    ],
)
def test_a_refused_registration_creates_nothing(client: FlaskClient, values: dict[str, str], text: str) -> None:
    answer = client.post(INSTANCE, query_string=query(**values))
    assert (answer.status_code, answer.get_data(as_text=True)) == (400, text)
    assert answer.headers["Content-Type"] == "text/plain;charset=UTF-8"
    assert client.get("/nacos/v1/ns/operator/metrics").get_json()["serviceCount"] == 0


def test_deregister(client: FlaskClient) -> None:
    client.post(INSTANCE, query_string=query())
    assert client.delete(INSTANCE, query_string=query(ephemeral="false")).data == b"ok"
    assert len(hosts(client)) == 1, "another kind is another instance"
    assert client.delete(INSTANCE, data=query()).data == b"ok"
    assert hosts(client) == []
    assert client.delete(INSTANCE, query_string=query()).data == b"ok", "an unknown one is no error"


def test_update_by_a_java_sdk_needs_an_instance(client: FlaskClient) -> None:
    answer = client.put(INSTANCE, query_string=query(), headers=JAVA)
    assert (answer.status_code, answer.data) == (
        400,
        b"service not found, namespace: public, service: DEFAULT_GROUP@@a",
    )
    client.put(INSTANCE, query_string=query())
    answer = client.put(INSTANCE, query_string=query(ip="10.0.0.2"), headers=JAVA)
    assert (answer.status_code, answer.data) == (
        400,
        b"instance not exist: 10.0.0.2:80:unknown:DEFAULT_1.0_true_false_DEFAULT",
    )
    assert client.put(INSTANCE, query_string=query(weight=3), headers=JAVA).data == b"ok"
    assert [host["weight"] for host in hosts(client)] == [3.0]


def test_a_forwarded_update_is_as_strict_as_its_client(client: FlaskClient) -> None:
    answer = client.put(INSTANCE, query_string=query(), headers=FORWARDED | {CLIENT_AGENT: JAVA["User-Agent"]})
    assert (answer.status_code, answer.data) == (
        400,
        b"service not found, namespace: public, service: DEFAULT_GROUP@@a",
    )
    assert client.put(INSTANCE, query_string=query(), headers=FORWARDED).data == b"ok", "real Nacos does not tell whose"


def test_patch(client: FlaskClient) -> None:
    answer = client.patch(INSTANCE, query_string=query(weight=3))
    assert (answer.status_code, answer.data) == (400, b"instance not found")
    client.post(INSTANCE, query_string=query(metadata="a=1"))
    assert client.patch(INSTANCE, data=query(weight=3)).data == b"ok"
    assert [(host["weight"], host["metadata"]) for host in hosts(client)] == [(3.0, {"a": "1"})]


def test_beats(client: FlaskClient) -> None:
    answer = client.put(BEAT, query_string=query())
    assert (answer.status_code, answer.get_json()) == (200, {"clientBeatInterval": 5000, "code": 20404})
    assert answer.headers["Content-Type"] == "application/json;charset=UTF-8"
    known = {"clientBeatInterval": 2000, "code": 10200, "lightBeatEnabled": True}
    beat = '{"ip":"10.0.0.1","port":80,"weight":2.0,"metadata":{"preserved.heart.beat.interval":"2000"}}'
    assert client.put(BEAT, query_string={"serviceName": "a"}, data={"beat": beat}).get_json() == known
    assert client.put(BEAT, query_string=query()).get_json() == known
    assert [host["weight"] for host in hosts(client)] == [2.0]


def test_detail(client: FlaskClient) -> None:
    client.post(INSTANCE, query_string=query(healthy="false"))
    found = client.get(INSTANCE, query_string=query()).get_json()
    assert list(found.items()) == [
        ("service", "DEFAULT_GROUP@@a"), ("ip", "10.0.0.1"), ("port", 80), ("clusterName", "DEFAULT"),
        ("weight", 1.0), ("healthy", False), ("instanceId", "10.0.0.1#80#DEFAULT#DEFAULT_GROUP@@a"), ("metadata", {}),
    ]  # fmt: skip
    for values, text in (
        ({"serviceName": "b"}, "no service DEFAULT_GROUP@@b found!"),
        ({"clusterName": "c1"}, "no ips found for cluster c1 in service DEFAULT_GROUP@@a"),
        ({"port": 81}, "no matched ip found!"),
    ):
        answer = client.get(INSTANCE, query_string=query(**values))
        assert (answer.status_code, answer.get_data(as_text=True)) == (404, text)


def test_list_knows_the_agent(client: FlaskClient) -> None:
    client.post(INSTANCE, query_string=query())
    path, values = f"{INSTANCE}/list", {"serviceName": "a"}
    assert client.get(path, query_string=values).get_json()["dom"] == "a"
    assert client.get(path, query_string=values, headers=JAVA).get_json()["dom"] == "DEFAULT_GROUP@@a"
    legacy = {"User-Agent": "", "Client-Version": JAVA["User-Agent"]}
    assert client.get(path, query_string=values, headers=legacy).get_json()["dom"] == "DEFAULT_GROUP@@a"


def test_list_of_an_unknown_service(client: FlaskClient) -> None:
    answer = client.get(f"{INSTANCE}/list", query_string={"serviceName": "a", "clusters": "c1"})
    assert answer.data == b'{"name":"DEFAULT_GROUP@@a","clusters":"c1","cacheMillis":3000,"hosts":[]}'


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_writes_go_to_the_responsible_member(node: FakeNode, client: FlaskClient, method: str, path: str) -> None:
    node.cluster.owner = PEER
    assert client.open(path, method=method, query_string=query(groupName="G")).data == b"from the owner"
    assert node.forwarder.tags == ["G@@a"]


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_a_forwarded_write_goes_no_further(node: FakeNode, client: FlaskClient, method: str, path: str) -> None:
    node.cluster.owner = PEER
    answer = client.open(path, method=method, query_string=query(), headers={"User-Agent": "my Nacos-Server clone"})
    assert answer.status_code == 400
    assert answer.headers[NOT_RESPONSIBLE] == "1"
    assert answer.get_json() == {
        "timestamp": "2023-11-14T22:13:20.123+0000",
        "status": 400,
        "error": "Bad Request",
        "message": "receive invalid redirect request from peer 127.0.0.1",
        "path": path,
    }
    assert node.forwarder.tags == []


@pytest.mark.parametrize(
    ("method", "path"), [*WRITES, ("POST", "/nacos/v2/ns/instance"), ("PUT", "/nacos/v2/ns/instance/beat")]
)
def test_what_real_nacos_2_forwards_goes_on_to_its_owner(
    node: FakeNode, client: FlaskClient, method: str, path: str
) -> None:
    node.cluster.owner = PEER
    nacos = Member("127.0.0.1:8948", MemberState.UP, frozenset({CAPABILITY_CLIENTS_ONLY}))
    node.cluster.others = [nacos]
    headers = {"User-Agent": "Nacos-Server:v2.3.1"}
    client.open(path, method=method, query_string=query(), headers=headers)
    assert node.forwarder.tags == ["DEFAULT_GROUP@@a"]
    own = headers | {CLIENT_AGENT: "curl"}
    assert client.open(path, method=method, query_string=query(), headers=own).status_code == 400
    node.cluster.others = [replace(nacos, capabilities=frozenset())]
    assert client.open(path, method=method, query_string=query(), headers=headers).status_code == 400
    node.cluster.others = [replace(nacos, address="127.0.0.9:8948")]
    assert client.open(path, method=method, query_string=query(), headers=headers).status_code == 400
    assert len(node.forwarder.tags) == 1, "from our own kind, Nacos 1.4 and anywhere else one hop is all"


def test_reads_stay_here(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.owner = PEER
    assert hosts(client) == []
    assert client.get(INSTANCE, query_string=query()).status_code == 404
    assert node.forwarder.tags == []


def test_a_wrong_write_is_refused_before_it_is_forwarded(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.owner = PEER
    assert client.post(INSTANCE, query_string=query(port="x")).status_code == 400
    assert node.forwarder.tags == []


@pytest.mark.parametrize("state", [MemberState.STARTING, MemberState.DOWN])
@pytest.mark.parametrize(
    ("method", "path"), [*WRITES, ("GET", f"{INSTANCE}/list"), ("GET", "/nacos/v1/ns/operator/metrics")]
)
def test_clients_wait_until_the_node_serves(
    node: FakeNode, client: FlaskClient, state: MemberState, method: str, path: str
) -> None:
    node.cluster.own_state = state
    answer = client.open(path, method=method, query_string=query())
    expected = f"server is {state.value} now, please try again later!"
    assert (answer.status_code, answer.get_data(as_text=True)) == (503, expected)
    assert "Content-Type" not in answer.headers


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_forwarded_writes_wait_too(node: FakeNode, client: FlaskClient, method: str, path: str) -> None:
    node.cluster.own_state = MemberState.STARTING
    answer = client.open(path, method=method, query_string=query(), headers=FORWARDED)
    assert (answer.status_code, answer.data) == (503, b"server is STARTING now, please try again later!")


def test_members_read_while_the_node_loads(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.own_state = MemberState.STARTING
    assert client.get(f"{INSTANCE}/list", query_string=query(), headers=FORWARDED).status_code == 200


def test_texts_that_json_must_escape(client: FlaskClient) -> None:
    assert client.post(INSTANCE, query_string=query(metadata='{"a":"\\u0000\\"","名":"值 😀"}')).data == b"ok"
    assert hosts(client)[0]["metadata"] == {"a": '\0"', "名": "值 😀"}
    echoed = client.get(f"{INSTANCE}/list?serviceName=b&clusters=c%00%ff&env=%ed%a0%80").get_json()
    assert echoed["clusters"] == "c\0\ufffd"
