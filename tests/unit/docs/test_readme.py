"""README.md is one screen, and leads to what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES_MAX = 60


def test_it_is_one_screen() -> None:
    assert len(README.splitlines()) <= LINES_MAX


def test_its_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    assert len(links) > 20
    assert not [link for link in links if not link.startswith("http") and not (ROOT / link).exists()]
