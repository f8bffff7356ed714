"""Blocks of code on the pages: each is run by a test, or checked by its language, or says why not."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.docs.cli_help import COLUMNS
from tests.support.block_checks import CHECKS, changed_by, check_diff, hunks_of
from tests.support.processes import clean_environ
from tests.support.snippets import PRINTED, ROOT, USERS, Snippet, outside_fences, pages, snippets

RUN_BY = {
    "sh": "tests/cluster/test_snippets.py",
    **dict.fromkeys(("java", "go", "js", "python"), "tests/sdk/test_quick_start.py"),
    **dict.fromkeys(("{toctree}", "{include}"), "scripts/docs/site.py"),
}
"""What runs all blocks of a language that have no mark, or the mark that it knows."""
LANGUAGES = {*RUN_BY, *CHECKS, "sql", "fish"}
PROGRAMS = {"python", "java", "go", "js"}
ALL = snippets()
NAMED = r"(curl|dig|docker|kubectl|pip|python3?|rollcall|systemctl) |(scripts|deploy|\.venv|\.ci)/"
INDENTED, COMMAND = re.compile(rf" {{4,}}({NAMED}|\$ )"), re.compile(NAMED)
COPIED = ("app", "distro", "scripts", "tests", "docs", "deploy", "setup.cfg", "pyproject.toml", "README.md")
RUN_S = 300
RECIPES = "docs/recipes.md"
FILES_MAX = (("app/http/v1/", 3), ("app/config/", 2), ("app/replication/", 5))
"""The most files, outside of tests and docs, that each recipe changes, with the folder that its diff begins in."""


def named(one: Snippet) -> str:
    """Place and language, by which the run of this module lists all blocks."""
    return f"{one}-{one.language or 'no-language'}"


@pytest.mark.parametrize("one", ALL, ids=named)
def test_a_block_is_run_or_checked_or_says_why_not(
    one: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert one.language in LANGUAGES, "nothing runs or checks this language"
    if one.why_not_run:
        assert one.language not in CHECKS or one.language == "text", "it can be checked"
    elif one.run_by:
        assert Path(one.page).name in (ROOT / one.run_by).read_text(encoding="utf-8"), "which reads the page"
    elif one.programs:
        assert one.language in PROGRAMS
    elif one.mark == PRINTED:
        assert one.language == "text"
    elif one.language in CHECKS:
        assert not one.mark
        monkeypatch.setenv("COLUMNS", COLUMNS)
        CHECKS[one.language](one, tmp_path)
    else:
        assert one.mark in ("", USERS), "a mark is `not run: REASON`, `run by: TEST` or `with users`"
        assert one.language in RUN_BY, "it needs a mark"
        assert one.language not in PROGRAMS, "it needs a mark"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_command_hides_outside_of_a_block_or_as_text(page: Path) -> None:
    assert not [f"line {number}: {line}" for number, line in outside_fences(page) if INDENTED.match(line)]
    for one in ALL:
        if one.language == "text" and "[--" not in one.text:
            # Of what a program prints a line may be in the shape of a command, but not all of it.
            lines = [line for line in one.text.splitlines() if not line.startswith((" ", "#"))]
            assert not lines or not all(map(COMMAND.match, lines)), f"{one}: commands are of the language sh"


def test_most_commands_are_run() -> None:
    assert sum(one.language == "sh" and not one.why_not_run for one in ALL) >= 20


@pytest.mark.parametrize("one", [one for one in ALL if one.language == "diff" and "/test_" in one.text], ids=str)
def test_a_change_that_is_shown_works(one: Snippet, tmp_path: Path) -> None:
    """In a copy of the tree, by the tests that it changes."""
    assert CHECKS["diff"] is check_diff
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    tests = []
    for name, hunks in hunks_of(one.text):
        file = tmp_path / name
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text(changed_by(before, hunks), encoding="utf-8")
        tests += [name] if "/test_" in name else []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=tmp_path,
        env={**clean_environ(), "PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-2_000:]


def test_a_recipe_changes_few_files() -> None:
    diffs = [one.text for one in ALL if one.page == RECIPES and one.language == "diff"]
    changed = [[name for name, _ in hunks_of(one) if not name.startswith(("tests/", "docs/"))] for one in diffs]
    for names, (folder, files_max) in zip(changed, FILES_MAX, strict=True):
        assert names[0].startswith(folder)
        assert len(names) <= files_max, names
