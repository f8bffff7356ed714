"""A parser of commands that suggests what a misspelt command or option may mean, and prints help without a command."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

ALIKE_MAX, ALIKE_MIN = 2, 0.7


class SuggestingParser(argparse.ArgumentParser):
    """A parser whose refusals are one line, which suggests similar words and names the help.

    Parsers of its commands are of this class, too.
    """

    def error(self, message: str) -> NoReturn:
        """Print the message and where the help is as one line, and exit with code 2."""
        self.exit(2, f"{self.prog}: {message.rstrip('.')}. See `{self.prog} --help`\n".replace("?. See", "? See"))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; refuse an argument that no option or command has.

        A parser of a command would leave such an argument to its parent, which does not know the command's options.
        """
        options, extra = super().parse_known_args(args, namespace)
        if extra:
            wrong = [one for one in extra if one.startswith("-")] or extra
            known = [one for one in self._option_string_actions if one.startswith("--")]
            word = wrong[0].partition("=")[0]
            what = "unknown option" if word.startswith("-") else "unexpected argument"
            self.error(f"{what} {word}{did_you_mean(word, known) if word.startswith('-') else ''}")
        return options, extra

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is none of the choices; argparse's own message lists all commands in one line."""
        if action.choices is None or value in action.choices:
            return
        if isinstance(action.choices, Mapping):  # the commands, by name
            self.error(f"unknown command {value}{did_you_mean(str(value), action.choices)}")
        super()._check_value(action, value)


def add_commands(
    parser: argparse.ArgumentParser, metavar: str
) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    """Return the commands of a parser, to which others are added. Without a command, the parser's help is printed."""

    def print_help(_options: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    parser.set_defaults(run=print_help)
    return parser.add_subparsers(metavar=metavar)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the known words that are similar, as the end of a sentence; empty if there are none."""
    import difflib

    listed: Sequence[str] = list(known)
    near = difflib.get_close_matches(word, listed, ALIKE_MAX, ALIKE_MIN) or [
        one for one in listed if one.startswith(word)
    ]
    return f"; did you mean {' or '.join(near[:ALIKE_MAX])}?" if near else ""
