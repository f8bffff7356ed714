"""What each member holds of one service."""

from flask.testing import FlaskClient

from distro.model.types import Member, MemberState
from tests.support.fake_node import PEER, SELF, FakeNode

PATH = "/nacos/v1/ns/service/versions"


def register(client: FlaskClient, ip: str, **values: str) -> None:
    said = {"serviceName": "orders", "ip": ip, "port": "80", **values}
    assert client.post("/nacos/v1/ns/instance", query_string=said).text == "ok"


def test_this_member_alone(client: FlaskClient, node: FakeNode) -> None:
    register(client, "10.0.0.1")
    register(client, "10.0.0.2", ephemeral="false", healthy="false")
    told = client.get(PATH, query_string={"serviceName": "orders", "local": "true"}).get_json()
    assert (told["address"], told["known"], told["instances"], told["healthy"]) == (SELF, True, 2, 1)
    assert (told["writer"], told["version"].partition("~")[0]) == (SELF, f"1.0.{SELF}")
    before = told["digest"]
    register(client, "10.0.0.1", weight="2")
    told = client.get(PATH, query_string={"serviceName": "orders", "local": "true"}).get_json()
    assert told["digest"] != before


def test_a_service_that_is_not_known(client: FlaskClient) -> None:
    told = client.get(PATH, query_string={"serviceName": "orders", "local": "true"}).get_json()
    assert (told["known"], told["instances"], told["digest"], told["version"]) == (False, 0, "", "")


def test_a_member_that_is_down_is_not_asked(client: FlaskClient, node: FakeNode) -> None:
    node.cluster.standalone = False
    node.cluster.others = [Member(PEER, MemberState.DOWN)]
    told = client.get(PATH, query_string={"serviceName": "orders"}).get_json()
    assert (list(told["members"]), told["notAnswered"], told["responsible"]) == ([SELF], [PEER], SELF)


def test_a_service_is_named(client: FlaskClient) -> None:
    assert client.get(PATH).status_code == 400
