"""The pages of a node on which no call needs a user: what they show, what their forms do, what runs in them."""

import re
from collections.abc import Set
from typing import Any

import pytest

from app.http.factory import create_app
from app.members.reports import OWN_FIELD
from app.naming.clients.client_model import ClientInfo
from app.naming.model.keys import datum_key
from app.naming.model.override import Override
from app.naming.push.udp_subscribers import Subscriber
from app.naming.registry.operations import RegisterInstance
from distro.model.types import CAPABILITY_VERSIONS, Member, MemberState
from tests.support.fake_node import PEER, FakeNode, make_settings
from tests.unit.http.console.conftest import Browser

HOSTILE = "<script>alert(1)</script>\"'><img/src=x/onerror=alert(2)>"
PAGES = (
    "/",
    "/console/services",
    "/console/service?serviceName=orders",
    "/console/service/create",
    "/console/service/edit?serviceName=orders",
    "/console/service/cluster?serviceName=orders",
    "/console/service/remove?serviceName=orders",
    "/console/service/differences?serviceName=orders",
    "/console/instance/edit?serviceName=orders&ip=10.0.0.1&port=8080",
    "/console/instance/remove?serviceName=orders&ip=10.0.0.1&port=8080",
    "/console/find",
    "/console/instances/change?serviceName=orders&do=disable&pick=%5B%2210.0.0.1%22,8080,%22DEFAULT%22%5D",
    "/console/find?text=8080",
    "/console/explain",
    "/console/explain?serviceName=orders&ip=10.0.0.1&port=8080",
    "/console/members",
    "/console/links",
    "/console/clients",
    "/console/client?id=10.0.0.1:8080%23true",
    "/console/subscribers",
    "/console/namespaces",
    "/console/history",
    "/console/charts",
    "/console/metric?name=rollcall_instances",
    "/console/switches",
    "/console/reports",
)
PLACE = {"serviceName": "orders", "ip": "10.0.0.1", "port": "8080"}
CONNECTION = "1700000000000_10.1.2.3_51234"


def register(browser: Browser, **values: str) -> None:
    answer = browser.client.post("/nacos/v1/ns/instance", query_string={**PLACE, **values})
    assert answer.text == "ok"


def instance(browser: Browser, **values: str) -> dict[str, Any]:
    found: dict[str, Any] = browser.client.get("/nacos/v1/ns/instance", query_string={**PLACE, **values}).get_json()
    return found


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_shown_and_runs_nothing_of_its_own(browser: Browser, path: str) -> None:
    register(browser)
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", answer.text)


@pytest.mark.parametrize("path", PAGES)
def test_hostile_texts_are_shown_as_texts(browser: Browser, node: FakeNode, path: str) -> None:
    register(browser, metadata='{"zone":"<script>alert(4)</script>"}', app=HOSTILE)
    register(browser, ip=HOSTILE, metadata='{"<b>k</b>":"<script>alert(3)</script>"}')
    node.push.subscribe(
        Subscriber("public", "DEFAULT_GROUP@@orders", "", "10.0.0.9", 5_000, HOSTILE, HOSTILE, 1_000, False)
    )
    text = browser.get(path).text
    assert "<script>alert" not in text
    assert "<img/src=x" not in text
    assert "<b>k" not in text


@pytest.mark.parametrize("name", ["name", "group", "namespaceId", "serviceName", "id", "ip", "edit", "done", "next"])
@pytest.mark.parametrize("path", ["/console/services", "/console/explain", "/console/namespaces", "/console/clients"])
def test_parameters_are_shown_as_texts(browser: Browser, path: str, name: str) -> None:
    assert "<script>alert" not in browser.get(path, **{name: HOSTILE}).text


