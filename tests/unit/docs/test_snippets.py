"""Blocks of code on the pages: each command is run by a test, or says why not."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.snippets import USERS, Snippet, outside_fences, pages, snippets

LANGUAGES = {
    "sh", "text", "json", "yaml", "toml", "properties", "sql", "diff", "python", "java", "go", "js",
    "ini", "html", "{toctree}", "{include}", "",
}  # fmt: skip
PROGRAMS = {"python", "java", "go", "js"}
READ_BY: Mapping[str, Callable[[str], Any]] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
ALL = snippets()
NAMED = r"(curl|dig|docker|kubectl|pip|python3?|rollcall|systemctl) |(scripts|deploy|\.venv|\.ci)/"
INDENTED, COMMAND = re.compile(rf" {{4,}}({NAMED}|\$ )"), re.compile(NAMED)


@pytest.mark.parametrize("one", ALL, ids=str)
def test_a_block_says_what_it_is_and_how_it_is_run(one: Snippet) -> None:
    assert one.language in LANGUAGES
    if one.language == "sh":
        assert one.mark in ("", USERS) or one.why_not_run, "a mark is `not run: REASON` or `with users`"
    elif one.mark:
        assert one.language in PROGRAMS, "nothing else is run"
    elif one.language in ("", "text"):
        # Of what a program prints, and how it is called, a line may be in the shape of a command, but not all of it.
        lines = [line for line in one.text.splitlines() if not line.startswith((" ", "#"))]
        assert not lines or not all(map(COMMAND.match, lines)) or "[--" in one.text, "commands are of the language sh"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_command_hides_outside_of_a_block(page: Path) -> None:
    assert not [f"line {number}: {line}" for number, line in outside_fences(page) if INDENTED.match(line)]


@pytest.mark.parametrize("one", [one for one in ALL if one.language in READ_BY], ids=str)
def test_data_can_be_read(one: Snippet) -> None:
    assert READ_BY[one.language](one.text)


def test_most_commands_are_run() -> None:
    commands = [one for one in ALL if one.language == "sh"]
    assert sum(not one.why_not_run for one in commands) >= 12
