"""Tables for a terminal or a pipe, by `rich`, which is loaded when the first table is printed.

A cell shows strangers' text as it is: without markup, links or escapes.
"""

import io
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.tools.command.printable import printable

PIPE_COLUMNS = 100_000
"""The width in a file or a pipe, where a row is one line, however long it is."""
COLUMNS_MIN = 40


class Tone(StrEnum):
    """The meaning of a cell's colour; without colours its text says the same."""

    PLAIN = ""
    NAME = "bold"
    GOOD = "green"
    BAD = "bold red"
    ODD = "yellow"
    FAINT = "dim"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell's text, and its colour on a terminal."""

    text: str
    tone: Tone = Tone.PLAIN


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str | int | Cell]]) -> int:
    """Print a table, numbers to the right; return its number of rows. Without rows only its head is printed."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    on_terminal = sys.stdout.isatty()
    columns = max(shutil.get_terminal_size().columns, COLUMNS_MIN) if on_terminal else PIPE_COLUMNS
    table = Table(box=box.SIMPLE_HEAD if on_terminal else None, pad_edge=False, show_edge=False)
    listed = [[one if isinstance(one, Cell) else Cell(str(one)) for one in row] for row in rows]
    for number, head in enumerate(heads):
        texts = {row[number].text for row in listed} - {"-"}
        is_number = bool(texts) and all(map(_is_number, texts))
        table.add_column(Text(head.upper(), style=Tone.NAME), justify="right" if is_number else "left", overflow="fold")
    for row in listed:
        table.add_row(*(Text(printable(one.text), style=one.tone.value) for one in row))
    written = io.StringIO()
    console = Console(
        file=written,
        width=columns,
        force_terminal=on_terminal,
        no_color="NO_COLOR" in os.environ or not on_terminal,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())
    return len(listed)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one a line."""
    listed = [(name, printable(value)) for name, value in fields]
    width = max((len(name) for name, _ in listed), default=0)
    sys.stdout.writelines(f"{name + ':':<{width + 1}} {value}\n" for name, value in listed)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
