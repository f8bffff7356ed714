"""Texts of an instance as callers send them: how they are trimmed, and which are refused."""

import re

from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.value_limits import IP_CHARS_MAX

APP_CHARS_MAX = 512
TRIMMED = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes: all up to the blank."""
_NUMBER = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_FOUR_NUMBERS = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}){{3}}")
is_four_numbers = _FOUR_NUMBERS.fullmatch
"""Matches nearly all addresses, one of which comes with every datum of its service: they need no further check."""
_DIGITS_AND_DOTS = re.compile(r"[0-9.]+")
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Includes halves of surrogate pairs, which neither JSON nor a file can hold."""


def check_ip(ip: str) -> None:
    """Refuse an address that no client could use. Host names and IPv6 are accepted as they are.

    Raises:
        InvalidParam: empty, too long, unprintable, or digits and dots that are no IPv4 address.
    """
    if is_four_numbers(ip):
        return
    if not ip:
        raise InvalidParam("Param 'ip' is required.")
    check_text("ip", ip, IP_CHARS_MAX)
    if any(char.isspace() for char in ip):
        raise InvalidParam("Param 'ip' is illegal, illegal characters should not appear in the param.")
    if _DIGITS_AND_DOTS.fullmatch(ip) and not _is_java_ipv4(ip):
        raise InvalidParam(f'The IPv4 address("{ip}") is incorrect.')


def _is_java_ipv4(text: str) -> bool:
    """Return whether Java's InetAddress reads it as numbers, as ``1.2.3`` and ``1234``: the last one fills the rest."""
    parts = text.split(".")
    if len(parts) > 4 or len(text) > 15 or not all(parts):
        return False
    *heads, last = (int(part) for part in parts)
    return all(head <= 0xFF for head in heads) and last < 1 << 8 * (5 - len(parts))


def check_text(name: str, text: str, chars_max: int) -> None:
    """Refuse a text that is too long, or that would break a log line.

    Raises:
        InvalidParam: names the parameter.
    """
    if len(text) > chars_max:
        raise InvalidParam(f"Param '{name}' is illegal, the param length should not exceed {chars_max}.")
    check_printable(name, text)


def check_printable(name: str, text: str) -> None:
    """Refuse control characters and line separators, which would break a log line, and halves of surrogate pairs.

    Raises:
        InvalidParam: names the parameter.
    """
    if UNPRINTABLE.search(text):
        raise InvalidParam(f"Param '{name}' is illegal, illegal characters should not appear in the param.")
