"""Writes of v3 whose owner is of an earlier release, or real Nacos 1.4."""

from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.commands.ownership import Forward
from app.http.api.call import Reply
from app.peers.peer_parts import MemberRequest
from distro.model.types import CAPABILITY_HTTP_V3, CAPABILITY_VERSIONS, CAPABILITY_WRITES, Member, MemberState
from tests.support.fake_node import PEER, FakeNode, StubForwarder

CLIENT, ADMIN = "/nacos/v3/client/ns/instance", "/nacos/v3/admin/ns/instance"
ONE = {"serviceName": "orders", "ip": "10.0.0.1", "port": "8080"}
INSTANCE, BEAT = "/v1/ns/instance", "/v1/ns/instance/beat"


class Owner(StubForwarder):
    """The member that owns all services: what it is asked, and its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str]] = []
        self.is_gone = False
        """True: this node is the owner by the time that it would call."""

    def forward(self, request: MemberRequest, to: Forward, run: Callable[[], Any]) -> Any:
        if self.is_gone:
            return run()
        self.asked.append((request.method, request.path))
        assert dict(request.parameters.items())["serviceName"] == "orders"
        return self.reply


@pytest.fixture
def owner(node: FakeNode) -> Owner:
    """An owner of an earlier release."""
    owner = node.forwarder = Owner()
    owner.reply = Reply()
    node.cluster.owner = PEER
    node.cluster.others = [Member(PEER, MemberState.UP, frozenset({CAPABILITY_VERSIONS, CAPABILITY_WRITES}))]
    return owner


@pytest.mark.parametrize(
    ("method", "path", "values", "asked"),
    [
        ("POST", CLIENT, {}, ("POST", INSTANCE)),
        ("DELETE", CLIENT, {}, ("DELETE", INSTANCE)),
        ("POST", ADMIN, {}, ("POST", INSTANCE)),
        ("POST", ADMIN, {"ephemeral": "false"}, ("POST", INSTANCE)),
        ("DELETE", ADMIN, {}, ("DELETE", INSTANCE)),
    ],
)
def test_it_is_asked_in_the_form_of_v1(
    owner: Owner, client: FlaskClient, method: str, path: str, values: dict[str, str], asked: tuple[str, str]
) -> None:
    answer = client.open(path, method=method, query_string=ONE | values)
    assert answer.get_json() == {"code": 0, "message": "success", "data": "ok"}
    assert owner.asked == [asked]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", ADMIN),
        ("PUT", f"{ADMIN}/partial"),
        ("PUT", f"{ADMIN}/metadata/batch"),
        ("DELETE", f"{ADMIN}/metadata/batch"),
    ],
)
def test_it_would_lose_changes_beside_an_instance(owner: Owner, client: FlaskClient, method: str, path: str) -> None:
    answer = client.open(path, method=method, query_string=ONE | {"metadata": '{"a":"1"}'})
    assert (answer.status_code, answer.get_json()["code"]) == (503, 30_000)
    assert f"member {PEER} runs a release" in answer.get_json()["data"]
    assert owner.asked == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"clientBeatInterval":5000,"code":10200}', 0),
        (b'{"clientBeatInterval":5000,"code":20404}', 21_003),
        (b"ok", 21_003),
        (b"[]", 21_003),
    ],
)
def test_a_beat(owner: Owner, client: FlaskClient, body: bytes, code: int) -> None:
    owner.reply = Reply(200, body, "application/json")
    answer = client.post(CLIENT, data=ONE | {"heartBeat": "true"})
    assert (answer.status_code, answer.get_json()["code"]) == (200, code)
    assert owner.asked == [("PUT", BEAT)]


@pytest.mark.parametrize(
    ("status", "code"), [(400, 20_002), (403, 10_001), (404, 20_004), (429, 30_000), (503, 30_000), (500, 30_000)]
)
def test_its_refusal_is_one_of_v3(owner: Owner, client: FlaskClient, status: int, code: int) -> None:
    owner.reply = Reply(status, b"no", headers={"Retry-After": "1"})
    answer = client.post(CLIENT, data=ONE)
    assert (answer.status_code, answer.get_json()["code"], answer.get_json()["data"]) == (status, code, "no")
    assert answer.headers["Retry-After"] == "1"


def test_by_the_time_of_the_call_this_node_may_own_it(node: FakeNode, owner: Owner, client: FlaskClient) -> None:
    owner.is_gone = True
    node.cluster.on_look_up = lambda: node.cluster.give_to(node.cluster.self_address)
    assert client.post(CLIENT, data=ONE).get_json()["data"] == "ok"
    assert owner.asked == []


def test_an_owner_that_knows_v3_is_asked_as_the_client_asked(node: FakeNode, owner: Owner, client: FlaskClient) -> None:
    node.cluster.others = [Member(PEER, MemberState.UP, capabilities=frozenset({CAPABILITY_HTTP_V3}))]
    owner.reply = Reply(200, b"from there")
    assert client.post(CLIENT, data=ONE).data == b"from there"
    assert client.put(f"{ADMIN}/partial", data=ONE).data == b"from there"
    assert client.post("/nacos/v3/admin/ns/service", data=ONE).data == b"from there"
    assert owner.asked == [
        ("POST", "/v3/client/ns/instance"),
        ("PUT", "/v3/admin/ns/instance/partial"),
        ("POST", "/v3/admin/ns/service"),
    ]


def test_what_v1_has_not_waits_for_the_update(owner: Owner, client: FlaskClient) -> None:
    for path, values in (
        ("/nacos/v3/admin/ns/service", ONE),
        ("/nacos/v3/admin/core/namespace", {"namespaceId": "dev", "namespaceName": "Dev"}),
    ):
        answer = client.post(path, data=values)
        assert (answer.status_code, answer.get_json()["code"]) == (503, 30_000)
        assert "earlier release" in answer.get_json()["data"]
    assert owner.asked == []
