"""Single values as Nacos reads them: Java's numbers, and patterns of service names.

Nacos takes any regular expression as a pattern; here only ``.``, ``.*`` and quoting are known.
"""

import re
from dataclasses import dataclass

from app.naming.model.keys import INT_MAX, TRIMMED
from app.naming.model.nacos_errors import InvalidParam

ECHO_CHARS_MAX = 1_000
"""The most characters of a refused value that an error repeats."""
INT_MIN = -INT_MAX - 1
"""The lowest number of Java's ``int``."""
_INT = re.compile(r"[+-]?[0-9]{1,32}")
_DOUBLE = re.compile(r"([+-]?)(NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?)[fFdD]?")
"""The texts of Java's Double.parseDouble, without hexadecimal fractions, which no client sends as a weight."""
DOUBLE_CHARS_MAX = 512
PATTERN_CHARS_MAX = 256
_TOKEN = re.compile(r"(?P<gap>\.\*)|(?P<one>\.)|\\(?P<escaped>\W)|(?P<plain>[^\\^$*+?()\[\]{}|])")


def java_int(text: str) -> int:
    """Java's Integer.parseInt.

    Raises:
        InvalidParam: no number, or out of Java's range; with Java's text.
    """
    if _INT.fullmatch(text) and INT_MIN <= (number := int(text)) <= INT_MAX:
        return number
    raise InvalidParam(f'For input string: "{text[:ECHO_CHARS_MAX]}"')


def int_or_zero(text: str) -> int:
    """Commons NumberUtils.toInt: 0 for a text that is not a number."""
    try:
        return java_int(text)
    except InvalidParam:
        return 0


def java_double(text: str) -> float:
    """Java's Double.parseDouble.

    Raises:
        InvalidParam: no number; with Java's text.
    """
    found = _DOUBLE.fullmatch(text.strip(TRIMMED)) if len(text) <= DOUBLE_CHARS_MAX else None
    if found is None:
        raise InvalidParam(f'For input string: "{text[:ECHO_CHARS_MAX]}"')
    # Adding 0 turns the -0.0 that "-0" makes into 0.0.
    return float(found[1] + found[2]) + 0.0


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
