"""The output of ``rollcall heal``: results on standard output as they come, notes on standard error."""

import sys
from collections.abc import Iterable

from app.languages.phrases import shown
from app.tools.printable import printable, write_note


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines at once, also into a pipe."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def say(text: str) -> None:
    """Write a note."""
    write_note(f"rollcall heal: {printable(shown(text))}")
