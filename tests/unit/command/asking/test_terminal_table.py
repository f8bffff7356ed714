"""Tables: one row a line in a pipe, and nothing that a stranger wrote is obeyed."""

import sys

import pytest

from app.tools.command.asking.terminal_table import Cell, Tone, print_fields, print_table
from app.tools.command.printable import json_text, printable

HOSTILE = "[bold red]a[/]\x1b[2J\x07\u202eevil\u2028:smile: [link=http://x]y[/link]\r\n\x9b31m"


def test_one_row_a_line_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_table(("name", "count"), [("x" * 500, "7"), ("y", "12")]) == 2
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "COUNT"]
    assert first == "x" * 500 + "      7"
    assert second.split() == ["y", "12"]
    assert second.endswith(" 12")


def test_without_rows_there_is_the_head(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_table(("name",), []) == 0
    assert capsys.readouterr().out == "NAME\n"


@pytest.mark.parametrize("on_terminal", [False, True])
def test_hostile_text_is_inert(
    on_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_table(("name",), [(HOSTILE,)])
    out = capsys.readouterr().out
    shown = "[bold red]a[/]\\x1b[2J\\x07\\u202eevil\\u2028:smile: [link=http://x]y[/link]\\r\\n\\x9b31m"
    assert shown in out
    for character in ("\x07", "\u202e", "\u2028", "\r", "\x9b", "\x1b[2J", "\x1b]8"):
        assert character not in out
    assert len(out.splitlines()) == (3 if on_terminal else 2), "a head, its line on a terminal, and the row"


def test_colours_are_for_terminals_that_want_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_table(("name",), [(Cell("down", Tone.BAD),)])
    assert "\x1b[1;31mdown" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(("name",), [(Cell("down", Tone.BAD),)])
    assert "31m" not in capsys.readouterr().out


def test_fields_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields((("a", "1\x1b"), ("long name", "2")))
    assert capsys.readouterr().out == "a:         1\\x1b\nlong name: 2\n"


def test_json_is_ascii() -> None:
    assert json_text({"a": "\x9b\u202e"}) == '{\n  "a": "\\u009b\\u202e"\n}'
    assert printable("caf\u00e9 \u5317\u4eac") == "caf\u00e9 \u5317\u4eac"
