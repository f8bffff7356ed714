"""docs/cli.md has the help that the commands print, and docs/cli-session.txt commands that there are."""

import re
import shlex

import pytest

from app.tools.cli import make_parser
from app.tools.command.asking.exits import ExitCode
from scripts.docs.cli_help import COLUMNS, PAGE, document, parsers
from scripts.docs.cli_session import COLUMNS as SESSION_COLUMNS

SESSION = PAGE.with_name("cli-session.txt")
TYPED = re.compile(r"^\$ rollcall (.+)$", re.MULTILINE)
ASKED_FOR = {
    *("services", "instances", "members", "clients", "watch", "register", "deregister", "drain", "user"),
    *("namespaces", "switches", "find", "events", "disable", "enable", "weight", "metadata", "update"),
    *("explain", "dump", "check", "compare", "heal", "simulate", "doctor", "config", "files"),
}


def test_the_help_in_the_docs_is_what_the_commands_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", COLUMNS)
    page = PAGE.read_text(encoding="utf-8")
    assert page == document(page), "python -m scripts.docs.cli_help"


def test_each_command_is_there_and_told_of() -> None:
    names = {parser.prog.removeprefix("rollcall ") for parser in parsers(make_parser())}
    assert names >= ASKED_FOR
    written, _, _ = PAGE.read_text(encoding="utf-8").partition("## Help of every command")
    assert [name for name in sorted(ASKED_FOR) if not re.search(rf"`(rollcall )?{name}\b", written)] == []


def test_each_exit_code_is_told_of() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [code for code in ExitCode if not re.search(rf"^\| {code.value} \|", page, re.MULTILINE)] == []


def test_results_come_as_json_too() -> None:
    names = ("serve", "demo", "user", "admin", "files", "completion", "migrate", "migrate plan")
    without = {"rollcall", *(f"rollcall {name}" for name in names)}
    lacking = {
        one.prog
        for one in parsers(make_parser())
        if not any("--json" in action.option_strings for action in one._actions)
    }
    assert lacking - without == {"rollcall watch-agreement"}


def test_the_session_was_typed_in_commands_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    typed = TYPED.findall(SESSION.read_text(encoding="utf-8"))
    assert len(typed) > 20
    wrong = []
    for line in typed:
        try:
            make_parser().parse_args(shlex.split(line))
        except SystemExit as error:
            if error.code != 0:
                wrong.append(line)
    capsys.readouterr()
    assert wrong == ["register orders 10.0.0.9"], "which is recorded as an error"


def test_the_help_in_the_session_is_what_the_commands_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(SESSION_COLUMNS))
    helps = {one.prog: one.format_help() for one in parsers(make_parser())}
    recorded = re.findall(
        r"^\$ (rollcall.*?) ?--help\n(.*?)\n(?=\n[$#])", SESSION.read_text(encoding="utf-8"), re.M | re.S
    )
    assert [name for name, _ in recorded] == ["rollcall", "rollcall instances"]
    for name, text in recorded:
        assert text.strip() == helps[name].strip(), "python -m scripts.docs.cli_session"


def test_the_session_shows_no_trace_and_each_kind_of_end() -> None:
    text = SESSION.read_text(encoding="utf-8")
    assert "Traceback" not in text
    assert {int(code) for code in re.findall(r"^\[exit code (\d+)\]$", text, re.MULTILINE)} >= {2, 3, 4, 5}
