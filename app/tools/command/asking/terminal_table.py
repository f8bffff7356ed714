"""Tables for a terminal or a pipe, by `rich`, which is loaded when the first table is printed.

A cell shows strangers' text as it is: without markup, links or escapes. On a terminal a table fits its width without
breaking a cell: columns that matter less are left out, and a column of free text is cut.
"""

import io
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from app.languages.command_texts import gettext
from app.tools.printable import printable

PIPE_COLUMNS = 100_000
"""The width in a file or a pipe, where a row is one line, however long it is."""
COLUMNS_MIN = 40
GAP = 2
"""The blanks between two columns."""
NAME_LEAST = 16
"""The width of a name that alone is wider than the terminal."""


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


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its head, and when it is shown."""

    head: str
    drop: int = 0
    """0: the column stays. Else it is left out of a narrow terminal; those with lower numbers get the room first."""
    least: int = 0
    """The width to which its cells may be cut, so that the table fits; 0: not at all, unless nothing else helps."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A printed table: the number of its rows, the heads of the columns that did not fit, and whether cells are cut."""

    rows: int
    left_out: tuple[str, ...] = ()
    has_cut: bool = False


def print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str | int | Cell]], *, wide: bool = False
) -> Printed:
    """Print a table, numbers to the right. Without rows only its head is printed.

    ``wide``: all columns, whole, in lines that may be longer than the terminal is wide.
    """
    from rich.cells import cell_len

    columns = [replace(one, head=gettext(one.head)) for one in columns]
    on_terminal = sys.stdout.isatty()
    room = max(shutil.get_terminal_size().columns, COLUMNS_MIN) if on_terminal and not wide else PIPE_COLUMNS
    listed = [[_cell(one) for one in row] for row in rows]
    widths = [
        max(cell_len(columns[number].head), *(cell_len(row[number].text) for row in listed), 0)
        for number in range(len(columns))
    ]
    kept = _fitting(columns, widths, room)
    limits = _limits(columns, kept, widths, room)
    _write(columns, listed, kept, limits, on_terminal=on_terminal)
    left_out = tuple(one.head for number, one in enumerate(columns) if number not in kept)
    return Printed(len(listed), left_out, any(limits[number] < widths[number] for number in kept))


def _cell(value: str | int | Cell) -> Cell:
    return Cell(printable(value.text), value.tone) if isinstance(value, Cell) else Cell(printable(str(value)))


def _fitting(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """Return the columns that fit, by their numbers: those that must stay, and then the others as they matter."""
    kept = [number for number, one in enumerate(columns) if not one.drop]

    def fits(numbers: Sequence[int]) -> bool:
        least = (min(widths[one], columns[one].least or widths[one]) for one in numbers)
        return sum(least) + GAP * (len(numbers) - 1) <= room

    optional = [number for number, one in enumerate(columns) if one.drop]
    for number in sorted(optional, key=lambda one: columns[one].drop):
        if fits([*kept, number]):
            kept.append(number)
    return sorted(kept)


def _limits(columns: Sequence[Column], kept: Sequence[int], widths: Sequence[int], room: int) -> dict[int, int]:
    """Return the width of each kept column: its widest cell, or less so that the table fits.

    Columns that may be cut give way first, and of these the ones that matter less. If that is not enough, the widest
    of the others do, too: a name of 200 letters.
    """
    limits = {one: widths[one] for one in kept}
    by_worth = sorted(kept, key=lambda one: (-columns[one].drop, -widths[one]))
    for one in [number for number in by_worth if columns[number].least] + [
        number for number in sorted(kept, key=widths.__getitem__, reverse=True) if not columns[number].least
    ]:
        over = sum(limits.values()) + GAP * (len(kept) - 1) - room
        if over > 0:
            limits[one] = min(limits[one], max(limits[one] - over, columns[one].least or NAME_LEAST))
    return limits


def _write(
    columns: Sequence[Column],
    listed: Sequence[Sequence[Cell]],
    kept: Sequence[int],
    limits: dict[int, int],
    *,
    on_terminal: bool,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # The box has a blank between columns.
    line, blanks = (box.SIMPLE_HEAD, GAP - 1) if on_terminal else (None, GAP)
    table = Table(box=line, pad_edge=False, show_edge=False, padding=(0, blanks, 0, 0))
    for number in kept:
        texts = {row[number].text for row in listed} - {"-"}
        table.add_column(
            Text(columns[number].head.upper(), style=Tone.NAME),
            justify="right" if texts and all(map(_is_number, texts)) else "left",
            width=limits[number],
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in listed:
        table.add_row(*(Text(row[number].text, style=row[number].tone.value) for number in kept))
    written = io.StringIO()
    console = Console(
        file=written,
        width=PIPE_COLUMNS,
        height=1,  # with a width alone, `rich` takes 80 columns for a dumb terminal
        force_terminal=on_terminal,
        no_color="NO_COLOR" in os.environ or not on_terminal,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one a line."""
    from rich.cells import cell_len

    listed = [(f"{gettext(name)}:", printable(value)) for name, value in fields]
    width = max((cell_len(name) for name, _ in listed), default=0)
    sys.stdout.writelines(f"{name}{' ' * (width - cell_len(name))} {value}\n" for name, value in listed)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
