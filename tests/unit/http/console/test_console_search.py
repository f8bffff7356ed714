"""The search of the console: its field on every page, what it finds, and the order of its list."""

import re

import pytest

from app.http.factory import create_app
from tests.support.auth import ADMIN, ADMIN_PASSWORD, node_with_users
from tests.unit.http.console.conftest import Browser
from tests.unit.http.console.test_console_pages import HOSTILE, PAGES, register

FIELD = re.compile(r'<input type="search" id="find" name="text"')


def shown(text: str) -> list[str]:
    """The addresses in the rows of a page, from above."""
    return re.findall(r'class="address"[^>]*>([^<]+)<', text.partition('aria-labelledby="versions-head"')[0])


@pytest.mark.parametrize("path", PAGES)
def test_the_field_is_on_every_page(browser: Browser, path: str) -> None:
    register(browser)
    assert FIELD.search(browser.get(path).text)


def test_the_login_has_no_field() -> None:
    browser = Browser(create_app(node_with_users()).test_client())  # type: ignore[arg-type]
    assert not FIELD.search(browser.get("/console/login").text)
    browser.log_in(ADMIN, ADMIN_PASSWORD)
    assert FIELD.search(browser.get("/").text)


def test_instances_of_all_namespaces_are_found(browser: Browser) -> None:
    register(browser, metadata='{"zone":"berlin"}')
    register(browser, namespaceId="dev", serviceName="billing", metadata='{"zone":"berlin"}', enabled="false")
    register(browser, ip="10.0.0.2", ephemeral="false", healthy="false")
    text = browser.get("/console/find", text="10.0.0.1").text
    assert shown(text) == ["10.0.0.1:8080", "10.0.0.1:8080"]
    assert "2 in all" in text
    assert 'value="10.0.0.1"' in text
    assert "/nacos/console/service?namespaceId=dev&amp;serviceName=DEFAULT_GROUP%40%40billing" in text
    assert "disabled" in text
    assert shown(browser.get("/console/find", text="zone=berlin").text) == ["10.0.0.1:8080"] * 2
    assert shown(browser.get("/console/find", state="unhealthy").text) == ["10.0.0.2:8080"]
    assert shown(browser.get("/console/find", text="8080", sort="address", down="1").text)[0] == "10.0.0.2:8080"
    assert "the text in its name" in browser.get("/console/find", text="order").text
    assert "Nothing found among what you may read" in browser.get("/console/find", text="nowhere").text


def test_the_header_of_a_column_turns_its_order(browser: Browser) -> None:
    register(browser)
    text = browser.get("/console/find", text="8080", sort="weight").text
    assert '<th scope="col" class="n" aria-sort="ascending">' in text
    assert "sort=weight&amp;down=1" in text
    assert "sort=health" in text


def test_what_is_refused_says_why(browser: Browser) -> None:
    assert "at most 256 characters" in browser.get("/console/find", text="x" * 300).text
    assert "should be one of" in browser.get("/console/find", text="x", sort="nope").text
    assert "<script>alert" not in browser.get("/console/find", text=HOSTILE, state=HOSTILE, sort=HOSTILE).text


def test_unhealthy_instances_are_a_number_on_the_overview_that_leads_to_them(browser: Browser) -> None:
    register(browser)
    assert re.search(r"Unhealthy instances</h2><p class=\"figure\">0<", browser.get("/").text)
    register(browser, namespaceId="dev", serviceName="db", ephemeral="false", healthy="false")
    text = browser.get("/").text
    assert 'class="tile alarm"><h2>Unhealthy instances' in text
    link = re.search(r'href="/nacos(/console/find\?state=unhealthy)">1<', text)
    assert link is not None
    assert "db</a>" in browser.get(link[1]).text


def services(browser: Browser, **query: str) -> list[str]:
    text = browser.get("/console/services", **query).text
    return re.findall(r'<th scope="row"><a[^>]*>([^<]+)<', text)


def test_services_are_sorted_by_each_column_and_unhealthy_ones_found(browser: Browser) -> None:
    register(browser, serviceName="a")
    register(browser, serviceName="g2@@b", ephemeral="false", healthy="false")
    for number in (1, 2):
        register(browser, serviceName="c", ip=f"10.0.0.{number}", clusterName=f"c{number}")
    assert services(browser) == ["a", "b", "c"]
    assert services(browser, sort="name", down="1") == ["c", "b", "a"]
    assert services(browser, sort="group", down="1")[0] == "b"
    assert services(browser, sort="clusters", down="1")[0] == "c"
    assert services(browser, sort="instances", down="1")[0] == "c"
    assert services(browser, sort="healthy")[0] == "b"
    assert services(browser, sort="unhealthy", down="1")[0] == "b"
    assert services(browser, sort="protection", down="1")[0] == "b"
    assert services(browser, unhealthy="1") == ["b"]
    assert "state=unhealthy" in browser.get("/console/services").text
    assert "should be one of" in browser.get("/console/services", sort="nope").text
