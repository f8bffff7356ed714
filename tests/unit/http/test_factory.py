"""Paths, bodies and errors: what lies between WSGI and the endpoints."""

import io
import logging
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.auth.access_rules import PUBLIC
from app.http.api.call import Call, Forward, Reply, Route, Services
from app.http.api.dispatch import answer_call
from app.http.factory import create_app, make_call
from tests.support.fake_node import PEER, FakeNode, make_settings

LIST = "/nacos/v1/ns/instance/list"
STAMP = "2023-11-14T22:13:20.123+0000"


def broken(*_: Any) -> None:
    raise RuntimeError("a secret of the inside")


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nacos/v1/ns/nope"),
        ("GET", "/nacos/v1/ns"),
        ("POST", "/nacos/v1/ns/instance/beat"),
        ("PATCH", "/nacos/v1/ns/service"),
        ("OPTIONS", "/nacos/v1/ns/instance/list"),
        ("GET", "/nacos/v1/ns/instance/list/"),
        ("GET", "/nacos/v1/ns//instance/list"),
        ("GET", "/nacos/v1/ns/Instance/List"),
        ("GET", "/nacos/v1/ns/instance/list;a=1"),
        ("GET", "/nacos/v1/ns/distro/zzz"),
    ],
)
def test_an_unknown_naming_call(client: FlaskClient, method: str, path: str) -> None:
    answer = client.open(path, method=method, query_string="serviceName=a")
    assert answer.status_code == 501
    assert answer.headers["Content-Type"] == "application/json;charset=UTF-8"
    assert list(answer.get_json().items()) == [
        ("timestamp", STAMP), ("status", 501), ("error", "Not Implemented"),
        ("message", f"no such api:{method}:{path}"), ("path", path),
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/", "/nacos/x", "/v1/ns/instance/list", "/nacosx/v1/ns/x"])
def test_an_unknown_path_elsewhere(client: FlaskClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.get_json() == {
        "timestamp": STAMP,
        "status": 404,
        "error": "Not Found",
        "message": "No message available",
        "path": path,
    }


def test_the_root_leads_a_browser_to_the_console(client: FlaskClient) -> None:
    answer = client.get("/", headers={"Accept": "text/html,application/xhtml+xml"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/nacos/")
    assert client.get("/nacos/").status_code == 200


def test_errors_name_the_path_as_it_was_sent(client: FlaskClient) -> None:
    answer = client.get("/nacos/v1/ns/caf%C3%A9%0A")
    assert answer.get_json()["path"] == "/nacos/v1/ns/caf%C3%A9%0A"


def test_a_wrong_method_elsewhere(client: FlaskClient) -> None:
    answer = client.post("/nacos/v1/core/cluster/nodes")
    assert (answer.status_code, answer.data) == (405, b"Request method 'POST' not supported")
    assert "GET" in answer.headers["Allow"]


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/nacos/v1/ns/instance/list", 501, b""),
        ("/nacos/v1/ns/nope", 501, b""),
        ("/nacos/v1/core/cluster/nodes", 403, b"Invalid CORS request"),
    ],
)
def test_no_page_of_another_origin_may_call(client: FlaskClient, path: str, status: int, body: bytes) -> None:
    asked = {"Origin": "http://example.org", "Access-Control-Request-Method": "GET"}
    answer = client.options(path, headers=asked)
    assert (answer.status_code, answer.data) == (status, body)
    assert not [name for name, _ in answer.headers if name.startswith("Access-Control-")]


def test_what_may_be_done_elsewhere(client: FlaskClient) -> None:
    answer = client.options("/nacos/v1/console/namespaces")
    assert (answer.status_code, answer.data) == (200, b"")
    assert answer.headers["Allow"] == "DELETE,GET,HEAD,OPTIONS,POST,PUT"


def test_a_slash_at_the_end_is_taken_elsewhere(client: FlaskClient) -> None:
    assert client.get("/nacos/v1/core/cluster/health/").get_json()["data"] == "UP"


def test_an_escaped_letter_is_that_letter_but_an_escaped_slash_is_none(client: FlaskClient) -> None:
    assert client.get("/nacos/v1/ns/instance/lis%74?serviceName=a").status_code == 200
    answer = client.get("/nacos/v1/ns/instance%2Flist?serviceName=a")
    assert (answer.status_code, answer.data) == (400, b"the path contains an escaped slash")


def test_head_is_a_get_without_a_body(client: FlaskClient) -> None:
    answer = client.head(f"{LIST}?serviceName=a")
    assert (answer.status_code, answer.data) == (200, b"")


@pytest.mark.parametrize("path", ["", "/registry"])
def test_another_context_path(path: str) -> None:
    node = FakeNode(settings=make_settings(server_servlet_contextPath=path or "/"))
    client = create_app(node).test_client()
    assert client.get(f"{path}/v1/ns/instance/list?serviceName=a").status_code == 200
    assert client.get(f"{path}/v1/ns/nope").get_json()["message"] == f"no such api:GET:{path}/v1/ns/nope"


def test_its_routes_match_and_build_no_urls() -> None:
    """werkzeug would compile code for that, of each route, at the start of each node."""
    urls = create_app(FakeNode()).url_map.bind("127.0.0.1")
    endpoint, _ = urls.match(LIST, "GET")
    with pytest.raises(LookupError, match="no URL is built of /nacos/v1/ns/instance/list"):
        urls.build(endpoint)


def test_two_nodes_in_one_process() -> None:
    first, second = (create_app(FakeNode()).test_client() for _ in range(2))
    first.post("/nacos/v1/ns/service?serviceName=a")
    assert second.get("/nacos/v1/ns/service?serviceName=a").status_code == 404


def test_no_header_of_ours_is_added(client: FlaskClient) -> None:
    answer = client.get(f"{LIST}?serviceName=a", headers={"Accept": "text/html", "Origin": "http://example.org"})
    assert sorted(answer.headers.keys()) == ["Content-Length", "Content-Type"]


# --- calls ----------------------------------------------------------------------------------------


def test_a_call_of_a_request() -> None:
    call = make_call(
        {
            "REQUEST_METHOD": "POST",
            "QUERY_STRING": "a=\xe6\x9d\xad",
            "RAW_URI": "http://proxy/nacos/v1/ns/x%2F?a=1",
            "HTTP_USER_AGENT": "",
            "HTTP_CLIENT_VERSION": "Nacos-Java-Client:v1.4.1",
            "CONTENT_TYPE": "text/plain",
            "REMOTE_ADDR": "127.0.0.1",
        },
        "/v1/ns/x",
        "/nacos",
    )
    assert (call.raw_query, call.uri) == ("a=杭".encode(), "/nacos/v1/ns/x%2F")
    assert (call.agent, call.headers["content-type"]) == ("Nacos-Java-Client:v1.4.1", "text/plain")
    assert call.parameters.get("a") == "杭"


def test_a_forward_is_handed_on_with_the_way_back() -> None:
    node = FakeNode()

    def endpoint(call: Call, services: Services) -> Forward:
        return Forward("tag")

    call = Call("POST", "/v1/ns/instance", b"", {}, b"", "127.0.0.1")
    row = Route("POST", "/v1/ns/instance", endpoint, PUBLIC)
    assert answer_call(row, call, node) == Reply(200, b"from the owner")
    assert node.forwarder.tags == ["tag"]


# --- bodies ---------------------------------------------------------------------------------------


def test_a_body_is_read_to_its_end(node: FakeNode, client: FlaskClient) -> None:
    environ = {"wsgi.input": io.BytesIO(b'{"k":{}}'), "CONTENT_LENGTH": ""}
    answer = client.put(
        "/nacos/v1/ns/distro/datum", environ_overrides=environ, headers={"User-Agent": "Nacos-Server:1.4.8"}
    )
    assert (answer.status_code, answer.data) == (200, b"ok")
    assert node.replication.taken == [("127.0.0.1", b'{"k":{}}')]


# --- errors ---------------------------------------------------------------------------------------


def test_what_nobody_foresaw_is_logged_and_not_shown(
    node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node.naming, "service_view", broken)
    with caplog.at_level(logging.ERROR):
        answer = client.get(f"{LIST}?serviceName=a")
    assert (answer.status_code, answer.data) == (500, b"caused: internal error, see the server's log")
    assert answer.headers["Content-Type"] == "text/plain;charset=UTF-8"
    record = caplog.records[-1]
    assert record.getMessage() == f"GET '{LIST}' failed"
    assert "a secret of the inside" in caplog.text


def test_an_error_text_is_utf8(client: FlaskClient) -> None:
    answer = client.get("/nacos/v1/ns/instance", query_string={"serviceName": "服务", "ip": "10.0.0.1", "port": 80})
    assert answer.get_data(as_text=True) == "no service DEFAULT_GROUP@@服务 found!"


def test_forwarded_calls_keep_status_and_type_of_the_owner(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.owner = PEER
    node.forwarder.reply = Reply(418, b"teapot", "text/x")
    answer = client.post("/nacos/v1/ns/instance", query_string={"serviceName": "a", "ip": "10.0.0.1", "port": 80})
    assert (answer.status_code, answer.data, answer.headers["Content-Type"]) == (418, b"teapot", "text/x")
