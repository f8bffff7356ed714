"""Last beats are those of the member that counts them, at every member."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.v1 import beats
from app.naming.registry.operations import RegisterInstance
from distro.model.types import Member, MemberState
from tests.support.fake_node import PEER, SELF, FakeNode

PATH = "/nacos/v1/ns/service/beats"
MINE = RegisterInstance("DEFAULT_GROUP@@orders", "10.0.0.1", 80)
PLACE = {"ip": "10.0.0.1", "port": 80, "clusterName": "DEFAULT"}


def asked(client: FlaskClient, **more: str) -> Any:
    return client.get(PATH, query_string={"serviceName": "orders", **more}).get_json()


def of_peer(node: FakeNode, state: MemberState = MemberState.UP) -> None:
    """Have the other member own all services."""
    node.cluster.standalone = False
    node.cluster.others, node.cluster.owner = [Member(PEER, state)], PEER


def test_the_owner_tells_by_its_own_clock(node: FakeNode, client: FlaskClient) -> None:
    node.naming.register(MINE)
    node.now_ms += 4_000
    assert asked(client) == {"member": SELF, "answered": True, "beats": [PLACE | {"ageMs": 4_000}]}


def test_beats_before_the_member_took_the_service_over_are_not_known(node: FakeNode, client: FlaskClient) -> None:
    node.naming.register(MINE)
    service = node.registry.table.get("public", MINE.service)
    assert service is not None
    node.now_ms += 4_000
    service.claimed_ms = node.now_ms
    assert asked(client)["beats"] == []


def test_another_member_asks_the_owner(node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    node.naming.register(MINE)
    of_peer(node)
    node.now_ms += 780_000
    counted = {"member": PEER, "answered": True, "beats": [PLACE | {"ageMs": 4_000}]}
    monkeypatch.setattr(beats, "ask_member", lambda *_: counted)
    assert asked(client) == counted
    page = client.get("/nacos/console/service?serviceName=orders").text
    assert "4.0 s</span>" in page
    assert "13 min" not in page
    assert f"{PEER}, the owner of the service, counts the beats" in page


def test_instances_are_sorted_by_the_beats_that_the_owner_counts(
    node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        node.naming.register(MINE._replace(ip=f"10.0.0.{number}"))
        node.now_ms += 1_000
    of_peer(node)
    told = [PLACE | {"ip": "10.0.0.2", "ageMs": 9_000}, PLACE | {"ageMs": 4_000}, 5, {"ip": []}]
    monkeypatch.setattr(beats, "ask_member", lambda *_: {"beats": told})

    def ips(**more: str) -> list[str]:
        asked = {"serviceName": "orders", "orderBy": "beat", **more}
        found = client.get("/nacos/v1/ns/instance/search", query_string=asked).get_json()
        return [one["ip"] for one in found["instances"]]

    assert ips() == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert ips(descending="true") == ["10.0.0.3", "10.0.0.2", "10.0.0.1"], "an unknown one counts as the oldest"
    assert client.get("/nacos/v1/ns/instance/search?text=10.0.0.1&orderBy=beat").status_code == 400
    told[:] = told[:2]
    assert "sort=beat" in client.get("/nacos/console/service?serviceName=orders&sort=beat").text


@pytest.mark.parametrize("answer", [None, {}, {"beats": 5}])
def test_an_owner_that_does_not_answer_is_named(
    node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    node.naming.register(MINE)
    of_peer(node)
    monkeypatch.setattr(beats, "ask_member", lambda *_: answer)
    assert asked(client) == {"member": PEER, "answered": False, "beats": []}
    page = client.get("/nacos/console/service?serviceName=orders").text
    assert "not known" in page
    assert f"{PEER} owns the service and counts the beats; it did not answer" in page


def test_an_owner_that_is_down_is_not_asked(node: FakeNode, client: FlaskClient) -> None:
    of_peer(node, MemberState.DOWN)
    assert asked(client)["answered"] is False
