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
    assert "the text in their name" in browser.get("/console/find", text="order").text
    assert "Nothing that you may read has it" in browser.get("/console/find", text="nowhere").text


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
