"""The console while users are asked for: the login, what each may see and change, and whose cookie counts where."""

import pytest

from app.http.api.console_cookie import COOKIE
from app.http.factory import create_app
from tests.support.auth import ADMIN, AUTH_ON, PASSWORD, add_user, node_with_users, token_of
from tests.support.fake_node import SETUP_SECRET, FakeNode, make_settings
from tests.unit.http.console.conftest import Browser

PLACE = {"namespaceId": "dev", "serviceName": "orders", "ip": "10.0.0.1", "port": "8080"}


@pytest.fixture(scope="module")
def users_node() -> FakeNode:
    """One node for all tests: to make its hashes takes a while."""
    node = node_with_users()
    add_user(node, "reader", ("dev:*:*", "r"))
    add_user(node, "writer", ("dev:*:*", "rw"))
    return node


@pytest.fixture
def boss(users_node: FakeNode) -> Browser:
    browser = Browser(create_app(users_node).test_client())  # type: ignore[arg-type]
    browser.client.set_cookie(COOKIE, token_of(users_node, ADMIN))
    return browser


def as_user(node: FakeNode, name: str) -> Browser:
    browser = Browser(create_app(node).test_client())  # type: ignore[arg-type]
    browser.client.set_cookie(COOKIE, token_of(node, name))
    return browser


def test_who_is_not_logged_in_is_sent_to_log_in_and_back(users_node: FakeNode) -> None:
    browser = Browser(create_app(users_node).test_client())  # type: ignore[arg-type]
    answer = browser.get("/console/services", name="a&b")
    login = answer.headers["Location"]
    assert (answer.status_code, login.partition("?")[0]) == (303, "/nacos/console/login")
    shown = browser.client.get(login).text
    assert 'value="/nacos/console/services?name=a%26b"' in shown
    assert "Services</span>" not in shown, "there is no navigation before the login"
    wrong = browser.log_in(password="no")
    assert wrong.status_code == 403
    assert "Unknown user or wrong password" in wrong.text
    done = browser.log_in(next="/nacos/console/services?name=a%26b")
    assert (done.status_code, done.headers["Location"]) == (303, "/nacos/console/services?name=a%26b")
    cookie = done.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path=/nacos/" in cookie
    assert browser.get("/console/services").status_code == 200
    assert browser.send("/console/logout", "/").status_code == 303
    assert browser.get("/").status_code == 303


def test_a_log_out_ends_the_session_and_not_the_others(users_node: FakeNode) -> None:
    first, second = as_user(users_node, "reader"), as_user(users_node, "reader")
    cookies = [one.client.get_cookie(COOKIE, path="/").value for one in (first, second)]
    assert first.get("/console/services").status_code == 200
    answer = first.send("/console/logout", "/")
    assert "done=logged-out" in answer.headers["Location"].split("&")[-1]
    assert f"{COOKIE}=" in answer.headers["Set-Cookie"]
    first.client.set_cookie(COOKIE, cookies[0])  # somebody kept it
    assert first.get("/console/services").status_code == 303
    api = {"Authorization": f"Bearer {cookies[0]}"}
    refused = first.client.get("/nacos/v1/ns/instance/list?serviceName=s&namespaceId=dev", headers=api)
    assert refused.status_code == 403
    assert second.get("/console/services").status_code == 200
    assert "logged out" in first.client.get(answer.headers["Location"]).text


def test_a_log_out_that_the_others_do_not_hear_of_says_so(users_node: FakeNode) -> None:
    browser = as_user(users_node, "reader")
    form = browser.token("/")
    cookie = browser.client.get_cookie(COOKIE, path="/").value
    users_node.disk.full = True
    try:
        answer = browser.client.post("/nacos/console/logout", data={"form": form})
    finally:
        users_node.disk.full = False
    assert "done=logged-out-here" in answer.headers["Location"]
    browser.client.set_cookie(COOKIE, cookie)
    assert browser.get("/console/services").status_code == 303


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example/nacos/",
        "/nacos/../x",
        "\\\\evil",
        "/nacos/v1/x",
        "/nacos//evil",
        "[",
        "",
    ],
)
def test_the_login_leads_to_pages_of_this_console_alone(users_node: FakeNode, wanted: str) -> None:
    browser = Browser(create_app(users_node).test_client())  # type: ignore[arg-type]
    assert browser.log_in(next=wanted).headers["Location"] == "/nacos/"