def test_a_client_shows_the_patterns_that_it_watches(browser: Browser, node: FakeNode) -> None:
    class Loader:
        def current(self, ids: Set[str] | None = None) -> dict[str, Any]:
            meta = {"createTime": 1, "lastActiveTime": 2, "labels": {}, "fuzzyWatches": ["public>>g>>*", HOSTILE]}
            return {"5_10.0.0.9_7": {"metaInfo": meta}}

    node.loader = Loader()  # type: ignore[assignment]
    node.clients.own.connect(ClientInfo("5_10.0.0.9_7", "10.0.0.9", 7, "shop", "v3"))
    text = browser.get("/console/client", id="5_10.0.0.9_7").text
    assert "public&gt;&gt;g&gt;&gt;*" in text
    assert "<script>alert" not in text


def test_the_address_of_the_old_console_leads_here(browser: Browser) -> None:
    answer = browser.get("/index.html")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/nacos/")


def test_a_console_that_is_switched_off_is_not_there() -> None:
    node = FakeNode(settings=make_settings(rollcall_console_enabled="false"))
    browser = Browser(create_app(node).test_client())  # type: ignore[arg-type]
    paths = [*PAGES, "/console/assets/console.css", "/console/events", "/console/login"]
    assert {browser.get(path).status_code for path in paths} == {404}


