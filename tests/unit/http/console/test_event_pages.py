"""The page of events, its CSV and its stream."""

import re

from tests.support.fake_node import PEER, FakeNode
from tests.unit.http.console.conftest import Browser
from tests.unit.http.console.test_console_pages import HOSTILE, register

PAGE = "/console/history"


def rows(text: str) -> list[str]:
    """The sentences of the events on the page."""
    return [one.strip() for one in re.findall(r'<th scope="row">([^<\n]+)', text)]


def test_the_page_shows_who_did_what_and_leads_on(browser: Browser, node: FakeNode) -> None:
    register(browser)
    node.instruments.audit.write("member.state", PEER, before="UP", after="DOWN")
    text = browser.get(PAGE).text
    assert rows(text) == [f"sees {PEER} DOWN, before UP", "10.0.0.1:8080 registered"]
    assert 'href="/nacos/console/service?namespaceId=public&amp;serviceName=DEFAULT_GROUP%40%40orders"' in text
    assert "the member" in text
    assert "2023-11-14" in text
    assert rows(browser.get(PAGE, kinds="cluster").text) == [f"sees {PEER} DOWN, before UP"]
    assert rows(browser.get(PAGE, serviceName="orders", ip="10.0.0.2").text) == []


def test_a_service_and_an_instance_lead_to_their_events(browser: Browser) -> None:
    register(browser)
    for path in ("/console/service?serviceName=orders", "/console/explain?serviceName=orders&ip=10.0.0.1&port=8080"):
        found = re.search(r'href="/nacos(/console/history[^"]+)"', browser.get(path).text)
        assert found is not None
        assert rows(browser.get(found[1].replace("&amp;", "&")).text) == ["10.0.0.1:8080 registered"]


def test_older_events_are_on_the_next_page(browser: Browser) -> None:
    for number in range(102):
        register(browser, port=str(number + 1))
    first = browser.get(PAGE).text
    found = re.search(r'rel="next" href="/nacos([^"]+)"', first)
    assert found is not None
    second = browser.get(found[1].replace("&amp;", "&")).text
    assert len(rows(first)) == 100
    assert rows(second) == ["10.0.0.1:2 registered", "10.0.0.1:1 registered"]
    assert "data-live" in first
    assert "data-live" not in second  # a page that turns must not change under its reader


def test_a_wrong_filter_is_named_and_kept(browser: Browser) -> None:
    text = browser.get(PAGE, port="x", text=HOSTILE).text
    assert "Parameter &#39;port&#39; is illegal" in text
    assert "<script>alert" not in text
    assert 'value="x"' in text


def test_what_a_member_does_not_remember_is_said(browser: Browser, node: FakeNode) -> None:
    assert "remembers all of these since 2023-11-14 22:13:20 UTC" in browser.get(PAGE).text
    node.instruments.audit.is_on = False
    assert "remembers no events" in browser.get(PAGE).text


def test_events_are_saved_as_csv(browser: Browser) -> None:
    register(browser)
    answer = browser.get(f"{PAGE}/csv", serviceName="orders")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer.headers["Content-Disposition"]
    assert "10.0.0.1:8080 registered" in answer.text


def test_audit_is_the_name_of_one_thing(browser: Browser) -> None:
    text = browser.get("/").text
    assert "<span>Events</span>" in text
    assert "<span>Nightly check</span>" in text
    assert "<span>Audit</span>" not in text