def test_the_login_is_a_form_of_this_console(users_node: FakeNode) -> None:
    client = create_app(users_node).test_client()  # type: ignore[arg-type]
    answer = client.post("/nacos/console/login", data={"username": ADMIN, "password": "the boss's own"})
    assert (answer.status_code == 403 and "Set-Cookie" not in answer.headers) or COOKIE in answer.headers["Set-Cookie"]
    assert client.get("/nacos/").status_code == 303


def test_the_cookie_opens_no_call_of_the_api(boss: Browser) -> None:
    assert boss.get("/").status_code == 200
    for path in ("/v1/ns/operator/switches", "/v1/auth/users?pageNo=1&pageSize=9", "/v1/ns/operator/metrics"):
        assert boss.get(path).status_code == 403


def test_a_token_elsewhere_opens_no_page(users_node: FakeNode) -> None:
    client = create_app(users_node).test_client()  # type: ignore[arg-type]
    token = token_of(users_node, ADMIN)
    assert client.get(f"/nacos/?accessToken={token}").status_code == 303
    assert client.get("/nacos/", headers={"Authorization": f"Bearer {token}"}).status_code == 303


def test_rights_hold_for_what_pages_show_and_change(users_node: FakeNode, boss: Browser) -> None:
    assert boss.send("/console/namespaces", id="dev", name="Dev").status_code == 303
    token = {"accessToken": token_of(users_node, ADMIN)}
    boss.client.post("/nacos/v1/ns/instance", query_string=PLACE | token)
    reader, writer = as_user(users_node, "reader"), as_user(users_node, "writer")
    page = "/console/service?namespaceId=dev&serviceName=orders"
    assert reader.get(page).status_code == writer.get(page).status_code == 200
    assert reader.get("/console/services", namespaceId="prod").text.count('role="alert"') == 1
    assert reader.get("/console/services").headers["Location"].endswith("?namespaceId=dev"), "the one with a right"
    for path in ("/console/switches", "/console/users", "/console/clients", "/console/links"):
        answer = reader.get(path)
        assert answer.status_code == 403
        assert "Permission denied" in answer.text
    for path in ("/console/reports", "/console/report?night=2026-11-21"):
        answer = reader.client.get(f"/nacos{path}", headers={"Accept": "text/html,*/*;q=0.8"})
        assert (answer.status_code, answer.headers["Location"]) == (303, "/nacos/console/no-right")
        assert reader.get(path).status_code == 403, "a script gets no page"
    refused = reader.get("/console/no-right")
    assert refused.status_code == 403
    assert "Permission denied" in refused.text
    assert "The user reader may not see that page." in refused.text
    remove = "/console/instance/remove?namespaceId=dev&serviceName=orders&ip=10.0.0.1&port=8080"
    assert reader.send("/console/instance/remove", remove, **PLACE, ephemeral="true").status_code == 403
    assert "10.0.0.1:8080" in reader.get(page).text
    assert writer.send("/console/instance/remove", remove, **PLACE, ephemeral="true").status_code == 303
    assert "10.0.0.1:8080" not in reader.get(page).text
    shown = reader.get("/").text
    assert not [text for text in ("Switches", "Agreement") if text in shown], "that is for administrators"


