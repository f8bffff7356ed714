"""The settings of a node, under Nacos's keys: the environment over application.properties over defaults, checked."""

import difflib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from app.config import settings_keys as keys
from app.config.addresses import is_loopback, join_address, own_address
from app.config.auth_settings import AUTH_ENABLED, AUTH_KEYS, TOKEN_KEY, TOKEN_TTL, AuthSettings, parse_token_key
from app.config.client_config import is_no_setting
from app.config.dns_settings import DNS_KEYS, DnsSettings, dns_settings, dns_warnings
from app.config.guard_settings import GUARD_KEYS, GuardSettings, guard_settings
from app.config.identity_settings import (
    IDENTITY_KEY,
    IDENTITY_KEYS,
    IDENTITY_VALUE,
    NEEDED,
    WITHOUT_IDENTITY,
    IdentitySettings,
    identity_settings,
    identity_warnings,
    needs_identity,
)
from app.config.limit_settings import LIMIT_KEYS, LIMITS, LimitSettings
from app.config.link_fields import CLUSTER_ID
from app.config.link_settings import LinkSource, is_link_key, link_source
from app.config.lookup_settings import (
    LEAVE_GRACE,
    LOOKUP_KEYS,
    LookupSettings,
    is_standalone,
    listed_members,
    lookup_settings,
)
from app.config.nacos_keys import PREFIX, ignored_keys, misspelt_keys
from app.config.name_settings import NAME_KEYS, NameSettings, name_settings
from app.config.observability import OBSERVABILITY_KEYS, Observability, observability
from app.config.properties import parse_properties
from app.config.rpc_settings import RPC_KEYS, RpcSettings, rpc_settings
from app.config.settings_keys import (
    COMMAND_LINE,
    DEFAULT,
    ENVIRONMENT,
    Key,
    SettingError,
    both_or_none,
    not_allowed,
    snake,
    unreadable,
)
from app.config.tls_settings import HttpTls, http_tls, tls_warnings
from app.languages.catalogues import N_
from app.languages.phrases import phrase
from distro.model.config import DistroConfig

__all__ = ["ALL_KEYS", "SettingError", "Settings", "effective_settings", "read_settings"]

T = TypeVar("T")
ALL_KEYS: tuple[Key[Any], ...] = (
    *keys.KEYS,
    *RPC_KEYS,
    *LOOKUP_KEYS,
    *AUTH_KEYS,
    *IDENTITY_KEYS,
    *GUARD_KEYS,
    *NAME_KEYS,
    *DNS_KEYS,
    CLUSTER_ID,
    *LIMIT_KEYS,
    *OBSERVABILITY_KEYS,
)
REQUESTS_END_S = 3
"""The time for running requests to end when a node stops, before it sends its last changes."""
LEAVE_S = 2
"""The time for the other members to hear that a node leaves, while it still answers."""
NODE_END_S = 5
"""The time for all steps of a stop except ending requests and sending the last changes."""

_OURS = "rollcall."


