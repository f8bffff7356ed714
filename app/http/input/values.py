"""Single values as Nacos reads them: Java's numbers, addresses."""

import re

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


def java_int(text: str) -> int:
    """Java's Integer.parseInt.

    Raises:
        InvalidParam: no number, or out of Java's range; with Java's text.
    """
    if _INT.fullmatch(text) and INT_MIN <= (number := int(text)) <= INT_MAX:
        return number
    raise InvalidParam(f'For input string: "{text[:ECHO_CHARS_MAX]}"')


def int_or_zero(text: str) -> int:
    """Commons NumberUtils.toInt: 0 for a text that is no number."""
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
