"""The settings of links to other clusters, `rollcall.link.NAME.*`, which a node reads again while it runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.config.addresses import join_address, split_address
from app.config.file_stamp import file_stamp
from app.config.properties import parse_properties
from app.config.settings_keys import (
    COMMAND_LINE,
    CONTEXT_PATH,
    DEFAULT,
    ENVIRONMENT,
    FILE_OR_NONE,
    FLAG,
    TEXT,
    Key,
    Kind,
    SettingError,
    needs_both,
    not_allowed,
    one_of,
    unreadable,
    whole,
)
from app.languages.catalogues import N_
from app.languages.phrases import phrase

PREFIX, ENV_PREFIX = "rollcall.link.", "ROLLCALL_LINK_"
LINKS_MAX = 32
NAME = re.compile(r"[0-9a-zA-Z-]{1,32}")
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

_ENV_FIELDS = {name.upper(): name for name in FIELDS}


@dataclass(frozen=True, slots=True)
class LinkFilter:
    """The services that a link follows, by patterns of their names at the other cluster."""

    namespaces: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ("*",)
    services: tuple[str, ...] = ("*",)

    @property
    def exact_namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that are named without a pattern."""
        return _exact(self.namespaces)

    @property
    def exact_groups(self) -> tuple[str, ...]:
        """Return the groups that are named without a pattern."""
        return _exact(self.groups)

    @property
    def exact_services(self) -> tuple[str, ...]:
        """Return the services that are named without a pattern."""
        return _exact(self.services)

    @property
    def has_patterns(self) -> bool:
        """Return whether the namespaces have to be listed to know those that are chosen."""
        return len(self.exact_namespaces) < len(self.namespaces) or not self.namespaces

    def takes_namespace(self, namespace: str) -> bool:
        """Return whether services of a namespace may belong to the link."""
        return _is_chosen(namespace, self.namespaces)

    def takes(self, namespace: str, group: str, service: str) -> bool:
        """Return whether a service belongs to the link."""
        return (
            _is_chosen(namespace, self.namespaces)
            and _is_chosen(group, self.groups)
            and _is_chosen(service, self.services)
        )


def _exact(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one for one in patterns if not one.startswith(EXCLUDED) and not set("*?[") & set(one))


