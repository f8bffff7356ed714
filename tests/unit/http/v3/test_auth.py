"""Users, roles and permissions over HTTP v3, and the rights that its calls need."""

from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app.http.factory import create_app
from tests.support.auth import ADMIN, ADMIN_PASSWORD, AUTH_ON, PASSWORD, add_user, node_with_users, token_of
from tests.support.fake_node import SETUP_SECRET, FakeNode, make_settings

USER, ROLE, PERMISSION = "/nacos/v3/auth/user", "/nacos/v3/auth/role", "/nacos/v3/auth/permission"
INSTANCE = "/nacos/v3/client/ns/instance"
ONE = {"serviceName": "orders", "ip": "10.0.0.1", "port": "8080"}
DENIED = (403, 10_001)
STRANGER = {"REMOTE_ADDR": "10.9.9.9"}
"""The address of no member."""


class Caller:
    """A user of a node's HTTP API."""

    def __init__(self, client: FlaskClient, token: str) -> None:
        self._client = client
        self._headers = {"accessToken": token}

    def ask(self, method: str, path: str, **parameters: Any) -> TestResponse:
        return self._client.open(
            path, method=method, query_string=parameters, headers=self._headers, environ_overrides=STRANGER
        )

    def done(self, method: str, path: str, **parameters: Any) -> Any:
        """The data of a success."""
        answer = self.ask(method, path, **parameters)
        assert (answer.status_code, answer.get_json()["code"]) == (200, 0), answer.text
        return answer.get_json()["data"]


@pytest.fixture
def node() -> FakeNode:
    return node_with_users()


@pytest.fixture
def boss(node: FakeNode, client: FlaskClient) -> Caller:
    return Caller(client, token_of(node, ADMIN))


def test_the_life_of_a_user(boss: Caller, client: FlaskClient) -> None:
    assert boss.done("POST", USER, username="bob", password=PASSWORD) == "create user ok!"
    assert boss.ask("POST", USER, username="bob", password=PASSWORD).status_code == 400
    assert boss.done("POST", ROLE, username="bob", role="dev") == "add role ok!"
    right = {"role": "dev", "resource": "public:*:*", "action": "rw"}
    assert boss.done("GET", PERMISSION, **right) is False
    assert boss.done("POST", PERMISSION, **right) == "add permission ok!"
    assert boss.done("GET", PERMISSION, **right | {"action": "r"}) is True
    assert boss.done("GET", f"{USER}/search", username="ob") == ["bob"]
    assert boss.done("GET", f"{ROLE}/search", role="de") == ["dev"]
    page = {"totalCount": 1, "pageNumber": 1, "pagesAvailable": 1}
    asked = {"pageNo": 1, "pageSize": 9}
    assert boss.done("GET", f"{USER}/list", username="bob", **asked) == page | {"pageItems": [{"username": "bob"}]}
    roles = boss.done("GET", f"{ROLE}/list", role="dev", **asked)
    assert roles == page | {"pageItems": [{"role": "dev", "username": "bob"}]}
    assert boss.done("GET", f"{PERMISSION}/list", role="dev", **asked) == page | {"pageItems": [right]}
    login = client.post(f"{USER}/login", data={"username": "bob", "password": PASSWORD})
    assert set(login.get_json()) == {"accessToken", "tokenTtl", "globalAdmin", "username"}
    bob = Caller(client, login.get_json()["accessToken"])
    assert bob.done("POST", INSTANCE, **ONE) == "ok"
    assert bob.done("PUT", USER, username="bob", newPassword="quite another") == "update user ok!"
    assert bob.ask("POST", INSTANCE, **ONE).status_code == 403, "the token ended"
    assert boss.done("DELETE", PERMISSION, **right) == "delete permission ok!"
    assert boss.done("DELETE", ROLE, username="bob", role="dev") == "delete role of user bob ok!"
    assert boss.done("DELETE", USER, username="bob") == "delete user ok!"


