"""Calls that must not be executed any more (R13): given up by the member that passed them on, or read after a pause."""

import gzip
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.support.fake_node import SELF, FakeNode

DATUM, BEATS = "/nacos/v1/ns/distro/datum", "/nacos/v1/ns/distro/beats"
INSTANCE = "/nacos/v1/ns/instance"
EPHEMERAL = {"serviceName": "a", "ip": "10.0.0.1", "port": 80}
PERSISTENT = EPHEMERAL | {"ephemeral": "false"}
KEY = "com.alibaba.nacos.naming.iplist.ephemeral.public##DEFAULT_GROUP@@a"
LATE = f"{SELF}~1 1"
FORWARDED = {"User-Agent": "Nacos-Server:1.4.8", "Rollcall-Client-Agent": "curl", "Rollcall-Deadline": LATE}
CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "register": ("POST", INSTANCE, {"query_string": EPHEMERAL}),
    "register a persistent one": ("POST", INSTANCE, {"query_string": PERSISTENT}),
    "update": ("PUT", INSTANCE, {"query_string": EPHEMERAL}),
    "deregister": ("DELETE", INSTANCE, {"query_string": EPHEMERAL}),
    "deregister a persistent one": ("DELETE", INSTANCE, {"query_string": PERSISTENT}),
    "beat": ("PUT", f"{INSTANCE}/beat", {"query_string": EPHEMERAL}),
    "datums": ("PUT", DATUM, {"data": gzip.compress(b'{"%b":{}}' % KEY.encode())}),
    "beats": ("PUT", BEATS, {"data": b'{"%b":{"10.0.0.1:80:unknown:DEFAULT":5}}' % KEY.encode()}),
    "a service": ("POST", "/nacos/v1/ns/service", {"query_string": {"serviceName": "b"}}),
    "switches": ("PUT", "/nacos/v1/ns/operator/switches", {"query_string": {"entry": "pushEnabled", "value": "false"}}),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("reason", ["given up", "stood still"])
def test_nothing_is_executed_too_late(client: FlaskClient, node: FakeNode, name: str, reason: str) -> None:
    method, path, values = CALLS[name]
    before = node.naming.service_count(), dict(node.disk.records)
    if reason == "given up":
        node.cluster.over = {LATE}
        answer = client.open(path, method=method, headers=FORWARDED, **values)
    else:
        node.http.stood_still = True
        answer = client.open(path, method=method, **values)
    assert answer.status_code == 503
    assert answer.data.startswith(b"server is "), "by which a member that passed it on knows that it was not executed"
    assert (node.naming.service_count(), dict(node.disk.records)) == before
    assert node.replication.taken == []
    assert node.http.too_late == 1
    node.cluster.over, node.http.stood_still = set(), False
    assert client.open(path, method=method, headers=FORWARDED, **values).status_code != 503


def test_a_call_with_a_deadline_is_not_refused_because_this_process_stood_still(
    client: FlaskClient, node: FakeNode
) -> None:
    node.http.stood_still = True
    assert client.post(INSTANCE, query_string=EPHEMERAL, headers=FORWARDED).data == b"ok"


READS = (
    f"{INSTANCE}/list?serviceName=a",
    f"{INSTANCE}?serviceName=a&ip=10.0.0.1&port=80",
    "/nacos/v1/ns/api/list?serviceName=a",
    "/nacos/v2/ns/instance/list?serviceName=a",
    "/nacos/v1/ns/service/list?pageNo=1&pageSize=9",
    "/nacos/v1/ns/catalog/services?pageNo=1&pageSize=9",
    "/nacos/v1/ns/service?serviceName=a",
    "/nacos/v1/ns/INSTANCE/list",
)


@pytest.mark.parametrize("target", READS)
def test_no_read_is_answered_before_this_node_has_caught_up(client: FlaskClient, node: FakeNode, target: str) -> None:
    client.post(INSTANCE, query_string=EPHEMERAL)
    node.cluster.is_behind = True
    for answer in (client.get(target), client.head(target)):
        assert answer.status_code == 503
    assert client.get(target).data.startswith(b"server is ")
    assert client.get("/nacos/v1/ns/operator/metrics").status_code == 200
    assert client.get("/nacos/v1/console/health/readiness").status_code == 200
    assert client.put(f"{INSTANCE}/beat", query_string=EPHEMERAL).status_code == 200
    assert client.get(target, headers={"User-Agent": "Nacos-Server:1.4.8"}).status_code != 503, "a member's"
    node.cluster.is_behind = False
    assert client.get(target).status_code != 503


def test_reads_are_answered_after_a_pause(client: FlaskClient, node: FakeNode) -> None:
    client.post(INSTANCE, query_string=EPHEMERAL)
    node.http.stood_still = True
    answer = client.get(f"{INSTANCE}/list", query_string={"serviceName": "a"})
    assert [one["ip"] for one in answer.get_json()["hosts"]] == ["10.0.0.1"]
