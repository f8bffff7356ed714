"""A parser of commands that suggests what a misspelt command or option may mean, and prints help without a command."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from app.languages.command_texts import gettext
from app.tools.command.help_texts import TranslatedHelp, refusal_text

ALIKE_MAX, ALIKE_MIN = 2, 0.7


class SuggestingParser(argparse.ArgumentParser):
    """A parser whose refusals are one line, which suggests similar words and names the help.

    Parsers of its commands are of this class, too. The help is in the language of the user.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **({"formatter_class": TranslatedHelp} | options))

    def error(self, message: str) -> NoReturn:
        """Print the message and where the help is as one line, and exit with code 2."""
        text = gettext(
            "%(program)s: %(problem)s. See `%(program)s --help`",
            program=self.prog,
            problem=refusal_text(message).rstrip("."),
        )
        self.exit(2, text.replace("?. See", "? See").replace("？。", "？") + "\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; refuse an argument that no option or command has.

        A parser of a command would leave such an argument to its parent, which does not know the command's options.
        """
        options, extra = super().parse_known_args(args, namespace)
        if extra:
            wrong = [one for one in extra if one.startswith("-")] or extra
            known = [one for one in self._option_string_actions if one.startswith("--")]
            word = wrong[0].partition("=")[0]
            if word.startswith("-"):
                self.error(gettext("unknown option %(option)s", option=word) + did_you_mean(word, known))
            self.error(gettext("unexpected argument %(argument)s", argument=word))
        return options, extra

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is none of the choices; argparse's own message lists all commands in one line."""
        if action.choices is None or value in action.choices:
            return
        if isinstance(action.choices, Mapping):  # the commands, by name
            self.error(gettext("unknown command %(name)s", name=value) + did_you_mean(str(value), action.choices))
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
    if not near:
        return ""
    if len(near) == 1:
        return gettext("; did you mean %(word)s?", word=near[0])
    return gettext("; did you mean %(word)s or %(other)s?", word=near[0], other=near[1])
