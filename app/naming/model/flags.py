"""Booleans as texts: the words that the parts of Nacos accept, and how they are written.

Those of settings, and of calls that Spring reads, are in ``app.config.settings_keys``.
"""

LENIENT_WORDS = frozenset({"true", "yes", "on", "y", "t"})
"""Source: commons-lang BooleanUtils.toBoolean."""


def lenient_bool(text: str) -> bool:
    """Return Nacos's boolean of instance attributes: a few words are true, all other texts false."""
    return text.lower() in LENIENT_WORDS


def strict_bool(text: str) -> bool:
    """Return Java's Boolean.parseBoolean: only the word ``true`` is true."""
    return text.lower() == "true"


def exact_bool(text: str) -> bool:
    """Return the boolean of one of the words ``true`` and ``false``.

    Raises:
        ValueError: it is neither.
    """
    if (word := text.lower()) not in {"true", "false"}:
        raise ValueError("no word of a boolean")
    return word == "true"


def flag_text(value: bool) -> str:
    """Return the word for a boolean."""
    return "true" if value else "false"
