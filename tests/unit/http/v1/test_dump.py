"""The dump's endpoint: streamed, to few at a time, and while the node serves."""

import orjson
from flask.testing import FlaskClient

from app.config.version import __version__
from distro.model.types import Member, MemberState
from tests.support.fake_node import PEER, SELF, FakeNode

PATH = "/nacos/v1/ns/operator/dump"


def test_the_lines(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.others = [Member(PEER, MemberState.SUSPICIOUS)]
    client.post("/nacos/v1/ns/instance?serviceName=orders&ip=10.0.0.1&port=80")
    answer = client.get(PATH)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert "Content-Length" not in answer.headers
    header, service, instance, end = map(orjson.loads, answer.data.splitlines())
    assert header == {
        "kind": "member",
        "format": 1,
        "tells": ["client", "record"],
        "address": SELF,
        "version": __version__,
        "taken_ms": 1_700_000_000_123,
        "state": "UP",
        "members": [{"address": SELF, "state": "UP"}, {"address": PEER, "state": "SUSPICIOUS"}],
    }
    assert service["service"] == instance["service"] == "DEFAULT_GROUP@@orders"
    assert end == {"kind": "end", "services": 1, "instances": 1}


def test_the_third_at_a_time_is_told_to_come_back(client: FlaskClient) -> None:
    read = [client.get(PATH) for _ in range(2)]
    refused = client.get(PATH)
    assert refused.status_code == 503
    assert refused.headers["Retry-After"] == "5"
    assert b"please try again later" in refused.data
    read[0].close()
    assert client.get(PATH).status_code == 200


def test_a_place_is_free_again_after_a_dump_that_was_not_read(client: FlaskClient) -> None:
    for _ in range(5):
        client.get(PATH).close()
        client.head(PATH).close()
    answer = client.get(PATH)
    assert answer.status_code == 200
    assert orjson.loads(answer.data.splitlines()[-1])["kind"] == "end"


def test_it_answers_only_while_the_node_is_up(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.own_state = MemberState.STARTING
    assert client.get(PATH).status_code == 503


def test_one_service_alone(client: FlaskClient) -> None:
    """Without the records and clients, which are no service's, and that nothing is told of them is said."""
    for namespace in ("public", "prod"):
        for name in ("orders", "payments"):
            client.post(f"/nacos/v1/ns/instance?namespaceId={namespace}&serviceName={name}&ip=10.0.0.1&port=80")
    client.put("/nacos/v1/ns/operator/switches?entry=distroThreshold&value=0.5")
    client.post("/nacos/v1/console/namespaces?customNamespaceId=dev&namespaceName=dev")
    answer = client.get(f"{PATH}?namespaceId=prod&serviceName=orders")
    header, service, instance, end = map(orjson.loads, answer.data.splitlines())
    assert header["tells"] == []
    assert (service["kind"], service["namespace"], service["service"]) == ("service", "prod", "DEFAULT_GROUP@@orders")
    assert (instance["kind"], instance["namespace"], instance["service"]) == (
        "instance",
        "prod",
        "DEFAULT_GROUP@@orders",
    )
    assert end == {"kind": "end", "services": 1, "instances": 1}


def test_a_service_that_is_not_there(client: FlaskClient) -> None:
    header, end = map(orjson.loads, client.get(f"{PATH}?serviceName=nobody").data.splitlines())
    assert (header["kind"], end) == ("member", {"kind": "end", "services": 0, "instances": 0})
