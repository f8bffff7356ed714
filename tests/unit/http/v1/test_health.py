"""How instances are checked, and health set by hand."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.factory import create_app
from app.naming.model.events import InstancesChanged
from app.naming.records.record_keys import persistent_key, service_meta_key
from tests.support.fake_node import PEER, FakeNode, make_settings

INSTANCE = "/nacos/v1/ns/instance"
CLUSTER = "/nacos/v1/ns/cluster"
HEALTH = "/nacos/v1/ns/health"
NONE = {"checkPort": 80, "useInstancePort4Check": "true", "healthChecker": '{"type":"NONE"}'}


def register(client: FlaskClient, **values: Any) -> None:
    query = {"serviceName": "a", "ip": "10.0.0.1", "port": 80} | values
    assert client.post(INSTANCE, query_string=query).data == b"ok"


def put(client: FlaskClient, path: str, **values: Any) -> tuple[int, str]:
    answer = client.put(path, data={name: value for name, value in values.items() if value is not None})
    return answer.status_code, answer.get_data(as_text=True)


def set_checker(client: FlaskClient, **values: Any) -> tuple[int, str]:
    return put(client, CLUSTER, **({"serviceName": "a", "clusterName": "DEFAULT"} | NONE | values))


def set_health(client: FlaskClient, path: str = HEALTH, **values: Any) -> tuple[int, str]:
    return put(client, path, **({"serviceName": "a", "ip": "10.0.0.1", "port": 80} | values))


def healthy(client: FlaskClient) -> bool:
    found = client.get(INSTANCE, query_string={"serviceName": "a", "ip": "10.0.0.1", "port": 80}).get_json()
    return bool(found["healthy"])


# --- clusters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ('{"type":"TCP"}', {"type": "TCP"}),
        ("{}", {"type": "NONE"}),
        ('{"type":"ZZZ"}', {"type": "NONE"}),
        ('{"type":"HTTP"}', {"type": "HTTP", "path": "", "headers": "", "expectedResponseCode": 200}),
        (
            '{"type":"MYSQL","user":"u","pwd":"p","cmd":"show status"}',
            {"type": "MYSQL", "user": "u", "pwd": "", "cmd": "show status"},
        ),
    ],
)
def test_checkers(client: FlaskClient, given: str, kept: dict[str, Any]) -> None:
    register(client)
    assert set_checker(client, healthChecker=given) == (200, "ok")
    (cluster,) = client.get("/nacos/v1/ns/service?serviceName=a").get_json()["clusters"]
    assert cluster["healthChecker"] == kept


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"clusterName": None}, "Param 'clusterName' is required."),
        ({"serviceName": None}, "Param 'serviceName' is required."),
        ({"serviceName": "zz"}, "service not found:DEFAULT_GROUP@@zz"),
        ({"checkPort": None}, "Param 'checkPort' is required."),
        ({"checkPort": "x"}, 'For input string: "x"'),
        ({"checkPort": "70000"}, "Parameter 'checkPort' is illegal: it should be a number from 0 to 65535"),
        ({"useInstancePort4Check": ""}, "Param 'useInstancePort4Check' is required."),
        ({"healthChecker": None}, "Param 'healthChecker' is required."),
        ({"healthChecker": "{"}, "Parameter 'healthChecker' is illegal: it should be a JSON object"),
        ({"healthChecker": "[]"}, "Parameter 'healthChecker' is illegal: it should be a JSON object"),
        ({"metadata": "zz"}, "metadata format incorrect:zz"),
        ({"clusterName": "a_b"}, "cluster name can only have these characters: 0-9a-zA-Z-, current: a_b"),
    ],
)
def test_refusals_of_clusters(client: FlaskClient, values: dict[str, Any], text: str) -> None:
    register(client)
    assert set_checker(client, **values) == (400, text)
    (cluster,) = client.get("/nacos/v1/ns/service?serviceName=a").get_json()["clusters"]
    assert cluster["healthChecker"] == {"type": "TCP"}


@pytest.mark.parametrize("field", ["path", "headers", "expectedResponseCode"])
def test_a_checker_with_a_wrong_field(client: FlaskClient, field: str) -> None:
    register(client)
    status, text = set_checker(client, healthChecker=f'{{"type":"HTTP","{field}":{{}}}}')
    assert (status, field in text) == (400, True)


def test_a_cluster_is_set_at_its_owner(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.owner = PEER
    assert set_checker(client) == (200, "from the owner")
    assert node.forwarder.durable == [(service_meta_key("public", "DEFAULT_GROUP@@a"),)]


# --- health by hand -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [HEALTH, f"{HEALTH}/instance"])
@pytest.mark.parametrize("ephemeral", ["true", "false"])
@pytest.mark.parametrize("name", ["healthy", "valid"])
def test_set_health(node: FakeNode, client: FlaskClient, path: str, ephemeral: str, name: str) -> None:
    register(client, ephemeral=ephemeral)
    set_checker(client)
    assert set_health(client, path, **{name: "no"}) == (200, "ok")
    assert not healthy(client)
    assert set_health(client, path, **{name: "yes"}) == (200, "ok")
    assert healthy(client)
    if ephemeral == "true":
        assert sum(isinstance(event, InstancesChanged) for event in node.events) == 3, "subscribers are told"


def test_a_beat_decides_again(client: FlaskClient) -> None:
    register(client)
    set_checker(client)
    set_health(client, healthy="false")
    client.put(f"{INSTANCE}/beat", query_string={"serviceName": "a", "ip": "10.0.0.1", "port": 80})
    assert healthy(client)


def test_an_unknown_instance_is_no_error(client: FlaskClient) -> None:
    register(client)
    set_checker(client)
    assert set_health(client, ip="10.9.9.9", healthy="false") == (200, "ok")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"serviceName": None}, "Param 'serviceName' is required."),
        ({"ip": None}, "Param 'ip' is required."),
        ({"port": None}, "Param 'port' is required."),
        ({"port": "x"}, 'For input string: "x"'),
        ({"healthy": None}, "Param 'healthy' is required."),
        ({"healthy": " ", "valid": ""}, "Param 'healthy' is required."),
        ({"serviceName": "zz"}, "service not found: DEFAULT_GROUP@@zz"),
        ({"clusterName": "zz"}, "cluster not found: zz of service DEFAULT_GROUP@@a"),
        ({}, "health check is still working, service: DEFAULT_GROUP@@a"),
    ],
)
def test_refusals_of_health(client: FlaskClient, values: dict[str, Any], text: str) -> None:
    register(client)
    assert set_health(client, **({"healthy": "false"} | values)) == (400, text)


def test_health_is_set_at_the_owner(node: FakeNode, client: FlaskClient) -> None:
    register(client, ephemeral="false")
    set_checker(client)
    node.cluster.owner = PEER
    set_health(client, healthy="false")
    set_health(client, ip="10.0.0.9", healthy="false")
    key = persistent_key("public", "DEFAULT_GROUP@@a", "10.0.0.1:80:unknown:DEFAULT")
    assert node.forwarder.durable == [(key,), ()]
    assert healthy(client)


# --- this node ------------------------------------------------------------------------------------


def test_this_server() -> None:
    client = create_app(FakeNode(settings=make_settings(server_port="9999"))).test_client()
    register(client)
    assert client.get(f"{HEALTH}/server").get_json() == {
        "msg": "Hello! I am Nacos-Naming and healthy! total services: raft 1, local port:9999"
    }


def test_kinds_of_checkers(client: FlaskClient) -> None:
    assert client.get(f"{HEALTH}/checkers").get_json() == {
        "TCP": {"type": "TCP"},
        "HTTP": {"type": "HTTP", "path": "", "headers": "", "expectedResponseCode": 200},
        "MYSQL": {"type": "MYSQL", "user": "", "pwd": "", "cmd": ""},
        "NONE": {"type": "NONE"},
    }