@lru_cache(65_536)
def _is_chosen(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a pattern fits and no excluding one does. Patterns that only exclude leave all others."""
    chosen = [one for one in patterns if not one.startswith(EXCLUDED)]
    excluded = [one.removeprefix(EXCLUDED) for one in patterns if one.startswith(EXCLUDED)]
    if any(fnmatchcase(name, one) for one in excluded):
        return False
    return not chosen or any(fnmatchcase(name, one) for one in chosen)


def name_here(namespace_map: Mapping[str, str], namespace: str) -> str | None:
    """Return the name here of a namespace of the other cluster; None for one that another one is mapped to."""
    mapped = namespace_map.get(namespace)
    if mapped is None:
        return None if namespace in namespace_map.values() else namespace
    return mapped


def name_there(namespace_map: Mapping[str, str], namespace: str) -> str:
    """Return the name at the other cluster of a namespace here."""
    return next((one for one, named in namespace_map.items() if named == namespace), namespace)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """The settings of one link; ``FIELDS`` has the purpose of each."""

    name: str
    servers: tuple[str, ...]
    kind: str
    direction: str
    user: str
    password: str = field(repr=False)
    context_path: str
    tls: bool
    trusted: Path | None
    chosen: LinkFilter
    namespace_map: Mapping[str, str]
    """The names here of namespaces, by their names at the other cluster."""
    arrival: str
    healthy_min: int
    weight: float
    retain_ms: int
    changes_per_s: int
    bytes_per_s: int

    @property
    def follows(self) -> bool:
        """Return whether this cluster follows the other one."""
        return self.direction != OUT

    @property
    def sends(self) -> bool:
        """Return whether this cluster registers its instances at the other one: a Nacos has no links."""
        return self.kind != ROLLCALL and self.direction != IN

    def here(self, namespace: str) -> str | None:
        """Return the name here of a namespace of the other cluster; None for one that another one is mapped to."""
        return name_here(self.namespace_map, namespace)

    def there(self, namespace: str) -> str:
        """Return the name at the other cluster of a namespace here."""
        return name_there(self.namespace_map, namespace)


@dataclass(frozen=True, slots=True)
class LinkSource:
    """The sources of the links' settings: what the node was started with, and its file, which may change."""

    given: tuple[tuple[Mapping[str, str], str], ...] = ()
    """Values by key, with the name of their source; the first that has a key counts."""
    file: Path | None = None
    cluster_id: str = ""
    """The name of this cluster towards linked ones; empty for one made from the member list."""

    def stamp(self) -> tuple[int, ...] | None:
        """Return what changes with the file; None without one."""
        return file_stamp(self.file) if self.file is not None else None

    def read(self) -> tuple[LinkSettings, ...]:
        """Return the links, by name.

        Raises:
            SettingError: a value is not allowed, or the file cannot be read.
        """
        sources = list(self.given)
        if self.file is not None and self.file.exists():
            try:
                text = self.file.read_text("utf-8-sig", "replace")
                sources.append((parse_properties(text), str(self.file)))
            except (OSError, ValueError) as error:
                raise unreadable(self.file, error) from None
        found: dict[str, dict[str, tuple[str, str]]] = {}
        for values, origin in sources:
            for key, text in values.items():
                if (parsed := _parse_key(key, origin)) and text.strip():
                    found.setdefault(parsed[0], {}).setdefault(parsed[1], (text.strip(), origin))
        if len(found) > LINKS_MAX:
            raise SettingError(
                phrase("%(count)s links are over the limit of %(most)s", count=len(found), most=LINKS_MAX)
            )
        links = tuple(_link(name, found[name]) for name in sorted(found))
        for one in links:
            if one.sends and not self.cluster_id:
                text = N_("%(setting)s needs %(key)s, the name of this cluster")
                setting = f"{PREFIX}{one.name}.direction={one.direction}"
                raise SettingError(phrase(text, setting=setting, key=CLUSTER_ID.name))
        return links


def link_source(overrides: Mapping[str, str], environ: Mapping[str, str], file: Path, cluster_id: str) -> LinkSource:
    """Return the sources of a node that was started with these values and this file."""
    named = {
        f"{PREFIX}{name.lower()}.{_ENV_FIELDS[of]}": text
        for key, text in environ.items()
        if key.startswith(ENV_PREFIX)
        and (name := key.removeprefix(ENV_PREFIX).rpartition("_")[0])
        and (of := key.rpartition("_")[2]) in _ENV_FIELDS
    }
    dotted = {key: text for key, text in environ.items() if key.startswith(PREFIX)}
    given = ((_of_links(overrides), COMMAND_LINE), (dotted | named, ENVIRONMENT))
    return LinkSource(tuple(one for one in given if one[0]), file, cluster_id)


def _of_links(values: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in values.items() if key.startswith(PREFIX)}


def is_link_key(name: str) -> bool:
    """Return whether a key, or an environment variable, is a setting of a link."""
    return name.startswith(PREFIX) or (name.startswith(ENV_PREFIX) and name.rpartition("_")[2] in _ENV_FIELDS)


def _parse_key(key: str, origin: str) -> tuple[str, str] | None:
    """Return the name of the link and the field that a key names; None for other keys.

    Raises:
        SettingError: the name is not allowed, or there is no such field.
    """
    if not key.startswith(PREFIX):
        return None
    name, _, of = key.removeprefix(PREFIX).rpartition(".")
    if not NAME.fullmatch(name):
        raise not_allowed(key, origin, phrase("the name of a link has up to 32 letters, digits and -"))
    if of not in FIELDS:
        text = N_("%(key)s (%(origin)s) is not a setting of a link; the settings are %(names)s")
        raise SettingError(phrase(text, key=key, origin=origin, names=", ".join(FIELDS)))
    return name, of


def _link(name: str, texts: Mapping[str, tuple[str, str]]) -> LinkSettings:
    values: dict[str, Any] = {}
    for of, key in FIELDS.items():
        text, origin = texts.get(of, (key.default, DEFAULT))
        try:
            values[of] = key.kind.parse(text)
        except ValueError:
            shown = "" if of == "password" else f"={text}"
            raise not_allowed(f"{PREFIX}{name}.{of}{shown}", origin, key.kind.allowed) from None
    if bool(values["user"]) != bool(values["password"]):
        raise needs_both(f"{PREFIX}{name}.user", f"{PREFIX}{name}.password")
    return LinkSettings(
        name=name,
        servers=values["servers"],
        kind=values["kind"],
        direction=values["direction"],
        user=values["user"],
        password=values["password"],
        context_path=values["contextPath"],
        tls=values["tls"],
        trusted=values["trusted"],
        chosen=LinkFilter(values["namespaces"], values["groups"], values["services"]),
        namespace_map=values["namespaceMap"],
        arrival=values["arrival"],
        healthy_min=values["healthyMin"],
        weight=values["weight"],
        retain_ms=values["retainMs"],
        changes_per_s=values["changesPerSecond"],
        bytes_per_s=values["bytesPerSecond"],
    )
