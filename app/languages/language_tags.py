"""The language of a reader, from the languages and locales that a browser or a shell names."""

from collections.abc import Iterable, Mapping

from app.languages.catalogues import CHINESE, ENGLISH

LANGUAGE_VARIABLE = "ROLLCALL_LANGUAGE"
"""The setting of the command's language; it wins over the locale."""
LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The variables of the locale, as POSIX orders them."""
_PRIMARY = {"en": ENGLISH, "zh": CHINESE}


def language_of_tags(tags: Iterable[str]) -> str | None:
    """Return the first language that has a catalogue, by the first part of its tag or locale; None without one.

    All kinds of Chinese get the one that there is.
    """
    for tag in tags:
        primary = tag.strip().lower().replace("_", "-").partition("-")[0].partition(".")[0]
        if primary in _PRIMARY:
            return _PRIMARY[primary]
    return None


def language_of_environment(environ: Mapping[str, str]) -> str:
    """Return the language of a command: that of the setting, else of the locale, as gettext(3) finds it.

    ``LANGUAGE`` is a list with colons, and does not count in the locale C.
    """
    if setting := environ.get(LANGUAGE_VARIABLE, ""):
        return language_of_tags([setting]) or ENGLISH
    locale = next((value for name in LOCALE_VARIABLES if (value := environ.get(name))), "")
    if not locale or locale.partition(".")[0] in ("C", "POSIX"):
        return ENGLISH
    wanted = [one for one in environ.get("LANGUAGE", "").split(":") if one]
    return language_of_tags([*wanted, locale]) or ENGLISH
