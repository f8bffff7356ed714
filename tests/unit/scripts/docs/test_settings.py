"""The pages of settings have what the program reads."""

from scripts.docs.settings import DOCS, OTHERS, SUBJECTS, documents


def test_the_pages_of_settings_are_up_to_date() -> None:
    made = documents()
    assert {name: (DOCS / name).read_text(encoding="utf-8") for name in made} == made, "python -m scripts.docs.settings"


def test_each_group_has_settings_and_its_heading_on_its_page() -> None:
    made = documents()
    assert [one.title for one in SUBJECTS if f"\n## {one.title}\n" not in made[one.page]] == []
    assert f"## {OTHERS.title}" not in made[OTHERS.page], "name the new setting in a group of scripts/docs/settings.py"
