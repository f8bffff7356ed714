"""Users, roles and permissions over HTTP, in Nacos's shapes."""

from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app.auth.refusals import AUTH_IS_OFF, NOT_PERMITTED
from app.auth.users import ADMIN_ROLE
from app.http.api.call import Reply
from app.http.factory import create_app
from app.naming.records.record_keys import USERS_TAG
from tests.support.auth import ADMIN, ADMIN_PASSWORD, AUTH_ON, PASSWORD, add_user, node_with_users, token_of
from tests.support.fake_node import PEER, SETUP_SECRET, FakeNode, make_settings

USERS, ROLES, PERMISSIONS = "/nacos/v1/auth/users", "/nacos/v1/auth/roles", "/nacos/v1/auth/permissions"


class Caller:
    """A user of a node's HTTP API."""

    def __init__(self, client: FlaskClient, token: str) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, **parameters: Any) -> TestResponse:
        return self._client.open(path, method=method, query_string=parameters, headers=self._headers)

    def done(self, method: str, path: str, **parameters: Any) -> str:
        """The message of a success."""
        answer = self.ask(method, path, **parameters)
        assert answer.status_code == 200, answer.text
        body = answer.get_json()
        assert (body["code"], body["data"]) == (200, None)
        return str(body["message"])


@pytest.fixture
def node() -> FakeNode:
    return node_with_users()


@pytest.fixture
def boss(node: FakeNode, client: FlaskClient) -> Caller:
    return Caller(client, token_of(node, ADMIN))


def test_the_life_of_a_user(boss: Caller, client: FlaskClient) -> None:
    assert boss.done("POST", USERS, username="bob", password=PASSWORD) == "create user ok!"
    assert boss.done("POST", ROLES, username="bob", role="dev") == "add role ok!"
    assert boss.done("POST", PERMISSIONS, role="dev", resource="dev:*:*", action="rw") == "add permission ok!"
    login = client.post("/nacos/v1/auth/users/login", query_string={"username": "bob"}, data={"password": PASSWORD})
    body = login.get_json()
    assert (body["tokenTtl"], body["globalAdmin"], body["username"]) == (18_000, False, "bob")
    assert login.headers["Authorization"] == f"Bearer {body['accessToken']}"
    bob = Caller(client, body["accessToken"])
    listed = {"serviceName": "s", "namespaceId": "dev"}
    assert bob.ask("GET", "/nacos/v1/ns/instance/list", **listed).status_code == 200
    assert boss.done("DELETE", PERMISSIONS, role="dev", resource="dev:*:*", action="rw") == "delete permission ok!"
    assert bob.ask("GET", "/nacos/v1/ns/instance/list", **listed).status_code == 403
    assert boss.done("DELETE", ROLES, username="bob", role="dev") == "delete role of user bob ok!"
    assert boss.done("PUT", USERS, username="bob", newPassword="quite another") == "update user ok!"
    assert bob.ask("GET", "/nacos/v1/ns/operator/metrics").get_json()["message"] == "token invalid!"
    assert boss.done("DELETE", USERS, username="bob") == "delete user ok!"
    assert client.post("/nacos/v1/auth/login?username=bob&password=quite+another").status_code == 403


def test_an_administrators_login_says_so(client: FlaskClient) -> None:
    answer = client.post("/nacos/v1/auth/login", data={"username": ADMIN, "password": ADMIN_PASSWORD})
    assert answer.get_json()["globalAdmin"] is True


@pytest.mark.parametrize("path", ["/nacos/v1/auth/login", "/nacos/v1/auth/users/login", "/nacos/v3/auth/user/login"])
def test_a_wrong_login_is_a_plain_text(client: FlaskClient, path: str) -> None:
    answer = client.post(path, data={"username": ADMIN, "password": "wrong wrong"})
    assert (answer.status_code, answer.text) == (403, "unknown user!")


