"""The output of a command in the format that the user chose: a table, data for scripts, or names alone."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any

from app.languages.command_texts import gettext
from app.tools.command.asking.terminal_table import Cell, Column, print_table
from app.tools.printable import json_text, printable, write_note, yaml_text


class OutputFormat(StrEnum):
    """A format of ``-o``."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


LISTS = (OutputFormat.WIDE, OutputFormat.JSON, OutputFormat.YAML, OutputFormat.NAME)
"""The formats of commands that list something."""
DATA = (OutputFormat.JSON, OutputFormat.YAML)
"""The formats of commands that do something, and report it."""
_MEANINGS = {
    OutputFormat.WIDE: "all columns, however long the lines",
    OutputFormat.JSON: "JSON",
    OutputFormat.YAML: "YAML",
    OutputFormat.NAME: "names only, one a line",
}


def add_output_options(parser: argparse.ArgumentParser, formats: Sequence[OutputFormat] = DATA) -> None:
    """Add ``-o``, which sets ``output``, and ``--json``, its short form."""
    meanings = ", ".join(f"{one}: {_MEANINGS[one]}" for one in formats)
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        choices=[one.value for one in formats],
        default=OutputFormat.TABLE.value,
        help=meanings,
    )
    group.add_argument(
        "--json", action="store_const", dest="output", const=OutputFormat.JSON.value, help="the same as -o json"
    )


def is_data(options: argparse.Namespace) -> bool:
    """Return whether the output is for scripts, as JSON or YAML."""
    return options.output in DATA


def print_data(options: argparse.Namespace, value: Any) -> None:
    """Print a value of plain types as JSON or YAML."""
    sys.stdout.write(yaml_text(value) if options.output == OutputFormat.YAML else f"{json_text(value)}\n")


def print_list(
    options: argparse.Namespace,
    value: Callable[[], Any],
    names: Callable[[], Iterable[str]],
    columns: Sequence[Column],
    rows: Iterable[Sequence[str | int | Cell]],
) -> None:
    """Print a list in the chosen format.

    ``value``: the list for JSON and YAML; ``names``: the name of each entry, as other commands take it.
    """
    if is_data(options):
        print_data(options, value())
    elif options.output == OutputFormat.NAME:
        sys.stdout.writelines(f"{printable(one)}\n" for one in names())
    else:
        printed = print_table(columns, rows, wide=options.output == OutputFormat.WIDE)
        more = [*printed.left_out, *([gettext("texts that are cut")] if printed.has_cut else [])]
        if more:
            text = gettext("%(command)s: -o wide also shows: %(more)s", command=options.command, more=", ".join(more))
            write_note(text)
