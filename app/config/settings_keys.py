"""The table of all settings: names, allowed values, default and purpose."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from app.config.addresses import PORT_MAX, check_host
from app.languages.catalogues import N_
from app.languages.phrases import phrase
from distro.model.config import DistroConfig

T = TypeVar("T")
COMMAND_LINE, ENVIRONMENT, DEFAULT = phrase("command line"), phrase("the environment"), phrase("default")
"""The sources of values that are not in a file."""
TRUE_WORDS, FALSE_WORDS = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


class SettingError(Exception):
    """The node cannot start with its settings. The text is for the operator."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A type of values: a description of the allowed ones, and a parser that raises ValueError for any other text."""

    allowed: str
    parse: Callable[[str], T]


@dataclass(frozen=True, slots=True)
class Key(Generic[T]):
    """One setting. ``names[0]`` is its name. The further names are older or alternative ones in Nacos."""

    names: tuple[str, ...]
    kind: Kind[T]
    default: str
    purpose: str

    @property
    def name(self) -> str:
        return self.names[0]


def both_or_none(get: Callable[[Key[Any]], Any], first: Key[T], second: Key[T]) -> tuple[T, T]:
    """Return the values of two settings that need each other. ``get``: a setting's value.

    Raises:
        SettingError: one of them is set alone.
    """
    values = get(first), get(second)
    if bool(values[0]) != bool(values[1]):
        raise needs_both(first.name, second.name)
    return values


def needs_both(first: str, second: str) -> SettingError:
    """Return the error for two settings of which only one is set."""
    return SettingError(
        phrase("%(first)s and %(second)s need each other: set both, or none", first=first, second=second)
    )


def not_allowed(setting: str, origin: str, allowed: str) -> SettingError:
    """Return the error for a value that is not allowed. ``setting``: name and value, or the name of a secret alone."""
    text = N_("%(setting)s (%(origin)s) is not allowed: %(allowed)s")
    return SettingError(phrase(text, setting=setting, origin=origin, allowed=allowed))


def unreadable(file: Path, error: object) -> SettingError:
    """Return the error for a file that cannot be read; ``error``: a text or an error."""
    return SettingError(phrase("%(file)s cannot be read: %(error)s", file=file, error=error))


def check_file(name: str, file: Path, origin: str) -> None:
    """Check that the file that a setting names exists.

    Raises:
        SettingError: it does not exist.
    """
    if not file.is_file():
        raise not_allowed(f"{name}={file}", origin, phrase("a file that exists"))


def snake(name: str) -> str:
    """Return the environment variable of a dotted name: ``nacos.member.list`` is ``NACOS_MEMBER_LIST``."""
    return re.sub(r"[.-]", "_", name).upper()


