"""The operator's call that begins the exchange of one service."""

import pytest
from flask.testing import FlaskClient

from distro.model.types import MemberState
from tests.support.fake_node import PEER, SELF, FakeNode

PATH = "/nacos/v1/ns/operator/heal"


def test_one_service_is_exchanged(node: FakeNode, client: FlaskClient) -> None:
    answer = client.post(f"{PATH}?serviceName=orders&namespaceId=prod&source={PEER}&instances=b:1,%20a:1,b:1")
    assert answer.get_json() == {"address": SELF, "owner": SELF, "keys": 2, "owned": 2, "asked": {PEER: 2}}
    assert node.healer.healed == [("prod", "DEFAULT_GROUP@@orders", PEER, ("b:1", "a:1"))]


def test_the_other_path_and_the_form(node: FakeNode, client: FlaskClient) -> None:
    assert client.post("/nacos/v1/ns/ops/heal", data={"serviceName": "g@@s"}).status_code == 200
    assert node.healer.healed == [("public", "g@@s", "", ())]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "Param 'serviceName' is required."),
        ("serviceName=", "Param 'serviceName' is required."),
        ("serviceName=a%0Ab", "Param 'serviceName' is illegal"),
        ("serviceName=" + "a" * 700, "Param 'serviceName' is illegal"),
        ("serviceName=@@", "Param 'serviceName' is illegal"),
        ("serviceName=a&namespaceId=b%0Ac", "Param 'namespaceId' is illegal"),
        ("serviceName=a&namespaceId=" + "n" * 600, "Param 'namespaceId' is illegal"),
        ("serviceName=a&instances=" + ",".join(f"i{number}" for number in range(101)), "Parameter 'instances'"),
        ("serviceName=a&instances=" + "i" * 400, "Parameter 'instances' is illegal"),
        ("serviceName=a&instances=a%00b", "Parameter 'instances' is illegal"),
    ],
)
def test_what_is_wrong_is_named(node: FakeNode, client: FlaskClient, query: str, text: str) -> None:
    answer = client.post(f"{PATH}?{query}")
    assert answer.status_code == 400
    assert text in answer.text
    assert len(answer.text) < 1_000
    assert node.healer.healed == []


def test_who_asks_too_often_is_told_when_to_come_back(node: FakeNode, client: FlaskClient) -> None:
    node.healer.wait = 1_001
    answer = client.post(f"{PATH}?serviceName=orders")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert node.healer.healed == []


def test_a_member_that_does_not_serve_exchanges_nothing(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.own_state = MemberState.STARTING
    agent = {"User-Agent": "Nacos-Server:v1.4.1"}
    assert client.post(f"{PATH}?serviceName=orders", headers=agent).status_code == 503
    assert node.healer.healed == []


def test_a_call_that_is_too_late_changes_nothing(node: FakeNode, client: FlaskClient) -> None:
    late = f"{SELF}~1 5"
    node.cluster.over = {late}
    assert client.post(f"{PATH}?serviceName=orders", headers={"Rollcall-Deadline": late}).status_code == 503
    assert node.healer.healed == []


def test_it_is_no_read(client: FlaskClient) -> None:
    assert client.get(f"{PATH}?serviceName=orders").status_code == 501
