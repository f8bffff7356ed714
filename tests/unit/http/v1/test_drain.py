"""Leaving gracefully over HTTP: parameters, states, what is refused while a node is drained."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.v1.drain import is_seen
from app.naming.registry.operations import RegisterInstance
from distro.model.types import MemberState
from tests.support.fake_node import FakeNode

DRAIN = "/nacos/v1/ns/instance/drain?serviceName=orders&ip=10.0.0.1&port=8080"
NODE_DRAIN = "/nacos/v1/ns/operator/drain"


def test_an_instance_is_drained(client: FlaskClient, node: FakeNode) -> None:
    node.naming.register(RegisterInstance("DEFAULT_GROUP@@orders", "10.0.0.1", 8080))
    try:
        answer = client.put(DRAIN + "&minMs=0")
        assert (answer.status_code, answer.json["state"]) == (200, "drained")  # type: ignore[index]
        assert node.naming.instance_count("public", "DEFAULT_GROUP@@orders") == 0
        assert client.get(DRAIN).json["isOver"] is True  # type: ignore[index]
        assert client.get(DRAIN.replace("orders", "others")).status_code == 404
    finally:
        node.drains.stop()


@pytest.mark.parametrize("wrong", ["timeoutMs=60001", "minMs=-1", "minMs=x", "timeoutMs=1e3"])
def test_a_wrong_time_is_named(client: FlaskClient, wrong: str) -> None:
    answer = client.put(f"{DRAIN}&{wrong}")
    assert answer.status_code == 400
    name = wrong.partition("=")[0]
    assert answer.text.strip() == f"Parameter '{name}' is illegal: it should be a number from 0 to 60000"


def test_a_long_time_for_clients_that_poll_is_cut_to_the_timeout(client: FlaskClient, node: FakeNode) -> None:
    """The default of ``minMs`` follows a switch without an upper bound; the client did not send it."""
    node.naming.register(RegisterInstance("DEFAULT_GROUP@@orders", "10.0.0.1", 8080))
    assert client.put("/nacos/v1/ns/operator/switches?entry=defaultCacheMillis&value=100000").status_code == 200
    try:
        answer = client.put(DRAIN + "&timeoutMs=0")
        assert (answer.status_code, answer.json["isOver"]) == (200, True)  # type: ignore[index]
    finally:
        node.drains.stop()


def test_a_step_that_is_none_is_refused(client: FlaskClient) -> None:
    answer = client.post(DRAIN.replace("drain?", "drain/step?") + "&action=shoot")
    assert (answer.status_code, "action" in answer.text) == (400, True)
    assert "it should be one of " in answer.text


@pytest.mark.parametrize(
    "answer", [None, {}, {"known": 1, "inLists": True, "subscribers": 0, "behind": 0}, {"known": True, "inLists": True}]
)
def test_an_answer_of_another_form_counts_as_none(answer: dict[str, Any] | None) -> None:
    assert not is_seen(answer)


def test_a_node_is_drained_and_taken_back(client: FlaskClient, node: FakeNode) -> None:
    assert client.put(NODE_DRAIN).json["draining"] is True  # type: ignore[index]
    node.cluster.own_state = MemberState.DOWN
    assert client.get("/nacos/v1/console/health/readiness").text.endswith("an operator drains this node")
    assert client.get("/nacos/v1/ns/instance/list?serviceName=a").status_code == 503
    assert client.get(NODE_DRAIN).status_code == 200, "or it could not be taken back"
    assert client.put(NODE_DRAIN + "?enabled=false").json["draining"] is False  # type: ignore[index]
    node.cluster.own_state = MemberState.UP
    assert client.put(NODE_DRAIN + "?enabled=perhaps").status_code == 400


def test_how_far_a_node_is_with_its_draining(client: FlaskClient, node: FakeNode) -> None:
    node.cluster.unsent = 3
    told = client.put(NODE_DRAIN).json
    assert told is not None
    assert (told["unsentKeys"], told["handedOver"]) == (3, False)
    node.cluster.unsent = 0
    assert client.get(NODE_DRAIN).json["handedOver"] is True  # type: ignore[index]
    assert client.put(NODE_DRAIN + "?enabled=false").json["handedOver"] is False  # type: ignore[index]
