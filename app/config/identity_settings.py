"""The settings of the members' identity: the secret that the members of one cluster share, and its requirements."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from app.config.addresses import is_loopback, join_address, spelling, split_address
from app.config.cluster_conf import parse_members
from app.config.settings_keys import FLAG, TEXT, Key, SettingError
from app.languages.catalogues import N_
from app.languages.phrases import phrase

IDENTITY_KEY = Key(
    ("nacos.core.auth.server.identity.key",),
    TEXT,
    "",
    "The name of the header that identifies requests of members and of real Nacos; a cluster beyond loopback needs it.",
)
IDENTITY_VALUE = Key(
    ("nacos.core.auth.server.identity.value",),
    TEXT,
    "",
    "The members' secret, which signs their requests; only requests to real Nacos have it in the header; 16 "
    "characters or more.",
)
IDENTITY_PREVIOUS = Key(
    ("rollcall.identity.previousValue",),
    TEXT,
    "",
    "The former secret while you change it: also accepted, and used for members that do not have the new one yet.",
)
IDENTITY_NACOS_MEMBERS = Key(
    ("rollcall.identity.nacosMembers",),
    TEXT,
    "",
    "Members that are real Nacos, separated by commas: host:port, host or network. Only they send and get the secret.",
)
IDENTITY_GRPC_EXEMPT = Key(
    ("rollcall.identity.grpcExempt",),
    TEXT,
    "",
    "Members that are real Nacos 2.0 to 2.4, separated by commas: their gRPC calls are accepted without the secret.",
)
WITHOUT_IDENTITY = Key(
    ("rollcall.cluster.withoutIdentity",),
    FLAG,
    "false",
    "Start a cluster beyond loopback without a secret: anyone who calls from a member's address, or forges it, then "
    "counts as a member.",
)
IDENTITY_KEYS: tuple[Key[Any], ...] = (
    IDENTITY_KEY,
    IDENTITY_VALUE,
    IDENTITY_PREVIOUS,
    IDENTITY_NACOS_MEMBERS,
    IDENTITY_GRPC_EXEMPT,
    WITHOUT_IDENTITY,
)
SECRET_CHARS_MIN, SECRET_CHARS_MAX = 8, 256
SECRET_CHARS_GOOD = 16
"""A shorter secret is accepted, for clusters of real Nacos that have one, with a warning."""
DIFFERENT_CHARS_MIN = 5
"""The fewest different characters of a secret: one letter repeated is as easily guessed as a short secret."""
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]{1,64}")
"""Matches the allowed header names: without the underscore, because reverse proxies drop such headers."""
_TAKEN_HEADERS = frozenset(
    {
        "accept",
        "accept-charset",
        "accept-encoding",
        "accesstoken",
        "authorization",
        "client-version",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "date",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "nacos-server",
        "origin",
        "referer",
        "request-source",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
        "x-forwarded-for",
    }
)
_PUBLISHED = frozenset(
    {
        "security",
        "example",
        "nacos",
        "nacosnacos",
        "serveridentity",
        "nacosserveridentity",
        "authenticationidentity",
        "nacos-server-identity",
        "your-identity-value",
        "youridentityvalue",
        "changeme",
        "changemechangeme",
        "secretkey012345678901234567890123456789012345678901234567890123456789",
        "secretkey01234567890123456789012345345678999987654901234567890123456789",
        "vgvzzxrlcm5hy29zmtizndu2nzg5mdewmtm0nty3oduw",
    }
)
"""Values in Nacos's documents, images and samples, in lower case. An attacker tries each of them first."""


@dataclass(frozen=True, slots=True)
class NamedNacos:
    """The members that the operator names as real Nacos."""

    addresses: frozenset[str] = frozenset()
    """Each as ``host:port``, in the form that ``spelling`` returns."""
    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def has(self, member: str) -> bool:
        """Return whether a member is named by its listed address, its host or the network of its IP address."""
        if not (self.addresses or self.hosts or self.networks):
            return False
        try:
            address = spelling(member)
            host = split_address(address)[0]
            if address in self.addresses or host in self.hosts:
                return True
            return bool(self.networks) and any(ip_address(host) in one for one in self.networks)
        except ValueError:  # no address; or a name, which is in no network
            return False


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """The secret of a cluster's members, and the name of the header in which real Nacos sends it."""

    header: str
    value: str = field(repr=False)
    previous: str = field(repr=False)
    """Another value that is accepted as well; empty for none."""
    nacos: NamedNacos
    """The members that are sent the secret itself, and may send it."""
    grpc_exempt: frozenset[str]
    """Addresses of members that are real Nacos and send no secret over gRPC. ``nacos`` names them, too."""


UNIDENTIFIED = phrase(
    "THIS CLUSTER HAS NO IDENTITY: anyone who calls from a member's address, or can forge it, can write to the "
    "registry of all members. Set %(key)s and %(value)s at every member.",
    key=IDENTITY_KEY.name,
    value=IDENTITY_VALUE.name,
)
NEEDED = phrase(
    "a cluster whose members are not all on loopback needs a secret that identifies its members to each other: set "
    "%(key)s and %(value)s, the same at every member, or, if nothing else can reach any member, %(without)s=true",
    key=IDENTITY_KEY.name,
    value=IDENTITY_VALUE.name,
    without=WITHOUT_IDENTITY.name,
)


