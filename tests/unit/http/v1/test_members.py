"""Operator, cluster, console and distro endpoints: what members and operators ask."""

import gzip
import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from distro.model.errors import CodecError, NotInitialized
from distro.model.types import Member, MemberState
from tests.support.fake_node import PEER, SELF, FakeNode

NS = "/nacos/v1/ns"
CORE = "/nacos/v1/core/cluster"
PEERS = {"User-Agent": "Nacos-Server:1.4.8"}
REPORT = {"ip": "127.0.0.2", "port": 8848, "state": "UP", "extendInfo": {"version": "1.4.8"}, "address": PEER}


def clustered(node: FakeNode) -> None:
    node.cluster.standalone = False
    node.cluster.others = [Member(PEER, MemberState.SUSPICIOUS)]


# --- operator -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["operator", "ops"])
def test_metrics(client: FlaskClient, path: str) -> None:
    client.post(f"{NS}/instance", query_string={"serviceName": "a", "ip": "10.0.0.1", "port": 80})
    found = client.get(f"{NS}/{path}/metrics").get_json()
    assert list(found.items()) == [
        ("status", "UP"), ("serviceCount", 1), ("instanceCount", 1), ("raftNotifyTaskCount", 0),
        ("responsibleServiceCount", 1), ("responsibleInstanceCount", 1), ("emptyServiceCount", 0),
        ("cpu", 0.5), ("load", 1.25), ("mem", 0.25), ("syncSent", 3),
    ]  # fmt: skip


def test_metrics_count_what_is_ours(node: FakeNode, client: FlaskClient) -> None:
    client.post(f"{NS}/instance", query_string={"serviceName": "a", "ip": "10.0.0.1", "port": 80})
    node.cluster.owner = PEER
    found = client.get(f"{NS}/operator/metrics").get_json()
    assert (found["serviceCount"], found["responsibleServiceCount"], found["responsibleInstanceCount"]) == (1, 0, 0)


def test_services_without_instances_are_counted_apart(node: FakeNode, client: FlaskClient) -> None:
    client.post(f"{NS}/instance", query_string={"serviceName": "a", "ip": "10.0.0.1", "port": 80})
    client.post(f"{NS}/service", query_string={"serviceName": "b"})
    found = client.get(f"{NS}/operator/metrics").get_json()
    assert (found["serviceCount"], found["emptyServiceCount"]) == (2, 1)
    assert "1 without instances" in client.get("/nacos/").text


def test_servers(node: FakeNode, client: FlaskClient) -> None:
    clustered(node)
    everyone = client.get(f"{NS}/operator/servers").get_json()["servers"]
    assert [member["address"] for member in everyone] == [SELF, PEER]
    up = client.get(f"{NS}/operator/servers?healthy=true").get_json()["servers"]
    assert [member["address"] for member in up] == [SELF]
    assert client.get(f"{NS}/operator/servers?healthy=maybe").status_code == 400


def test_responsible_server(node: FakeNode, client: FlaskClient) -> None:
    path = f"{NS}/operator/distro/server"
    assert client.get(path).data == b"Parameter 'serviceName' is missing"
    answer = client.get(f"{path}?serviceName=a")
    assert (answer.status_code, answer.data) == (400, b"service not found")
    client.post(f"{NS}/service?serviceName=a")
    node.cluster.owner = PEER
    assert client.get(f"{path}?serviceName=a").get_json() == {"responsibleServer": PEER}


# --- cluster --------------------------------------------------------------------------------------


def test_own_member_and_health(client: FlaskClient) -> None:
    found = client.get(f"{CORE}/self").get_json()
    assert list(found) == ["code", "message", "data"]
    assert (found["code"], found["message"], found["data"]["address"]) == (200, None, SELF)
    assert client.get(f"{CORE}/health").get_json() == {"code": 200, "message": None, "data": "UP"}


@pytest.mark.parametrize(
    ("keyword", "addresses"), [("", [SELF, PEER]), ("127.0.0.2", [PEER]), (PEER, [PEER]), ("zz", []), ("0.0", [])]
)
def test_nodes_by_keyword(node: FakeNode, client: FlaskClient, keyword: str, addresses: list[str]) -> None:
    clustered(node)
    found = client.get(f"{CORE}/nodes", query_string={"keyword": keyword}).get_json()["data"]
    assert [member["address"] for member in found] == addresses


