"""The page of links, and what the overview says of them."""

import re
from collections.abc import Iterator

import pytest

from app.http.factory import create_app
from tests.support.fake_node import FakeNode
from tests.support.linked_node import linked_node
from tests.unit.http.console.conftest import Browser

PATH = "/console/links"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def linked() -> Iterator[FakeNode]:
    with linked_node() as node:
        yield node


def browser_of(node: FakeNode) -> Browser:
    return Browser(create_app(node).test_client())


def names(text: str) -> list[str]:
    return re.findall(r'<th scope="row">(.*?)<br>', text)


def test_what_is_wrong_comes_first(linked: FakeNode) -> None:
    browser = browser_of(linked)
    text = browser.get(PATH).text
    assert names(text) == ["dc-b", "old"]
    assert text.count(">not heard yet<") == 2
    follower = linked.links._threads["old"].follower
    follower.stale, follower.refusal = True, HOSTILE
    text = browser.get(PATH).text
    assert (names(text), ">silent<" in text) == (["old", "dc-b"], True)
    assert "127.0.0.1:8848, link old: &lt;script&gt;" in text
    assert HOSTILE not in text
    assert names(browser.get(PATH, sort="link").text) == ["dc-b", "old"]
    assert names(browser.get(PATH, sort="link", down="1").text) == ["old", "dc-b"]
    assert names(browser.get(PATH, sort="nothing").text) == ["old", "dc-b"]


def test_the_overview_tells_of_a_silent_link_and_of_settings_that_are_not_followed(linked: FakeNode) -> None:
    browser = browser_of(linked)
    linked.links._threads["dc-b"].follower.stale = True
    assert "The link dc-b is silent at 127.0.0.1:8848." in browser.get("/").text
    linked.links.error = "rollcall.link.b.servers= is not allowed"
    for path in ("/", PATH):
        assert (
            "does not follow its settings of links: rollcall.link.b.servers= is not allowed" in browser.get(path).text
        )


def test_the_page_names_the_fields_that_calls_set(linked: FakeNode) -> None:
    linked.durable.links.change("dc-b", {"services": "<b>", "weight": "2"}, lambda _: None)
    text = browser_of(linked).get(PATH).text
    assert "<li>Link dc-b: services=&lt;b&gt;, weight=2</li>" in text


def test_a_cluster_without_links_says_how_to_add_one(browser: Browser) -> None:
    assert "This cluster has no links to other clusters." in browser.get(PATH).text