def test_files_are_kept_by_browsers_and_change_their_address(browser: Browser) -> None:
    found = re.findall(r'(?:src|href)="/nacos(/console/assets/[^"]+)"', browser.get("/").text)
    assert {path.partition("?")[0].rpartition(".")[2] for path in found} == {"css", "js", "svg"}
    for path in found:
        answer = browser.get(path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["Cache-Control"]
    assert browser.get("/console/assets/nope.js").status_code == 404


# --- services and instances ---------------------------------------------------------------------


def test_services_come_in_pages_and_by_filters(browser: Browser) -> None:
    for number in range(45):
        register(browser, serviceName=f"s-{number:02}")
    first = browser.get("/console/services").text
    assert "s-19" in first
    assert "s-20" not in first
    assert "45 in all, page 1 of 3" in first
    assert "s-44" in browser.get("/console/services", page="3").text
    found = browser.get("/console/services", name="s-3*").text
    assert "s-30" not in found or "s-39" in found
    assert "No service of this namespace passes these filters." in browser.get("/console/services", name="nope").text


def test_of_many_services_the_overview_counts_all_but_leaves_the_owners_out(
    browser: Browser, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.http.console.overview.OWNED_MAX", 2)
    for number in range(2):
        register(browser, serviceName=f"s-{number}")
        register(browser, serviceName=f"s-{number}", ip="10.0.0.2")
    assert "2 owned by this member" in browser.get("/").text
    node.count_history.tick(0)
    register(browser, serviceName="s-2")
    browser.client.post("/nacos/v1/ns/service", query_string={"serviceName": "empty"})
    text = browser.get("/").text
    assert re.findall(r'class="figure">(\d+)<', text)[:2] == ["4", "5"], "the last sample knows of less"
    assert "1 without instances" in text
    assert "owned by" not in text


def test_a_filter_that_is_refused_says_why(browser: Browser) -> None:
    assert 'role="alert"' in browser.get("/console/services", name="a{1,9}").text


def test_an_instance_shows_its_source_and_whether_clients_see_it(browser: Browser) -> None:
    register(browser)
    register(browser, ip="10.0.0.2", ephemeral="false", enabled="false")
    text = browser.get("/console/service", serviceName="orders").text
    rows = {row: text.partition(f"{row}:8080</a>")[2].partition("</tr>")[0] for row in ("10.0.0.1", "10.0.0.2")}
    assert "HTTP" in rows["10.0.0.1"]
    assert "healthy" in rows["10.0.0.1"]
    assert "persistent" in rows["10.0.0.2"]
    assert "disabled" in rows["10.0.0.2"]


def publish(node: FakeNode, weight: float = 3.0, zone: str = "a") -> None:
    if node.clients.table.client(CONNECTION) is None:
        node.clients.own.connect(ClientInfo(CONNECTION, "10.1.2.3", 51_234, "shop", "Nacos-Java-Client:v2.5.1"))
    command = RegisterInstance("DEFAULT_GROUP@@orders", "10.0.0.1", 8_080, weight=weight, metadata={"zone": zone})
    node.clients.own.register(CONNECTION, command)


def test_what_belongs_to_a_connection_is_not_deregistered_here(browser: Browser, node: FakeNode) -> None:
    publish(node)
    text = browser.get("/console/service", serviceName="orders").text
    assert "belongs to the connection of its client" in text
    assert "/console/instance/edit" in text
    assert "/console/instance/remove" not in text
    answer = browser.get("/console/instance/remove?serviceName=orders&ip=10.0.0.1&port=8080")
    assert answer.status_code == 409
    assert "Not changed here" in answer.text
    assert "belongs to the gRPC connection" in answer.text
    register(browser)
    assert "/console/instance/remove" in browser.get("/console/service", serviceName="orders").text, "beats hold it too"


def test_what_a_connection_publishes_is_changed_beside_it(browser: Browser, node: FakeNode) -> None:
    publish(node)
    register(browser, ip="10.0.0.2")
    page = "/console/instance/edit?serviceName=orders&ip=10.0.0.1&port=8080"
    assert "Your changes are kept beside what the client registers" in browser.get(page).text
    fields = {"weight": "3.0", "enabled": "true", "metadata": "zone=a\nby=ops"}
    assert browser.send("/console/instance/edit", page, **PLACE, **fields).status_code == 303
    publish(node, weight=4.0, zone="b")
    found = instance(browser)
    assert (found["weight"], found["metadata"]) == (4.0, {"zone": "b", "by": "ops"}), "it hides only what was changed"
    fields = {"weight": "7", "metadata": "zone=b"}
    assert browser.send("/console/instance/edit", page, **PLACE, **fields).status_code == 303
    found = instance(browser)
    assert (found["weight"], found["metadata"]) == (7.0, {"zone": "b"})
    assert "disabled" in browser.get("/console/service", serviceName="orders").text
    override = node.durable.overrides.find("public", "DEFAULT_GROUP@@orders", "10.0.0.1:8080:unknown:DEFAULT")
    assert override == Override(7.0, False)


def test_a_form_without_changes_beside_an_instance_changes_nothing(browser: Browser, node: FakeNode) -> None:
    publish(node)
    page = "/console/instance/edit?serviceName=orders&ip=10.0.0.1&port=8080"
    fields = {"weight": "3.0", "enabled": "true", "metadata": "zone=a"}
    assert browser.send("/console/instance/edit", page, **PLACE, **fields).status_code == 303
    assert node.durable.overrides.records() == []
    answer = browser.send("/console/instance/edit", page, **PLACE, weight="much", metadata="zone=a")
    assert (answer.status_code, 'role="alert"' in answer.text) == (400, True)


def test_an_unknown_service_is_not_found(browser: Browser) -> None:
    assert browser.get("/console/service").status_code == 404
    assert browser.get("/console/service", serviceName="nope").status_code >= 400


def test_weight_metadata_and_enabled_are_changed(browser: Browser) -> None:
    register(browser, metadata='{"old":"1"}')
    register(browser, ip="10.0.0.2")
    page = "/console/instance/edit?serviceName=orders&ip=10.0.0.1&port=8080"
    assert "old=1" in browser.get(page).text
    answer = browser.send("/console/instance/edit", page, **PLACE, weight="2.5", metadata="zone=eu-1\nnote = a=b ")
    assert answer.status_code == 303
    assert "done=instance-saved" in answer.headers["Location"]
    assert "The instance was changed." in browser.get(answer.headers["Location"].removeprefix("/nacos")).text
    found = instance(browser)
    assert (found["weight"], found["metadata"]) == (2.5, {"zone": "eu-1", "note": "a=b"})
    assert "disabled" in browser.get("/console/service", serviceName="orders").text


def test_what_another_member_wrote_is_fetched_before_it_is_shown(browser: Browser, node: FakeNode) -> None:
    register(browser)
    node.cluster.give_to(PEER)
    page = "/console/instance/edit?serviceName=orders&ip=10.0.0.1&port=8080"
    assert (
        browser.send("/console/instance/edit", page, **PLACE, weight="2", enabled="true", metadata="").status_code
        == 303
    )
    assert node.forwarder.tags == ["DEFAULT_GROUP@@orders"]
    assert node.replication.refreshed == [(PEER, (datum_key("public", "DEFAULT_GROUP@@orders"),))]


def test_metadata_is_emptied(browser: Browser) -> None:
    register(browser, metadata='{"old":"1"}')
    page = "/console/instance/edit?serviceName=orders&ip=10.0.0.1&port=8080"
    browser.send("/console/instance/edit", page, **PLACE, weight="1", metadata=" ", enabled="true")
    assert instance(browser)["metadata"] == {}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"weight": "much", "metadata": ""}, ""),
        ({"weight": "1", "metadata": "no sign"}, "Line 1"),
        ({"weight": "1", "metadata": "{broken"}, "JSON"),
        ({"weight": "1", "metadata": '{"a":1}'}, "text"),
    ],
)
def test_what_is_not_allowed_comes_back_with_the_reason(browser: Browser, fields: dict[str, str], why: str) -> None:
    register(browser)
    page = "/console/instance/edit?serviceName=orders&ip=10.0.0.1&port=8080"
    answer = browser.send("/console/instance/edit", page, **PLACE, **fields)
    assert answer.status_code == 400
    assert why in answer.text
    assert 'role="alert"' in answer.text
    assert instance(browser)["weight"] == 1.0


