"""Single values as Nacos reads them: Java's numbers, two kinds of booleans, addresses."""

import re

from app.naming.model.nacos_errors import InvalidParam

IP_CHARS_MAX = 128
"""Source: Nacos 2.3 parameter check; 1.4 has no limit."""
ECHO_CHARS_MAX = 1_000
"""An error repeats so many characters of the refused value."""
PORT_MAX = 65_535
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
"""The range of Java's int."""

TRIMMED = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim strips: all up to the blank."""
_INT = re.compile(r"[+-]?[0-9]{1,32}")
_DOUBLE = re.compile(r"([+-]?)(NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?)[fFdD]?")
"""The texts of Java's Double.parseDouble, without hexadecimal fractions, which no client sends as a weight."""
DOUBLE_CHARS_MAX = 512
_DIGITS_AND_DOTS = re.compile(r"[0-9.]+")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_TRUE_WORDS = frozenset({"true", "yes", "on", "y", "t"})
"""Source: commons-lang BooleanUtils.toBoolean."""


def lenient_bool(text: str) -> bool:
    """Nacos's boolean of instance attributes: a few words are true, all other texts false."""
    return text.lower() in _TRUE_WORDS


def strict_bool(text: str) -> bool:
    """Java's Boolean.parseBoolean: only the word ``true`` is true."""
    return text.lower() == "true"


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


def check_ip(ip: str) -> None:
    """Refuse an instance's address that no client could use. Host names and IPv6 addresses are not parsed.

    Raises:
        InvalidParam: empty, too long, unprintable, or digits and dots that are no IPv4 address.
    """
    if not ip:
        raise InvalidParam("Param 'ip' is required.")
    check_text("ip", ip, IP_CHARS_MAX)
    if any(char.isspace() for char in ip):
        raise InvalidParam("Param 'ip' is illegal, illegal characters should not appear in the param.")
    if _DIGITS_AND_DOTS.fullmatch(ip) and not _is_java_ipv4(ip):
        raise InvalidParam(f'The IPv4 address("{ip}") is incorrect.')


def _is_java_ipv4(text: str) -> bool:
    """Whether Java's InetAddress reads it as numbers: ``1.2.3`` and ``1234`` too, their last number fills the rest."""
    parts = text.split(".")
    if len(parts) > 4 or len(text) > 15 or not all(parts):
        return False
    *heads, last = (int(part) for part in parts)
    return all(head <= 0xFF for head in heads) and last < 1 << 8 * (5 - len(parts))


def check_text(name: str, text: str, chars_max: int) -> None:
    """
    Raises:
        InvalidParam: the text is over ``chars_max``, or has a character that would break a log line.
    """
    if len(text) > chars_max:
        raise InvalidParam(f"Param '{name}' is illegal, the param length should not exceed {chars_max}.")
    check_printable(name, text)


def check_printable(name: str, text: str) -> None:
    """
    Raises:
        InvalidParam: the text has a control character or a line separator, which would break a log line.
    """
    if _UNPRINTABLE.search(text):
        raise InvalidParam(f"Param '{name}' is illegal, illegal characters should not appear in the param.")


def check_port(port: int) -> None:
    """Real Nacos stores any Java int.

    Raises:
        InvalidParam: the number is no port.
    """
    if not 0 <= port <= PORT_MAX:
        raise InvalidParam(f"Param 'port' is illegal, it should be a number from 0 to {PORT_MAX}.")
