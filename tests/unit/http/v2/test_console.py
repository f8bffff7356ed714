"""Probes of HTTP v2."""

from flask.testing import FlaskClient

from distro.model.types import MemberState
from tests.support.fake_node import FakeNode

HEALTH = "/nacos/v2/console/health"


def test_probes(node: FakeNode, client: FlaskClient) -> None:
    healthy = {"code": 0, "message": "success", "data": "ok"}
    assert client.get(f"{HEALTH}/liveness").get_json() == client.get(f"{HEALTH}/readiness").get_json() == healthy
    node.cluster.own_state = MemberState.DOWN
    answer = client.get(f"{HEALTH}/readiness")
    assert answer.status_code == 500
    assert answer.get_json()["data"] == "Naming is not in readiness: it is DOWN"
    assert client.get(f"{HEALTH}/liveness").get_json() == healthy