@pytest.mark.parametrize("kind", ["true", "false"])
def test_an_instance_is_deregistered_after_a_question(browser: Browser, kind: str) -> None:
    register(browser, ephemeral=kind)
    page = "/console/instance/remove?serviceName=orders&ip=10.0.0.1&port=8080"
    asked = browser.get(page).text
    assert f'name="ephemeral" value="{kind}"' in asked
    answer = browser.send("/console/instance/remove", page, **PLACE, ephemeral=kind)
    assert answer.status_code == 303
    assert "No instances" in browser.get("/console/service", serviceName="orders").text or kind == "false"
    assert browser.client.get("/nacos/v1/ns/instance", query_string=PLACE).status_code == 404


# --- forms of others ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/console/instance/remove", "/console/namespaces", "/console/switches"])
@pytest.mark.parametrize("token", ["", "0" * 64])
def test_a_form_of_another_page_changes_nothing(browser: Browser, path: str, token: str) -> None:
    register(browser)
    browser.get("/")
    answer = browser.client.post(f"/nacos{path}", data={**PLACE, "form": token, "ephemeral": "true"})
    assert answer.status_code == 403
    assert instance(browser)["ip"] == "10.0.0.1"


def test_the_token_of_one_browser_is_of_no_use_to_another(browser: Browser, node: FakeNode) -> None:
    token = browser.token()
    other = Browser(browser.client.application.test_client())
    other.get("/")
    answer = other.client.post("/nacos/console/namespaces", data={"form": token, "id": "x", "name": "x"})
    assert answer.status_code == 403
    assert node.durable.namespaces() == []


# --- namespaces, switches, reports --------------------------------------------------------------


def test_namespaces_are_created_renamed_and_removed(browser: Browser, node: FakeNode) -> None:
    assert browser.send("/console/namespaces", id="dev", name="Dev", description="d").status_code == 303
    again = browser.send("/console/namespaces", id="dev", name="Dev", description="d")
    assert again.status_code == 400
    assert 'role="alert"' in again.text
    browser.send("/console/namespaces/edit", "/console/namespaces?edit=dev", id="dev", name="New", description="")
    assert [(one.id, one.name) for one in node.durable.namespaces()] == [("dev", "New")]
    browser.send("/console/namespaces/remove", "/console/namespaces/remove?id=dev", id="dev")
    assert node.durable.namespaces() == []


