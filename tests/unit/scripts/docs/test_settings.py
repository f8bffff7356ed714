"""The settings page says what the program reads."""

from pathlib import Path

from scripts.docs.settings import document

ROOT = Path(__file__).resolve().parents[4]


def test_the_settings_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == document()
