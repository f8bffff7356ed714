"""The check that a caller may speak for an address that it states."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from app.config.addresses import is_loopback, is_this_machine

ADDRESSES_KEPT = 1_024


def normal_ip(text: str) -> str | None:
    """An address without brackets and without the prefix of IPv4 on a socket for both families; None for no address."""
    try:
        address = ip_address(text.strip("[]"))
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def is_of_caller(stated: str, remote_ip: str) -> bool:
    """Return whether ``stated`` is the address that a call came from, or both are addresses of this machine.

    Both are in the form that ``normal_ip`` returns.
    A client on this machine calls from a loopback address, and states another one of the machine's.
    """
    return stated == remote_ip or (_is_here(remote_ip) and _is_here(stated))


@lru_cache(ADDRESSES_KEPT)
def _is_here(ip: str) -> bool:
    address = ip_address(ip)
    # A socket may be bound to an address of many machines, too.
    return is_loopback(ip) or (not (address.is_multicast or address.is_reserved) and is_this_machine(ip))
