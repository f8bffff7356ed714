"""The pages of permissions are those of the code."""

from scripts.docs.access import DOCS, documents


def test_the_pages_are_made_of_the_tables() -> None:
    made = documents()
    assert {name: (DOCS / name).read_text(encoding="utf-8") for name in made} == made, "python -m scripts.docs.access"
