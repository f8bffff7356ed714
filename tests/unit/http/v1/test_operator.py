"""What operators ask and set."""

import importlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.v1.operator import LOGGERS
from distro.model.types import Member, MemberState
from tests.support.fake_node import PEER, SELF, FakeNode

OPERATOR = "/nacos/v1/ns/operator"
CORE = "/nacos/v1/core"


def refusal(client: FlaskClient, method: str, path: str, **kwargs: Any) -> tuple[int, str]:
    answer = client.open(path, method=method, **kwargs)
    return answer.status_code, answer.get_data(as_text=True)


def test_members_once_more(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.others = [Member(PEER, MemberState.DOWN)]
    for prefix in (OPERATOR, "/nacos/v1/ns/ops"):
        listed = client.get(f"{prefix}/distro/status").get_json()["status"]
        assert [one["address"] for one in listed] == [SELF, PEER]
    assert client.get(f"{OPERATOR}/distro/status?action=zz").get_json() == {}


def test_the_page_of_replication(node: FakeNode, client: FlaskClient) -> None:
    node.engine_facts = lambda: {"peers": {PEER: {"unapplied": 3}}}
    for prefix in (OPERATOR, "/nacos/v1/ns/ops"):
        assert client.get(f"{prefix}/distro").get_json()["peers"] == {PEER: {"unapplied": 3}}
    told = client.get("/nacos/v2/ns/operator/distro").get_json()
    assert (told["code"], told["data"]["peers"]) == (0, {PEER: {"unapplied": 3}})


def test_the_word_of_old_members(client: FlaskClient) -> None:
    path = f"{OPERATOR}/server/status"
    for lines in (f"unknown#{SELF}#1#1\r\n", "malformed\r\n", "", f"a#{SELF}#1#1\r\nb#{SELF}#1#1"):
        assert client.get(path, query_string={"serverStatus": lines}).data == b"ok"
    unknown = {"serverStatus": f"a#{SELF}#1#1\r\nb#10.0.0.99:8848#1#1"}
    assert refusal(client, "GET", path, query_string=unknown) == (400, "server: 10.0.0.99:8848 is not in serverlist")
    assert refusal(client, "GET", path) == (400, "Parameter 'serverStatus' is missing")


def test_a_consensus_without_leader(client: FlaskClient) -> None:
    expected = {"ip": SELF, "term": -1, "leaderDueMs": 0, "heartbeatDueMs": 0, "state": "FOLLOWER"}
    assert client.get(f"{OPERATOR}/cluster/state").get_json() == expected


@pytest.fixture
def levels() -> Iterator[None]:
    """Put the levels back."""
    before = {name: logging.getLogger(name).level for name in LOGGERS.values()}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.parametrize("name", LOGGERS.values())
def test_a_log_that_can_be_set_is_that_of_a_module_or_package(name: str) -> None:
    module = importlib.import_module(name)
    logs = [one.name for one in vars(module).values() if isinstance(one, logging.Logger)]
    assert hasattr(module, "__path__") or logs == [name], "a module logs by its own name"


@pytest.mark.usefixtures("levels")
@pytest.mark.parametrize(("name", "logger"), LOGGERS.items())
def test_each_log_is_switched(client: FlaskClient, name: str, logger: str) -> None:
    for level, expected in (("WARN", logging.WARNING), ("DEBUG", logging.DEBUG)):
        assert client.put(f"{OPERATOR}/log", data={"logName": name, "logLevel": level}).data == b"ok"
        assert logging.getLogger(logger).getEffectiveLevel() == expected


@pytest.mark.usefixtures("levels")
def test_log_levels(client: FlaskClient) -> None:
    assert client.put(f"{OPERATOR}/log", data={"logName": "naming-main", "logLevel": "debug"}).data == b"ok"
    assert logging.getLogger("app").level == logging.DEBUG
    assert client.put(f"{OPERATOR}/log", data={"logName": "naming-zzz", "logLevel": "INFO"}).data == b"ok"
    body = {"logName": "naming-distro", "logLevel": "WARN"}
    assert client.put(f"{CORE}/ops/log", json=body).data == b"200"
    assert logging.getLogger("distro").level == logging.WARNING


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"logLevel": "INFO"}, "Parameter 'logName' is missing"),
        ({"logName": "naming-main"}, "Parameter 'logLevel' is missing"),
        (
            {"logName": "naming-main", "logLevel": "LOUD"},
            "Parameter 'logLevel' is illegal: it should be one of ALL, TRACE, DEBUG, INFO, WARN, ERROR, OFF",
        ),
    ],
)
def test_levels_that_are_none(client: FlaskClient, values: dict[str, str], text: str) -> None:
    assert refusal(client, "PUT", f"{OPERATOR}/log", data=values) == (400, text)
    assert refusal(client, "PUT", f"{CORE}/ops/log", json=values) == (400, text)


