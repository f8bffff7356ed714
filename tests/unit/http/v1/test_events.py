"""The call `events`: what happened lately, by filters, at one member and merged from all."""

import csv
import io
import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.factory import create_app
from app.metrics.audit_trail import NODE, Actor
from app.testing import Cluster
from tests.support.auth import ADMIN, add_user, node_with_users, token_of
from tests.support.fake_node import PEER, SELF, FakeNode

EVENTS = "/nacos/v1/ns/operator/events"
INSTANCE = "/nacos/v1/ns/instance"
NAMESPACES = "/nacos/v1/console/namespaces"
ORDERS = {"serviceName": "orders", "ip": "10.0.0.7", "port": "8080"}


def asked(client: FlaskClient, **query: object) -> Any:
    answer = client.get(EVENTS, query_string={name: str(value) for name, value in query.items()})
    assert answer.status_code == 200, answer.text
    return answer.get_json()


def said(client: FlaskClient, **query: object) -> list[str]:
    return [one["says"] for one in asked(client, **query)["events"]]


def test_an_instance_from_its_registration_to_its_end(node: FakeNode, client: FlaskClient) -> None:
    client.post(INSTANCE, query_string=ORDERS)
    client.put(INSTANCE, query_string={**ORDERS, "weight": "3"})
    client.post(INSTANCE, query_string={**ORDERS, "ip": "10.0.0.8"})
    client.delete(INSTANCE, query_string=ORDERS)
    assert said(client, ip="10.0.0.7", port=8080) == [
        "10.0.0.7:8080 deregistered",
        "10.0.0.7:8080 changed: weight 1 to 3",
        "10.0.0.7:8080 registered",
    ]
    told = asked(client, serviceName="orders", limit=1)
    (last,) = told["events"]
    assert (last["node"], last["kind"], last["what"], last["namespaceId"], last["serviceName"], last["from"]) == (
        SELF,
        "instances",
        "instance.remove",
        "public",
        "DEFAULT_GROUP@@orders",
        "127.0.0.1",
    )
    assert (told["more"], told["askedAt"], told["notAnswered"]) == (True, SELF, [])
    assert told["members"][SELF]["sinceMs"]["instances"] == 1_700_000_000_123


def test_pages_go_on_where_the_last_one_ended(client: FlaskClient) -> None:
    for number in range(5):  # all in one millisecond
        client.post(INSTANCE, query_string={**ORDERS, "port": str(number + 1)})
    seen, cursor = list[str](), ""
    while True:
        told = asked(client, limit=2, before=cursor)
        seen += [one["id"] for one in told["events"]]
        cursor = told["next"]
        if not told["more"]:
            break
    assert len(seen) == len(set(seen)) == 5
    assert cursor == ""


def test_operators_are_apart_from_instances(node: FakeNode, client: FlaskClient) -> None:
    client.post(INSTANCE, query_string=ORDERS)
    client.post(NAMESPACES, data={"customNamespaceId": "blue", "namespaceName": "Blue"})
    node.instruments.audit.write("ownership.claim", "7 keys", after=["a"], actor=NODE)
    node.instruments.audit.write("member.state", PEER, before="UP", after="DOWN", actor=NODE)
    assert said(client, kinds="operators") == ["called POST /v1/console/namespaces", "namespace blue created"]
    assert said(client, kinds="cluster") == [f"sees {PEER} DOWN, before UP", "took over 7 keys"]
    assert said(client, kinds="cluster,instances", limit=5)[-1] == "10.0.0.7:8080 registered"
    assert said(client, namespaceId="blue") == ["namespace blue created"]
    assert said(client, text="BLUE", kinds="operators") == [
        "called POST /v1/console/namespaces",
        "namespace blue created",
    ]


def test_only_the_last_hours(node: FakeNode, client: FlaskClient) -> None:
    client.post(INSTANCE, query_string=ORDERS)
    node.later_ms = 3_600_000
    client.delete(INSTANCE, query_string=ORDERS)
    assert said(client, lastMs=60_000) == ["10.0.0.7:8080 deregistered"]
    assert said(client, afterMs=node.wall_ms() - 1) == ["10.0.0.7:8080 deregistered"]
    assert said(client, beforeMs=node.wall_ms()) == ["10.0.0.7:8080 registered"]


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"kinds": "all"}, "kinds"),
        ({"port": "70000"}, "port"),
        ({"lastMs": "1h"}, "lastMs"),
        ({"before": "x"}, "before"),
        ({"before": "1|a"}, "before"),
        ({"format": "xml"}, "format"),
        ({"text": "x" * 257}, "text"),
    ],
)
def test_wrong_parameters_are_named(client: FlaskClient, query: dict[str, str], complaint: str) -> None:
    answer = client.get(EVENTS, query_string=query)
    assert answer.status_code == 400
    assert f"'{complaint}'" in answer.text


