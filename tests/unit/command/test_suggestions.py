"""Without a command there is the help; a misspelt word is answered with a suggestion."""

import pytest

from app.tools.cli import main


@pytest.mark.parametrize(("arguments", "name"), [((), "rollcall"), (("user",), "rollcall user")])
def test_without_a_command_the_help_is_printed(
    arguments: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    written = capsys.readouterr()
    assert written.out.startswith(f"usage: {name} [-h]")
    assert written.err == ""


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("servces", "rollcall: unknown command servces; did you mean services or serve? See `rollcall --help`"),
        ("zzz", "rollcall: unknown command zzz. See `rollcall --help`"),
        ("user ad", "rollcall user: unknown command ad; did you mean add? See `rollcall user --help`"),
        ("services --unhelthy", "rollcall services: unknown option --unhelthy; did you mean --unhealthy? See"),
        ("services --unhelthy=1", "rollcall services: unknown option --unhelthy; did you mean --unhealthy? See"),
        ("instances orders more", "rollcall instances: unexpected argument more. See `rollcall instances --help`"),
        ("instances", "rollcall instances: the following arguments are required: SERVICE. See"),
        ("services -o xml", "argument -o/--output: invalid choice: 'xml' (choose from"),
    ],
)
def test_a_misspelt_word_is_one_line_with_a_suggestion(
    line: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(line.split())
    written = capsys.readouterr()
    assert (raised.value.code, written.out, written.err.count("\n")) == (2, "", 1)
    assert text in written.err
