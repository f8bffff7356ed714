"""Tables: one row a line in a pipe, and nothing that a stranger wrote is obeyed."""

import io
import json
import sys

import pytest
import yaml

from app.tools.command.asking.terminal_table import Cell, Column, Printed, Tone, print_fields, print_table
from app.tools.printable import json_line, json_text, printable, yaml_text

HOSTILE = "[bold red]a[/]\x1b[2J\x07\u202eevil\u2028:smile: [link=http://x]y[/link]\r\n\x9b31m"


def test_one_row_a_line_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_table((Column("name"), Column("count")), [("x" * 500, "7"), ("y", "12")]) == Printed(2)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "COUNT"]
    assert first == "x" * 500 + "      7"
    assert second.split() == ["y", "12"]
    assert second.endswith(" 12")


def test_without_rows_there_is_the_head(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_table((Column("name"),), []) == Printed(0)
    assert capsys.readouterr().out == "NAME\n"


@pytest.mark.parametrize("on_terminal", [False, True])
def test_hostile_text_is_inert(
    on_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_table((Column("name"),), [(HOSTILE,)])
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
    print_table((Column("name"),), [(Cell("down", Tone.BAD),)])
    assert "\x1b[1;31mdown" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    print_table((Column("name"),), [(Cell("down", Tone.BAD),)])
    assert "31m" not in capsys.readouterr().out


def test_fields_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields((("a", "1\x1b"), ("long name", "2")))
    assert capsys.readouterr().out == "a:         1\\x1b\nlong name: 2\n"


def be_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make standard output a terminal of 80 columns, without colours."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


COLUMNS = (Column("name"), Column("kind", drop=2), Column("place", drop=1), Column("notes", drop=3, least=16))


def test_columns_that_matter_less_are_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    be_narrow(monkeypatch)
    row = ("n" * 40, "k" * 20, "p" * 20, "m" * 90)
    assert print_table(COLUMNS, [row]) == Printed(1, ("kind",), has_cut=True)
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0].split(), lines[2]] == [
        ["NAME", "PLACE", "NOTES"],
        f"{'n' * 40}  {'p' * 20}  {'m' * 15}\u2026",
    ], "the room that is left goes to the next one that fits"
    assert print_table(COLUMNS, [row], wide=True) == Printed(1)
    assert capsys.readouterr().out.splitlines()[2] == "  ".join(row)


def test_a_column_of_free_text_is_cut_to_the_room_that_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    be_narrow(monkeypatch)
    assert print_table(COLUMNS, [("name", "kind", "place", "m" * 90)]) == Printed(1, (), has_cut=True)
    last = capsys.readouterr().out.splitlines()[2]
    assert len(last) == 80
    assert last.endswith("mm\u2026")
    assert print_table(COLUMNS, [("n" * 200, "kind", "place", "-")]).has_cut, "and so is a name without an end"
    assert max(map(len, capsys.readouterr().out.splitlines())) == 80


def test_wide_letters_count_twice(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    be_narrow(monkeypatch)
    assert print_table(COLUMNS, [("\u8ba2\u5355" * 18, "kind", "place", "-")]) == Printed(1, ("kind", "notes"))
    assert "\u8ba2\u5355" * 18 in capsys.readouterr().out


def test_data_is_readable_and_inert(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a": "\x9b\u202e\n", "\u5317\u4eac": "caf\u00e9 \U0001f600"}
    assert json_text(value) == '{\n  "a": "\\u009b\\u202e\\n",\n  "\u5317\u4eac": "caf\u00e9 \U0001f600"\n}'
    assert json_line(value).count("\n") == 0
    assert json.loads(json_text({"a": "\U000e0001"})) == {"a": "\U000e0001"}
    assert yaml_text({"\u5317\u4eac": "no"}) == "\u5317\u4eac: 'no'\n"
    shown = yaml_text(value)
    assert (yaml.safe_load(shown), shown.isascii()) == (value, True)
    assert printable("caf\u00e9 \u5317\u4eac") == "caf\u00e9 \u5317\u4eac"


def test_an_output_that_cannot_take_the_letters_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "latin-1", errors="backslashreplace"))
    assert (json_text("\u5317\u00e9"), yaml_text(["\u5317"])) == ('"\\u5317\\u00e9"', '- "\\u5317"\n')
