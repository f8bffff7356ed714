"""Addresses of members: parsing, joining, and finding this node's own."""

import ipaddress
import re
import socket

from app.languages.phrases import phrase

DEFAULT_PORT = 8848
"""The port of a member that is listed without one. Source: Nacos 1.4, MemberUtil.singleParse."""
PORT_MAX = 65_535
"""The highest port of members and settings. Instances have their own bound: settings load nothing of the domain."""

_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?")


def split_address(address: str) -> tuple[str, int]:
    """Return host, without brackets, and port of ``host[:port]``; ``DEFAULT_PORT`` if there is none.

    Raises:
        ValueError: the text is not an address; its message says why.
    """
    if address.startswith("["):
        host, bracket, rest = address[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(phrase("an IPv6 address needs both brackets, and a colon before its port"))
        port_text = rest[1:] if rest else None
        ipaddress.IPv6Address(host)
    else:
        host, colon, after = address.partition(":")
        port_text = after if colon else None
        if ":" in after:
            raise ValueError(phrase("an IPv6 address needs brackets"))
    return check_host(host), DEFAULT_PORT if port_text is None else _port(port_text)


def join_address(host: str, port: int) -> str:
    """Return ``host:port``, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def spelling(address: str) -> str:
    """Return the canonical text of an address, for all its spellings: upper case, or an IPv6 host in full or short."""
    host, port = split_address(address)
    return join_address(str(ipaddress.ip_address(host)) if ":" in host else host.lower(), port)


def check_host(host: str) -> str:
    """Return ``host`` without brackets.

    Raises:
        ValueError: the text is neither an IP address nor a possible host name.
    """
    host = host.removeprefix("[").removesuffix("]")
    if ":" in host or re.fullmatch(r"[0-9.]+", host):
        ipaddress.ip_address(host)
    elif not _HOST_NAME.fullmatch(host):
        raise ValueError(phrase("not an IP address or host name"))
    return host


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches ``host``. Every name except localhost counts as reached by others."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_wildcard(host: str) -> bool:
    """Return whether binding to ``host`` means every address of this machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def own_address(members: tuple[str, ...], host: str, port: int) -> str:
    """Return this node's address in the lists of the other members.

    This is the listed address with a host of this machine and our port; else the address on which this node listens.
    """
    ours = [listed for listed, listed_port in map(split_address, members) if listed_port == port]
    if host in ours:
        return join_address(host, port)
    names = [listed for listed in ours if not _is_ip(listed)]
    for listed in ours:
        if listed not in names and is_this_machine(listed):
            return join_address(listed, port)
    # Before any name is resolved, as that takes long if no name service answers: a pod's full name resolves only
    # when the pod is known, but its first label is this machine's name.
    label = socket.gethostname().split(".", 1)[0]
    named = [listed for listed in names if listed.split(".", 1)[0] == label]
    if len(named) == 1:
        return join_address(named[0], port)
    for listed in names:
        if is_this_machine(listed):
            return join_address(listed, port)
    return join_address(first_address() if is_wildcard(host) else host, port)


def is_this_machine(host: str) -> bool:
    """Return whether ``host`` is an address or a name of this machine."""
    if host == socket.gethostname():
        return True
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    return any(_may_bind(family, str(address[0])) for family, _, _, _, address in found)


def first_address() -> str:
    """Return the address from which packets to other machines leave, IPv4 first; without a route, the loopback one."""
    # Documentation's networks (RFC 5737, RFC 3849). Connecting a UDP socket sends nothing.
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                address: str = probe.getsockname()[0]
                return address
        except OSError:
            continue
    return "127.0.0.1"


def _may_bind(family: int, ip: str) -> bool:
    """Return whether a socket can be bound to ``ip``. Only the machine with that address can bind it."""
    if is_wildcard(ip):
        return False
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((ip, 0))
    except OSError:
        return False
    return True


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= PORT_MAX:
        raise ValueError(phrase("its port is not a number from 1 to %(highest)s", highest=PORT_MAX))
    return int(text)