def test_a_switch_is_set_and_a_wrong_value_is_not(browser: Browser, node: FakeNode) -> None:
    page = "/console/switches"
    assert browser.send("/console/switches", page, name="pushEnabled", value="false").status_code == 303
    assert browser.send("/console/switches", page, name="clientBeatInterval", value="7000").status_code == 303
    assert (node.durable.switches.push_enabled, node.durable.switches.client_beat_interval) == (False, 7_000)
    assert browser.send("/console/switches", page, name="checkTimes", value="0").status_code == 400
    assert browser.send("/console/switches", page, name="masters", value="[]").status_code == 400


def test_a_switch_that_turns_clients_away_asks_and_is_on_every_page(browser: Browser, node: FakeNode) -> None:
    register(browser)
    page = "/console/switches"
    asked = browser.send(page, page, name="overriddenServerStatus", value="DOWN")
    assert asked.status_code == 200
    assert "0 over gRPC and 1 that registered over HTTP" in asked.text
    assert node.durable.switches.overridden_server_status is None, "nothing is set before the answer"
    assert "alert" not in browser.get("/").text
    assert browser.send(page, page, name="overriddenServerStatus", value="DOWN", sure="1").status_code == 303
    node.now_ms += 60_000
    for path in ("/", "/console/members", "/console/explain", "/console/namespaces", "/console/switches"):
        text = browser.get(path).text
        assert 'role="alert"><strong>Members refuse all calls of clients.' in text, path
    assert "a switch turns clients away" in browser.get("/").text
    assert "alarm" in browser.get("/").text
    assert browser.send(page, page, name="overriddenServerStatus", value="null").status_code == 303
    assert 'role="alert"' not in browser.get("/").text


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("overriddenServerStatus", "READ_ONLY", "Members refuse the writes and beats of clients"),
        ("limitedUrlMap", '{"/nacos/v1/ns/instance":403}', "Members answer calls below /nacos/v1/ns/instance with"),
        ("healthCheckEnabled", "false", "dead instances stay in the lists as healthy"),
    ],
)
def test_each_harmful_switch_says_what_it_does(browser: Browser, name: str, value: str, words: str) -> None:
    page = "/console/switches"
    assert words in browser.send(page, page, name=name, value=value).text
    assert browser.send(page, page, name=name, value=value, sure="1").status_code == 303
    assert words in browser.get("/console/namespaces").text


def test_reports_are_listed_and_one_is_shown_without_rights(tmp_path: Any) -> None:
    night = tmp_path / "night=2026-11-20"
    night.mkdir()
    (night / "summary.json").write_text('{"night":"2026-11-20","verdict":"divergent","line":"2 <b>findings</b>"}')
    (night / "report.html").write_text("<style>p{color:red}</style><p>report</p>")
    (tmp_path / "night=2026-11-21").mkdir()
    node = FakeNode(settings=make_settings(rollcall_console_reports=str(tmp_path)))
    browser = Browser(create_app(node).test_client())  # type: ignore[arg-type]
    listed = browser.get("/console/reports").text
    assert "divergent" in listed
    assert "2 &lt;b&gt;findings" in listed
    assert "cannot be read" in listed
    line = "agreed: 3 members, 9 instances of 5 services; night 2026-11-20"
    (night / "summary.json").write_text(f'{{"night":"2026-11-20","verdict":"agreed","line":"{line}"}}')
    assert line in browser.get("/console/reports").text
    chinese = browser.client.get("/nacos/console/reports", headers={"Accept-Language": "zh-CN"}).text
    assert "一致：3 个节点，5 个服务的 9 个实例" in chinese
    shown = browser.get("/console/report", night="2026-11-20")
    assert "report" in shown.text
    assert shown.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    for wrong in ("2026-11-21", "../night=2026-11-20", ""):
        assert browser.get("/console/report", night=wrong).status_code == 404


def test_a_node_that_does_not_serve_says_so_on_the_page(browser: Browser, node: FakeNode) -> None:
    node.cluster.own_state = MemberState.STARTING
    answer = browser.get("/console/service", serviceName="orders")
    assert answer.status_code == 503
    assert "try another member" in answer.text


