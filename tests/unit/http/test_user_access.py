"""Who may call what while users are asked for: the whole table, and all ways to write a route."""

import json
from functools import cache
from urllib.parse import urlencode

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app.auth.access_rules import Action, Scope, Target
from app.auth.login_limits import OF_USER_MAX
from app.auth.refusals import NOT_PERMITTED, TOKEN_EXPIRED, TOKEN_INVALID, UNKNOWN_USER, AccessDenied
from app.http import blueprints
from app.http.api.call import ROUTES, Route
from app.http.api.console_cookie import COOKIE, form_token
from app.http.factory import create_app
from tests.support.auth import ADMIN, ADMIN_PASSWORD, AUTH_ON, PASSWORD, add_user, node_with_users, token_of
from tests.support.fake_node import FakeNode, RecordedTrail, make_settings
from tests.support.loops import SkippingLoop, run_loop, until
from tests.support.served import served
from tests.support.wire import Received

assert blueprints.MODULES, "the table is filled by their import"

CLIENT = "10.9.9.9"
OF_MEMBERS = (Scope.MEMBERS, Scope.RECENT_MEMBERS)
REFUSALS = (UNKNOWN_USER, NOT_PERMITTED, TOKEN_INVALID, TOKEN_EXPIRED)
OF_DEV = {
    "namespaceId": "dev",
    "groupName": "shop",
    "serviceName": "orders",
    "dom": "orders",
    "key": "dev##shop@@orders",
}
RULE = {
    Target.SERVICE: "dev:shop:naming/orders",
    Target.DOM: "dev:DEFAULT_GROUP:naming/orders",
    Target.KEY: "dev:shop:naming/orders",
    Target.GROUP: "dev:shop:*",
    Target.NAMESPACE: "dev:*:*",
    Target.NAMESPACES: "dev:*:*",
}
"""The least that permits a call with ``OF_DEV``."""


class Host:
    """A node that asks for users, and all tokens of the tests."""

    def __init__(self) -> None:
        self.node = node_with_users()
        self.client: FlaskClient = create_app(self.node).test_client(use_cookies=False)
        self.admin = token_of(self.node, ADMIN)
        self.nothing = add_user(self.node, "nothing")
        self.with_rule = {
            (target, action): add_user(self.node, f"{target.value} {action.value}", (rule, action.value))
            for target, rule in RULE.items()
            for action in Action
        }
        self.other = add_user(self.node, "other", ("prod:*:*", "rw"), ("dev:other:*", "rw"))

    def refusal(self, row: Route, token: str = "", ip: str = CLIENT) -> str:
        """The refusal of a call for want of a right; empty when the call came to its endpoint."""
        by_cookie = row.access.by_cookie
        answer = self.client.open(
            f"/nacos{row.path}",
            method=row.method,
            query_string=OF_DEV | ({"accessToken": token} if token and not by_cookie else {}),
            headers={"Cookie": f"{COOKIE}={token}"} if by_cookie else {},
            environ_overrides={"REMOTE_ADDR": ip},
        )
        if by_cookie and "/console/login" in answer.headers.get("Location", ""):
            return TOKEN_INVALID if token else UNKNOWN_USER
        if answer.status_code != 403:
            return ""
        text = answer.get_json()["message"] if answer.is_json else answer.text
        if text in REFUSALS or "address of a listed member" in text:
            return text
        return ""


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


def name_of(row: Route) -> str:
    return f"{row.method} {row.path}"


@pytest.mark.parametrize("row", ROUTES, ids=name_of)
def test_each_row_of_the_table_is_kept(row: Route, host: Host) -> None:
    """Without a token, with one without rights, with the rights of others, with the right, as an administrator."""
    rule = row.access
    if rule.scope in OF_MEMBERS:
        for token in ("", host.nothing, host.admin):
            assert "address of a listed member" in host.refusal(row, token)
        return
    if rule.scope is Scope.PUBLIC:
        assert host.refusal(row) == ""
        return
    assert host.refusal(row) == UNKNOWN_USER
    assert host.refusal(row, "x.y.z") == TOKEN_INVALID
    assert host.refusal(row, host.admin) == ""
    if rule.scope is Scope.LOGGED_IN:
        assert host.refusal(row, host.nothing) == ""
        return
    assert host.refusal(row, host.nothing) == NOT_PERMITTED
    assert host.refusal(row, host.other) == NOT_PERMITTED
    permitted = rule.scope is Scope.NAMING
    for action in Action:
        allowed = permitted and action is rule.action
        assert host.refusal(row, host.with_rule[rule.target, action]) == ("" if allowed else NOT_PERMITTED)