@pytest.mark.parametrize("body", [b"", b"zzz", b"[]", b'{"logName":1,"logLevel":"INFO"}'])
def test_a_log_level_without_a_body(client: FlaskClient, body: bytes) -> None:
    assert refusal(client, "PUT", f"{CORE}/ops/log", data=body)[0] == 400


@pytest.mark.parametrize("name", [*LOGGERS, "audit", "rollcall.audit", "root", ""])
def test_no_level_silences_the_audit_log(client: FlaskClient, name: str) -> None:
    trail = logging.getLogger("rollcall.audit")
    before = {ours: logging.getLogger(ours).level for ours in LOGGERS.values()}
    try:
        assert client.put(f"{OPERATOR}/log", data={"logName": name, "logLevel": "OFF"}).status_code in (200, 400)
        client.put(f"{CORE}/ops/log", json={"logName": name, "logLevel": "OFF"})
        assert (trail.level, trail.disabled) == (logging.NOTSET, False)
        assert trail.getEffectiveLevel() == logging.getLogger().level
    finally:
        for ours, level in before.items():
            logging.getLogger(ours).setLevel(level)


def test_ids_and_raft(node: FakeNode, client: FlaskClient) -> None:
    assert client.get(f"{CORE}/ops/idInfo").get_json() == {"code": 200, "message": None, "data": {}}
    assert client.post(f"{CORE}/ops/raft", json={}).get_json()["code"] == 500
    node.cluster.listed = set()
    assert client.post(f"{CORE}/ops/raft", json={}).status_code == 403


# --- where members come from ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("file", 200, None),
        ("dns", 200, None),
        ("address-server", 500, "the address server does not answer"),
        ("zzz", 500, "The addressing mode exists : zzz, just support : [[file, address-server]]"),
    ],
)
def test_switch_lookup(node: FakeNode, client: FlaskClient, kind: str, code: int, message: str | None) -> None:
    assert node.lookup is not None
    node.lookup.lacking["address-server"] = "the address server does not answer"
    answer = client.post(f"{CORE}/cluster/switch/lookup?type={kind}")
    assert answer.get_json() == {"code": code, "message": message, "data": None}
    assert node.lookup.switched == [kind] * (code == 200)
    assert client.post(f"{CORE}/cluster/switch/lookup").data == b"Parameter 'type' is missing"


def test_a_node_alone_has_no_list_to_switch(node: FakeNode, client: FlaskClient) -> None:
    node.lookup = None
    answer = client.post(f"{CORE}/cluster/switch/lookup?type=file").get_json()
    assert (answer["code"], answer["message"]) == (500, "this node is alone, and has no list of members")


def test_nobody_leaves_by_a_call(node: FakeNode, client: FlaskClient) -> None:
    path = f"{CORE}/cluster/server/leave"
    assert client.post(path, json=[PEER]).get_json()["code"] == 405
    for body in (b"", b"{}", b"[1]"):
        assert refusal(client, "POST", path, data=body) == (400, "the body should be a JSON array of addresses")
    node.cluster.listed = set()
    assert client.post(path, json=[PEER]).status_code == 403
