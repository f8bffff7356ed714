"""Catalogues of translated texts: `<domain>.<locale>.po` next to this module, read when a text is first asked for.

A program in English reads no catalogue. Texts with values have named placeholders, such as ``%(count)s``.
"""

from dataclasses import dataclass
from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path

ENGLISH, CHINESE = "en", "zh-CN"
LANGUAGES = {ENGLISH: "EN", CHINESE: "中文"}
"""The languages by their tags (RFC 5646), each with its short name."""
CONSOLE, COMMANDS = "console", "commands"
"""The domains: what a node shows in browsers, and what the command prints."""
_LOCALES = {CHINESE: "zh_CN"}


def N_(message: str) -> str:
    """Mark a constant for translation, and return it as it is; it is translated where it is shown."""
    return message


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of one domain in one language; a text without translation stays English."""

    language: str
    catalogue: NullTranslations

    def gettext(self, message: str, **values: object) -> str:
        """Return a text in this language, with its placeholders filled in."""
        text = self.catalogue.gettext(message) if message else ""
        return text % values if values else text

    def ngettext(self, singular: str, plural: str, number: int, **values: object) -> str:
        """Return the form of a text that fits a number, with its placeholders filled in."""
        return self.catalogue.ngettext(singular, plural, number) % values


ENGLISH_TEXTS = Texts(ENGLISH, NullTranslations())


def po_file(domain: str, language: str) -> Path:
    """Return the file of a catalogue."""
    return Path(__file__).with_name(f"{domain}.{_LOCALES[language]}.po")


@cache
def texts_of(domain: str, language: str) -> Texts:
    """Return the texts of a domain in one of LANGUAGES. The first call for a language reads its file, in some 20 ms."""
    if language not in _LOCALES:
        return ENGLISH_TEXTS
    import polib

    return Texts(language, GNUTranslations(BytesIO(polib.pofile(str(po_file(domain, language))).to_binary())))