def test_what_reveals_no_more_than_that_the_node_runs_is_public() -> None:
    """The rows that anybody may call, so that a new one is a decision."""
    assert {name_of(row) for row in ROUTES if row.access.scope is Scope.PUBLIC} == {
        "POST /v1/auth/login",
        "POST /v1/auth/users/login",
        "POST /v3/auth/user/login",
        "POST /v1/auth/users/admin",
        "GET /v1/console/health/liveness",
        "GET /v1/console/health/readiness",
        "GET /v2/console/health/liveness",
        "GET /v2/console/health/readiness",
        *(
            f"GET /v3/{base}/{probe}"
            for base in ("admin/core/state", "console/health")
            for probe in ("liveness", "readiness")
        ),
        "GET /v3/admin/core/ops/readiness",
        "GET /v3/admin/core/state",  # the mode, and whether users are asked for, which a console asks before a login
        "GET /v3/console/server/state",
        "GET /v3/console/server/announcement",
        "GET /v3/console/server/guide",
        "POST /v3/auth/user/admin",
        "GET /actuator/health",
        "GET /v1/core/cluster/health",
        "GET /v2/core/cluster/node/self/health",
        "GET /console/assets/<name>",
        "GET /console/login",
        "POST /console/login",
        "POST /console/language",
        "POST /console/first-admin",
        "POST /console/logout",
        "GET /openapi.json",
        "GET /api-docs",
        "GET /api-docs/<tag>",
        "GET /api-docs/style.css",
    }


# --- the ways to write a route -------------------------------------------------------------------

LIST = "/nacos/v1/ns/instance/list?serviceName=s"
VARIANTS = [
    ("GET", "/nacos/v1/ns/%69nstance/list?serviceName=s"),
    ("GET", "/n%61cos/v1/ns/instance/list?serviceName=s"),
    ("GET", "http://10.0.0.1:8848/nacos/v1/ns/instance/list?serviceName=s"),
    ("GET", "/nacos/v1/ns//instance/list?serviceName=s"),
    ("GET", "//nacos/v1/ns/instance/list?serviceName=s"),
    ("GET", "/nacos/v1/ns/instance/list;x=1?serviceName=s"),
    ("GET", "/nacos/v1/ns/instance;a/list?serviceName=s"),
    ("GET", "/nacos/v1/ns/instance/list/?serviceName=s"),
    ("GET", "/nacos/v1/ns/x/../instance/list?serviceName=s"),
    ("GET", "/nacos/v1/ns/instance%2Flist?serviceName=s"),
    ("HEAD", LIST),
    ("GET", "/nacos/v1/ns/api/list?serviceName=s"),
    ("GET", "/nacos/v1/ns/api/srvIPXT?dom=s"),
    ("GET", "/nacos/v2/ns/instance/list?serviceName=s"),
    ("GET", "/nacos/v1/ns/ops/switches"),
    ("GET", "/nacos/v1/ns/operator/switches"),
    ("PUT", "/nacos/v1/ns/ops/switches?entry=pushEnabled&value=false"),
    ("GET", "/nacos/v1/auth/users/?pageNo=1&pageSize=9"),
    ("GET", "/nacos/v1/auth/users?pageNo=1&pageSize=9"),
    ("POST", "/nacos/v1/auth/users?username=eve&password=evil%20evil"),
    ("POST", "/nacos/v1/auth/users/?username=eve&password=evil%20evil"),
    ("POST", "/nacos/v1/auth?username=eve&password=evil%20evil"),
    ("GET", "/nacos/v1/cs/ops/derby?sql=select%20*%20from%20users"),
    ("GET", "/nacos/v1/cs/ops/derby/?sql=select%20*%20from%20users"),
    ("POST", "/nacos/v1/cs/ops/data/removal"),
    ("GET", "/nacos/v1/console/namespaces/"),
    ("GET", "/nacos/v1/core/cluster/nodes"),
    ("GET", "/nacos/v1/ns/operator/dump"),
]
HEADERS = [
    "",
    "User-Agent: Nacos-Server\r\n",
    "User-Agent: Nacos-Server:v1.4.8\r\nClient-Version: 1.4.8\r\n",
    "X-HTTP-Method-Override: OPTIONS\r\n",
    "X-Original-URL: /nacos/v1/console/health/liveness\r\n",
    "X-Forwarded-For: 127.0.0.1\r\n",
    "Authorization: Basic bmFjb3M6bmFjb3M=\r\n",
    "Authorization: Bearer \r\naccessToken: auth-is-off\r\n",
    "serverIdentity: security\r\n",
    "Rollcall-Client-Agent: x\r\nrequest-source: 127.0.0.1:8848\r\n",
]