@pytest.mark.parametrize(
    ("method", "path", "missing"),
    [
        ("POST", USER, "username"),
        ("PUT", USER, "username"),
        ("DELETE", USER, "username"),
        ("GET", f"{USER}/list", "pageNo"),
        ("POST", ROLE, "role"),
        ("DELETE", ROLE, "role"),
        ("POST", PERMISSION, "role"),
        ("GET", PERMISSION, "role"),
    ],
)
def test_what_is_missing_is_named(boss: Caller, method: str, path: str, missing: str) -> None:
    answer = boss.ask(method, path)
    assert (answer.status_code, answer.get_json()["code"]) == (400, 10_000)
    assert f"'{missing}'" in answer.get_json()["data"]


def test_a_name_and_password_below_auth_are_no_credentials(client: FlaskClient) -> None:
    """They name the user that the call is about, not the caller."""
    answer = client.post(USER, data={"username": ADMIN, "password": ADMIN_PASSWORD})
    assert answer.status_code == 403


def test_users_change_their_own_password_alone(node: FakeNode, client: FlaskClient) -> None:
    bob = Caller(client, add_user(node, "bob", ("public:*:*", "rw")))
    answer = bob.ask("PUT", USER, username=ADMIN, newPassword="quite another")
    assert (answer.status_code, answer.get_json()["code"]) == DENIED
    for method, path in (
        ("POST", USER),
        ("DELETE", USER),
        ("GET", f"{USER}/list"),
        ("POST", ROLE),
        ("GET", PERMISSION),
    ):
        assert bob.ask(method, path, username="eve", password=PASSWORD).status_code == 403


READS = [
    "/nacos/v3/client/ns/instance/list",
    "/nacos/v3/admin/ns/instance/list",
    "/nacos/v3/admin/ns/service",
    "/nacos/v3/admin/ns/client/service/publisher/list",
    "/nacos/v3/admin/ns/service/subscribers",
]
WRITES = [
    ("POST", "/nacos/v3/client/ns/instance"),
    ("DELETE", "/nacos/v3/client/ns/instance"),
    ("PUT", "/nacos/v3/admin/ns/instance"),
    ("PUT", "/nacos/v3/admin/ns/instance/partial"),
    ("PUT", "/nacos/v3/admin/ns/instance/metadata/batch"),
    ("GET", "/nacos/v3/admin/ns/instance"),
    ("POST", "/nacos/v3/admin/ns/service"),
    ("PUT", "/nacos/v3/console/ns/service/cluster"),
    ("PUT", "/v3/console/ns/instance"),
    ("GET", "/nacos/v3/admin/ns/health/checkers"),
]
OF_ADMINISTRATORS = [
    ("GET", "/nacos/v3/admin/ns/ops/switches"),
    ("PUT", "/nacos/v3/admin/ns/ops/switches"),
    ("GET", "/nacos/v3/admin/ns/ops/metrics"),
    ("GET", "/nacos/v3/admin/ns/client/list"),
    ("GET", "/nacos/v3/admin/core/cluster/node/list"),
    ("PUT", "/nacos/v3/admin/core/cluster/lookup"),
    ("GET", "/nacos/v3/admin/core/loader/current"),
    ("POST", "/nacos/v3/admin/core/loader/reloadCurrent"),
    ("GET", "/nacos/v3/admin/core/namespace/list"),
    ("POST", "/nacos/v3/console/core/namespace"),
    ("GET", "/nacos/v3/admin/core/ops/ids"),
    ("POST", "/nacos/v3/admin/core/ops/raft"),
]


@pytest.mark.parametrize(("method", "path"), [*(("GET", path) for path in READS), *WRITES, *OF_ADMINISTRATORS])
def test_without_a_user_nothing_is_allowed(client: FlaskClient, method: str, path: str) -> None:
    answer = client.open(path, method=method, query_string=ONE, environ_overrides=STRANGER)
    assert answer.status_code == 403