def test_lists_are_pages_without_hashes(boss: Caller, node: FakeNode) -> None:
    for number in range(5):
        add_user(node, f"user{number}", ("dev:*:*", "r"))
    page = boss.ask("GET", USERS, pageNo=2, pageSize=4).get_json()
    items = [{"username": "user3"}, {"username": "user4"}]
    assert page == {"totalCount": 6, "pageNumber": 2, "pagesAvailable": 2, "pageItems": items}
    page = boss.ask("GET", ROLES, pageNo=1, pageSize=9, username="user1").get_json()
    assert page["pageItems"] == [{"role": "role of user1", "username": "user1"}]
    page = boss.ask("GET", ROLES, pageNo=1, pageSize=1).get_json()
    assert page["pageItems"] == [{"role": ADMIN_ROLE, "username": ADMIN}]
    page = boss.ask("GET", PERMISSIONS, pageNo=1, pageSize=9, role="role of user1").get_json()
    assert page["pageItems"] == [{"role": "role of user1", "resource": "dev:*:*", "action": "r"}]
    page = boss.ask("GET", USERS, pageNo=1, pageSize=9, username="*3", search="blur").get_json()
    assert page["pageItems"] == [{"username": "user3"}]
    assert boss.ask("GET", f"{USERS}/search", username="er1").get_json() == ["user1"]
    assert boss.ask("GET", f"{ROLES}/search", role="of user2").get_json() == ["role of user2"]


@pytest.mark.parametrize("size", ["0", "-1", "501", "1e9", "x", ""])
def test_a_page_has_a_bound(boss: Caller, size: str) -> None:
    answer = boss.ask("GET", USERS, pageNo=1, pageSize=size)
    assert answer.status_code == 400
    assert "pageSize" in answer.text


def test_a_user_changes_the_own_password_and_no_others(node: FakeNode, client: FlaskClient) -> None:
    bob = Caller(client, add_user(node, "bob"))
    refused = bob.ask("PUT", USERS, username=ADMIN, newPassword="quite another")
    assert refused.get_json() == {"code": 403, "message": NOT_PERMITTED, "data": None}
    assert bob.ask("DELETE", f"{USERS}/tokens", username=ADMIN).get_json()["code"] == 403
    wrong = bob.ask("PUT", f"{USERS}/password", oldPassword="wrong wrong", newPassword="quite another")
    assert wrong.get_json()["code"] == 401
    assert bob.done("PUT", f"{USERS}/password", oldPassword=PASSWORD, newPassword="quite another")
    assert client.post("/nacos/v1/auth/login", data={"username": "bob", "password": "quite another"}).status_code == 200
    again = Caller(client, token_of(node, "bob"))
    assert again.done("PUT", USERS, username="bob", newPassword="and one more")
    bob = Caller(client, token_of(node, "bob"))
    assert bob.done("DELETE", f"{USERS}/tokens", username="bob") == "end tokens ok!"
    assert bob.ask("GET", "/nacos/v1/ns/operator/metrics").status_code == 403


def test_a_change_goes_to_the_owner_of_the_users(boss: Caller, node: FakeNode) -> None:
    node.cluster.owner = "127.0.0.2:8848"
    assert boss.ask("POST", USERS, username="bob", password=PASSWORD).text == "from the owner"
    assert boss.ask("DELETE", ROLES, username="bob", role="dev").text == "from the owner"
    assert node.access.table.users() == [ADMIN]
    assert set(node.forwarder.tags) == {USERS_TAG}


def test_without_users_none_can_be_planted() -> None:
    node = FakeNode()
    client = create_app(node).test_client()
    for method, path, parameters in (
        ("POST", USERS, {"username": "eve", "password": PASSWORD}),
        ("POST", ROLES, {"username": "eve", "role": ADMIN_ROLE}),
        ("POST", f"{USERS}/admin", {"username": "eve", "password": PASSWORD}),
    ):
        answer = client.open(path, method=method, query_string=parameters)
        assert (answer.status_code, answer.text) == (403, AUTH_IS_OFF)
    assert node.access.table.users() == []


def test_namespaces_are_shown_to_those_with_a_right_in_them(node: FakeNode, client: FlaskClient, boss: Caller) -> None:
    path = "/nacos/v1/console/namespaces"
    for name in ("dev", "prod"):
        boss.ask("POST", path, customNamespaceId=name, namespaceName=name, namespaceDesc="")
    bob = Caller(client, add_user(node, "bob", ("dev:shop:naming/orders", "r")))
    assert [one["namespace"] for one in boss.ask("GET", path).get_json()["data"]] == ["", "dev", "prod"]
    assert [one["namespace"] for one in bob.ask("GET", path).get_json()["data"]] == ["dev"]
    assert bob.ask("GET", path, show="all", namespaceId="dev").status_code == 200
    assert bob.ask("GET", path, show="all", namespaceId="prod").status_code == 403


