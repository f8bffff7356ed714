"""The settings of links to other clusters, `rollcall.link.NAME.*`, which a node reads again while it runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from app.config.file_stamp import file_stamp
from app.config.link_fields import CLUSTER_ID, EXCLUDED, FIELDS, IN, LOGIN, OUT, PREFIX, ROLLCALL
from app.config.properties import parse_properties
from app.config.settings_keys import (
    COMMAND_LINE,
    DEFAULT,
    ENVIRONMENT,
    SettingError,
    needs_both,
    not_allowed,
    unreadable,
)
from app.languages.catalogues import N_
from app.languages.phrases import phrase

ENV_PREFIX = "ROLLCALL_LINK_"
LINKS_MAX = 32
NAME = re.compile(r"[0-9a-zA-Z-]{1,32}")
CALL = phrase("a call")
"""The source of fields that calls set."""
_ENV_FIELDS = {name.upper(): name for name in FIELDS}
Called = Mapping[str, Mapping[str, str]]
"""Fields of links that calls set, as texts, by the names of the links."""
NOT_CALLED: Called = {}
Texts = Mapping[str, Mapping[str, tuple[str, str]]]
"""The text of each field and its source, by link."""


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
    enabled: bool
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
        return self.enabled and self.direction != OUT

    @property
    def sends(self) -> bool:
        """Return whether this cluster registers its instances at the other one: a Nacos has no links."""
        return self.enabled and self.kind != ROLLCALL and self.direction != IN

    def here(self, namespace: str) -> str | None:
        """Return the name here of a namespace of the other cluster; None for one that another one is mapped to."""
        return name_here(self.namespace_map, namespace)

    def there(self, namespace: str) -> str:
        """Return the name at the other cluster of a namespace here."""
        return name_there(self.namespace_map, namespace)


class LinksRead(NamedTuple):
    """The links of a node, as its settings and calls have them."""

    links: tuple[LinkSettings, ...]
    refused: Mapping[str, str]
    """Why links cannot be followed as calls set them, by name."""


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
        """Return the links that are set here, by name.

        Raises:
            SettingError: a value is not allowed, or the file cannot be read.
        """
        return self.read_with(NOT_CALLED).links

    def read_with(self, called: Called) -> LinksRead:
        """Return the links; a field that a call set counts before all others.

        Raises:
            SettingError: as ``read``, for a link without a call.
        """
        return self._read_all(self._found(), called)

    def _read_all(self, found: Texts, called: Called) -> LinksRead:
        links, refused = list[LinkSettings](), dict[str, str]()
        by_call_alone = sorted(called.keys() - found.keys())
        refused |= {
            name: _too_many(len(found) + len(by_call_alone)) for name in by_call_alone[LINKS_MAX - len(found) :]
        }
        for name in sorted((found.keys() | called.keys()) - refused.keys()):
            fields = called.get(name, {})
            texts = {**found.get(name, {}), **{of: (text, CALL) for of, text in fields.items()}}
            try:
                if (one := self._read_link(name, texts, is_called=bool(fields))) is not None:
                    links.append(one)
            except SettingError as error:
                if not fields:
                    raise
                refused[name] = str(error)
        return LinksRead(tuple(links), refused)

    def check_called(self, name: str, called: Called) -> None:
        """Check a link as calls set it, before the call is kept.

        Raises:
            SettingError: there are too many links, or this one is not allowed; or the file has an error.
        """
        found = self._found()
        if (count := len(found.keys() | called.keys())) > LINKS_MAX:
            raise SettingError(_too_many(count))
        read = self._read_all(found, called)
        if name in read.refused:
            raise SettingError(read.refused[name])
        if all(one.name != name for one in read.links):
            raise not_allowed(f"{PREFIX}{name}.servers=", DEFAULT, FIELDS["servers"].kind.allowed)

    def _found(self) -> Texts:
        """Return the texts that are set here, with their sources, by link and field."""
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
            raise SettingError(_too_many(len(found)))
        return found

    def _read_link(self, name: str, texts: Mapping[str, tuple[str, str]], *, is_called: bool) -> LinkSettings | None:
        """Return a link; None while it has no servers, and these are to come from a call."""
        for of in texts:
            _check_field(f"{PREFIX}{name}.{of}", of, texts[of][1])
        if "servers" not in texts and (is_called or texts.keys() <= set(LOGIN)):
            return None
        one = _link(name, texts)
        if one.sends and not self.cluster_id:
            text = N_("%(setting)s needs %(key)s, the name of this cluster")
            setting = f"{PREFIX}{one.name}.direction={one.direction}"
            raise SettingError(phrase(text, setting=setting, key=CLUSTER_ID.name))
        return one


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
    _check_field(key, of, origin)
    return name, of


def _check_field(key: str, of: str, origin: str) -> None:
    if of not in FIELDS:
        text = N_("%(key)s (%(origin)s) is not a setting of a link; the settings are %(names)s")
        raise SettingError(phrase(text, key=key, origin=origin, names=", ".join(FIELDS)))


def _too_many(count: int) -> str:
    return phrase("%(count)s links are over the limit of %(most)s", count=count, most=LINKS_MAX)


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
        enabled=values["enabled"],
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
