"""Writes the last part of docs/cli.md: the help of every command, as the command prints it."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from app.tools.cli import make_parser

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
MARK = "<!-- From here on made by `python -m scripts.docs.cli_help`. -->\n"
COLUMNS = "100"
"""The width of the help, which argparse reads from the environment variable of this name."""


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and the parsers of its commands, in the order of the help."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from parsers(command)


def document(page: str) -> str:
    """Return the page: the handwritten part, then the help of every command, ``COLUMNS`` wide."""
    parts = [page.partition(MARK)[0], MARK]
    for parser in parsers(make_parser()):
        parts.append(f"\n### {parser.prog}\n\n```text\n{parser.format_help()}```\n")
    return "".join(parts)


if __name__ == "__main__":
    os.environ["COLUMNS"] = COLUMNS
    PAGE.write_text(document(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