def test_csv_has_no_formulas(node: FakeNode, client: FlaskClient) -> None:
    node.instruments.audit.write("user.create", "u", actor=Actor("10.0.0.9", "=cmd()", "+agent"))
    answer = client.get(EVENTS, query_string={"format": "csv"})
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["user"], row["agent"], row["says"]) == ("'=cmd()", "'+agent", "user u created")


def test_all_members_answers_are_merged(node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client.post(INSTANCE, query_string=ORDERS)
    node.later_ms = 2_000
    client.delete(INSTANCE, query_string=ORDERS)
    own = asked(client, local="true")
    asked_with: list[dict[str, Any]] = []

    def of_peer(at_ms: int, number: int) -> dict[str, Any]:
        return {**own["events"][0], "atMs": at_ms, "node": PEER, "id": f"{PEER}~1~{number}", "number": number}

    told = {"events": [of_peer(node.wall_ms() - 1_000, 1)], "more": False, "memory": own["memory"]}
    answers: dict[str, Any] = {PEER: told, "127.0.0.3:8848": {"events": [{"id": 7}], "more": False, "memory": {}}}

    def ask(*_: Any, **__: Any) -> Any:
        asked_with.append(_[3])
        return answers, ["127.0.0.4:8848"]

    monkeypatch.setattr("app.peers.asked.ask_members", ask)
    merged = asked(client, serviceName="orders", limit=2)
    assert [one["node"] for one in merged["events"]] == [SELF, PEER]
    assert (merged["more"], merged["notAnswered"], merged["otherKinds"]) == (
        True,
        ["127.0.0.3:8848"],
        ["127.0.0.4:8848"],
    )
    assert asked_with[0] == {
        "serviceName": "DEFAULT_GROUP@@orders",
        "kinds": "instances,operators,cluster,access",
        "limit": 2,
        "local": "true",
    }
    # A member that has more than it told has events between its last one and older ones of others.
    told["more"] = True
    assert [one["node"] for one in asked(client, limit=3)["events"]] == [SELF, PEER]


def test_a_call_that_a_member_passed_on_is_told_once() -> None:
    with Cluster(2, settings={"rollcall.audit.enabled": "true"}) as cluster:
        asked_at, other = cluster[0], cluster[1]
        names = [f"space-{number}" for number in range(6)]  # some are executed at the other member
        for name in names:
            asked_at.call("POST", "/v1/console/namespaces", customNamespaceId=name, namespaceName=name)

        def told() -> list[dict[str, Any]]:
            return list(json.loads(other.call("GET", "/v1/ns/operator/events", kinds="operators"))["events"])

        other.wait_until(lambda: len(told()) >= 2 * len(names))
        for name in names:
            of_it = [one for one in told() if name in (one["key"], (one["after"] or {}).get("customNamespaceId"))]
            call, change = sorted(of_it, key=lambda one: one["what"], reverse=True)
            assert (call["what"], call["node"], call["via"]) == ("operation", asked_at.address, "")
            assert (change["says"], change["from"]) == (f"namespace {name} created", "127.0.0.1")
            assert bool(change["via"]) is (change["node"] != asked_at.address)
        assert {one["node"] for one in told() if one["what"] == "namespace.create"} == {one.address for one in cluster}


def test_a_stream_changes_with_events_here_and_at_other_members(node: FakeNode, client: FlaskClient) -> None:
    first = client.get(f"{EVENTS}/changes").text
    assert client.get(f"{EVENTS}/changes").text == first
    client.post(INSTANCE, query_string=ORDERS)
    assert client.get(f"{EVENTS}/changes").text != first
    node.instruments.audit.memory.others._known[PEER] = "1.5"
    assert f"{PEER}=1.5" in client.get(f"{EVENTS}/changes").text


def test_hostile_members_and_texts_break_nothing(node: FakeNode, client: FlaskClient) -> None:
    node.instruments.audit.write("instance.register", "a", after=[{"ip": 7}, None, {"ip": "x", "port": "y"}])
    node.instruments.audit.write("operation", "x", after={"serviceName": "s", "ip": "\ud800", "port": "9" * 99})
    node.instruments.audit.write("override.update", "p/s/\u4e2d:unknown:C", before=None, after={"enabled": False})
    assert said(client) == ["\u4e2d:0 taken out of service", "called x", "instances registered"]


def test_only_administrators_read_events() -> None:
    node = node_with_users()
    client = create_app(node).test_client()  # type: ignore[arg-type]
    reader = add_user(node, "reader", ("public:*:*", "rw"))
    for token, status in ((reader, 403), (token_of(node, ADMIN), 200)):
        for path in (EVENTS, f"{EVENTS}/changes"):
            answer = client.get(
                path, query_string={"accessToken": token}, environ_overrides={"REMOTE_ADDR": "10.9.9.9"}
            )
            assert answer.status_code == status
