"""The addresses that health checks may connect to. Clients choose an instance's address, but the node can reach more.

A name is resolved once, and the check connects to the address that was checked.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from app.config.addresses import is_this_machine
from app.config.rpc_settings import RPC_CLUSTER_OFFSET, RPC_SDK_OFFSET
from app.naming.model.ip_addresses import Address, host_port, reached_by
from distro.model.types import Member

Network = IPv4Network | IPv6Network
PORT_OFFSETS = (0, RPC_SDK_OFFSET, RPC_CLUSTER_OFFSET)
"""The offsets of a member's ports from the port in the member list."""
ADDRESSES_MAX = 4
"""The most addresses of a name to try, one after the other."""
REFUSED: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4"),
        *("::/128", "::1/128", "fe80::/10", "ff00::/8"),
        # A network's own NAT64 (RFC 8215) reaches any IPv4 address, which may stand anywhere in the address.
        "64:ff9b:1::/48",
        # The metadata services of clouds that are not link-local: Alibaba's, Oracle's, Azure's, and over IPv6 AWS's,
        # which gives out rights at several addresses, Google's, Oracle's and Scaleway's.
        *("100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32", "fd00:ec2::/32", "fd20:ce::254/128"),
        *("fd00:c1::a9fe:a9fe/128", "fd00:42::42/128"),
    )
)


class TargetRefusedError(Exception):
    """A check may not connect to its instance. The text says why."""


class CheckTargets:
    """The addresses that checks may connect to: all except ``REFUSED`` ones, and never the ports of a member."""

    def __init__(self, allowed: tuple[Network, ...], is_member_port: Callable[[str, int], bool]) -> None:
        """``allowed``: networks within ``REFUSED`` that checks may connect to after all."""
        self._allowed = allowed
        self._is_member_port = is_member_port

    def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host that checks may connect to, at least one, as texts without a zone.

        Raises:
            TargetRefusedError: it has addresses, and none of them is allowed.
            OSError: it has no address.
        """
        found = list(dict.fromkeys(_look_up(host)))
        if not found:
            raise OSError(f"{host!a} has no address")
        refusals = [self._refusal(address, port) for address in found]
        allowed = [str(one) for one, refusal in zip(found, refusals, strict=True) if refusal is None]
        if not allowed:
            raise TargetRefusedError(refusals[0])
        return allowed[:ADDRESSES_MAX]

    def _refusal(self, address: Address, port: int) -> str | None:
        for one in reached_by(address):
            if self._is_member_port(str(one), port):
                return f"{host_port(str(one), port)} is a port of a member"
            if any(one in network for network in REFUSED) and not any(one in network for network in self._allowed):
                return f"{one} is in no network that rollcall.healthCheck.allow names"
        return None


class MemberPorts:
    """The ports of all members, this node included: at their addresses, and at any address of this machine."""

    def __init__(self, members: Callable[[], list[Member]], is_listed: Callable[[str], bool]) -> None:
        """``is_listed``: returns whether an address belongs to a member."""
        self._members = members
        self._is_listed = is_listed

    def has(self, ip: str, port: int) -> bool:
        """Return whether a member listens there, or this node does."""
        is_port = any(port - one.port in PORT_OFFSETS for one in self._members())
        return is_port and (self._is_listed(ip) or is_this_machine(ip))


def _look_up(host: str) -> list[Address]:
    with suppress(ValueError):
        return [ip_address(host.removeprefix("[").removesuffix("]"))]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError:
        return []
    return [ip_address(str(sockaddr[0])) for _, _, _, _, sockaddr in found]
