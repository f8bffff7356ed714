"""The help of commands in the language of the user, in lines that fit a terminal with letters of double width."""

import argparse
import re
from collections.abc import Iterable
from typing import Any

from app.languages.catalogues import ENGLISH, N_
from app.languages.command_texts import command_texts, gettext

REFUSALS = (
    N_("the following arguments are required: %(names)s"),
    N_("one of the arguments %(names)s is required"),
    N_("argument %(name)s: expected one argument"),
    N_("argument %(name)s: expected at least one argument"),
    N_("argument %(name)s: not allowed with argument %(other)s"),
    N_("argument %(name)s: invalid choice: %(value)s (choose from %(known)s)"),
    N_("argument %(name)s: invalid int value: %(value)s"),
    N_("argument %(name)s: ignored explicit argument %(value)s"),
    N_("ambiguous option: %(name)s could match %(known)s"),
)
"""The messages of argparse, which are translated as they were made: with their values."""
USAGE = N_("usage: ")
_WIDE, _CLOSING = "⺀-鿿＀-￯", "，。、；：？！）》”"
_PIECES = re.compile(rf"\s+|(?:[{_WIDE}]|[^\s{_WIDE}]+)[{_CLOSING}]*")
"""Blanks, Chinese letters and words of others, each with the punctuation that may not begin a line."""


class TranslatedHelp(argparse.HelpFormatter):
    """Formats the help with each text in the language of the user."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        """Add the line of the usage."""
        super().add_usage(usage, actions, groups, gettext(USAGE) if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        """Begin a section."""
        super().start_section(_translated(heading))

    def add_text(self, text: str | None) -> None:
        """Add a paragraph."""
        super().add_text(_translated(text))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return _translated(action.help)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return super()._split_lines(text, width) if _is_english() else lines_of(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if _is_english():
            return super()._fill_text(text, width, indent)
        return "\n".join(f"{indent}{line}" for line in lines_of(text, width - len(indent)))


def _translated(text: str | None) -> str | None:
    return command_texts().gettext(text) if text else text


def _is_english() -> bool:
    return command_texts().language == ENGLISH


def lines_of(text: str, width: int) -> list[str]:
    """Return a text in lines of at most so many cells, broken at blanks and beside Chinese letters."""
    from rich.cells import cell_len

    lines, line = [], ""
    for piece in _PIECES.findall(" ".join(text.split())):
        if cell_len(line + piece.rstrip()) > width and line.strip():
            lines.append(line.rstrip())
            line = piece.lstrip()
        else:
            line += piece
    return [*lines, line.rstrip()] if line.strip() else lines


def refusal_text(message: str) -> str:
    """Return a message of argparse in the language of the user."""
    if _is_english():
        return message
    for known in REFUSALS:
        pattern = re.sub(r"%\\\((\w+)\\\)s|%\((\w+)\)s", r"(?P<\1\2>.+?)", re.escape(known))
        if found := re.fullmatch(pattern, message):
            return gettext(known, **found.groupdict())
    return message