def test_a_page_says_why_clients_see_an_unhealthy_instance_as_healthy(browser: Browser, node: FakeNode) -> None:
    register(browser)
    node.naming.set_health("public", "DEFAULT_GROUP@@orders", "10.0.0.1:8080:unknown:DEFAULT", False)
    for path in ("/console/service?serviceName=orders", "/console/explain?serviceName=orders&ip=10.0.0.1&port=8080"):
        text = browser.get(path).text
        assert "as none is healthy" in text
        assert "by the threshold" not in text
    assert "none healthy" in browser.get("/console/services").text
    register(browser, ip="10.0.0.2")
    text = browser.get("/console/services").text
    assert "none healthy" not in text
    assert ">active<" not in text


def test_an_explanation_finds_the_cluster_of_an_instance(browser: Browser) -> None:
    register(browser, clusterName="gray")
    text = browser.get("/console/explain", **PLACE).text
    assert "in the cluster gray of" in text
    assert "never registered" not in text


def test_pages_show_all_while_a_switch_turns_clients_away(browser: Browser, node: FakeNode) -> None:
    register(browser)
    browser.client.put("/nacos/v1/ns/operator/switches?entry=overriddenServerStatus&value=DOWN")
    node.now_ms += 60_000
    assert browser.client.get("/nacos/v1/ns/instance/list?serviceName=orders").status_code == 503
    assert "1 in all" in browser.get("/console/services").text
    for path in ("/console/service", "/console/explain", "/console/instance/edit", "/console/service/differences"):
        answer = browser.get(path, **PLACE)
        assert answer.status_code == 200, path
        assert "Members refuse all calls of clients" in answer.text
    assert "10.0.0.1:8080" in browser.get("/console/find", text="10.0.0.1").text
    for path in ("/", "/console/members"):
        assert "refuses clients" in browser.get(path).text, "a member that is UP is not well then"


def test_a_node_whose_reads_are_refused_does_not_show_an_empty_list(browser: Browser, node: FakeNode) -> None:
    register(browser)
    node.cluster.standalone = False
    node.cluster.own_state = MemberState.DOWN
    for path in ("/console/services", "/console/find?text=orders"):
        text = browser.get(path).text
        assert 'role="alert"' in text
        assert "There is no service" not in text
        assert "0 in all" not in text


def test_a_planned_absence_is_no_alarm(browser: Browser, node: FakeNode) -> None:
    def out(field: str) -> None:
        info = {OWN_FIELD: {field: True}} if field else {}
        node.cluster.others = [Member(PEER, MemberState.DOWN, frozenset({CAPABILITY_VERSIONS}), info)]

    node.cluster.standalone = False
    for field, words in (("draining", ">drained<"), ("leaving", ">left in order<")):
        out(field)
        for path in ("/", "/console/members"):
            text = browser.get(path).text
            assert words in text
            assert "no answer" not in text.lower()
            assert "alarm" not in text
            assert 'class="badge bad"' not in text
    # Its state follows a moment later: until then it must not be counted as UP, too.
    draining = {OWN_FIELD: {"draining": True}}
    node.cluster.others = [Member(PEER, MemberState.UP, frozenset({CAPABILITY_VERSIONS}), draining)]
    text = browser.get("/").text
    assert '1<span class="of"> of 2 UP</span>' in text
    assert "1 out of service as planned" in text
    assert "1 notice<" in text
    out("")
    text = browser.get("/").text
    assert "no answer" in text
    assert "alarm" in text


def test_a_drained_node_still_tells_operators_how_it_is(browser: Browser, node: FakeNode) -> None:
    node.cluster.standalone = False
    node.cluster.draining, node.cluster.own_state = True, MemberState.DOWN
    text = browser.get("/").text
    assert "this one is drained" in text
    assert "1 notice<" in text, "that it is not ready is part of the plan"
    assert ">drained<" in browser.get("/console/members").text
    assert browser.client.get("/nacos/v1/ns/operator/metrics").get_json()["status"] == "DOWN"
    assert browser.client.put("/nacos/v1/ns/operator/log?logName=a&logLevel=INFO").status_code == 503
    assert browser.client.get("/nacos/v1/ns/instance/list?serviceName=orders").status_code == 503
