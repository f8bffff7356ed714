"""Each page and action of the console, at members without users, in a browser."""

import json
from typing import Any

import pytest

from tests.browser.conftest import COLOUR_RULES, RULES, Visits, findings
from tests.support.damage import plant
from tests.support.processes import ClusterProcesses, Member, eventually

ORDERS = "/console/service?serviceName=DEFAULT_GROUP%40%40orders"
PLACE = "serviceName=orders&ip=10.0.0.5&port=8080"
PAGES = {
    "overview": "/",
    "services": "/console/services",
    "service": ORDERS,
    "service-clusters": "/console/service?serviceName=billing",
    "service-hostile": "/console/service?serviceName=hostile",
    "service-new": "/console/service/create",
    "service-describe": "/console/service/edit?serviceName=orders",
    "service-checks": "/console/service/cluster?serviceName=billing&clusterName=west",
    "service-remove": "/console/service/remove?serviceName=orders",
    "service-differences": "/console/service/differences?serviceName=hostile",
    "edit": f"/console/instance/edit?{PLACE}",
    "remove": f"/console/instance/remove?{PLACE}",
    "explain": f"/console/explain?{PLACE}",
    "find": "/console/find?text=8080",
    "find-unhealthy": "/console/find?state=unhealthy",
    "change": "/console/instances/change?serviceName=orders&do=disable&pick=%5B%2210.0.0.5%22,8080,%22DEFAULT%22%5D",
    "members": "/console/members",
    "members-compared": "/console/members?compare=1",
    "links": "/console/links",
    "clients": "/console/clients",
    "client": "/console/client?id=10.0.0.1:8080%23true",
    "subscribers": "/console/subscribers",
    "namespaces": "/console/namespaces",
    "switches": "/console/switches",
    "events": "/console/history",
    "charts": "/console/charts",
    "metric": "/console/metric?name=rollcall_member_state",
    "reports": "/console/reports",
    "api": "/api-docs",
    "api-part": "/api-docs/v1-instance",
    "refused": "/console/service?serviceName=nobody-knows-it",
}
HIT = "() => window.hit"


@pytest.mark.parametrize(("scheme", "rules"), [("light", RULES), ("dark", COLOUR_RULES)], ids=["light", "dark"])
def test_every_page_stands_wide(
    cluster: ClusterProcesses, visit: Visits, axe: str, scheme: Any, rules: dict[str, list[str]]
) -> None:
    """Each page: no fault, nothing wider than the window, no barrier by axe, nothing that ran."""
    window = visit(cluster.members[1], color_scheme=scheme)
    for name, path in PAGES.items():
        page = window.open(path)
        window.shoot(f"{name}-{scheme}")
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), name
        assert page.evaluate(HIT) is None, name
        assert findings(page, axe, rules) == [], name


def test_every_page_stands_narrow(cluster: ClusterProcesses, visit: Visits) -> None:
    window = visit(cluster.members[1], narrow=True)
    for name, path in PAGES.items():
        page = window.open(path)
        window.shoot(f"{name}-narrow")
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), name
        assert page.evaluate(HIT) is None, name


def test_pages_work_without_a_script(cluster: ClusterProcesses, visit: Visits) -> None:
    window = visit(cluster.members[0], java_script_enabled=False)
    page = window.open("/console/services")
    page.get_by_label("Name", exact=True).fill("orders")
    window.press("Search")
    page.get_by_role("link", name="orders").click()
    assert page.get_by_role("heading", level=1).inner_text() == "orders"
    page.get_by_role("link", name="Explain 10.0.0.1:8080").click()
    assert "is responsible for the service" in window.text()


def test_the_keyboard_reaches_the_content_and_the_pages(cluster: ClusterProcesses, visit: Visits) -> None:
    page = visit(cluster.members[0]).open("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    page.reload()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == "Members":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/members")


def test_the_search_is_one_key_away(cluster: ClusterProcesses, visit: Visits) -> None:
    window = visit(cluster.members[1])
    page = window.open("/console/members")
    page.keyboard.press("/")
    page.keyboard.type("10.0.0.4:8080")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/find?text=10.0.0.4**")
    assert page.locator("table.instances tbody tr").count() == 1
    page.get_by_role("link", name="10.0.0.4:8080", exact=True).click()
    assert "is responsible for the service" in window.text()
    field = page.get_by_label("Search all namespaces")
    field.fill("a")
    field.press("/")
    assert field.input_value() == "a/", "in a field it is a letter"