@pytest.mark.parametrize("path", READS)
def test_the_right_to_read_is_enough_for_reads(node: FakeNode, client: FlaskClient, path: str) -> None:
    reader = Caller(client, add_user(node, "reader", ("public:*:*", "r")))
    assert reader.ask("GET", path, serviceName="orders").status_code != 403
    assert reader.ask("GET", path, serviceName="orders", namespaceId="other").status_code == 403


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_the_right_to_read_is_not_enough_for_writes(
    node: FakeNode, client: FlaskClient, method: str, path: str
) -> None:
    reader = Caller(client, add_user(node, "reader", ("public:*:*", "r")))
    writer = Caller(client, add_user(node, "writer", ("public:*:*", "w")))
    assert reader.ask(method, path, **ONE).status_code == 403
    assert writer.ask(method, path, **ONE).status_code != 403


@pytest.mark.parametrize(("method", "path"), OF_ADMINISTRATORS)
def test_operators_calls_are_for_administrators(
    node: FakeNode, client: FlaskClient, boss: Caller, method: str, path: str
) -> None:
    writer = Caller(client, add_user(node, "writer", ("*:*:*", "rw")))
    assert writer.ask(method, path, entry="x", value="y", count=1).status_code == 403
    assert boss.ask(method, path, entry="x", value="y", count=1).status_code != 403


def test_a_browser_reads_what_needs_the_right_to_write(node: FakeNode, client: FlaskClient) -> None:
    writer = add_user(node, "writer", ("public:*:*", "w"))
    headers = {"accessToken": writer, "User-Agent": "Mozilla/5.0"}
    answer = client.get("/nacos/v3/admin/ns/instance", query_string=ONE, headers=headers)
    assert (answer.status_code, answer.get_json()["code"]) == (404, 20_004)


def test_the_console_shows_namespaces_with_a_right(node: FakeNode, client: FlaskClient, boss: Caller) -> None:
    path = "/nacos/v3/console/core/namespace"
    for name in ("dev", "prod"):
        assert boss.done("POST", path, customNamespaceId=name, namespaceName=name) is True
    reader = Caller(client, add_user(node, "reader", ("dev:*:*", "r")))
    assert [one["namespace"] for one in reader.done("GET", f"{path}/list")] == ["dev"]
    assert [one["namespace"] for one in boss.done("GET", f"{path}/list")] == ["public", "dev", "prod"]


class TestFirstAdministrator:
    @pytest.mark.parametrize("base", ["/nacos", ""])
    def test_it_is_made_once(self, base: str) -> None:
        node = FakeNode(make_settings(**AUTH_ON))
        client = create_app(node).test_client()
        path = f"{base}/v3/auth/user/admin"
        assert client.post(path, data={"password": PASSWORD}).status_code == 403, "without the secret"
        answer = client.post(path, data={"password": PASSWORD, "secret": SETUP_SECRET})
        assert answer.get_json() == {"code": 0, "message": "success", "data": {"username": "nacos"}}
        again = client.post(path, data={"password": PASSWORD, "secret": SETUP_SECRET})
        assert (again.status_code, again.get_json()["code"], again.get_json()["data"]) == (200, 409, None)
        login = client.post(f"{base}/v3/auth/user/login", data={"username": "nacos", "password": PASSWORD})
        assert login.get_json()["globalAdmin"] is True

    def test_without_users_none_can_be_planted(self) -> None:
        client = create_app(FakeNode()).test_client()
        for method, path, asked in (
            ("POST", USER, {"username": "eve", "password": PASSWORD}),
            ("POST", ROLE, {"username": "eve", "role": "ROLE_ADMIN"}),
            ("POST", f"{USER}/admin", {"password": PASSWORD}),
        ):
            answer = client.open(path, method=method, data=asked)
            assert (answer.status_code, answer.get_json()["code"]) == DENIED
