"""The fields of links to other clusters, `rollcall.link.NAME.*`: their values, defaults and purposes."""

import re
from collections.abc import Mapping
from typing import Any

from app.config.addresses import join_address, split_address
from app.config.settings_keys import CONTEXT_PATH, FILE_OR_NONE, FLAG, TEXT, Key, Kind, one_of, whole
from app.languages.phrases import phrase

PREFIX = "rollcall.link."
_ID = re.compile(r"[0-9a-zA-Z._-]{0,64}")
EXCLUDED = "!"
IN, OUT, BOTH = "in", "out", "both"
ROLLCALL, NACOS, NACOS_1 = "rollcall", "nacos", "nacos1"
PATTERNS_MAX = 100
NUMBER = re.compile(r"[0-9]{1,5}(\.[0-9]{1,4})?")


def _parse_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ValueError
    return text


def _parse_servers(text: str) -> tuple[str, ...]:
    if not (entries := _entries(text)):
        raise ValueError
    return tuple(join_address(*split_address(one)) for one in entries)


def _parse_patterns(text: str) -> tuple[str, ...]:
    entries = _entries(text)
    if len(entries) > PATTERNS_MAX or any(not one.removeprefix(EXCLUDED) or not one.isprintable() for one in entries):
        raise ValueError
    return entries


def _parse_map(text: str) -> Mapping[str, str]:
    pairs = [tuple(part.strip() for part in one.split(":")) for one in _entries(text)]
    if any(len(one) != 2 or not all(one) for one in pairs):
        raise ValueError
    named = {one[0]: one[1] for one in pairs}
    if len(named) != len(pairs) or len(set(named.values())) != len(pairs):
        raise ValueError  # a namespace that two others became could not be told apart on its way back
    return named


def _parse_weight(text: str) -> float:
    if not NUMBER.fullmatch(text) or float(text) > 100:
        raise ValueError
    return float(text)


def _entries(text: str) -> tuple[str, ...]:
    return tuple(one for part in text.split(",") if (one := part.strip()))


PATTERNS = Kind(phrase("patterns with * and ?, separated by commas; one that begins with ! excludes"), _parse_patterns)
CLUSTER_ID = Key(
    ("rollcall.cluster.id",),
    Kind(phrase("up to 64 letters, digits, . _ and -"), _parse_id),
    "",
    "The name of this cluster towards clusters that are linked with it, the same for all its members. Default: a name "
    "made from the member list.",
)


def _field(name: str, kind: Kind[Any], default: str, purpose: str) -> Key[Any]:
    return Key((f"{PREFIX}NAME.{name}",), kind, default, purpose)


FIELDS: Mapping[str, Key[Any]] = {
    "servers": _field(
        "servers",
        Kind(phrase("host:port, several separated by commas"), _parse_servers),
        "",
        "Members of the other cluster. Each member here follows one of them at a time.",
    ),
    "kind": _field(
        "kind",
        one_of(ROLLCALL, NACOS, NACOS_1),
        ROLLCALL,
        "The kind of the other cluster: rollcall, nacos for Nacos 2.x and 3.x over gRPC, 1000 above the port of each "
        "server, or nacos1 for Nacos 1.x over HTTP.",
    ),
    "enabled": _field("enabled", FLAG, "true", "false: the link is off. Its instances are removed after a minute."),
    "direction": _field(
        "direction",
        one_of(IN, OUT, BOTH),
        IN,
        "in: this cluster shows the other one's instances. out: it shows none of them. Towards a Nacos, out and both "
        "register local instances there; another Rollcall has its own link to this cluster.",
    ),
    "user": _field(
        "user", TEXT, "", "The user that this link logs in as; it imports the services that this user may read."
    ),
    "password": _field("password", TEXT, "", "The password of that user."),
    "contextPath": _field("contextPath", CONTEXT_PATH, "/nacos", "The prefix of all paths at the other cluster."),
    "tls": _field("tls", FLAG, "false", "Call the other cluster over HTTPS."),
    "trusted": _field(
        "trusted", FILE_OR_NONE, "", "Certificates (PEM) that check those of the other cluster. Default: the system's."
    ),
    "namespaces": _field("namespaces", PATTERNS, "*", "The namespaces to follow, as the other cluster names them."),
    "groups": _field("groups", PATTERNS, "*", "The groups to follow."),
    "services": _field("services", PATTERNS, "*", "The services to follow, without their groups."),
    "namespaceMap": _field(
        "namespaceMap",
        Kind(phrase("there:here, several separated by commas, each name once"), _parse_map),
        "",
        "Namespaces that have another name here. All others keep their names.",
    ),
    "arrival": _field(
        "arrival",
        one_of("merge", "failover", "apart"),
        "merge",
        "merge: one list, local instances first. failover: shown only while too few local instances are healthy. "
        "apart: in a cluster with the name of the link.",
    ),
    "healthyMin": _field(
        "healthyMin",
        whole(0, 100_000),
        "1",
        "For failover: with fewer healthy local instances than this, or at the service's protect threshold, foreign "
        "ones are shown.",
    ),
    "weight": _field(
        "weight",
        Kind(phrase("a number from 0 to 100"), _parse_weight),
        "1",
        "The factor for the weights of instances that arrive.",
    ),
    "retainMs": _field(
        "retainMs",
        whole(0, 31_536_000_000),
        "600000",
        "How long instances of a silent link are kept; 0: for ever. A service that would be empty keeps them.",
    ),
    "changesPerSecond": _field(
        "changesPerSecond", whole(1, 1_000_000), "2000", "Changes of services that this link takes in a second."
    ),
    "bytesPerSecond": _field(
        "bytesPerSecond", whole(65_536, 1 << 40), "20000000", "Bytes that this link reads in a second."
    ),
}
OF_MEMBERS = ("password", "trusted")
"""Fields that each member has for itself, in its file: calls cannot set them."""
LOGIN = ("user", *OF_MEMBERS)
"""Fields that a file may have alone, for a link whose servers come from a call."""
