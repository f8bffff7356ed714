"""Switches, and what they do to calls over HTTP."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.api.answers import refuses_beats
from app.http.api.call import BEAT_PATHS
from app.http.factory import create_app
from app.naming.records.projection import STATUS_DELAY_MS
from app.naming.records.record_keys import SWITCHES_KEY
from distro.model.types import MemberState
from tests.support.fake_node import PEER, FakeNode

SWITCHES = "/nacos/v1/ns/operator/switches"
INSTANCE = "/nacos/v1/ns/instance"
LIST = f"{INSTANCE}/list?serviceName=a"
METRICS = "/nacos/v1/ns/operator/metrics"
MEMBER = {"User-Agent": "Nacos-Server:1.4.1"}
ONE = {"serviceName": "a", "ip": "10.0.0.1", "port": 80}
DEFAULTS = {
    "masters": None,
    "adWeightMap": {},
    "defaultPushCacheMillis": 10_000,
    "clientBeatInterval": 5_000,
    "defaultCacheMillis": 3_000,
    "distroThreshold": 0.7,
    "healthCheckEnabled": True,
    "autoChangeHealthCheckEnabled": True,
    "distroEnabled": True,
    "enableStandalone": True,
    "pushEnabled": True,
    "checkTimes": 3,
    "httpHealthParams": {"max": 5_000, "min": 500, "factor": 0.85},
    "tcpHealthParams": {"max": 5_000, "min": 1_000, "factor": 0.75},
    "mysqlHealthParams": {"max": 3_000, "min": 2_000, "factor": 0.65},
    "incrementalList": [],
    "serverStatusSynchronizationPeriodMillis": 2_000,
    "serviceStatusSynchronizationPeriodMillis": 5_000,
    "disableAddIP": False,
    "sendBeatOnly": False,
    "lightBeatEnabled": True,
    "limitedUrlMap": {},
    "distroServerExpiredMillis": 10_000,
    "pushGoVersion": "0.1.0",
    "pushJavaVersion": "0.1.0",
    "pushPythonVersion": "0.4.3",
    "pushCVersion": "1.0.12",
    "pushCSharpVersion": "0.9.0",
    "enableAuthentication": False,
    "overriddenServerStatus": None,
    "defaultInstanceEphemeral": True,
    "healthCheckWhiteList": [],
    "name": "00-00---000-NACOS_SWITCH_DOMAIN-000---00-00",
    "checksum": None,
}


def put(client: FlaskClient, entry: str | None, value: str | None, **values: Any) -> tuple[int, str]:
    given = {"entry": entry, "value": value, **values}
    answer = client.put(SWITCHES, data={name: one for name, one in given.items() if one is not None})
    return answer.status_code, answer.get_data(as_text=True)


def shown(client: FlaskClient) -> Any:
    return client.get(SWITCHES, headers=MEMBER).get_json()


# --- setting --------------------------------------------------------------------------------------


def test_defaults_in_their_order(client: FlaskClient) -> None:
    found = shown(client)
    assert found == DEFAULTS
    assert list(found) == list(DEFAULTS)
    assert client.get("/nacos/v1/ns/ops/switches").get_json() == DEFAULTS


@pytest.mark.parametrize(
    ("entry", "value", "changed"),
    [
        ("distroThreshold", "0.5", {"distroThreshold": 0.5}),
        ("clientBeatInterval", "6000", {"clientBeatInterval": 6000}),
        ("pushVersion", "python:9.0.0", {"pushPythonVersion": "9.0.0"}),
        ("pushVersion", "c:1.2.3", {"pushCVersion": "1.2.3"}),
        ("pushVersion", "go:1.2.3", {"pushGoVersion": "1.2.3"}),
        ("pushCacheMillis", "12000", {"defaultPushCacheMillis": 12000}),
        ("defaultCacheMillis", "1000", {"defaultCacheMillis": 1000}),
        ("masters", "10.0.0.1,10.0.0.2", {"masters": ["10.0.0.1", "10.0.0.2"]}),
        ("distro", "false", {"distroEnabled": False}),
        ("check", "yes", {"healthCheckEnabled": False}),
        ("pushEnabled", "FALSE", {"pushEnabled": False}),
        ("serviceStatusSynchronizationPeriodMillis", "6000", {"serviceStatusSynchronizationPeriodMillis": 6000}),
        ("serverStatusSynchronizationPeriodMillis", "3000", {"serverStatusSynchronizationPeriodMillis": 3000}),
        ("healthCheckTimes", "5", {"checkTimes": 5}),
        ("disableAddIP", "TRUE", {"disableAddIP": True}),
        ("sendBeatOnly", "true", {"sendBeatOnly": True}),
        ("limitedUrlMap", "/x:200,/y:429", {"limitedUrlMap": {"/x": 200, "/y": 429}}),
        ("limitedUrlMap", "", {}),
        ("enableStandalone", "false", {}),
        ("overriddenServerStatus", "null", {"overriddenServerStatus": ""}),
        ("defaultInstanceEphemeral", "false", {"defaultInstanceEphemeral": False}),
        ("distroServerExpiredMillis", "20000", {"distroServerExpiredMillis": 20000}),
        ("lightBeatEnabled", "off", {"lightBeatEnabled": False}),
        ("autoChangeHealthCheckEnabled", "no", {"autoChangeHealthCheckEnabled": False}),
        ("nosuchswitch", "1", {}),
    ],
)
def test_one_switch(client: FlaskClient, entry: str, value: str, changed: dict[str, Any]) -> None:
    assert put(client, entry, value) == (200, "ok")
    assert shown(client) == DEFAULTS | changed


@pytest.mark.parametrize(
    ("entry", "value", "text"),
    [
        (None, "1", "Parameter 'entry' is missing"),
        ("check", None, "Parameter 'value' is missing"),
        ("distroThreshold", "0", "distroThreshold can not be zero or negative: 0.0"),
        ("distroThreshold", "-1", "distroThreshold can not be zero or negative: -1.0"),
        ("distroThreshold", "x", 'For input string: "x"'),
        ("distroThreshold", "Infinity", 'For input string: "Infinity"'),
        ("clientBeatInterval", "x", 'For input string: "x"'),
        ("clientBeatInterval", "9" * 30, f'For input string: "{"9" * 30}"'),
        ("clientBeatInterval", "0", "clientBeatInterval is too small(<1)"),
        ("pushVersion", "csharp:1.0.0", "unsupported client type: csharp"),
        ("pushVersion", "java:1.0", "illegal version, must match: [0-9]+\\.[0-9]+\\.[0-9]+"),
        ("pushVersion", "java", "illegal version, must match: [0-9]+\\.[0-9]+\\.[0-9]+"),
        ("pushCacheMillis", "9999", "min cache time for http or tcp is too small(<10000)"),
        ("defaultCacheMillis", "999", "min default cache time  is too small(<1000)"),
        (
            "serviceStatusSynchronizationPeriodMillis",
            "4999",
            "serviceStatusSynchronizationPeriodMillis is too small(<5000)",
        ),
        (
            "serverStatusSynchronizationPeriodMillis",
            "999",
            "serverStatusSynchronizationPeriodMillis is too small(<15000)",
        ),
        ("healthCheckTimes", "x", 'For input string: "x"'),
        ("healthCheckTimes", "3000000000", 'For input string: "3000000000"'),
        ("limitedUrlMap", "/x", "invalid input for limited urls"),
        ("limitedUrlMap", ":500", "url can not be empty, url: "),
        ("limitedUrlMap", "/x:0", "illegal normal status code: 0"),
        ("limitedUrlMap", "/x:99", "illegal normal status code: 99"),
        ("limitedUrlMap", "/x:y", 'For input string: "y"'),
        ("batch", "{", "Parameter 'value' is illegal: it should be a JSON object of switches"),
        ("batch", "[]", "Parameter 'value' is illegal: it should be a JSON object of switches"),
    ],
)
def test_refusals(client: FlaskClient, entry: str | None, value: str | None, text: str) -> None:
    assert put(client, entry, value) == (400, text)
    assert shown(client) == DEFAULTS


@pytest.mark.parametrize(
    ("entry", "value", "named"),
    [
        ("overriddenServerStatus", "up", "overriddenServerStatus"),
        ("masters", "," * 70_000, "'value'"),
        ("masters", "," * 2_000, "masters"),
    ],
)
def test_what_nacos_takes_and_nobody_should(client: FlaskClient, entry: str, value: str, named: str) -> None:
    status, text = put(client, entry, value)
    assert (status, named in text) == (400, True)
    assert shown(client) == DEFAULTS


# --- several at once ------------------------------------------------------------------------------


def batch(client: FlaskClient, **changed: Any) -> tuple[int, str]:
    return put(client, "batch", json.dumps(DEFAULTS | changed))


def test_a_batch_sets_and_clears(client: FlaskClient) -> None:
    changed = {
        "masters": ["a"],
        "checkTimes": 4,
        "limitedUrlMap": {"/x": 503},
        "overriddenServerStatus": "UP",
        "mysqlHealthParams": {"max": 1, "min": 2, "factor": 1},
        "distroThreshold": 1,
    }
    assert batch(client, **changed) == (200, "ok")
    assert shown(client) == DEFAULTS | changed | {"distroThreshold": 1.0}
    assert batch(client) == (200, "ok")
    assert shown(client) == DEFAULTS


def test_what_a_batch_leaves_alone(client: FlaskClient) -> None:
    fixed = {
        "enableStandalone": False,
        "name": "x",
        "checksum": "x",
        "pushCSharpVersion": "9.9.9",
        "healthCheckWhiteList": ["x"],
        "unknown": 1,
    }
    assert batch(client, **fixed) == (200, "ok")
    assert shown(client) == DEFAULTS


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"tcpHealthParams": {"max": 5000, "min": 499, "factor": 0.5}},
            "min check time for http or tcp is too small(<500)",
        ),
        (
            {"httpHealthParams": {"max": 2999, "min": 500, "factor": 0.5}},
            "max check time for http or tcp is too small(<3000)",
        ),
        ({"httpHealthParams": {"max": 3000, "min": 500, "factor": 1.1}}, "malformed factor"),
        ({"mysqlHealthParams": {"max": 3000, "min": 500, "factor": -0.1}}, "malformed factor"),
        ({"limitedUrlMap": {"/x": 99999}}, "illegal normal status code: 99999"),
        ({"distroThreshold": 0}, "distroThreshold can not be zero or negative: 0.0"),
    ],
)
def test_refusals_of_a_batch(client: FlaskClient, changed: dict[str, Any], text: str) -> None:
    assert batch(client, **changed) == (400, text)
    assert shown(client) == DEFAULTS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("checkTimes", "3"),
        ("checkTimes", 0),
        ("checkTimes", None),
        ("checkTimes", 10**30),
        ("clientBeatInterval", True),
        ("pushEnabled", 1),
        ("distroThreshold", "x"),
        ("distroThreshold", 10**400),
        ("masters", "a"),
        ("masters", [1]),
        ("adWeightMap", {"a": "1"}),
        ("adWeightMap", {"a": 10**30}),
        ("httpHealthParams", {}),
        ("httpHealthParams", {"max": 1e300, "min": 500, "factor": 0.5}),
        ("httpHealthParams", None),
        ("pushGoVersion", 1),
        ("overriddenServerStatus", "SLEEPING"),
        ("incrementalList", {}),
    ],
)
def test_a_batch_names_the_field_that_is_wrong(client: FlaskClient, name: str, value: object) -> None:
    status, text = batch(client, **{name: value})
    assert (status, name in text) == (400, True), text
    assert shown(client) == DEFAULTS


# --- where it counts ------------------------------------------------------------------------------


def test_it_is_a_record_and_outlives_the_node(node: FakeNode, client: FlaskClient) -> None:
    put(client, "healthCheckTimes", "5")
    again = FakeNode(disk=node.disk)
    again.durable._records.read_disk()
    assert again.durable.switches.check_times == 5


def test_debug_is_here_only_and_until_the_next_real_one(node: FakeNode, client: FlaskClient) -> None:
    put(client, "healthCheckTimes", "4")
    assert put(client, "healthCheckTimes", "5", debug="true") == (200, "ok")
    assert shown(client)["checkTimes"] == 5
    again = FakeNode(disk=node.disk)
    again.durable._records.read_disk()
    assert again.durable.switches.check_times == 4
    put(client, "healthCheckTimes", "4")
    assert shown(client)["checkTimes"] == 4, "though the record is the same as before"


def test_it_is_set_at_the_owner_but_debug_here(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.owner = PEER
    assert put(client, "check", "false") == (200, "from the owner")
    assert node.forwarder.durable == [(SWITCHES_KEY,)]
    assert put(client, "check", "false", debug="1") == (200, "ok")
    assert put(client, "check", "false", debug="maybe") == (
        400,
        "Parameter 'debug' is illegal: it should be true or false",
    )


def test_beats_follow(client: FlaskClient) -> None:
    put(client, "clientBeatInterval", "6000")
    put(client, "lightBeatEnabled", "false")
    unknown = client.put(f"{INSTANCE}/beat", query_string=ONE).get_json()
    assert unknown == {"clientBeatInterval": 6000, "code": 20404}
    client.post(INSTANCE, query_string=ONE)
    known = client.put(f"{INSTANCE}/beat", query_string=ONE).get_json()
    assert known == {"clientBeatInterval": 6000, "code": 10200, "lightBeatEnabled": False}
    client.post(INSTANCE, query_string=ONE | {"metadata": '{"preserved.heart.beat.interval":"soon"}'})
    assert client.put(f"{INSTANCE}/beat", query_string=ONE).get_json()["clientBeatInterval"] == 5000


# --- status ---------------------------------------------------------------------------------------


def override(node: FakeNode, client: FlaskClient, status: str) -> None:
    values = {"entry": "overriddenServerStatus", "value": status}
    assert client.put(SWITCHES, query_string=values, headers=MEMBER).data == b"ok"
    node.now_ms += STATUS_DELAY_MS


@pytest.mark.parametrize(
    ("status", "reads", "writes"),
    [
        ("UP", 200, 200), ("DOWN", 503, 503), ("STARTING", 503, 503), ("PAUSED", 503, 503),
        ("READ_ONLY", 200, 503), ("WRITE_ONLY", 503, 200),
    ],
)  # fmt: skip
def test_what_each_status_refuses(node: FakeNode, client: FlaskClient, status: str, reads: int, writes: int) -> None:
    override(node, client, status)
    assert client.get(LIST).status_code == client.head(LIST).status_code == reads
    assert client.post(INSTANCE, query_string=ONE).status_code == writes
    assert client.get(METRICS, headers=MEMBER).get_json()["status"] == status
    assert client.get("/nacos/v1/core/cluster/health").get_json()["data"] == "UP"
    assert client.get("/nacos/v1/console/health/readiness").data == b"OK"
    refused = client.get(LIST) if reads == 503 else client.post(INSTANCE, query_string=ONE)
    if refused.status_code == 503:
        assert refused.data == f"server is {status} now, please try again later!".encode()
        assert "Content-Type" not in refused.headers
    override(node, client, "null")
    assert client.get(LIST).status_code == 200


@pytest.mark.parametrize("path", BEAT_PATHS)
@pytest.mark.parametrize("status", ["UP", "WRITE_ONLY", "DOWN", "READ_ONLY"])
def test_a_beat_that_a_status_refuses_is_noted(node: FakeNode, client: FlaskClient, status: str, path: str) -> None:
    client.post(INSTANCE, query_string=ONE)
    override(node, client, status)
    refused = status in ("DOWN", "READ_ONLY")
    assert refuses_beats(node.cluster, node.durable, "/nacos") is refused
    client.get(LIST)
    assert node.refusals.age_ms() is None
    assert client.put(f"/nacos{path}", query_string=ONE).status_code == (503 if refused else 200)
    assert node.refusals.age_ms() == (0 if refused else None)


@pytest.mark.parametrize("url", ["/nacos/v1/ns", "/nacos/v1/ns/instance/beat", "/nacos/v1/ns/instance/beat?serviceN"])
def test_a_beat_of_a_limited_path_is_noted(node: FakeNode, client: FlaskClient, url: str) -> None:
    client.post(INSTANCE, query_string=ONE)
    put(client, "limitedUrlMap", f"{url}:429")
    assert refuses_beats(node.cluster, node.durable, "/nacos")
    assert client.put(f"{INSTANCE}/beat", query_string=ONE).status_code == 429
    assert node.refusals.age_ms() == 0
    put(client, "limitedUrlMap", "/nacos/v1/ns/catalog:429")
    assert not refuses_beats(node.cluster, node.durable, "/nacos")


@pytest.mark.parametrize("path", ["v1/ns/operator", "v1/ns/ops", "v2/ns/operator", "v2/ns/ops"])
@pytest.mark.parametrize("status", ["DOWN", "STARTING", "PAUSED", "READ_ONLY", "WRITE_ONLY"])
def test_an_operator_undoes_a_status_under_their_own_name(
    node: FakeNode, client: FlaskClient, status: str, path: str
) -> None:
    override(node, client, status)
    assert client.get(f"/nacos/{path}/switches").status_code == 200
    assert client.get(f"/nacos/{path}/metrics").status_code == 200
    values = {"entry": "overriddenServerStatus", "value": "null"}
    assert client.put(f"/nacos/{path}/switches", query_string=values).status_code == 200
    node.now_ms += STATUS_DELAY_MS
    assert client.get(LIST).status_code == client.post(INSTANCE, query_string=ONE).status_code == 200


def test_a_node_that_is_not_up_answers_no_operator_of_itself(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.own_state = MemberState.STARTING
    assert client.get(METRICS).status_code == 503


def test_an_unknown_path_is_refused_too(node: FakeNode, client: FlaskClient) -> None:
    override(node, client, "DOWN")
    assert client.get("/nacos/v1/ns/nope").status_code == 503
    assert client.get("/nacos/v1/ns/nope", headers=MEMBER).status_code == 501
    assert client.get("/nacos/nope").status_code == 404


def test_a_status_counts_a_second_later(node: FakeNode, client: FlaskClient) -> None:
    put(client, "overriddenServerStatus", "DOWN")
    assert shown(client)["overriddenServerStatus"] == "DOWN"
    assert client.get(LIST).status_code == 200
    node.now_ms += STATUS_DELAY_MS - 1
    assert client.get(LIST).status_code == 200
    node.now_ms += 1
    assert client.get(LIST).status_code == 503


def test_other_switches_leave_the_status_alone(node: FakeNode, client: FlaskClient) -> None:
    override(node, client, "READ_ONLY")
    client.put(SWITCHES, query_string={"entry": "check", "value": "false"}, headers=MEMBER)
    assert client.post(INSTANCE, query_string=ONE).status_code == 503


def test_no_status_puts_a_node_up_that_is_not(node: FakeNode, client: FlaskClient) -> None:
    override(node, client, "UP")
    node.cluster.own_state = MemberState.STARTING
    assert client.get(LIST).data == b"server is STARTING now, please try again later!"


# --- limits ---------------------------------------------------------------------------------------


def test_limited_paths(client: FlaskClient) -> None:
    put(client, "limitedUrlMap", "/nacos/v1/ns/instance/list?serviceName=a:429,/nacos/v1/ns/nope?null:404")
    answer = client.get(LIST)
    assert (answer.status_code, answer.data, "Content-Type" in answer.headers) == (429, b"", False)
    assert client.get(LIST, headers=MEMBER).status_code == 429
    assert client.get(f"{INSTANCE}/list?serviceName=b").status_code == 200
    assert client.get("/nacos/v1/ns/nope").status_code == 404
    assert client.get("/nacos/v1/ns/nope?a=1").status_code == 501


def test_nobody_can_limit_the_way_back(client: FlaskClient) -> None:
    put(client, "limitedUrlMap", "/:503")
    assert client.get(LIST).status_code == 503
    assert client.get("/nacos/v1/core/cluster/health").status_code == 200
    assert batch(client) == (200, "ok")
    assert client.get(LIST).status_code == 200


def test_the_frontend_of_another_node_is_not_touched(client: FlaskClient) -> None:
    put(client, "limitedUrlMap", "/:503")
    assert create_app(FakeNode()).test_client().get(LIST).status_code == 200
