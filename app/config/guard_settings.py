"""The settings of the guards against strangers: the names, addresses and networks that are exempt."""

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from app.config.addresses import check_host
from app.config.settings_keys import FLAG, Key, Kind
from app.languages.phrases import phrase

Network = IPv4Network | IPv6Network


def _parse_names(text: str) -> tuple[str, ...]:
    names = [name for part in text.split(",") if (name := part.strip())]
    return tuple(name if name == "*" else check_host(name) for name in names)


NAMES = Kind(phrase("host names separated by commas, or *"), _parse_names)
NETWORKS = Kind(
    phrase("networks such as 10.0.0.0/8 or fd00::/8, separated by commas"),
    lambda text: tuple(ip_network(name) for part in text.split(",") if (name := part.strip())),
)
HTTP_HOSTS = Key(
    ("rollcall.http.hosts",),
    NAMES,
    "",
    "Host names, separated by commas, under which browsers may call this node, in addition to IP addresses, localhost "
    "and the members' names: the name of a load balancer, for example. * allows every name. Other clients may use "
    "any name.",
)
PUSH_TRUST_NAT = Key(
    ("rollcall.push.udp.trustNat",),
    FLAG,
    "false",
    "Push over UDP to the address that a client names, even if its query came from another one. Clients behind NAT "
    "need this; but then anyone who may query can have pushes sent to any address.",
)
CHECK_ALLOW = Key(
    ("rollcall.healthCheck.allow",),
    NETWORKS,
    "",
    "Loopback networks, link-local networks and those of cloud metadata services, separated by commas, that health "
    "checks of persistent instances may connect to, such as 127.0.0.0/8; other networks need not be listed.",
)
GUARD_KEYS: tuple[Key[Any], ...] = (HTTP_HOSTS, PUSH_TRUST_NAT, CHECK_ALLOW)


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """The exceptions from the guards against strangers."""

    http_hosts: tuple[str, ...]
    """Names under which browsers may call this node, in addition to those that it knows itself; ``*`` is any."""
    push_trusts_nat: bool
    """True if UDP pushes go to the address that a client states."""
    check_allowed: tuple[Network, ...]
    """Networks that health checks may connect to although they would be refused by default."""


def guard_settings(get: Callable[[Key[Any]], Any]) -> GuardSettings:
    """Return the settings, each read by ``get``."""
    return GuardSettings(get(HTTP_HOSTS), get(PUSH_TRUST_NAT), get(CHECK_ALLOW))
