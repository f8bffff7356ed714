"""The site of the pages: built without a warning, with every page in it, and no link that leads nowhere."""

import runpy
from pathlib import Path

import pytest

from scripts.docs.site import ROOT, PageLinks, broken_links, build, size_of

pytest.importorskip("sphinx")

DOCS = ROOT / "docs"
SIZE_MAX = 12_000_000
"""Bytes of the whole site: it is copied to machines without a network."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    assert build(folder) == 0, "Sphinx printed what is wrong"
    return folder


def test_no_link_leads_nowhere(site: Path) -> None:
    assert not list(broken_links(site))


def test_every_page_is_in_the_navigation_of_each(site: Path) -> None:
    wanted = {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md")}
    wanted = {name for name in wanted if not name.startswith(("changes/", "decisions/"))} - {"index.html"}
    assert len(wanted) > 25
    assert wanted <= set(PageLinks((site / "index.html").read_text(encoding="utf-8")).links)


def test_every_decision_is_in_their_list(site: Path) -> None:
    listed = PageLinks((site / "decisions.html").read_text(encoding="utf-8")).links
    assert {f"decisions/{page.stem}.html" for page in (DOCS / "decisions").glob("*.md")} <= set(listed)


def test_it_is_small(site: Path) -> None:
    pages, files, size = size_of(site)
    assert pages < files
    assert size < SIZE_MAX


def test_a_page_that_the_index_does_not_name_is_in_the_navigation_all_the_same() -> None:
    add = runpy.run_path(str(DOCS / "conf.py"))["add_unnamed_pages"]
    source = ["concepts\n% every page that is not named here\n"]
    add(None, "index", source)
    lines = source[0].splitlines()
    assert lines.count("concepts") == 1
    assert "glossary" in lines
    assert "index" not in lines


def test_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    (tmp_path / "one.html").write_text(
        '<p id="here"><a href="#here">a</a><a href="two.html#there">b</a><a href="https://example.org/x">c</a>'
        '<a href="#gone">d</a><a href="two.html#gone">e</a><a href="three.html">f</a>'
        '<img src="lost.png"><script src="https://example.org/x.js"></script>'
    )
    (tmp_path / "two.html").write_text('<a name="there"></a>')
    assert list(broken_links(tmp_path)) == [
        "one.html leads to #gone, which has no such anchor",
        "one.html leads to two.html#gone, which has no such anchor",
        "one.html leads to three.html, where no file is",
        "one.html leads to lost.png, where no file is",
        "one.html fetches https://example.org/x.js",
    ]
