"""The page of who may call what is the one of the code."""

from pathlib import Path

from scripts.docs.access import document

PAGE = Path(__file__).resolve().parents[3] / "docs" / "access.md"


def test_the_page_is_made_of_the_tables() -> None:
    assert PAGE.read_text(encoding="utf-8") == document(), "python -m scripts.docs.access writes it anew"
