"""The settings of the member list: its source, chosen in Nacos's order."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from app.config.addresses import PORT_MAX, join_address, split_address
from app.config.cluster_conf import parse_members
from app.config.settings_keys import (
    HOST_OR_NONE,
    SERVER_IP,
    STANDALONE,
    TEXT,
    Key,
    Kind,
    SettingError,
    choice_of,
    one_of,
    whole,
)
from app.languages.catalogues import N_
from app.languages.phrases import phrase

T = TypeVar("T")
FILE, ADDRESS_SERVER, DNS = "file", "address-server", "dns"
LOOKUPS = (FILE, ADDRESS_SERVER, DNS)


def _parse_dns(text: str) -> str:
    if text:
        split_address(text)
    return text


def _parse_path(text: str) -> str:
    if text and not re.fullmatch(r"/[!-~]*", text):
        raise ValueError
    return text


LOOKUP_OR_NONE: Kind[str] = Kind(choice_of(LOOKUPS), lambda text: one_of(*LOOKUPS).parse(text) if text else "")

MEMBER_LIST = Key(
    ("nacos.member.list",),
    TEXT,
    "",
    "The members of the cluster, separated by commas, this node included. Used if there is no cluster.conf.",
)
LOOKUP_TYPE = Key(
    ("nacos.core.member.lookup.type",),
    LOOKUP_OR_NONE,
    "",
    "The source of the member list. Default: cluster.conf if there is one, else nacos.member.list, "
    "else rollcall.member.dns, else address.server.domain: the first one that is set. Without any "
    "of them the node is standalone.",
)
SERVER_DOMAIN = Key(
    ("address.server.domain", "address_server_domain"),
    HOST_OR_NONE,
    "",
    "The host of the address server, from which the member list is read every 5 s.",
)
SERVER_PORT = Key(
    ("address.server.port", "address_server_port"), whole(1, PORT_MAX), "8080", "The port of the address server."
)
SERVER_URL = Key(
    ("address.server.url", "address_server_url"),
    Kind(phrase("a path that begins with /"), _parse_path),
    "",
    "The path at the address server. Default: /serverlist below the context path.",
)
MEMBER_DNS = Key(
    ("rollcall.member.dns",),
    Kind(phrase("host or host:port"), _parse_dns),
    "",
    "A host name whose addresses are the members, such as a headless service, resolved every 5 s. Default port: "
    "server.port.",
)
LEAVE_GRACE = Key(
    ("rollcall.leave.graceMs",),
    whole(0, 600_000),
    "0",
    "How long a node serves after SIGTERM, while it reports that it is not ready and load balancers choose other "
    "members.",
)
LOOKUP_KEYS: tuple[Key[Any], ...] = (
    MEMBER_LIST,
    LOOKUP_TYPE,
    SERVER_DOMAIN,
    SERVER_PORT,
    SERVER_URL,
    MEMBER_DNS,
    LEAVE_GRACE,
)


@dataclass(frozen=True, slots=True)
class LookupSettings:
    """The source of the member list, and the settings of each source. A source that is not set has an empty text."""

    kind: str
    """One of ``LOOKUPS``."""
    listed: tuple[str, ...]
    """The members in the setting nacos.member.list."""
    server_url: str
    dns: str
    """``host:port``."""
    own_host: str
    """This node's host in the other members' lists, if it is set."""

    @property
    def is_polled(self) -> bool:
        """Return whether the list is known only after its source has answered."""
        return self.kind != FILE


def lookup_settings(
    get: Callable[[Key[Any]], Any],
    find: Callable[[Key[Any]], tuple[str, str]],
    cluster_conf: Path,
    context_path: str,
    port: int,
) -> LookupSettings:
    """Return the source of the member list. ``get`` returns a setting's value, ``find`` its text and its place.

    Source of the order: Nacos 1.4.1 LookupFactory.chooseLookup, which uses jmenv.tbsite.net if nothing is set.

    Raises:
        SettingError: the chosen source lacks a setting.
    """
    text, origin = find(MEMBER_LIST)
    named = phrase("%(key)s (%(origin)s)", key=MEMBER_LIST.name, origin=origin)
    listed = parse_members(text, named) if text else ()
    domain, server_port = get(SERVER_DOMAIN), get(SERVER_PORT)
    path = get(SERVER_URL) or f"{context_path}/serverlist"
    server_url = f"http://{join_address(domain, server_port)}{path}" if domain else ""
    dns = ""
    if name := get(MEMBER_DNS):
        host, listed_port = split_address(name)
        dns = join_address(host, listed_port if name.endswith(f":{listed_port}") else port)
    kind = get(LOOKUP_TYPE) or FILE
    if not get(LOOKUP_TYPE) and not listed and not cluster_conf.exists():
        kind = DNS if dns else ADDRESS_SERVER if server_url else FILE
    for chosen, value, key in ((ADDRESS_SERVER, server_url, SERVER_DOMAIN), (DNS, dns, MEMBER_DNS)):
        if kind == chosen and not value:
            text = N_("%(setting)s (%(origin)s) needs %(key)s")
            setting = f"{LOOKUP_TYPE.name}={kind}"
            raise SettingError(phrase(text, setting=setting, origin=find(LOOKUP_TYPE)[1], key=key.name))
    return LookupSettings(kind, listed, server_url, dns, get(SERVER_IP) or "")


def listed_members(lookup: LookupSettings, text: str | None, cluster_conf: Path) -> tuple[str, ...] | None:
    """Return the members that are known at the start, perhaps no member; None if no list is configured.

    ``text``: the content of ``cluster_conf``, None without the file.
    """
    if lookup.is_polled:
        return ()
    if text is not None:
        return parse_members(text, str(cluster_conf))
    return lookup.listed or None


def is_standalone(
    standalone: bool | None, origin: str, lookup: LookupSettings, listed: tuple[str, ...] | None, cluster_conf: Path
) -> bool:
    """Return whether this node runs alone. ``standalone`` and ``origin``: the setting and its place.

    Raises:
        SettingError: it is to have other members, and there is no list of them.
    """
    if standalone is False and listed is None:
        raise SettingError(
            phrase(
                "%(key)s=false (%(origin)s) needs a member list: write %(file)s or set %(list)s, %(dns)s or %(server)s",
                key=STANDALONE.name,
                origin=origin,
                file=cluster_conf,
                list=MEMBER_LIST.name,
                dns=MEMBER_DNS.name,
                server=SERVER_DOMAIN.name,
            )
        )
    if standalone is None:
        return not listed and not lookup.is_polled
    return standalone
