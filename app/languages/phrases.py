"""Texts that are English values in the program, and are translated where a person reads them."""

from typing import Self, TextIO

from app.languages.catalogues import Texts
from app.languages.command_texts import command_texts


class Phrase(str):
    """An English text that remembers how it was made, so that it can be shown in another language later.

    It is a plain text for everything else: comparisons, JSON and logs see English.
    """

    __slots__ = ("message", "values")
    message: str
    values: dict[str, object]

    @classmethod
    def of(cls, message: str, values: dict[str, object]) -> Self:
        """Return the text of a message whose named placeholders get these values."""
        made = cls(message % values if values else message)
        made.message, made.values = message, values
        return made


def phrase(message: str, **values: object) -> Phrase:
    """Return a text with its placeholders filled in; values may be such texts themselves, or errors with one."""
    return Phrase.of(message, values)


def reason_for(file: TextIO, error: Exception) -> str:
    """Return the reason of an error for a file: in the user's language at a terminal, in English in a log."""
    return reason_of(error) if file.isatty() else str(error)


def shown(text: str, texts: Texts | None = None) -> str:
    """Return a text in the language of the command's user, or in that of ``texts``; a plain text stays as it is."""
    if not isinstance(text, Phrase):
        return text
    texts = texts or command_texts()
    return texts.gettext(text.message, **{name: _shown_value(value, texts) for name, value in text.values.items()})


def reason_of(error: Exception) -> str:
    """Return the text of an error in the language of the command's user."""
    first = error.args[0] if error.args else ""
    return shown(first) if isinstance(first, Phrase) else str(error)


def _shown_value(value: object, texts: Texts) -> object:
    if isinstance(value, Exception):
        value = value.args[0] if value.args and isinstance(value.args[0], Phrase) else str(value)
    return shown(value, texts) if isinstance(value, Phrase) else value