class TestFirstAdministrator:
    @pytest.fixture
    def node(self) -> FakeNode:
        return FakeNode(settings=make_settings(**AUTH_ON))

    def test_is_made_once_with_the_secret_of_the_data_folder(self, node: FakeNode, client: FlaskClient) -> None:
        path = f"{USERS}/admin"
        assert node.access.setup is not None
        answer = client.post(path, data={"password": PASSWORD, "secret": SETUP_SECRET})
        assert (answer.status_code, answer.get_json()) == (200, {"username": "nacos"})
        assert node.access.table.rights("nacos").is_admin
        assert node.access.setup.value == "", "it is used once"
        for secret in (SETUP_SECRET, "", "another"):
            again = client.post(path, data={"username": "eve", "password": PASSWORD, "secret": secret})
            assert (again.status_code, again.get_json()["code"]) == (409, 409)
        assert node.access.table.users() == ["nacos"]

    def test_gets_a_password_when_none_is_given(self, client: FlaskClient) -> None:
        values = client.post(f"{USERS}/admin?username=root&secret={SETUP_SECRET}").get_json()
        login = client.post("/nacos/v1/auth/login", data=values)
        assert login.get_json()["globalAdmin"] is True

    @pytest.mark.parametrize("ip", ["127.0.0.1", "::1", "10.0.0.1"])
    @pytest.mark.parametrize("secret", [None, "", "another", SETUP_SECRET[:-1], SETUP_SECRET + "x", "\x00", "ü"])
    @pytest.mark.parametrize("header", [None, "X-Forwarded-For", "X-Forwarded-Host", "X-Client-IP", "CF-Connecting-IP"])
    def test_is_not_made_without_the_secret_from_wherever(
        self, node: FakeNode, client: FlaskClient, ip: str, secret: str | None, header: str | None
    ) -> None:
        form = {"password": PASSWORD} | ({} if secret is None else {"secret": secret})
        overrides, headers = {"REMOTE_ADDR": ip}, {header: "127.0.0.1"} if header else {}
        for path in (f"{USERS}/admin", f"{USERS}/%61dmin"):
            answer = client.post(path, data=form, environ_overrides=overrides, headers=headers)
            assert answer.status_code == 403
            assert "first-admin.secret" in answer.get_data(as_text=True)
        assert node.access.table.users() == []

    def test_is_made_from_elsewhere_with_the_secret(self, node: FakeNode, client: FlaskClient) -> None:
        """The secret counts, and not the address, which a proxy has."""
        overrides, form = {"REMOTE_ADDR": "10.0.0.1"}, {"password": PASSWORD, "secret": SETUP_SECRET}
        answer = client.post(f"{USERS}/admin", data=form, environ_overrides=overrides)
        assert answer.status_code == 200
        assert node.access.table.users() == ["nacos"]

    def test_many_wrong_secrets_are_told_to_wait_and_the_right_one_is_taken(self, client: FlaskClient) -> None:
        wrong = [client.post(f"{USERS}/admin", data={"password": PASSWORD, "secret": "x"}) for _ in range(12)]
        assert [one.status_code for one in wrong] == [403] * 10 + [429] * 2
        assert 0 < int(wrong[-1].headers["Retry-After"]) <= 61
        right = client.post(f"{USERS}/admin", data={"password": PASSWORD, "secret": SETUP_SECRET})
        assert right.status_code == 200

    def test_the_secret_is_not_passed_on(self, node: FakeNode, client: FlaskClient) -> None:
        passed_on: list[Any] = []

        def forward(request: Any, to: Any, run: Any) -> Reply:
            passed_on.append(request)
            return Reply(200, b"{}")

        node.cluster.give_to(PEER)
        node.forwarder.forward = forward  # type: ignore[method-assign]
        client.post(f"{USERS}/admin", data={"password": PASSWORD, "secret": SETUP_SECRET})
        (request,) = passed_on
        assert "secret" not in dict(request.parameters.items())
        assert node.access.tokens is not None
        assert node.access.tokens.is_first_admin(request.headers["authorization"].removeprefix("Bearer "))

    def test_the_owner_takes_another_members_word_once(self, node: FakeNode, client: FlaskClient) -> None:
        assert node.access.tokens is not None
        word = {"Authorization": f"Bearer {node.access.tokens.make_first_admin()}"}
        overrides = {"REMOTE_ADDR": "10.0.0.1"}
        for status in (200, 409):
            answer = client.post(
                f"{USERS}/admin", data={"password": PASSWORD}, headers=word, environ_overrides=overrides
            )
            assert answer.status_code == status