def test_users_roles_and_permissions(users_node: FakeNode, boss: Browser) -> None:
    page = "/console/users"
    send = {"name": "eva", "new-password": PASSWORD}
    assert boss.send("/console/users", page, **send).status_code == 303
    refused = boss.send("/console/users", page, **send)
    assert refused.status_code >= 400
    assert 'role="alert"' in refused.text
    assert boss.send("/console/users/roles", page, name="eva", role="dev").status_code == 303
    permission = {"role": "dev", "resource": "dev:*:*", "action": "r"}
    assert boss.send("/console/users/permissions", page, **permission).status_code == 303
    eva = as_user(users_node, "eva")
    assert 'role="alert"' not in eva.get("/console/services", namespaceId="dev").text
    asked = boss.get("/console/users/remove", **permission).text
    assert "Take the permission for dev:*:* from the role dev?" in asked
    assert boss.send("/console/users/remove", page, **permission).status_code == 303
    assert 'role="alert"' in eva.get("/console/services", namespaceId="dev").text
    assert boss.send("/console/users/remove", page, name="eva", role="dev").status_code == 303
    assert not users_node.access.table.roles_of("eva")
    changed = {"name": "eva", "new-password": "another one"}
    assert boss.send("/console/users/password", page, **changed).status_code == 303
    assert eva.get("/").status_code == 303, "a new password ends the tokens"
    assert boss.send("/console/users/remove", page, name="eva").status_code == 303
    assert users_node.access.table.user("eva") is None


def test_ones_own_password(users_node: FakeNode) -> None:
    add_user(users_node, "otto")
    otto = as_user(users_node, "otto")
    page = "/console/password"
    wrong = otto.send(page, page, **{"old-password": "no", "new-password": "new"})
    assert wrong.status_code == 401
    assert "Old password is invalid" in wrong.text
    done = otto.send(page, page, **{"old-password": PASSWORD, "new-password": "quite new"})
    assert done.headers["Location"] == "/nacos/console/login"
    assert otto.get("/").status_code == 303


# --- the first administrator ---------------------------------------------------------------------


@pytest.fixture
def empty_node() -> FakeNode:
    """A node that asks for users, and has none."""
    return FakeNode(settings=make_settings(**AUTH_ON))


def test_the_first_page_makes_the_first_administrator(empty_node: FakeNode) -> None:
    browser = Browser(create_app(empty_node).test_client())  # type: ignore[arg-type]
    shown = browser.client.get(browser.get("/").headers["Location"]).text
    assert "first-admin.secret" in shown
    assert "/nowhere" not in shown, "nobody is told where the folder is"
    fields = {"username": "root", "password": PASSWORD}
    for secret in ("", "another"):
        refused = browser.send("/console/first-admin", "/console/login", **fields, secret=secret)
        assert refused.status_code == 403
        assert "first-admin.secret" in refused.text
    short = browser.send("/console/first-admin", "/console/login", username="root", password="x", secret=SETUP_SECRET)
    assert short.status_code == 400
    assert browser.send("/console/first-admin", "/console/login", username="root").status_code == 400
    assert empty_node.access.table.users() == []
    done = browser.send("/console/first-admin", "/console/login", **fields, secret=f" {SETUP_SECRET} ")
    assert (done.status_code, done.headers["Location"]) == (303, "/nacos/console/login?done=admin-made")
    assert empty_node.access.table.rights("root").is_admin
    assert "Log in as this user" in browser.client.get(done.headers["Location"]).text
    assert browser.log_in("root", PASSWORD).status_code == 303
    again = browser.send("/console/first-admin", "/console/login", username="eve", password=PASSWORD)
    assert again.status_code == 409
    assert empty_node.access.table.users() == ["root"]


def test_a_page_from_elsewhere_makes_no_administrator(empty_node: FakeNode) -> None:
    client = create_app(empty_node).test_client()  # type: ignore[arg-type]
    form = {"username": "eve", "password": PASSWORD, "secret": SETUP_SECRET}
    assert client.post("/nacos/console/first-admin", data=form).status_code == 403
    assert empty_node.access.table.users() == []
