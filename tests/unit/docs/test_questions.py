"""The questions of newcomers, each answered within two clicks of the first page, in both languages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CLICKS_MAX = 2
ENGLISH = {
    "is it for me": ("docs/faq.md", "is-it-for-me"),
    "install it on three machines": ("docs/three-machines.md", ""),
    "move from Nacos 2": ("docs/migration/nacos-2.md", ""),
    "an instance does not go away": ("docs/troubleshooting.md", "an-instance-does-not-go-away"),
    "what does it cost": ("docs/sizing.md", ""),
}
CHINESE = {
    "是否适合我": ("docs/zh/faq.md", "是否适合我"),
    "在三台机器上安装": ("docs/zh/operations.md", "安装"),
    "从 Nacos 2 迁移": ("docs/zh/migration.md", "从-nacos-2x-迁移"),
    "实例一直存在": ("docs/zh/troubleshooting.md", "实例一直存在"),
    "需要多少资源": ("docs/zh/faq.md", "需要多少资源"),
}
Place = tuple[str, str]
"""A page, and a heading of it as its anchor; empty for its beginning."""


def links_of(page: str) -> set[Place]:
    """Return the places to which a page's links lead."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = set()
    for path, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if "://" not in path:
            target = (ROOT / page).parent / path if path else ROOT / page
            found.add((target.resolve().relative_to(ROOT).as_posix(), anchor))
    return found


def anchors_of(page: str) -> set[str]:
    """Return the anchors of a page's headings, as code hosts name them."""
    heads = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def clicks(start: str, wanted: Place) -> int:
    """Return how many links lead from the beginning of a page to a place; one more than CLICKS_MAX for "too many"."""
    places: set[Place] = {(start, "")}
    for number in range(1, CLICKS_MAX + 1):
        places = {place for page, _ in places if page.endswith(".md") for place in links_of(page)}
        if wanted in places:
            return number
    return CLICKS_MAX + 1


@pytest.mark.parametrize(
    ("first", "answers", "most"),
    [
        ("README.md", ENGLISH, 1),
        ("README.zh-CN.md", CHINESE, 1),
        ("docs/index.md", ENGLISH, CLICKS_MAX),
        ("docs/index.md", CHINESE, CLICKS_MAX),
    ],
)
def test_each_question_is_answered_near_the_first_page(first: str, answers: dict[str, Place], most: int) -> None:
    far = {question: found for question, place in answers.items() if (found := clicks(first, place)) > most}
    assert not far


@pytest.mark.parametrize("answers", [ENGLISH, CHINESE])
def test_each_answer_has_its_heading(answers: dict[str, Place]) -> None:
    assert not [(page, anchor) for page, anchor in answers.values() if anchor and anchor not in anchors_of(page)]


def test_a_place_without_a_way_is_too_far() -> None:
    assert clicks("README.md", ("docs/faq.md", "no-such-heading")) == CLICKS_MAX + 1
