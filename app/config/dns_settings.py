"""The settings of the DNS server, and the warnings about them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from app.config.addresses import PORT_MAX
from app.config.settings_keys import FLAG, HOST_OR_NONE, Key, Kind, SettingError, whole
from app.languages.catalogues import N_
from app.languages.phrases import phrase

PORT_OFFSET = 5
"""The offset from the HTTP port to that of DNS."""
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
DOMAIN_CHARS_MAX = 100
"""The rest of a name's 255 bytes is for service, group and namespace."""


def _parse_domain(text: str) -> str:
    domain = text.rstrip(".").lower()
    if len(domain) > DOMAIN_CHARS_MAX or not all(LABEL.fullmatch(label) for label in domain.split(".")):
        raise ValueError
    return domain


_PORT = whole(1, PORT_MAX)
PORT_OR_NONE: Kind[int | None] = Kind(_PORT.allowed, lambda text: _PORT.parse(text) if text else None)
DOMAIN = Kind(
    phrase("a domain of at most %(count)s letters, digits, - and dots", count=DOMAIN_CHARS_MAX), _parse_domain
)

DNS_ENABLED = Key(
    ("rollcall.dns.enabled",),
    FLAG,
    "false",
    "Answer DNS queries for healthy instances. DNS has no users: anyone who can reach the port can look up every name.",
)
DNS_HOST = Key(
    ("rollcall.dns.host",),
    HOST_OR_NONE,
    "",
    "The address that the DNS server listens on, over UDP and TCP. Default: server.address.",
)
DNS_PORT = Key(
    ("rollcall.dns.port",),
    PORT_OR_NONE,
    "",
    f"The port of the DNS server. Default: the HTTP port and {PORT_OFFSET}, 8853 above 8848.",
)
DNS_DOMAIN = Key(("rollcall.dns.domain",), DOMAIN, "rollcall", "The domain that all names end with.")
DNS_TTL = Key(
    ("rollcall.dns.ttl.seconds",),
    whole(0, 3_600),
    "5",
    "How long resolvers may cache an answer, negative ones included (s).",
)
DNS_MAX_ANSWERS = Key(
    ("rollcall.dns.max.answers",),
    whole(1, 256),
    "16",
    "Addresses of one answer. If a service has more, each query gets the next ones in turn.",
)
DNS_RATE = Key(
    ("rollcall.dns.rate.perSecondPerAddress",),
    whole(0, 10_000_000),
    "1000",
    "Queries from one client address per second over UDP, and as many over TCP (IPv6: "
    "from one /64); 0 removes the limit.",
)
DNS_KEYS: tuple[Key[Any], ...] = (
    DNS_ENABLED,
    DNS_HOST,
    DNS_PORT,
    DNS_DOMAIN,
    DNS_TTL,
    DNS_MAX_ANSWERS,
    DNS_RATE,
)


@dataclass(frozen=True, slots=True)
class DnsSettings:
    """The names of the DNS server, and the bounds of its answers."""

    host: str
    port: int
    domain: str
    """In lower case, without a dot at its end."""
    ttl_s: int
    answers_max: int
    rate: int
    """Queries per second from one address; 0 for any number."""


def dns_settings(get: Callable[[Key[Any]], Any], host: str, http_port: int) -> DnsSettings | None:
    """Return the settings, each read by ``get``; None without a DNS server.

    Raises:
        SettingError: there is no port above the HTTP port.
    """
    if not get(DNS_ENABLED):
        return None
    port = get(DNS_PORT) or http_port + PORT_OFFSET
    if port > PORT_MAX:
        text = N_("%(key)s is needed, as server.port=%(http)s leaves no port %(port)s")
        raise SettingError(phrase(text, key=DNS_PORT.name, http=http_port, port=port))
    return DnsSettings(
        host=get(DNS_HOST) or host,
        port=port,
        domain=get(DNS_DOMAIN),
        ttl_s=get(DNS_TTL),
        answers_max=get(DNS_MAX_ANSWERS),
        rate=get(DNS_RATE),
    )


def dns_warnings(get: Callable[[Key[Any]], Any], *, has_users: bool) -> Iterator[str]:
    """Yield a warning if users are on but names are public nevertheless."""
    if has_users and get(DNS_ENABLED):
        yield phrase(
            "%(key)s is true while users are on: DNS has no users, so anyone who can reach its port can look up the "
            "healthy instances of every service in every namespace",
            key=DNS_ENABLED.name,
        )