def whole(lowest: int, highest: int) -> Kind[int]:
    """Return the kind of whole numbers within bounds, both included."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or not lowest <= int(text) <= highest:
            raise ValueError
        return int(text)

    return Kind(phrase("a whole number from %(lowest)s to %(highest)s", lowest=lowest, highest=highest), parse)


def one_of(*choices: str) -> Kind[str]:
    """Return the kind of a few words, in upper or lower case."""
    by_folded = {choice.casefold(): choice for choice in choices}

    def parse(text: str) -> str:
        if (folded := text.casefold()) not in by_folded:
            raise ValueError
        return by_folded[folded]

    return Kind(choice_of(choices), parse)


def choice_of(choices: Sequence[str]) -> str:
    """Return the description of values of which one is allowed."""
    text = choices[0]
    for one in choices[1:]:
        text = phrase("%(choices)s or %(choice)s", choices=text, choice=one)
    return text


def parse_flag(text: str) -> bool:
    """Return a boolean, by the words that Spring accepts: files and calls written for Nacos may contain any of them.

    Raises:
        ValueError: it is none of them.
    """
    if (folded := text.lower()) not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError("not a boolean")
    return folded in TRUE_WORDS


def _parse_context_path(text: str) -> str:
    path = "/" + text.strip("/")
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+|/", path):
        raise ValueError
    return path.rstrip("/")


FLAG = Kind(phrase("true or false"), parse_flag)
FLAG_OR_NONE: Kind[bool | None] = Kind(FLAG.allowed, lambda text: parse_flag(text) if text else None)
TEXT = Kind(phrase("any text"), str)
FOLDER = Kind(phrase("the path of a folder"), lambda text: Path(text).expanduser().absolute())
FOLDER_OR_NONE: Kind[Path | None] = Kind(FOLDER.allowed, lambda text: FOLDER.parse(text) if text else None)
FILE_OR_NONE: Kind[Path | None] = Kind(phrase("the path of a file"), lambda text: FOLDER.parse(text) if text else None)
HOST = Kind(phrase("an IP address or host name"), check_host)
HOST_OR_NONE: Kind[str | None] = Kind(HOST.allowed, lambda text: check_host(text) if text else None)
CONTEXT_PATH = Kind(phrase("a path of letters, digits and . _ ~ - such as /nacos, or / for none"), _parse_context_path)

HOST_KEY = Key(
    ("server.address",), HOST, "127.0.0.1", "The address to listen on; 0.0.0.0 listens on all addresses of the machine."
)
PORT = Key(("server.port",), whole(1, PORT_MAX), "8848", "The port of the HTTP API.")
CONTEXT = Key(
    ("server.servlet.contextPath", "server.servlet.context-path"),
    CONTEXT_PATH,
    "/nacos",
    "The prefix of every request's path.",
)
STANDALONE = Key(
    ("nacos.standalone",),
    FLAG_OR_NONE,
    "",
    "Run a single node, and ignore any listed members. Default: true if no members are listed.",
)
SERVER_IP = Key(
    ("nacos.server.ip",),
    HOST_OR_NONE,
    "",
    "This node's host in the other members' lists. Default: the listed address that belongs to this machine.",
)
NACOS_HOME = Key(("nacos.home",), FOLDER_OR_NONE, "", "A Nacos home folder, for its conf folder.")
CONF_DIR = Key(
    ("rollcall.conf.dir",),
    FOLDER_OR_NONE,
    "",
    "The folder of application.properties and cluster.conf. Default: conf in nacos.home, else ./conf.",
)
DATA_DIR = Key(("rollcall.data.dir",), FOLDER, "./data", "The folder for this node's data; for one node only.")
LOG_LEVEL = Key(
    ("rollcall.log.level",), one_of("DEBUG", "INFO", "WARNING", "ERROR"), "INFO", "The lowest level that is logged."
)
HTTP_THREADS = Key(
    ("rollcall.http.threads",),
    whole(4, 512),
    "48",
    "How many HTTP calls that may block run at once; beats, lists and registrations do not count.",
)
CLEAN_EMPTY = Key(
    ("nacos.naming.empty-service.auto-clean",),
    FLAG,
    "true",
    "Forget a service some minutes after its last instance is gone, unless it was created explicitly.",
)
WARM_AGE = Key(
    ("rollcall.warm.maxAgeMs",),
    whole(0, 86_400_000),
    "600000",
    "The greatest age of instances in the data folder that a starting node uses; 0 stores none.",
)
CLIENT_EXPIRY = Key(
    ("nacos.naming.client.expired.time",),
    whole(10_000, 86_400_000),
    "180000",
    "Remove publications of another member's client when that member has not confirmed them for this long.",
)
OVERRIDE_EXPIRY = Key(
    ("nacos.naming.clean.expired-metadata.expired-time",),
    whole(1_000, 86_400_000),
    "60000",
    "Drop an operator's change of an instance when the instance has been gone for this long (ms).",
)
ANNOUNCE = Key(
    ("rollcall.announce",), FLAG, "true", "Print warnings about settings, and a line when the node is ready."
)
EXPIRE_INSTANCE = Key(
    ("nacos.naming.expireInstance",), FLAG, "true", "Remove instances whose beats have stopped; false only marks them."
)
CONFIG_ABSENT = Key(
    ("rollcall.config.absent",),
    FLAG,
    "false",
    "Answer reads of configurations as Nacos does for one that does not exist. If false, refuse them.",
)
_TLS = "rollcall.http.tls"
HTTP_TLS_ENABLED = Key(
    (f"{_TLS}.enabled",), FLAG, "false", "Serve HTTPS on server.port, and call the other members by it."
)
HTTP_TLS: dict[str, Key[Any]] = {
    field: Key((f"{_TLS}.{name}",), kind, default, purpose)
    for field, name, kind, default, purpose in (
        ("certificate", "certChainFile", FILE_OR_NONE, "", "The chain of certificates (PEM); as for gRPC unless set."),
        ("private_key", "certPrivateKey", FILE_OR_NONE, "", "The private key (PEM); as for gRPC unless set."),
        ("trusted", "trustCollectionChainPath", FILE_OR_NONE, "", "The trusted certificates (PEM) of members."),
        ("mutual", "mutualAuth", FLAG, "false", "Require a trusted client certificate for members' calls."),
        ("compatible", "compatibility", FLAG, "false", "Accept and make plain calls, too, during a migration."),
    )
}

_DATA = "nacos.core.protocol.distro.data"
_MS = whole(0, 60_000)
_INTERVAL_MS = whole(100, 3_600_000)
_TIMEOUT_MS = whole(100, 60_000)

_DISTRO: dict[str, tuple[tuple[str, ...], Kind[int], str]] = {
    "sync_delay_ms": (
        (f"{_DATA}.sync.delayMs", f"{_DATA}.sync_delay_ms"),
        _MS,
        "How long a change waits for others of its key before it is sent; 0 sends at once.",
    ),
    "sync_spacing_ms": (
        ("rollcall.distro.syncSpacingMs",),
        _MS,
        "The shortest time between two sends to a member; a stream of changes stretches it up to six times.",
    ),
    "sync_timeout_ms": ((f"{_DATA}.sync.timeoutMs",), _TIMEOUT_MS, "How long one send to a member may take."),
    "retry_delay_ms": (
        ("rollcall.distro.retryDelayMs",),
        whole(10, 60_000),
        "The first wait after a failed send; it doubles with each failure.",
    ),
    "retry_delay_ms_max": (
        (f"{_DATA}.sync.retryDelayMs", f"{_DATA}.sync_retry_delay_ms"),
        whole(10, 600_000),
        "The longest wait after a failed send.",
    ),
    "batch_keys_max": (("nacos.naming.distro.batchSyncKeyCount",), whole(1, 100_000), "Keys in one send."),
    "verify_interval_ms": (
        (f"{_DATA}.verify.intervalMs", f"{_DATA}.verify_interval_ms"),
        _INTERVAL_MS,
        "How often members compare their data.",
    ),
    "sample_ms": (
        ("rollcall.distro.sampleMs",),
        whole(1_000, 86_400_000),
        "The period in which all contents are compared. It is longer with many keys: a round compares at most 200.",
    ),
    "verify_timeout_ms": ((f"{_DATA}.verify.timeoutMs",), _TIMEOUT_MS, "How long one comparison may take."),
    "load_timeout_ms": ((f"{_DATA}.load.timeoutMs",), _TIMEOUT_MS, "A load ends when no data arrives for this long."),
    "load_ms_max": (("rollcall.distro.load.maxMs",), whole(100, 86_400_000), "The longest time that a load may take."),
    "load_retry_delay_ms": (
        (f"{_DATA}.load.retryDelayMs", f"{_DATA}.load_retry_delay_ms"),
        whole(10, 600_000),
        "The wait after a failed load from all members.",
    ),
    "load_refused_ms": (
        ("rollcall.distro.load.refusedMs",),
        _MS,
        "A member that refused connections for this long counts as absent for the load.",
    ),
    "load_wait_ms_max": (
        ("rollcall.distro.load.waitMs",),
        whole(0, 600_000),
        "A starting node serves after this long if no member had data for it.",
    ),
    "report_interval_ms": (
        ("rollcall.distro.report.intervalMs",),
        whole(100, 60_000),
        "How often a node reports to each member.",
    ),
    "report_timeout_ms": (("rollcall.distro.report.timeoutMs",), _TIMEOUT_MS, "How long one report may take."),
    "refused_down_ms": (
        ("rollcall.distro.refusedDownMs",),
        _INTERVAL_MS,
        "A member that refused connections for this long is DOWN.",
    ),
    "silent_down_ms": (("rollcall.distro.silentDownMs",), _INTERVAL_MS, "A member silent for this long is DOWN."),
    "steady_ms": (
        ("rollcall.distro.steadyMs",),
        whole(0, 3_600_000),
        "A member that was DOWN must be reachable for this long before keys move back to it.",
    ),
    "fail_access_max": (
        ("nacos.core.member.fail-access-cnt",),
        whole(0, 1_000),
        "In a cluster with Java members, a member is DOWN after more consecutive failed reports than this.",
    ),
    "pause_ms": (
        ("rollcall.distro.pauseMs",),
        _INTERVAL_MS,
        "A pause of this process that is longer than this delays every deadline by its length.",
    ),
    "tombstone_slack_ms": (
        ("rollcall.distro.tombstoneSlackMs",),
        whole(0, 86_400_000),
        "How much longer than its delete time-out a removed instance is remembered.",
    ),
    "claim_interval_ms": (
        ("rollcall.distro.claimIntervalMs",),
        _MS,
        "The shortest time between two claims of one key by a node.",
    ),
    "mailbox_events_max": (
        ("rollcall.distro.mailboxEventsMax",),
        whole(1_000, 10_000_000),
        "Events that may wait for the replication thread.",
    ),
    "body_bytes_max": (
        ("rollcall.distro.bodyBytesMax",),
        whole(65_536, 1_073_741_824),
        "Bytes of the largest body accepted from a member, uncompressed.",
    ),
    "drain_ms_max": (
        ("rollcall.distro.drainMs",),
        _MS,
        "How long a stopping node keeps sending pending changes.",
    ),
}


def _distro_keys() -> dict[str, Key[int]]:
    defaults = DistroConfig()
    return {
        field: Key(names, kind, str(getattr(defaults, field)), purpose)
        for field, (names, kind, purpose) in _DISTRO.items()
    }


DISTRO = _distro_keys()
"""The settings of the engine, by field of DistroConfig."""

KEYS: tuple[Key[Any], ...] = (
    HOST_KEY,
    PORT,
    CONTEXT,
    STANDALONE,
    SERVER_IP,
    NACOS_HOME,
    CONF_DIR,
    DATA_DIR,
    LOG_LEVEL,
    HTTP_THREADS,
    ANNOUNCE,
    EXPIRE_INSTANCE,
    CLIENT_EXPIRY,
    OVERRIDE_EXPIRY,
    CLEAN_EMPTY,
    WARM_AGE,
    CONFIG_ABSENT,
    HTTP_TLS_ENABLED,
    *HTTP_TLS.values(),
    *DISTRO.values(),
)