@dataclass(frozen=True, slots=True)
class Settings:
    """A node's settings, checked and with defaults; `settings_keys` has the purpose of each."""

    host: str
    port: int
    context_path: str
    """The prefix of all paths, with a slash at its beginning and none at its end; empty if requests have no prefix."""
    standalone: bool
    members: tuple[str, ...]
    """``host:port`` of every member, this node included. Only this node if it is alone, or before a look-up."""
    self_address: str
    data_dir: Path
    conf_dir: Path
    cluster_conf: Path
    """The file that is read first for the member list. It need not exist."""
    lookup: LookupSettings
    """The source of the member list."""
    log_level: str
    http_threads: int
    leave_grace_ms: int
    """How long a node that is about to end keeps serving, while not ready."""
    guards: GuardSettings
    """The exceptions from the guards against strangers."""
    names: NameSettings
    """The rules for service names in calls of clients."""
    announce: bool
    expire_instance: bool
    client_expiry_ms: int
    override_expiry_ms: int
    clean_empty: bool
    config_absent: bool
    warm_age_ms_max: int
    auth: AuthSettings | None
    """Users and tokens; None if no call needs a user."""
    identity: IdentitySettings | None
    """The secret that identifies members to each other; None without one."""
    without_identity: bool
    """True if the operator wants a cluster beyond loopback without an identity."""
    distro: DistroConfig
    rpc: RpcSettings | None
    """The settings of the gRPC ports; None without gRPC."""
    http_tls: HttpTls | None
    """The settings of HTTPS; None while the HTTP port is plain."""
    dns: DnsSettings | None
    """The settings of the DNS server; None without one."""
    links: LinkSource
    """The links to other clusters, which are read again while the node runs."""
    limits: LimitSettings
    told: Observability
    """The settings of metrics and logs."""
    warnings: tuple[str, ...]
    """Warnings for the operator about settings that do not prevent a start."""

    def check_members(self, members: tuple[str, ...]) -> None:
        """Check that this node may use the member list.

        Raises:
            SettingError: its members need an identity, and there is none.
        """
        if self.identity is None and not self.without_identity and needs_identity(members, self.host):
            raise SettingError(NEEDED)

    @property
    def scheme(self) -> str:
        """Return ``https`` or ``http``: the scheme for calls to this node and its members."""
        return "http" if self.http_tls is None else "https"

    @property
    def stop_timeout_s(self) -> int:
        """Return the seconds that this node may take from SIGTERM to its end before it is killed."""
        told_s = LEAVE_S + math.ceil(self.leave_grace_ms / 1000)
        return told_s + REQUESTS_END_S + NODE_END_S + math.ceil(self.distro.drain_ms_max / 1000)


@dataclass(frozen=True, slots=True)
class _Sources:
    """The sources of values. The first with a value for a key wins; a blank value counts as none."""

    overrides: Mapping[str, str]
    environ: Mapping[str, str]
    file: Path = Path()
    properties: Mapping[str, str] = field(default_factory=dict)

    def find(self, key: Key[T]) -> tuple[str, str]:
        """Return the text of a setting, and the name of its source for error messages."""
        for name in key.names:
            if text := self.overrides.get(name, "").strip():
                return text, COMMAND_LINE
        for name in (*key.names, *map(snake, key.names)):
            if text := self.environ.get(name, "").strip():
                return text, phrase("environment variable %(name)s", name=name)
        for name in key.names:
            if text := self.properties.get(name, "").strip():
                return text, str(self.file)
        return key.default, DEFAULT

    def origin(self, key: Key[Any]) -> str:
        """Return the source of a setting's value."""
        return self.find(key)[1]

    def get(self, key: Key[T]) -> T:
        text, origin = self.find(key)
        try:
            return key.kind.parse(text)
        except ValueError:
            raise not_allowed(f"{key.name}={text}", origin, key.kind.allowed) from None

    def warnings(self) -> Iterator[str]:
        """Yield a warning for each unknown key ``rollcall.*``, and for each ``nacos.*`` that seems misspelt.

        Other unknown keys of Nacos, which has many, are ignored.
        """
        names = [name for key in ALL_KEYS for name in key.names if name.startswith(_OURS)]
        snakes = [snake(name) for name in names]
        for given in (self.overrides, self.environ, self.properties):
            for name in sorted(given):
                if is_link_key(name):
                    continue
                snaked = given is self.environ and name.startswith(snake(_OURS)) and not is_no_setting(name)
                known = snakes if snaked else names
                if (snaked or name.startswith(_OURS)) and name not in known:
                    near = difflib.get_close_matches(name, known, n=1)
                    hint = phrase("; did you mean %(name)s?", name=near[0]) if near else ""
                    text = N_("%(name)s is not a setting of this version and is ignored%(hint)s")
                    yield phrase(text, name=name, hint=hint)
        theirs = [name for key in ALL_KEYS for name in key.names if name.startswith(PREFIX)]
        for given in (self.overrides, self.environ, self.properties):
            yield from misspelt_keys(given, [*theirs, *map(snake, theirs)] if given is self.environ else theirs)
        for key in (keys.CONF_DIR, keys.NACOS_HOME):
            if self.properties.get(key.name):
                yield phrase("%(key)s has no effect in %(file)s: set it elsewhere", key=key.name, file=self.file)


