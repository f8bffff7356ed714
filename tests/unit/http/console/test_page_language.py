"""The language of pages: by the browser's header or the switch; in Chinese no English is left."""

import inspect
import re
import sys
from html.parser import HTMLParser

import pytest

from app.http.api.console_cookie import COOKIE
from app.http.console.page_language import HEADER_CHARS_MAX
from app.http.console.problems import _REASONS
from app.http.factory import create_app
from app.members.membership import Membership
from tests.support.auth import ADMIN, AUTH_ON, node_with_users, token_of
from tests.support.fake_node import FakeNode, make_settings
from tests.unit.http.console.conftest import Browser
from tests.unit.http.console.test_console_pages import PAGES, register

CHINESE = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"}
SHOWN_ATTRIBUTES = ("aria-label", "title", "placeholder", "alt", "data-old", "data-off", "data-none", "data-some")
AS_THEY_ARE = ("code", "pre", "script", "style", "q", "textarea")
"""Elements whose texts are names and values. So are those that are marked as English: texts of the API."""
VOID = ("meta", "link", "img", "input", "br", "line", "path", "rect", "circle", "polyline", "polygon")
NAMES = {
    *("API", "CSV", "DEFAULT", "DOWN", "EN", "HTTP", "ID", "IP", "JSON", "MYSQL", "NONE", "Nacos", "Prometheus"),
    *("Python", "Java", "Go", "Rollcall", "SDK", "TCP", "UDP", "UP", "UTC", "Werkzeug"),
    *("boss", "drain", "epoch", "key", "masters", "name", "naming", "null", "orders", "public", "rollcall", "value"),
}
"""Words that stay: names of products, protocols and states, and the names of the services that these pages show."""
WORD = re.compile(r"(?<![\w.#])[A-Za-z][a-z]+(?![\w/])|(?<![\w.#])[A-Z]{2,}(?!\w)")
"""A word that is not within a name, such as pushEnabled or 1.0.0rc1."""