@pytest.mark.parametrize(("method", "target"), VARIANTS)
def test_no_way_to_write_a_route_or_header_goes_round_the_check(method: str, target: str) -> None:
    """CVE-2021-29441 (the agent of servers; a slash at the end) and CVE-2021-29442 (SQL without a login) among them."""

    node, app = shared_node()
    before = (node.access.table.users(), node.durable.switches)

    async def main(_loop: SkippingLoop) -> dict[str, int]:
        statuses = {}
        with served(node, app) as one:
            for headers in HEADERS:
                request = f"{method} {target} HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\n\r\n".encode()
                statuses[headers] = int((await one.ask(request, CLIENT)).split(b" ", 2)[1])
        return statuses

    for headers, status in run_loop(main).items():
        assert status in (400, 403, 404, 501), headers
    assert (node.access.table.users(), node.durable.switches) == before


@cache
def shared_node() -> tuple[FakeNode, Flask]:
    """One node for all variants, as nothing changes it: its hash and its application take a while."""
    node = node_with_users()
    return node, create_app(node)


# --- both ways to an endpoint --------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["on the loop", "in Flask"])
def hot(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def ask(node: FakeNode, requests: list[str], *, hot: bool) -> list[Received]:
    """Send requests, lines before the host, one after the other to one server."""

    async def main(_loop: SkippingLoop) -> list[Received]:
        with served(node, hot=hot) as one:
            return [
                await one.reply(f"{lines}\r\nHost: x\r\nConnection: close\r\n\r\n".encode(), CLIENT)
                for lines in requests
            ]

    return run_loop(main)


def test_a_token_may_come_in_three_places(hot: bool) -> None:
    node = node_with_users()
    token = add_user(node, "bob", (":*:*", "r"))
    requests = [
        f"GET {LIST}&accessToken={token} HTTP/1.1",
        f"GET {LIST} HTTP/1.1\r\naccessToken: {token}",
        f"GET {LIST} HTTP/1.1\r\nAuthorization: Bearer {token}",
        f"GET {LIST}&username=bob&password={PASSWORD.replace(' ', '%20')} HTTP/1.1",
    ]
    assert [one.status for one in ask(node, requests * 2, hot=hot)] == [200] * 8


def test_a_wrong_token_is_not_helped_by_a_right_one_in_a_later_place(hot: bool) -> None:
    node = node_with_users()
    token = add_user(node, "bob", (":*:*", "r"))
    [answer] = ask(node, [f"GET {LIST}&accessToken={token} HTTP/1.1\r\nAuthorization: Bearer x.y.z"], hot=hot)
    assert answer.status == 403
    assert json.loads(answer.body)["message"] == TOKEN_INVALID


def test_a_call_that_was_allowed_is_refused_when_the_right_or_token_has_ended(hot: bool) -> None:
    node = node_with_users()
    token = add_user(node, "bob", (":*:*", "r"))
    request = f"GET {LIST} HTTP/1.1\r\nAuthorization: Bearer {token}"
    seen = []

    async def main(_loop: SkippingLoop) -> None:
        with served(node, hot=hot) as one:

            async def status() -> None:
                data = f"{request}\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
                seen.append((await one.reply(data, CLIENT)).status)

            await status()
            await status()
            node.users.remove_permission("role of bob", ":*:*", "r")
            await status()
            node.users.add_permission("role of bob", ":*:*", "r")
            await status()
            node.users.end_tokens("bob")
            await status()

    run_loop(main)
    assert seen == [200, 200, 403, 200, 403]


def test_the_kind_of_a_body_is_part_of_what_was_allowed(hot: bool) -> None:
    """A form's group counts, a text's does not: the same bytes are another service."""
    node = node_with_users()
    token = add_user(node, "bob", (":mine:*", "w"))
    body = "groupName=mine&serviceName=s"
    lines = f"POST /nacos/v1/ns/instance?ip=1.1.1.1&port=1 HTTP/1.1\r\naccessToken: {token}\r\n"
    length = f"Content-Length: {len(body)}\r\n"

    async def main(_loop: SkippingLoop) -> list[int]:
        with served(node, hot=hot) as one:
            return [
                (
                    await one.reply(
                        f"{lines}{length}Content-Type: {kind}\r\nHost: x\r\nConnection: close\r\n\r\n{body}".encode(),
                        CLIENT,
                    )
                ).status
                for kind in ("application/x-www-form-urlencoded", "text/plain")
            ]

    assert run_loop(main) == [200, 403]


def test_a_service_name_with_its_group_is_not_hidden_by_a_group(hot: bool) -> None:
    node = node_with_users()
    token = add_user(node, "bob", (":mine:*", "rw"))
    target = f"/nacos/v1/ns/instance/list?serviceName=other@@s&groupName=mine&accessToken={token}"
    assert ask(node, [f"GET {target} HTTP/1.1"], hot=hot)[0].status == 403


def test_a_list_of_a_group_is_no_call_about_the_service_that_it_names() -> None:
    node = node_with_users()
    token = add_user(node, "bob", (":DEFAULT_GROUP:naming/s", "r"))
    target = f"/nacos/v1/ns/service/list?pageNo=1&pageSize=9&serviceName=s&accessToken={token}"
    assert ask(node, [f"GET {target} HTTP/1.1"], hot=True)[0].status == 403


def test_a_password_on_a_call_waits_like_a_login(hot: bool) -> None:
    node = node_with_users()
    requests = [f"GET {LIST}&username={ADMIN}&password=wrong{number} HTTP/1.1" for number in range(21)]
    answers = ask(node, requests, hot=hot)
    assert [one.status for one in answers] == [403] * 21
    assert node.access.stats.logins_waited == 1


NEW_ADDRESS = "10.8.8.8"
CONSOLE_LOGIN = "/nacos/console/login"
LOGINS = ("/nacos/v1/auth/login", "/nacos/v1/auth/users/login", "/nacos/v3/auth/user/login", CONSOLE_LOGIN)


def guessed() -> FakeNode:
    """A node at which somebody guessed the administrator's password from many addresses."""
    node = node_with_users()
    for number in range(OF_USER_MAX):
        with pytest.raises(AccessDenied):
            node.access.log_in(ADMIN, "wrong wrong", f"10.6.6.{number}")
    return node


def posted(path: str, *lines: str, method: str = "POST", **form: str) -> bytes:
    """A request with a form."""
    head = (f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *lines)
    body = urlencode(form)
    length = (f"Content-Length: {len(body)}", "Content-Type: application/x-www-form-urlencoded", "", body)
    return "\r\n".join((*head, *length)).encode()


@pytest.mark.parametrize("path", LOGINS)
@pytest.mark.parametrize("password", [ADMIN_PASSWORD, "wrong wrong"])
def test_after_guesses_a_login_from_a_new_address_is_answered(path: str, password: str) -> None:
    node = guessed()
    fields = {"form": form_token("c")} if path == CONSOLE_LOGIN else {}

    async def main(_loop: SkippingLoop) -> int:
        with served(node) as one:
            request = posted(path, f"Cookie: {COOKIE}=c", username=ADMIN, password=password, **fields)
            return (await one.reply(request, NEW_ADDRESS)).status

    done = 303 if path == CONSOLE_LOGIN else 200
    assert run_loop(main) == (done if password == ADMIN_PASSWORD else 403)
    assert node.access.stats.logins_waited == 1


@pytest.mark.parametrize("by_console", [False, True])
def test_after_guesses_the_old_password_is_looked_at_too(by_console: bool) -> None:
    node = guessed()
    token = token_of(node, ADMIN)

    async def main(_loop: SkippingLoop) -> int:
        with served(node) as one:
            if by_console:
                fields = {"old-password": ADMIN_PASSWORD, "new-password": PASSWORD, "form": form_token(token)}
                request = posted("/nacos/console/password", f"Cookie: {COOKIE}={token}", **fields)
            else:
                fields = {"oldPassword": ADMIN_PASSWORD, "newPassword": PASSWORD, "accessToken": token}
                request = posted("/nacos/v1/auth/users/password", method="PUT", **fields)
            return (await one.reply(request, NEW_ADDRESS)).status

    assert run_loop(main) == (303 if by_console else 200)
    assert node.access.stats.logins_waited == 1


def test_logins_that_wait_hold_no_thread() -> None:
    node = guessed()
    node.settings = make_settings(**AUTH_ON, rollcall_http_threads="4")

    async def main(loop: SkippingLoop) -> None:
        with served(node) as one:
            wires = [one.connect(f"10.8.8.{number}") for number in range(30)]
            for wire in wires:
                wire.send(posted(LOGINS[0], username=ADMIN, password=ADMIN_PASSWORD))
            await until(lambda: node.access.stats.logins_waited == len(wires))
            assert (await one.reply(posted(LOGINS[0], username="nobody", password="x"), CLIENT)).status == 403
            for wire in wires[:10]:
                wire.connection.cut()  # their places are given back
            for wire in wires[10:]:
                await until(lambda wire=wire: wire.received)  # type: ignore[misc]
                assert wire.received.startswith(b"HTTP/1.1 200")
            await until(lambda: not node.access._limits._waiting)

    run_loop(main)


def test_user_and_password_of_a_call_about_users_are_not_the_callers(host: Host) -> None:
    answer = host.client.post("/nacos/v1/auth/users", query_string={"username": ADMIN, "password": ADMIN_PASSWORD})
    assert answer.status_code == 403


def test_members_read_of_each_other_without_a_user_but_not_of_a_node_alone() -> None:
    node = node_with_users()
    client = create_app(node).test_client()
    path = "/nacos/v1/core/cluster/nodes"
    node.cluster.listed = set()
    assert client.get(path).status_code == 403
    node.cluster.standalone, node.cluster.listed = False, {"127.0.0.1"}
    assert client.get(path).status_code == 200
    assert client.get("/nacos/v1/ns/operator/dump").status_code == 403


def test_logins_and_refusals_are_in_the_security_log(hot: bool) -> None:
    node = node_with_users()
    token = add_user(node, "bob", ("prod:*:*", "r"))
    audit: RecordedTrail = node.instruments.audit  # type: ignore[assignment]
    requests = [
        f"GET {LIST} HTTP/1.1",
        f"GET {LIST}&namespaceId=dev&accessToken={token} HTTP/1.1",
        "GET /nacos/v1/ns/distro/datums HTTP/1.1",
        "PUT /nacos/v1/ns/distro/datum HTTP/1.1\r\nUser-Agent: Nacos-Server:1.4.8",
        f"DELETE /nacos/v1/auth/users/tokens?username={ADMIN}&accessToken={token} HTTP/1.1",
        f"POST /nacos/v1/auth/login?username={ADMIN}&password=x HTTP/1.1",
        f"POST /nacos/v1/auth/login?username=bob&password={PASSWORD.replace(' ', '%20')} HTTP/1.1",
        f"POST /nacos/v1/auth/users/logout?username={ADMIN}&accessToken={token} HTTP/1.1",
        f"POST /nacos/v1/auth/users/logout?username=bob&accessToken={token} HTTP/1.1",
    ]
    ask(node, requests, hot=hot)
    found = [(what, who.user, who.address, why) for what, _, who, why in audit.accesses]
    assert found[:2] == [
        ("access.refused", "", CLIENT, UNKNOWN_USER),
        ("access.refused", "bob", CLIENT, NOT_PERMITTED),
    ]
    assert [one[:2] for one in found[2:4]] == [("access.refused", ""), ("member.refused", "")]
    assert found[4:] == [
        ("access.refused", "bob", CLIENT, NOT_PERMITTED),
        ("login.refused", ADMIN, CLIENT, ""),
        ("login.done", "bob", CLIENT, ""),
        ("access.refused", "bob", CLIENT, NOT_PERMITTED),
        ("logout", "bob", CLIENT, ""),
    ]
    assert audit.accesses[0][1] == "GET /v1/ns/instance/list"