def read_settings(overrides: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of this node: ``overrides`` by key, over the environment, over the file, over defaults.

    Raises:
        SettingError: a value is not allowed, or two values contradict each other.
    """
    sources, conf_dir = _read_sources(overrides, environ)
    host, port, cluster_conf = sources.get(keys.HOST_KEY), sources.get(keys.PORT), conf_dir / "cluster.conf"
    lookup = lookup_settings(sources.get, sources.find, cluster_conf, sources.get(keys.CONTEXT), port)
    listed = listed_members(lookup, None if lookup.is_polled else _read_text(cluster_conf), cluster_conf)
    wanted = sources.get(keys.STANDALONE)
    standalone = is_standalone(wanted, sources.origin(keys.STANDALONE), lookup, listed, cluster_conf)
    members = () if standalone or listed is None else listed
    server_ip = sources.get(keys.SERVER_IP)
    self_address = join_address(server_ip, port) if server_ip else own_address(members, host, port)
    # Nacos, too, adds a node that is not in its own list.
    members = members if self_address in members else (*members, self_address)
    identity = identity_settings(sources.get, *both_or_none(sources.get, IDENTITY_KEY, IDENTITY_VALUE))
    without_identity = sources.get(WITHOUT_IDENTITY)
    return Settings(
        host=host,
        port=port,
        context_path=sources.get(keys.CONTEXT),
        standalone=standalone,
        members=members,
        self_address=self_address,
        data_dir=sources.get(keys.DATA_DIR),
        conf_dir=conf_dir,
        cluster_conf=cluster_conf,
        lookup=lookup,
        log_level=sources.get(keys.LOG_LEVEL),
        http_threads=sources.get(keys.HTTP_THREADS),
        leave_grace_ms=sources.get(LEAVE_GRACE),
        guards=guard_settings(sources.get),
        names=name_settings(sources.get),
        announce=sources.get(keys.ANNOUNCE),
        expire_instance=sources.get(keys.EXPIRE_INSTANCE),
        client_expiry_ms=sources.get(keys.CLIENT_EXPIRY),
        override_expiry_ms=sources.get(keys.OVERRIDE_EXPIRY),
        clean_empty=sources.get(keys.CLEAN_EMPTY),
        config_absent=sources.get(keys.CONFIG_ABSENT),
        warm_age_ms_max=sources.get(keys.WARM_AGE),
        auth=_auth(sources),
        identity=identity,
        without_identity=without_identity,
        distro=_distro_config(sources),
        rpc=rpc_settings(sources.get, sources.origin, port),
        http_tls=http_tls(sources.get, sources.origin),
        dns=dns_settings(sources.get, host, port),
        links=_links(sources),
        limits=LimitSettings(**{name: sources.get(key) for name, key in LIMITS.items()}),
        told=observability(sources.get, sources.get(keys.DATA_DIR)),
        warnings=(
            *sources.warnings(),
            *_member_warnings(standalone, listed or (), self_address),
            *tls_warnings(sources.get, standalone),
            *_exposure_warnings(sources, host, port),
            *(() if standalone else identity_warnings(members, host, identity, without=without_identity)),
        ),
    )


def effective_settings(
    overrides: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return each setting's name, text and source, and the warnings about unknown keys. Values are not checked.

    Raises:
        SettingError: the configuration folder or file cannot be read.
    """
    sources, _ = _read_sources(overrides, environ)
    return [(key.name, *sources.find(key)) for key in ALL_KEYS], list(sources.warnings())


def ignored_settings(
    overrides: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Return the settings of Nacos that are given and that Rollcall does not have: the key and its source.

    Raises:
        SettingError: the configuration folder or file cannot be read.
    """
    sources, _ = _read_sources(overrides, environ)
    given = (
        (sources.overrides, COMMAND_LINE),
        (sources.environ, ENVIRONMENT),
        (sources.properties, str(sources.file)),
    )
    return [(name, origin) for names, origin in given for name in ignored_keys(names)]


def _read_sources(overrides: Mapping[str, str] | None, environ: Mapping[str, str] | None) -> tuple[_Sources, Path]:
    """Return the sources of all values, and the configuration folder."""
    sources = _Sources(overrides or {}, os.environ if environ is None else environ)
    conf_dir = _conf_dir(sources)
    file = conf_dir / "application.properties"
    return replace(sources, file=file, properties=_read_properties(file)), conf_dir


def _conf_dir(sources: _Sources) -> Path:
    if chosen := sources.get(keys.CONF_DIR):
        if not chosen.is_dir():
            setting, origin = f"{keys.CONF_DIR.name}={chosen}", sources.origin(keys.CONF_DIR)
            raise not_allowed(setting, origin, phrase("a folder that exists"))
        return chosen
    home = sources.get(keys.NACOS_HOME)
    return home / "conf" if home else Path("conf").absolute()


def _read_text(file: Path) -> str | None:
    """Return the text of a configuration file; None if the file does not exist."""
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(file, error.strerror) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        # As Java's Properties.load does.
        return content.decode("latin-1")


def _read_properties(file: Path) -> dict[str, str]:
    try:
        return parse_properties(_read_text(file) or "")
    except ValueError as error:
        raise unreadable(file, error) from None


def _links(sources: _Sources) -> LinkSource:
    """Return the sources of the links' settings, which are checked here for the first time."""
    links = link_source(sources.overrides, sources.environ, sources.file, sources.get(CLUSTER_ID))
    links.read()
    return links


def _auth(sources: _Sources) -> AuthSettings | None:
    if not sources.get(AUTH_ENABLED):
        return None
    return AuthSettings(parse_token_key(*sources.find(TOKEN_KEY)), sources.get(TOKEN_TTL))


def _distro_config(sources: _Sources) -> DistroConfig:
    config = DistroConfig(**{name: sources.get(key) for name, key in keys.DISTRO.items()})
    interval = keys.DISTRO["report_interval_ms"]
    for name in ("refused_down_ms", "silent_down_ms"):
        key = keys.DISTRO[name]
        text, origin = sources.find(key)
        if int(text) <= config.report_interval_ms:
            allowed = phrase(
                "more than %(interval)s, as members would go DOWN between reports",
                interval=f"{interval.name}={config.report_interval_ms}",
            )
            raise not_allowed(f"{key.name}={text}", origin, allowed)
    # Nacos has one retry delay, we have a first and a longest one; a low value of Nacos's key bounds both.
    return replace(config, retry_delay_ms=min(config.retry_delay_ms, config.retry_delay_ms_max))


def _member_warnings(standalone: bool, listed: tuple[str, ...], self_address: str) -> Iterator[str]:
    if standalone and listed:
        text = N_("%(key)s is true: this node ignores the listed members (%(members)s)")
        yield phrase(text, key=keys.STANDALONE.name, members=", ".join(listed))
    elif listed and self_address not in listed:
        yield phrase(
            "this node, %(address)s, is not among the listed members (%(members)s) and was added; add it to the lists "
            "of the other members, or set %(key)s to the host that they list for it",
            address=self_address,
            members=", ".join(listed),
            key=keys.SERVER_IP.name,
        )


def _exposure_warnings(sources: _Sources, host: str, port: int) -> Iterator[str]:
    yield from dns_warnings(sources.get, has_users=sources.get(AUTH_ENABLED))
    if not is_loopback(host):
        yield phrase(
            "LISTENING ON %(address)s WITHOUT USERS: everyone who reaches this port can read and change the registry.",
            address=join_address(host, port),
        )
