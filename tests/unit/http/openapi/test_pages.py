"""The description as pages: no script, nothing from elsewhere, each call in its place."""

import re
from html.parser import HTMLParser

import pytest
from flask.testing import FlaskClient

from app.http.openapi.api_page import with_code

BASE = "/nacos/api-docs"


class _Reader(HTMLParser):
    """Collects what a page refers to, and its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.elements: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "src", "action"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")


def read(client: FlaskClient, path: str) -> _Reader:
    answer = client.get(path)
    assert answer.status_code == 200, path
    assert answer.content_type == "text/html;charset=UTF-8"
    assert "script-src" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self';")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    reader = _Reader()
    reader.feed(answer.get_data(as_text=True))
    return reader


@pytest.fixture
def parts(client: FlaskClient) -> list[str]:
    links = read(client, BASE).links
    return sorted({one.partition("#")[0] for one in links if one.startswith(f"{BASE}/") and one[-4:] != ".css"})


def test_no_page_has_a_script_or_refers_elsewhere(client: FlaskClient, parts: list[str]) -> None:
    assert len(parts) > 20
    for path in [BASE, *parts]:
        page = read(client, path)
        assert not page.elements & {"script", "iframe", "img", "object", "form"}
        assert not {one for one in page.attributes if one.startswith("on")} | page.attributes & {"style"}
        assert all(one.startswith(("/nacos/", "#")) for one in page.links)
        assert len(set(page.ids)) == len(page.ids)


def test_each_link_leads_somewhere(client: FlaskClient, parts: list[str]) -> None:
    ids = {path: read(client, path).ids for path in [BASE, *parts]}
    links = {link: link.partition("#") for link in read(client, BASE).links}
    for path in {path for path, _, _ in links.values()} - {""}:
        assert client.get(path).status_code == 200, path
    for link, (path, _, place) in links.items():
        assert not place or place in ids[path or BASE], link


def test_the_pages_have_the_style_of_the_console_and_lead_to_it(client: FlaskClient) -> None:
    style = client.get(f"{BASE}/style.css").get_data(as_text=True)
    assert ".bar {" in style
    assert "--accent" in style
    text = client.get(f"{BASE}/v1-instance").get_data(as_text=True)
    assert 'href="/nacos/"' in text
    assert f'<a href="{BASE}/v1-instance" aria-current="page">' in text
    assert f'href="{BASE}"' in client.get("/nacos/").get_data(as_text=True)


def test_each_call_is_shown_with_all_its_parameters(client: FlaskClient) -> None:
    text = client.get(f"{BASE}/v1-instance").get_data(as_text=True)
    [section] = re.findall(r'<section class="card" id="post_v1_ns_instance">.*?</section>', text, re.DOTALL)
    for name in ("serviceName", "ip", "port", "weight", "metadata", "groupName"):
        assert f"<code>{name}</code>" in section
    assert "curl -X POST" in section
    assert "query or form" in section
    assert "at least 0; at most 65535" in section


def test_words_between_backticks_are_code_and_no_text_is_html() -> None:
    assert with_code("a `b<i>` & c") == "a <code>b&lt;i&gt;</code> &amp; c"


def test_an_unknown_part_is_not_found(client: FlaskClient) -> None:
    assert client.get(f"{BASE}/none").status_code == 404


def test_the_style_sheet(client: FlaskClient) -> None:
    answer = client.get(f"{BASE}/style.css")
    assert answer.content_type == "text/css;charset=UTF-8"
    assert b"url(" not in answer.data
    assert b"@import" not in answer.data
