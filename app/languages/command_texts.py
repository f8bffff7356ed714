"""The texts of the command in the language of its environment, which may change between two calls in one process."""

import os

from app.languages.catalogues import COMMANDS, Texts, texts_of
from app.languages.language_tags import language_of_environment


def command_texts() -> Texts:
    """Return the texts of the command."""
    return texts_of(COMMANDS, language_of_environment(os.environ))


def gettext(message: str, **values: object) -> str:
    """Return a text of the command in the language of the user, with its placeholders filled in."""
    return command_texts().gettext(message, **values)


def ngettext(singular: str, plural: str, number: int, **values: object) -> str:
    """Return the form of a text of the command that fits a number, with its placeholders filled in."""
    return command_texts().ngettext(singular, plural, number, **values)