def test_simple_nodes_are_those_that_are_up(node: FakeNode, client: FlaskClient) -> None:
    clustered(node)
    assert client.get(f"{CORE}/simple/nodes").get_json()["data"] == [SELF]


def test_a_report_is_taken_as_it_came(node: FakeNode, client: FlaskClient) -> None:
    answer = client.post(f"{CORE}/report", json=REPORT)
    assert answer.get_json() == {"code": 200, "message": None, "data": "false"}
    assert node.cluster.reports == [(REPORT, "127.0.0.1")]


@pytest.mark.parametrize("body", [{}, [], {"ip": "", "port": 1}, {"ip": "127.0.0.2", "port": -1}, {"ip": 5, "port": 1}])
def test_a_report_that_names_no_member(node: FakeNode, client: FlaskClient, body: Any) -> None:
    answer = client.post(f"{CORE}/report", json=body)
    assert (answer.status_code, answer.get_json()) == (
        200,
        {"code": 400, "message": "Node information is illegal", "data": None},
    )
    assert not node.cluster.reports


@pytest.mark.parametrize("body", [b"", b"zzz", b'{"ip":'])
def test_a_report_that_is_no_json(client: FlaskClient, body: bytes) -> None:
    assert client.post(f"{CORE}/report", data=body, content_type="application/json").status_code == 400


def test_a_report_from_a_stranger(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.listed = {"127.0.0.2"}
    answer = client.post(f"{CORE}/report", json=REPORT)
    assert (answer.status_code, answer.data) == (403, b"127.0.0.1 is not the address of a listed member")
    assert not node.cluster.reports


# --- console --------------------------------------------------------------------------------------


def test_probes(node: FakeNode, client: FlaskClient) -> None:
    health = "/nacos/v1/console/health"
    assert client.get(f"{health}/liveness").data == client.get(f"{health}/readiness").data == b"OK"
    node.cluster.own_state = MemberState.STARTING
    answer = client.get(f"{health}/readiness")
    assert (answer.status_code, answer.data) == (500, b"Naming is not in readiness: it is STARTING")
    assert client.get(f"{health}/liveness").status_code == 200


def test_server_state(node: FakeNode, client: FlaskClient) -> None:
    path = "/nacos/v1/console/server/state"
    expected = {"version": "1.4.8", "standalone_mode": "standalone", "function_mode": "naming"}
    assert client.get(path).get_json() == expected
    node.cluster.standalone = False
    assert client.get(path).get_json() == expected | {"standalone_mode": "cluster"}


# --- distro ---------------------------------------------------------------------------------------

DISTRO = [("PUT", "datum"), ("PUT", "checksum?source=x"), ("GET", "datum"), ("GET", "datums")]


@pytest.mark.parametrize(("method", "path"), DISTRO)
def test_strangers_are_refused(node: FakeNode, client: FlaskClient, method: str, path: str) -> None:
    node.cluster.listed = {"127.0.0.2"}
    answer = client.open(f"{NS}/distro/{path}", method=method, data=b'{"keys":"k"}', headers=PEERS)
    assert (answer.status_code, answer.data) == (403, b"127.0.0.1 is not the address of a listed member")
    assert not node.replication.taken
    assert not node.replication.asked


def test_datums_are_taken(node: FakeNode, client: FlaskClient) -> None:
    body = gzip.compress(b'{"k":{}}')
    answer = client.put(f"{NS}/distro/datum", data=body, headers=PEERS | {"Content-Encoding": "gzip"})
    assert (answer.data, answer.headers["Content-Type"]) == (b"ok", "text/plain;charset=UTF-8")
    assert node.replication.taken == [("127.0.0.1", body)]


def test_a_peer_of_our_kind_is_answered_in_json(node: FakeNode, client: FlaskClient) -> None:
    node.replication.answer = b'{"refused":{}}'
    answer = client.put(f"{NS}/distro/datum", data=b'{"k":{}}', headers=PEERS)
    assert (answer.data, answer.headers["Content-Type"]) == (b'{"refused":{}}', "application/json;charset=UTF-8")


@pytest.mark.parametrize("body", [b"{}", b" { \n} "])
def test_an_empty_map(node: FakeNode, client: FlaskClient, body: bytes) -> None:
    path = f"{NS}/distro/datum"
    answer = client.put(path, data=body, headers=PEERS)
    assert (answer.status_code, answer.data) == (400, b"receive empty entity!")
    node.cluster.standalone = False
    assert client.put(path, data=body).status_code == 400
    assert client.put(path, data=body, headers=PEERS).data == b"ok"
    assert not node.replication.taken


@pytest.mark.parametrize(
    ("failure", "status", "text"),
    [
        (CodecError("key 'k' holds no datum"), 400, b"key 'k' holds no datum"),
        (NotInitialized("loading"), 503, b"server is STARTING now, please try again later!"),
    ],
)
def test_refusals_of_the_engine(
    node: FakeNode, client: FlaskClient, failure: Exception, status: int, text: bytes
) -> None:
    node.replication.failure = failure
    for answer in (
        client.put(f"{NS}/distro/datum", data=b"x", headers=PEERS),
        client.put(f"{NS}/distro/checksum?source={PEER}", data=b"{}", headers=PEERS),
        client.put(f"{NS}/distro/digest", data=b"{}", headers=PEERS),
        client.get(f"{NS}/distro/datums", headers=PEERS),
    ):
        assert (answer.status_code, answer.data) == (status, text)


def test_checksums_name_their_source(node: FakeNode, client: FlaskClient) -> None:
    assert client.put(f"{NS}/distro/checksum?source={PEER}", data=b"{}", headers=PEERS).data == b"ok"
    assert node.replication.taken == [(PEER, b"{}")]
    answer = client.put(f"{NS}/distro/checksum", data=b"{}", headers=PEERS)
    assert (answer.status_code, answer.data) == (400, b"Parameter 'source' is missing")


def test_digests_are_compared_with_members(node: FakeNode, client: FlaskClient) -> None:
    node.replication.answer = b"{}"
    answer = client.put(f"{NS}/distro/digest", data=b'{"view":""}', headers=PEERS)
    assert (answer.status_code, answer.data, answer.headers["Content-Type"]) == (
        200,
        b"{}",
        "application/json;charset=UTF-8",
    )
    assert node.replication.taken == [("127.0.0.1", b'{"view":""}')]


def test_datums_of_keys_are_asked_for_in_the_body_of_a_get(node: FakeNode, client: FlaskClient) -> None:
    node.replication.stored = ([b'{"k1":{}}'], {})
    answer = client.get(f"{NS}/distro/datum", data=json.dumps({"keys": "k1,,k2"}), headers=PEERS)
    assert (answer.data, answer.headers["Content-Type"]) == (b'{"k1":{}}', "application/octet-stream")
    assert node.replication.asked == [["k1", "k2"]]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"keys":5}', b"\xff"])
