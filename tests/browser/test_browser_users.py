"""The console at members that ask for users, in a browser: logins, rights, users and their permissions."""

from tests.browser.conftest import Visit, Visits, findings
from tests.support.auth import ADMIN, ADMIN_PASSWORD, PASSWORD, UserClient
from tests.support.processes import ClusterProcesses, eventually


def log_in(window: Visit, name: str, password: str, path: str = "/") -> None:
    """Be sent to the login by a page, and come back to it."""
    page = window.open(path)
    page.get_by_label("User").fill(name)
    page.get_by_label("Password").fill(password)
    window.press("Log in")
    page.locator(".who", has_text=name).wait_for()


def test_the_login(with_users: ClusterProcesses, visit: Visits, axe: str) -> None:
    window = visit(with_users.members[1])
    page = window.open("/console/switches")
    window.shoot("login")
    assert not findings(page, axe)
    page.get_by_label("User").fill(ADMIN)
    page.get_by_label("Password").fill("wrong")
    window.press("Log in")
    page.get_by_role("alert").wait_for()
    page.get_by_label("User").fill(ADMIN)
    page.get_by_label("Password").fill(ADMIN_PASSWORD)
    window.press("Log in")
    page.wait_for_url("**/console/switches")
    assert page.evaluate("document.cookie") == "", "no script reads the session"
    # The cookie is of the host: another member takes the same session.
    window.member = with_users.members[2]
    window.open("/")
    page.locator(".who", has_text=ADMIN).wait_for()
    window.press("Log out")
    page.get_by_text("You are logged out.").wait_for()
    window.open("/")
    page.wait_for_url("**/console/login?**")


def test_users_and_what_they_may(with_users: ClusterProcesses, visit: Visits, axe: str) -> None:
    boss = visit(with_users.members[0])
    log_in(boss, ADMIN, ADMIN_PASSWORD, "/console/users")
    page = boss.page
    page.locator("#create-name").fill("<b>eva")
    page.locator("#create-password").fill(PASSWORD)
    page.get_by_role("button", name="Create").click()
    page.get_by_text("The user was saved.").wait_for()
    page.locator("#role-name").fill("<b>eva")
    page.locator("#role-role").fill("readers")
    page.locator("form", has=page.locator("#role-name")).get_by_role("button").click()
    page.get_by_text("The role was assigned.").wait_for()
    page.locator("#permission-role").fill("readers")
    page.locator("#permission-resource").fill("public:*:*")
    page.locator("#permission-action").select_option("r")
    page.locator("form", has=page.locator("#permission-role")).get_by_role("button").click()
    page.get_by_text("The permission was granted.").wait_for()
    boss.shoot("users")
    assert not findings(page, axe)

    member = with_users.members[1]
    client = UserClient(member.address)
    eventually(lambda: client.try_login("<b>eva", PASSWORD).status == 200)
    chief = UserClient(member.address)
    chief.log_in(ADMIN, ADMIN_PASSWORD)
    assert (
        chief.ask("POST", "/v1/ns/instance", serviceName="s", ip="10.0.0.1", port=80, ephemeral="false").status == 200
    )
    eva = visit(member)
    log_in(eva, "<b>eva", PASSWORD, "/console/service?serviceName=s")
    eventually(lambda: "10.0.0.1:80" in eva.open("/console/service?serviceName=s").inner_text("body"))
    assert eva.page.get_by_role("link", name="Switches").count() == 0
    eva.page.get_by_role("link", name="Deregister 10.0.0.1:80").click()
    eva.page.get_by_role("button", name="Deregister").click()
    eva.page.get_by_role("heading", name="Permission denied").wait_for()
    eva.shoot("no-right")
    eva.open("/")
    eva.shoot("overview-of-a-reader")
    assert findings(eva.page, axe) == []

    boss.open("/console/users")
    page.get_by_role("link", name="Remove the user <b>eva").click()
    page.get_by_role("button", name="Remove").click()
    page.get_by_text("The user was removed").wait_for()
    eventually(lambda: "/console/login" in eva.open("/").url)
