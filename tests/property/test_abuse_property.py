"""Whatever is sent to whatever endpoint: an answer of the caller's fault or ours to give, never a crash."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.http.api.call import ROUTES
from app.http.blueprints import MODULES
from app.http.factory import create_app
from tests.support.fake_node import FakeNode
from tests.support.thorough import examples

assert MODULES, "their import fills the table"
CONTEXT = "/nacos"
CALLS = sorted({(row.method, row.path) for row in ROUTES})
NAMES = [
    "serviceName", "dom", "groupName", "namespaceId", "ip", "port", "clusterName", "cluster", "weight", "enabled",
    "enable", "healthy", "valid", "ephemeral", "metadata", "app", "beat", "encoding", "clusters", "healthyOnly",
    "clientIP", "udpPort", "env", "isCheck", "consistencyType", "instances", "key", "protectThreshold", "selector",
    "pageNo", "pageSize", "expr", "responsibleOnly", "aggregation", "withInstances", "serviceNameParam",
    "groupNameParam", "instance", "hasIpCount", "checkPort", "useInstancePort4Check", "healthChecker", "entry", "value",
    "debug", "detail", "reset", "action", "serverStatus", "logName", "logLevel", "keyword", "type", "show",
    "checkNamespaceIdExist", "customNamespaceId", "namespaceName", "namespaceDesc", "namespace", "namespaceShowName",
    "username", "password", "source",
]  # fmt: skip
ODD = [
    "", " ", "a", "0", "1", "-1", "80", "99999999999999999999", "1e400", "NaN", "Infinity", "-0", "true", "no", "null",
    "{}", "[]", "[[[", "{", '"', "a=1", "a=1=2", "=", ",", "a,b", '{"a":{"b":1}}', '{"a":null}', '{"a":1e999}',
    '{"\ud800":1}'.encode("utf-8", "replace").decode(), '{"a":"\\ud800"}', '{"type":"label"}', '{"type":"HTTP"}',
    '{"type":"HTTP","expectedResponseCode":1e999}', '{"ip":"10.0.0.1","port":80,"ephemeral":false}',
    '[{"ip":"10.0.0.1","port":80}]', "public", "ephemeral", "persist", "ephemeral.x", "a##b", "a@@b", "@@", "@@b",
    "a@@", "a@@b@@c", "10.0.0.1", "::1", "1..2", "0x50", "8080.5", "batch", "limitedUrlMap", "/x:200", "masters",
    "overriddenServerStatus", "READ_ONLY", "(a+)+$", "*", ".*", "\x00", "\n", "é", "杭州", "😀", "%", "%zz",
    "x" * 5_000, "[" * 3_000, "GBK", "utf-7", "1" * 400, "٣",
]  # fmt: skip
CHANGED_BY = {
    "weight": {"weight"},
    "enabled": {"enabled"},
    "enable": {"enabled"},
    "healthy": {"healthy"},
    "valid": {"healthy"},
    "metadata": {"metadata", "instanceIdGenerator"},
    "app": {"app"},
}
"""What a parameter of a registration may change of the instance that is there."""
BEAT_TIMES = ("lastBeat",)
values = st.sampled_from(ODD) | st.text(max_size=20)
forms = st.dictionaries(st.sampled_from(NAMES), values, max_size=10)
bodies = st.sampled_from(
    [b"", b"{", b"[]", b"null", b"1", b"\xff\xfe", b"{}", b"[" * 3_000, b'{"keys":1}', b'{"ip":1}', b'["a"]']
) | st.binary(max_size=30)
agents = st.sampled_from(
    ["", "curl/8", "Nacos-Java-Client:v1.4.1", "Nacos-Java-Client:v" + "9" * 500, "Nacos-Go-Client:v.", "Nacos-Server"]
)
types = st.sampled_from(
    [
        "application/x-www-form-urlencoded",
        "application/json",
        "multipart/form-data; boundary=x",
        "text/plain;charset=x",
        "",
    ]
)


def fresh() -> FlaskClient:
    return create_app(FakeNode()).test_client()


def check(client: FlaskClient, method: str, path: str, **sent: object) -> int:
    """Call, and return the status, which is of no fault that nobody foresaw."""
    answer = client.open(CONTEXT + path, method=method, **sent)  # type: ignore[arg-type]
    told = (method, path, sent, answer.data[:300])
    assert answer.status_code < 500 or answer.status_code in (501, 503), told
    assert b"Traceback" not in answer.data, told
    if answer.is_json and answer.data:
        json.loads(answer.data)
    return answer.status_code


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    """One node for all: what one call leaves behind must not break another either."""
    return fresh()


@pytest.mark.parametrize(("method", "path"), CALLS)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=forms, form=forms, agent=agents)
@example(query={}, form={}, agent="")
def test_any_parameters(
    client: FlaskClient, method: str, path: str, query: dict[str, str], form: dict[str, str], agent: str
) -> None:
    check(client, method, path, query_string=query, data=form, headers={"User-Agent": agent})


@pytest.mark.parametrize(("method", "path"), [call for call in CALLS if call[0] != "GET"])
@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=forms, body=bodies, kind=types)
def test_any_body(client: FlaskClient, method: str, path: str, query: dict[str, str], body: bytes, kind: str) -> None:
    check(client, method, path, query_string=query, data=body, headers={"Content-Type": kind})


@settings(max_examples=examples(100), deadline=None)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"]),
    path=st.text(st.sampled_from("/ab.;%-_ é"), max_size=12),
    prefix=st.sampled_from(["", "/v1", "/v1/ns", "/v1/ns/instance", "/v1/cs", "/v1/core/cluster", "/v1/console"]),
)
def test_any_path(client: FlaskClient, method: str, path: str, prefix: str) -> None:
    check(client, method, f"{prefix}/{path}")


def registered(client: FlaskClient, service: str) -> list[dict[str, Any]]:
    """The ephemeral instances of the good registration's address, but for the times of their beats."""
    query = {"serviceName": service, "clusterName": "DEFAULT", "pageNo": 1, "pageSize": 10}
    shown = client.get(f"{CONTEXT}/v1/ns/catalog/instances", query_string=query).get_json()["list"]
    found = [one for one in shown if (one["ip"], one["port"], one["ephemeral"]) == ("10.0.0.1", 80, True)]
    return [{field: value for field, value in one.items() if field not in BEAT_TIMES} for one in found]


@pytest.mark.parametrize("name", NAMES)
def test_an_odd_value_leaves_a_good_registration_as_good_as_it_was(client: FlaskClient, name: str) -> None:
    """What is refused changes nothing; what is taken changes what it names, or another instance."""
    for number, value in enumerate(ODD):
        good = {"serviceName": f"good-{name}-{number}", "ip": "10.0.0.1", "port": "80"}
        assert client.post(f"{CONTEXT}/v1/ns/instance", query_string=good).status_code == 200
        [before] = registered(client, good["serviceName"])
        status = check(client, "POST", "/v1/ns/instance", query_string=good | {name: value})
        [after] = registered(client, good["serviceName"])
        changed = {field for field in before.keys() | after.keys() if before.get(field) != after.get(field)}
        assert changed <= (CHANGED_BY.get(name, set()) if status == 200 else set()), (value, status, before, after)
        check(client, "GET", "/v1/ns/instance/list", query_string={"serviceName": good["serviceName"]})
    check(client, "GET", "/v1/ns/catalog/services", query_string={"pageNo": 1, "pageSize": 10})
