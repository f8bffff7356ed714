"""The output of ``rollcall heal``: results on standard output as they come, notes on standard error."""

import argparse
import sys
import time
from collections.abc import Iterable

from app.languages.catalogues import N_
from app.languages.phrases import phrase, shown
from app.tools.printable import json_line, printable, write_note

STAGES = {"before": N_("before:"), "after": N_("after:")}
"""The titles of the two tables."""


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines at once, also into a pipe."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def print_end(options: argparse.Namespace, text: str, code: int) -> None:
    """Print the last line: how the heal ended, and how long it took since ``options.began_s``."""
    took_s = round(time.monotonic() - options.began_s, 1)
    if options.json:
        print_lines([json_line({"stage": "end", "exit_code": code, "text": text, "took_s": took_s})])
    else:
        print_lines([printable(shown(phrase("%(text)s; took %(seconds)s s", text=text, seconds=took_s)))])


def say(text: str) -> None:
    """Write a note."""
    write_note(f"rollcall heal: {printable(shown(text))}")