def test_instances_are_sorted_opened_and_selected_by_the_keyboard(cluster: ClusterProcesses, visit: Visits) -> None:
    page = visit(cluster.members[1]).open(ORDERS)
    first = page.locator("table.instances tbody tr").first
    before = first.inner_text()
    page.get_by_role("link", name="Address", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=descending]", has_text="Address").wait_for()
    assert first.inner_text() != before
    one = page.get_by_label("Select 10.0.0.2:8080")
    one.focus()
    page.keyboard.press("Space")
    page.get_by_text("1 selected:").wait_for()
    page.evaluate("refresh()")
    page.locator("#live-dot[data-state=on]").wait_for()
    assert one.is_checked(), "a page that updates itself keeps the selection"
    page.get_by_label("Select all on this page").check()
    count = page.locator("input[name=pick]").count()
    page.get_by_text(f"{count} selected:").wait_for()
    page.get_by_label("Select all on this page").uncheck()
    page.get_by_text("With the selected:").wait_for()


def test_selected_instances_go_out_of_service_and_come_back(cluster: ClusterProcesses, visit: Visits) -> None:
    window = visit(cluster.others(cluster.owner("orders"))[0])
    for button, done, word in (("Take out of service", False, "disabled"), ("Put back", True, "healthy")):
        page = window.open(ORDERS)
        for number in (2, 3):
            page.get_by_label(f"Select 10.0.0.{number}:8080").check()
        page.get_by_role("button", name=button).click()
        page.get_by_role("heading", name="2 instances of orders").wait_for()
        page.get_by_role("button", name=button).click()
        page.get_by_text("The selected instances were changed.").wait_for()
        assert word in page.locator("tr", has_text="10.0.0.3:8080").inner_text()
        for member in cluster:
            eventually(lambda member=member, done=done: ("10.0.0.3:8080" in member.client.hosts("orders")) is done)  # type: ignore[misc]


def test_services_are_found_and_paged(cluster: ClusterProcesses, visit: Visits) -> None:
    window = visit(cluster.members[2])
    page = window.open("/console/services")
    assert "33 in all, page 1 of 2" in window.text()
    page.get_by_role("link", name="Next").click()
    page.wait_for_url("**page=2**")
    assert "page 2 of 2" in window.text()
    page.get_by_label("Name", exact=True).fill("orders")
    page.keyboard.press("Enter")
    page.wait_for_url("**name=orders**")
    assert page.locator("tbody tr").count() == 1


def test_an_instance_is_changed_at_any_member_and_seen_at_all(cluster: ClusterProcesses, visit: Visits) -> None:
    name = "DEFAULT_GROUP@@orders"
    owner = cluster.owner("orders")
    window = visit(cluster.others(owner)[0])
    watching = visit(cluster.others(owner)[1])
    watched = watching.open(ORDERS)
    watched.locator("#live-dot[data-state=on]").wait_for()
    page = window.open(ORDERS)
    page.get_by_role("link", name="Edit 10.0.0.4:8080").click()
    page.get_by_label("Weight").fill("7.5")
    page.get_by_label("enabled").uncheck()
    page.get_by_label("Metadata").fill("zone=<b>eu</b>\npreserved.ip.delete.timeout=3600000")
    window.press("Save")
    page.get_by_text("The instance was changed.").wait_for()
    row = page.locator("tr", has_text="10.0.0.4:8080")
    assert "7.5" in row.inner_text()
    assert "disabled" in row.inner_text()
    assert "<b>eu</b>" in row.inner_text()
    # The other window shows it by itself, by the stream of events.
    watched.locator("tr", has_text="10.0.0.4:8080").get_by_text("7.5").wait_for()
    for member in cluster:
        found = member.client.call("GET", "/v1/ns/instance", serviceName=name, ip="10.0.0.4", port=8080).json()
        assert (found["weight"], found["metadata"]["zone"]) == (7.5, "<b>eu</b>")


def test_a_change_that_is_not_allowed_comes_back(cluster: ClusterProcesses, visit: Visits) -> None:
    window = visit(cluster.members[0])
    page = window.open(f"/console/instance/edit?{PLACE}")
    page.get_by_label("Weight").fill("much")
    window.press("Save")
    assert page.get_by_role("alert").inner_text()
    assert page.get_by_label("Weight").input_value() == "much"


def test_an_instance_is_deregistered_after_a_question(cluster: ClusterProcesses, visit: Visits) -> None:
    window = visit(cluster.members[1])
    page = window.open(ORDERS)
    remove = page.get_by_role("link", name="Deregister 10.0.0.5:8080")
    remove.click()
    page.get_by_role("link", name="Cancel").click()
    remove.click()
    page.get_by_role("button", name="Deregister").click()
    page.get_by_text("The instance was deregistered.").wait_for()
    assert "10.0.0.5:8080" not in window.text()
    for member in cluster:
        eventually(lambda member=member: "10.0.0.5:8080" not in member.client.hosts("orders"))  # type: ignore[misc]


