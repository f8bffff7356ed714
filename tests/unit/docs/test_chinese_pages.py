"""README.zh-CN.md and the pages in docs/zh: their links lead to files, and their commands are there."""

import re
import shlex
from pathlib import Path

import pytest

from app.tools.cli import make_parser

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "README.zh-CN.md"
PAGES = [README, *sorted((ROOT / "docs" / "zh").glob("*.md"))]
PLACEHOLDERS = {"IP:PORT": "10.0.0.7:8080", "N": "2", "IP": "10.0.0.7"}
COMMAND = re.compile(r"(?:^|`)(rollcall(?: [^`#\n]+?)?)(?:`| *#|$)", re.MULTILINE)


def named(page: Path) -> str:
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert links
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_are_there(page: Path) -> None:
    parser = make_parser()
    for command in COMMAND.findall(page.read_text(encoding="utf-8")):
        words = [PLACEHOLDERS.get(one, one) for one in shlex.split(command)[1:]]
        if words not in (["--version"], []):
            parser.parse_args(words)


def test_the_first_page_is_one_screen() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 60


def test_each_page_has_the_other_language() -> None:
    assert len(PAGES) > 5
    text = README.read_text(encoding="utf-8")
    assert {f"docs/zh/{page.name}" for page in PAGES[1:]} <= set(re.findall(r"\]\(([^)]+)\)", text))
