"""IP addresses: one parser for all their spellings, and one way to write them before a port.

An instance keeps the spelling of its client. Code that connects to it, names it in DNS or writes it before a port uses
the address that is parsed here.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
CALLER_PREFIX_BITS = 64
"""The prefix that counts as one caller: a customer has at least so much of IPv6."""
_NUMBER = "(?:0|[1-9][0-9]{0,2})"
is_usual_ipv4 = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}){{3}}").fullmatch
"""Matches nearly all addresses, which need no parsing to be written."""
_DIGITS_AND_DOTS = re.compile(r"[0-9]{1,10}(?:\.[0-9]{1,10}){1,3}")
_LOW_BITS = (1 << 32) - 1
_COMPATIBLE = IPv6Network("::/96")
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0:0/96"))
"""The prefixes of NAT64 (RFC 6052) and SIIT (RFC 2765)."""
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""The third quarter of an ISATAP address, whose last quarter is the IPv4 part (RFC 5214)."""


def read_ip(text: str) -> Address | None:
    """Return the address in a text, in any case, with or without zeros and brackets; None for all other texts.

    An IPv4 address that is mapped into IPv6 becomes that IPv4 address. A zone stays. ``010.0.0.1`` and ``10.1`` are
    read as Java's clients read them.
    """
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
        if ":" not in text:
            return None
    if _DIGITS_AND_DOTS.fullmatch(text):
        return _java_ipv4(text)
    try:
        found = ip_address(text)
    except (AddressValueError, ValueError):
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return found if mapped is None else mapped


def _java_ipv4(text: str) -> IPv4Address | None:
    """Return the address of numbers with dots: all are decimal, and the last one fills the remaining bytes."""
    *heads, last = map(int, text.split("."))
    if max(heads) > 0xFF or last >= 1 << 8 * (4 - len(heads)):
        return None
    return IPv4Address(bytes(heads) + last.to_bytes(4 - len(heads)))


def plain_ip(text: str) -> str:
    """Return an address in its canonical spelling; any other text as it is."""
    found = None if is_usual_ipv4(text) else read_ip(text)
    return text if found is None else str(found)


def packed_ip(text: str) -> bytes | None:
    """Return the four or sixteen bytes of an address, without its zone; None for other texts, such as a host name."""
    found = read_ip(text)
    return None if found is None else found.packed


def host_port(ip: str, port: object) -> str:
    """Return ``ip:port`` with an IPv6 address in brackets, for URLs, targets and people."""
    host = plain_ip(ip)
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def is_same_ip(one: str, other: str) -> bool:
    """Return whether two texts are the same address, or the same text."""
    return one == other or plain_ip(one) == plain_ip(other)


def caller_key(remote_ip: str) -> str:
    """Return the text that counts for a caller's address: IPv4 itself, also mapped into IPv6; the /64 of IPv6."""
    if ":" not in remote_ip:
        return remote_ip
    found = read_ip(remote_ip)
    if not isinstance(found, IPv6Address):
        return remote_ip if found is None else str(found)
    return f"{int(found) >> 128 - CALLER_PREFIX_BITS:x}/{CALLER_PREFIX_BITS}"


def reached_by(address: Address) -> list[Address]:
    """Return the addresses at which a connection to this one may end: itself, without its zone, and IPv4 ones in it.

    The IPv4 ones are those of NAT64, SIIT, 6to4, Teredo and ISATAP, and of ``::a.b.c.d``.
    """
    if isinstance(address, IPv4Address):
        return [address]
    plain = IPv6Address(int(address))
    number = int(plain)
    found: list[Address] = [plain]
    if plain.ipv4_mapped is not None:
        return [plain.ipv4_mapped]
    if plain.sixtofour is not None:
        found.append(plain.sixtofour)
    if plain.teredo is not None:
        found.extend(plain.teredo)
    is_translated = any(plain in network for network in _TRANSLATED)
    if is_translated or (number >> 32) & _LOW_BITS in _ISATAP or (plain in _COMPATIBLE and number > 1):
        found.append(IPv4Address(number & _LOW_BITS))
    return found