class ShownTexts(HTMLParser):
    """Collects the texts of a page that a reader sees or hears."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[bool] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in SHOWN_ATTRIBUTES and value]
        if tag not in VOID:
            self._open.append(tag in AS_THEY_ARE or ("lang", "en") in attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not any(self._open) and data.strip():
            self.found.append(data.strip())


def english_in(page: str) -> list[str]:
    """Return the texts of a page with words that are neither Chinese nor names."""
    parser = ShownTexts()
    parser.feed(page)
    return [text for text in parser.found if set(WORD.findall(text)) - NAMES]


@pytest.mark.parametrize("path", PAGES)
def test_no_english_is_left_in_a_chinese_page(browser: Browser, path: str) -> None:
    register(browser)
    register(browser, ip="10.0.0.2", ephemeral="false", enabled="false", metadata="{}")
    page = browser.client.get(f"/nacos{path}", headers=CHINESE)
    assert page.status_code == 200, page.text
    assert '<html lang="zh-CN">' in page.text
    assert english_in(page.text) == []


def test_refusals_of_forms_are_chinese_too(browser: Browser) -> None:
    page = browser.client.get("/nacos/console/service", headers=CHINESE)
    assert (page.status_code, english_in(page.text)) == (404, [])
    assert "地址中没有指定服务" in page.text


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"),
        ("zh", "zh-CN"),
        ("zh-Hant-TW,en;q=0.5", "zh-CN"),
        ("fr-FR,zh;q=0.5,en;q=0.1", "zh-CN"),
        ("en;q=0.9,zh;q=0.8", "en"),
        ("en;q=0.2,zh;q=0.8", "zh-CN"),
        ("zh;q=0", "en"),
        ("fr,*", "en"),
        ("zhuang", "en"),
        (";;;q=,,zh=\x00", "en"),
        ("zh-CN," * HEADER_CHARS_MAX, "en"),
    ],
)
def test_the_language_is_that_of_the_browser(browser: Browser, header: str, language: str) -> None:
    page = browser.client.get("/nacos/console/services", headers={"Accept-Language": header})
    assert f'<html lang="{language}">' in page.text


def test_the_switch_is_remembered_and_wins(browser: Browser) -> None:
    path = "/nacos/console/services?namespaceId=public&name=a"
    page = browser.client.get(path, headers=CHINESE)
    assert '<button class="plain" name="language" value="en" lang="en">EN</button>' in page.text
    [here] = re.findall(r'name="next" value="([^"]*)"', page.text)
    answer = browser.send("/console/language", language="en", next=here.replace("&amp;", "&"))
    assert (answer.status_code, answer.headers["Location"]) == (303, path)
    assert re.search(
        r"rollcall-language=en; HttpOnly; Max-Age=31536000; Path=/nacos/; SameSite=Strict", str(answer.headers)
    )
    assert '<html lang="en">' in browser.client.get(path, headers=CHINESE).text
    browser.send("/console/language", language="zh-CN")
    assert '<html lang="zh-CN">' in browser.get("/console/services").text


@pytest.mark.parametrize("language", ["", "fr", "zh-CN\r\nX: y", "<b>"])
def test_another_language_is_refused(browser: Browser, language: str) -> None:
    answer = browser.send("/console/language", language=language)
    assert answer.status_code == 400
    assert "en, zh-CN" in answer.text
    assert "rollcall-language" not in str(answer.headers)


@pytest.mark.parametrize("cookie", ["fr", "", "zh-CN; zh", "\xff"])
def test_a_language_that_is_not_known_is_not_taken_from_a_cookie(browser: Browser, cookie: str) -> None:
    browser.client.set_cookie("rollcall-language", cookie, path="/nacos/")
    assert '<html lang="en">' in browser.get("/console/services").text


def test_the_switch_leads_to_no_other_site(browser: Browser) -> None:
    for wanted in ("https://example.org/", "//example.org/", "/elsewhere", "\\\\example.org"):
        answer = browser.send("/console/language", language="en", next=wanted)
        assert answer.headers["Location"] == "/nacos/"


def test_a_page_of_another_site_does_not_switch(browser: Browser) -> None:
    answer = browser.client.post("/nacos/console/language", data={"language": "zh-CN"})
    assert answer.status_code == 403


def test_the_api_answers_in_english(browser: Browser, node: FakeNode) -> None:
    answer = browser.client.get("/nacos/v1/ns/instance", headers=CHINESE)
    assert answer.status_code == 400
    assert answer.text.isascii()


def test_the_pages_of_users_are_chinese_too() -> None:
    node = node_with_users()
    browser = Browser(create_app(node).test_client())  # type: ignore[arg-type]
    assert english_in(browser.client.get("/nacos/console/login", headers=CHINESE).text) == []
    browser = Browser(create_app(node).test_client())  # type: ignore[arg-type]
    browser.client.set_cookie(COOKIE, token_of(node, ADMIN))
    for path in ("/console/users", "/console/password", "/console/users/remove?name=a", "/"):
        page = browser.client.get(f"/nacos{path}", headers=CHINESE)
        assert (page.status_code, english_in(page.text)) == (200, [])


def test_a_node_without_an_administrator_asks_for_one_in_chinese() -> None:
    node = FakeNode(settings=make_settings(**AUTH_ON))
    browser = Browser(create_app(node).test_client())  # type: ignore[arg-type]
    page = browser.client.get("/nacos/console/login", headers=CHINESE)
    assert "创建首个管理员" in page.text
    assert english_in(page.text) == []


@pytest.mark.parametrize("reason", _REASONS)
def test_the_reasons_of_a_node_that_is_not_ready_are_those_of_the_membership(reason: str) -> None:
    source = inspect.getsource(sys.modules[Membership.__module__])
    assert f'"{reason}"' in source
