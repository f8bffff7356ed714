"""Blocks of code on the pages: each has a language, and each command is run by a test or says why not."""

import re

import pytest

from tests.support.snippets import USERS, Snippet, outside_fences, pages, snippets

LANGUAGES = {
    "sh", "text", "json", "yaml", "toml", "properties", "sql", "diff", "python", "java", "go", "js",
    "{toctree}", "{include}",
}  # fmt: skip
PROGRAMS = {"python", "java", "go", "js"}
ALL = snippets()
COMMAND = re.compile(r" {4,}(curl|rollcall|python|pip|scripts/|deploy/|\.venv/|docker|kubectl|systemctl|\$ )")


@pytest.mark.parametrize("one", ALL, ids=str)
def test_a_block_says_what_it_is_and_how_it_is_run(one: Snippet) -> None:
    assert one.language in LANGUAGES
    if one.language == "sh":
        assert one.mark in ("", USERS) or one.why_not_run, "a mark is `not run: REASON` or `with users`"
    elif one.mark:
        assert one.language in PROGRAMS, "nothing else is run"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_command_hides_outside_of_a_block(page: object) -> None:
    assert not [f"line {number}: {line}" for number, line in outside_fences(page) if COMMAND.match(line)]


def test_most_commands_are_run() -> None:
    commands = [one for one in ALL if one.language == "sh"]
    assert sum(not one.why_not_run for one in commands) >= 12