def test_keys_that_are_missing(client: FlaskClient, body: bytes) -> None:
    answer = client.get(f"{NS}/distro/datum", data=body, headers=PEERS)
    assert answer.status_code == 400
    assert b"'keys'" in answer.data


def test_all_datums_may_come_packed(node: FakeNode, client: FlaskClient) -> None:
    node.replication.stored = ([gzip.compress(b"{}")], {"Content-Encoding": "gzip"})
    answer = client.get(f"{NS}/distro/datums", headers=PEERS)
    assert (answer.headers["Content-Encoding"], gzip.decompress(answer.data)) == ("gzip", b"{}")
    assert node.replication.asked == [None]


@pytest.mark.parametrize(("query", "paged"), [("?pages=true", True), ("", False), ("?pages=false", False)])
def test_pages_are_for_who_asks_for_them(node: FakeNode, client: FlaskClient, query: str, paged: bool) -> None:
    node.replication.stored = ([b"{}"], {})
    client.get(f"{NS}/distro/datums{query}", headers=PEERS)
    client.get(f"{NS}/distro/datum{query}", data=json.dumps({"keys": "k1,k2"}), headers=PEERS)
    assert node.replication.pages_asked == ([None, ["k1", "k2"]] if paged else [])
    assert node.replication.asked == [None, ["k1", "k2"]]


def test_many_datums_come_in_parts(node: FakeNode, client: FlaskClient) -> None:
    node.replication.stored = ([b'{"k1":', b"{}", b"}"], {"Rollcall-Clock": "run 5"})
    answer = client.get(f"{NS}/distro/datums", headers=PEERS)
    assert (answer.data, answer.headers.get("Content-Length")) == (b'{"k1":{}}', None)
    assert answer.headers["Rollcall-Clock"] == "run 5"
    node.replication.stored = ([b"{}"], {})
    answer = client.get(f"{NS}/distro/datums", headers=PEERS)
    assert (answer.data, answer.headers["Content-Length"]) == (b"{}", "2")