def needs_identity(members: Iterable[str], host: str) -> bool:
    """Return whether other machines can reach a cluster of these members, one of which listens on ``host``."""
    return not (is_loopback(host) and all(is_loopback(split_address(one)[0]) for one in members))


def check_header(name: str) -> None:
    """Check that the identity can travel in a header of this name.

    Raises:
        SettingError: it cannot.
    """
    folded = name.lower()
    if not _TOKEN.fullmatch(name) or folded in _TAKEN_HEADERS or folded.startswith("rollcall-"):
        raise SettingError(
            phrase(
                "%(key)s=%(name)s is not allowed: use a header name of letters, digits and hyphens that has no other "
                "meaning, such as Cluster-Identity",
                key=IDENTITY_KEY.name,
                name=name,
            )
        )


def check_secret(key: Key[str], text: str, header: str) -> None:
    """Check that a value of the identity can be sent, and cannot be guessed. The error does not repeat the value.

    Raises:
        SettingError: it cannot be sent, is too short, or is published.
    """
    if not text.isascii() or not text.isprintable() or " " in text:
        problem = phrase("it must consist of printable ASCII characters without spaces")
    elif text.lower() in _PUBLISHED or text.lower() == header.lower():
        problem = phrase("this value is published, so attackers try it first")
    elif not SECRET_CHARS_MIN <= len(text) <= SECRET_CHARS_MAX:
        problem = phrase("it must have %(least)s to %(most)s characters", least=SECRET_CHARS_MIN, most=SECRET_CHARS_MAX)
    elif len(set(text)) < DIFFERENT_CHARS_MIN:
        problem = phrase("it must have at least %(count)s different characters", count=DIFFERENT_CHARS_MIN)
    else:
        return
    text = N_("%(key)s is not allowed: %(problem)s; openssl rand -hex 24 makes a good one")
    raise SettingError(phrase(text, key=key.name, problem=problem))


def identity_settings(get: Callable[[Key[Any]], Any], header: str, value: str) -> IdentitySettings | None:
    """Return the identity of ``header`` and ``value``, both empty for none. ``get`` reads the other settings.

    Raises:
        SettingError: it cannot be used.
    """
    previous, exempt = get(IDENTITY_PREVIOUS), get(IDENTITY_GRPC_EXEMPT)
    if not header:
        if previous:
            raise SettingError(
                phrase("%(key)s needs %(needed)s", key=IDENTITY_PREVIOUS.name, needed=IDENTITY_VALUE.name)
            )
        return None
    check_header(header)
    for key, text in ((IDENTITY_VALUE, value), (IDENTITY_PREVIOUS, previous)):
        if text:
            check_secret(key, text, header)
    grpc_exempt = parse_members(exempt, IDENTITY_GRPC_EXEMPT.name)
    nacos = named_nacos(get(IDENTITY_NACOS_MEMBERS), grpc_exempt)
    return IdentitySettings(header, value, previous, nacos, frozenset(grpc_exempt))


def named_nacos(text: str, exempt: Iterable[str] = ()) -> NamedNacos:
    """Read ``IDENTITY_NACOS_MEMBERS``; ``exempt``: further addresses of members that are real Nacos.

    Raises:
        SettingError: an entry is not an address, host or network.
    """
    addresses, hosts, networks = {spelling(one) for one in exempt}, set[str](), list[IPv4Network | IPv6Network]()
    for part in text.split(","):
        entry = part.strip()
        if not entry:
            continue
        try:
            if "/" in entry:
                networks.append(ip_network(entry))
                continue
            bare = f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry
            host, port = split_address(spelling(bare))
            has_port = bare.rpartition("]")[2].startswith(":") if bare.startswith("[") else ":" in bare
        except ValueError as error:
            text = N_("%(key)s: %(entry)s is not a host:port, host or network: %(error)s")
            key = IDENTITY_NACOS_MEMBERS.name
            raise SettingError(phrase(text, key=key, entry=repr(entry), error=error)) from None
        if has_port:
            addresses.add(join_address(host, port))
        else:
            hosts.add(host)
    return NamedNacos(frozenset(addresses), frozenset(hosts), tuple(networks))


def identity_warnings(
    members: tuple[str, ...], host: str, identity: IdentitySettings | None, *, without: bool
) -> Iterator[str]:
    """Yield warnings about a cluster's identity. ``without``: the operator wants none beyond loopback.

    Raises:
        SettingError: the cluster lacks the identity that it needs.
    """
    if identity is None and needs_identity(members, host):
        if not without:
            raise SettingError(NEEDED)
        yield UNIDENTIFIED
    elif identity is not None and without:
        yield phrase("%(key)s has no effect, as there is an identity", key=WITHOUT_IDENTITY.name)
    if identity is not None:
        if len(identity.value) < SECRET_CHARS_GOOD:
            yield phrase(
                "%(key)s has fewer than %(count)s characters: anyone who sees one signed call can guess it by trying; "
                "openssl rand -hex 24 makes a good one",
                key=IDENTITY_VALUE.name,
                count=SECRET_CHARS_GOOD,
            )
        for one in sorted(identity.grpc_exempt.difference(members)):
            yield phrase(
                "%(key)s names %(member)s, which is not in the member list", key=IDENTITY_GRPC_EXEMPT.name, member=one
            )