def test_namespaces_and_switches_hold_at_all_members(cluster: ClusterProcesses, visit: Visits) -> None:
    window = visit(cluster.members[0])
    page = window.open("/console/namespaces")
    page.get_by_label("Id").fill("dev")
    page.get_by_label("Name", exact=True).fill("<i>Dev</i>")
    window.press("Create")
    page.get_by_text("The namespace was saved.").wait_for()
    assert "<i>Dev</i>" in window.text()
    page.get_by_role("link", name="Rename <i>Dev</i>").click()
    page.get_by_label("Name", exact=True).fill("Development")
    window.press("Save")
    page.get_by_text("The namespace was saved.").wait_for()
    page.get_by_role("link", name="Remove Development").click()
    page.get_by_role("button", name="Remove").click()
    page.get_by_text("The namespace was removed").wait_for()
    window.open("/console/switches")
    page.get_by_label("Value of clientBeatInterval").fill("6000")
    page.get_by_role("button", name="Set clientBeatInterval").click()
    page.get_by_text("The switch was set").wait_for()
    for member in cluster:
        eventually(lambda member=member: switches(member)["clientBeatInterval"] == 6_000)  # type: ignore[misc]


def switches(member: Member) -> Any:
    """All switches at a member."""
    return member.client.call("GET", "/v1/ns/operator/switches").json()


def test_the_theme_is_switched_and_remembered(cluster: ClusterProcesses, visit: Visits) -> None:
    page = visit(cluster.members[0], color_scheme="light").open("/")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Switch between light and dark").click()
    page.goto(page.url + "console/services")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_nothing_is_loaded_from_elsewhere_and_no_script_comes_in(cluster: ClusterProcesses, visit: Visits) -> None:
    window = visit(cluster.members[0])
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    page = window.open("/console/service?serviceName=hostile")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.hit=3>')")
    page.evaluate("const s = document.createElement('script'); s.text = 'window.hit=4'; document.body.append(s)")
    assert page.evaluate(HIT) is None
    assert all(url.startswith(f"http://{cluster.members[0].address}/nacos/") for url in asked if "/x" not in url)
    window.faults = [fault for fault in window.faults if "Content Security Policy" not in fault]


def test_a_divergent_service_is_shown_as_such(cluster: ClusterProcesses, visit: Visits, axe: str) -> None:
    target = cluster.others(cluster.owner("billing-2"))[0]
    held = json.dumps({"preserved.heart.beat.timeout": "3600000", "preserved.ip.delete.timeout": "3600000"})
    assert target.client.register("billing-2", "10.0.3.1", metadata=held).status == 200
    for member in cluster:
        eventually(lambda member=member: member.client.hosts("billing-2"))  # type: ignore[misc]
    plant(cluster.members, "billing-2", [target], lambda listed: listed[0].update(weight=99.0))
    window = visit(cluster.members[0])
    page = window.open("/console/service?serviceName=billing-2")
    page.get_by_text("they differ").wait_for()
    window.shoot("divergent-service")
    window.open("/console/members")
    window.press("Compare now")
    page.get_by_text("1 service differs").wait_for()
    assert page.get_by_role("link", name="billing-2").count() == 1
    window.shoot("divergent-members")
    assert findings(page, axe) == []
    page.get_by_role("link", name="billing-2").click()
    page.get_by_text("1 instance differs").wait_for()
    assert page.get_by_text("weight 99").count() == 1
    window.shoot("divergent-differences")
    assert findings(page, axe) == []
    window.press("Heal this service")
    page.get_by_text("The members exchange the service now").wait_for()

    def is_healed() -> bool:
        page.reload()
        return bool(page.get_by_text("hold the same instances").count())

    eventually(is_healed)
    window.open("/console/history?kinds=operators")
    assert page.get_by_text("called POST /v1/ns/operator/heal").count() == 1


def test_events_of_all_members_come_without_a_click(cluster: ClusterProcesses, visit: Visits) -> None:
    page = visit(cluster.members[0]).open("/console/history?serviceName=arrivals")
    page.get_by_text("No event passes these filters.").wait_for()
    page.locator("#live-dot[data-state=on]").wait_for()
    owner = cluster.owner("arrivals")
    assert owner.client.register("arrivals", "10.0.4.1").status == 200
    page.get_by_text("10.0.4.1:8080 registered").wait_for()
    assert page.locator("tbody td.address").all_inner_texts() == [owner.address]


def test_a_member_that_is_down_is_seen_without_a_click(cluster: ClusterProcesses, visit: Visits, axe: str) -> None:
    window = visit(cluster.members[0])
    page = window.open("/")
    page.locator("#live-dot[data-state=on]").wait_for()
    assert page.locator(".badge.bad", has_text="DOWN").count() == 0
    cluster.members[2].kill_all()
    page.locator(".badge.bad", has_text="DOWN").wait_for()
    page.get_by_text("2 of 3 UP").wait_for()
    window.shoot("member-down")
    window.open("/console/members")
    window.shoot("member-down-members")
    assert findings(page, axe) == []
    window.open(ORDERS)
    assert page.locator("tr", has_text="no answer").count() == 1
    window.shoot("member-down-service")
    cluster.members[2].restart()
    for member in cluster:
        eventually(lambda member=member: cluster.all_up(member))  # type: ignore[misc]
