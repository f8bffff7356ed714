"""Searching in service names. Nacos takes any regular expression; here only ``.``, ``.*`` and quoting are known."""

import re
from dataclasses import dataclass

PATTERN_CHARS_MAX = 256
_TOKEN = re.compile(r"(?P<gap>\.\*)|(?P<one>\.)|\\(?P<escaped>\W)|(?P<plain>[^\\^$*+?()\[\]{}|])")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Pieces that must be found in a text one after the other, with any characters before, between and after them.

    Each piece has a fixed length, so that a search takes one pass: a client's regular expression could run for hours,
    and stop the whole node.
    """

    pieces: tuple[re.Pattern[str], ...] = ()

    def matches(self, text: str) -> bool:
        at = 0
        for piece in self.pieces:
            found = piece.search(text, at)
            if found is None:
                return False
            at = found.end()
        return True

    def __add__(self, other: "NamePattern") -> "NamePattern":
        return NamePattern(self.pieces + other.pieces)


def parse_pattern(text: str) -> NamePattern:
    """The pattern of a text in which ``.`` is any character, ``.*`` any number of them, and ``\\`` quotes.

    Raises:
        ValueError: the text is too long, or has other operators of regular expressions.
    """
    if len(text) > PATTERN_CHARS_MAX:
        raise ValueError(f"it should have at most {PATTERN_CHARS_MAX} characters")
    pieces, at = [""], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError("it should be part of a name, in which '.' is any character and '.*' any number of them")
        at = found.end()
        if found["gap"]:
            pieces.append("")
        else:
            pieces[-1] += "." if found["one"] else re.escape(found["escaped"] or found["plain"])
    return NamePattern(tuple(re.compile(piece, re.DOTALL) for piece in pieces if piece))


def literal_pattern(text: str) -> NamePattern:
    """The pattern that finds a text as it is, its dots as dots."""
    return NamePattern((re.compile(re.escape(text)),) if text else ())
