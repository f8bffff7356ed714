"""The page of metrics, whom it is for, and the health of Spring's actuator."""

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from app.http.factory import create_app
from distro.model.types import MemberState
from tests.support.fake_node import FakeNode, make_settings
from tests.support.scrape import member_node

TOKEN = "a-secret-of-some-length"
PATHS = ("/metrics", "/nacos/metrics", "/nacos/actuator/prometheus")


def client_of(tmp_path: Path, **settings: str) -> FlaskClient:
    return create_app(member_node(tmp_path, **settings).services).test_client()


@pytest.mark.parametrize("path", PATHS)
def test_the_page(tmp_path: Path, path: str) -> None:
    answer = client_of(tmp_path).get(path)
    assert answer.status_code == 200
    assert answer.content_type.startswith("text/plain")
    assert b"\nrollcall_ready 0.0\n" in answer.data


def test_without_a_context_path_there_is_one_page(tmp_path: Path) -> None:
    assert client_of(tmp_path, server_servlet_contextPath="/").get("/metrics").status_code == 200


@pytest.mark.parametrize("path", [*PATHS, "/nacos/prometheus"])
@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer x", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer é"]
)
def test_a_token_is_asked_for_once_there_is_one(tmp_path: Path, path: str, header: str | None) -> None:
    client = client_of(tmp_path, rollcall_metrics_token=TOKEN, nacos_prometheus_metrics_enabled="true")
    assert client.get(path, headers={"Authorization": header} if header is not None else {}).status_code == 403
    assert client.get(path, headers={"Authorization": f"bearer  {TOKEN} "}).status_code == 200


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    assert client_of(tmp_path, rollcall_metrics_enabled="false").get("/metrics").status_code == 404


def test_actuator_health(node: FakeNode, client: FlaskClient) -> None:
    assert client.get("/nacos/actuator/health").get_json() == {"status": "UP"}
    node.cluster.own_state = MemberState.STARTING
    answer = client.get("/nacos/actuator/health")
    assert (answer.status_code, answer.get_json()["details"]) == (503, {"reason": "it is STARTING"})


def test_a_short_token_stops_the_start() -> None:
    with pytest.raises(Exception, match=r"rollcall\.metrics\.token is not allowed: at least 16 characters"):
        make_settings(rollcall_metrics_token="short")


@pytest.mark.parametrize(("level", "on"), [("ALL", True), ("INFO", True), ("ERROR", True), ("off", False)])
def test_the_access_log_is_switched_while_the_node_runs(
    node: FakeNode, client: FlaskClient, level: str, on: bool
) -> None:
    access_log = node.instruments.access_log
    access_log.on = not on
    path = f"/nacos/v1/ns/operator/log?logName=http-access&logLevel={level}"
    assert client.put(path).status_code == 200
    assert access_log.on is on
