"""Clients with connections, their states, and the checks of what they publish. Only ``Client`` is not frozen."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

from app.naming.model.instance_check import check_instance
from app.naming.model.keys import CLUSTER_NAME
from app.naming.model.model import (
    NO_METADATA,
    PRESERVED_BEAT_INTERVAL,
    PRESERVED_BEAT_TIMEOUT,
    PRESERVED_DELETE_TIMEOUT,
    Instance,
    Metadata,
    Publication,
)
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.value_limits import INSTANCE_ID_CHARS_MAX, INT_MAX
from app.naming.registry import operations
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.shared import Shared
from distro.model.types import Version
from distro.model.value import value

ServiceKey = tuple[str, str]
"""Namespace and full service name."""

RECENT_MAX = 64
"""The last changes of one client that are remembered at least, and twice as many at most."""
REVISION_MAX = INT_MAX
"""Java reads it into a signed 32-bit number, and fails at larger ones."""
ANY_REVISION = 0
"""Confirms every copy of a client, whatever its revision: members before 2.1.2 keep no revisions."""
CLIENT_ID_CHARS_MAX = 512
RESERVED_METADATA = ("customInstanceId", "publishInstanceWeight", "publishInstanceEnable")
"""Names between members for an instance's id, weight and state, among its metadata: a client's own are dropped.

Source: Nacos 2.2.3 Constants; other values than its own would break the readers of real Nacos.
"""
PERSISTENT_ID_END = "#false"
_SEQUENCE_BITS = 12
_MEMBER_BITS = 10


@value
class ClientInfo:
    """A client's description of itself at its connect. ``agent`` is its SDK with the version."""

    client_id: str
    ip: str
    port: int
    app: str
    agent: str


@dataclass(frozen=True, slots=True)
class ClientBounds:
    """How much clients may publish and subscribe to. A call that exceeds a bound is refused and changes nothing."""

    clients_max: int = 100_000
    services_per_client_max: int = 10_000
    """Publications of one client."""
    instances_per_batch_max: int = 10_000
    instances_per_client_max: int = 50_000
    """Of all services together: a client's state is sent as one message."""
    subscriptions_per_client_max: int = 10_000


class Withdrawal(NamedTuple):
    """What a client withdrew of one service."""

    instance_keys: frozenset[str]
    published_ms: int
    """When the client had published it, by its member's wall clock: ``Publication.at_ms``."""
    since_ms: int
    """Since when the client was known here (monotonic)."""
    at_ms: int
    """When it withdrew that (monotonic)."""

    def is_later(self, published_ms: int, contact_ms: int) -> bool:
        """Whether it is later than all that is known of a member whose last contact was at ``contact_ms`` (monotonic).

        A member with a contact since the client came would have told that its own client went: that one is another.
        """
        return published_ms <= self.published_ms and contact_ms < self.since_ms


class Client:
    """A client's publications and subscriptions. ``Clients`` changes them under its lock; others copy the mappings."""

    __slots__ = (
        "back_ms",
        "came_from",
        "ended",
        "ended_ms",
        "info",
        "instances",
        "left",
        "metadata_bytes",
        "native",
        "published",
        "recent",
        "renewed_ms",
        "revision",
        "since_ms",
        "subscribed",
        "version",
        "withdrawn",
    )

    def __init__(self, info: ClientInfo, *, native: bool, now_ms: int, version: Version) -> None:
        self.info = info
        self.native = native
        """Connected here; otherwise a copy from a peer, which is never sent on."""
        self.published: dict[ServiceKey, Publication] = {}
        self.subscribed: dict[ServiceKey, str] = {}
        """The clusters asked for, by service; empty for a copy."""
        self.instances = 0
        """The number of instances in ``published``."""
        self.metadata_bytes = 0
        """The bytes of their metadata."""
        self.revision = 0
        """Rises with every change of a publication; peers of real Nacos compare it in verify rounds."""
        self.version = version
        """The same for our own kind, with the member's run as writer: its counter is the revision."""
        self.since_ms = now_ms
        """Since when it is known here (monotonic ms)."""
        self.renewed_ms = now_ms
        """When the client's member last confirmed this copy (monotonic ms)."""
        self.came_from = ""
        """The run that is over, whose copies kept this client's instances until it published them here (R17)."""
        self.ended = False
        """Its connection is gone, and it is expected to publish at another member in a moment (R17)."""
        self.ended_ms = 0
        """Since when (monotonic)."""
        self.back_ms = 0
        """When something of it was published elsewhere last (monotonic)."""
        self.left: dict[ServiceKey, Publication] = {}
        """What it published before any of it was back elsewhere, but for what was withdrawn there since (R17).

        Empty while nothing is back. Other members are told this: each leaves out what it knows itself to be back.
        """

        self.recent: list[ServiceKey] | None = None
        """The service that each of the last revisions changed, for deltas (R5); None where one was no such change."""
        self.withdrawn: dict[ServiceKey, Withdrawal] = {}
        """What it withdrew lately while a member was silent: others may never hear that it had published it (R15)."""

    @property
    def client_id(self) -> str:
        return self.info.client_id


@dataclass(frozen=True, slots=True)
class ClientState:
    """A client's publications at one revision."""

    client_id: str
    revision: int
    publications: Mapping[ServiceKey, Publication]
    dated: bool = True
    """The publications carry their time and the version they saw; otherwise they count from when they are received."""
    ended_from: str = ""
    """The run that is over from which the client came, once its connection is gone and it is expected elsewhere."""
    withdrawn: Mapping[ServiceKey, tuple[frozenset[str], int]] = field(default_factory=dict)
    """What it withdrew lately while a member was silent: instance keys, and ``Publication.at_ms``, by service (R15)."""
    gone: frozenset[ServiceKey] = frozenset()
    """In a delta (R5), whose publications are those that changed: the services of which it publishes nothing now."""


@dataclass(frozen=True, slots=True)
class ClientSnapshot:
    """A client as one member knows it: connected, a copy, or (``state`` None) gone."""

    version: Version
    info: ClientInfo | None
    state: ClientState | None
    unconfirmed: bool = False
    """It came from another member than the client's own: the copy goes soon, unless the client's member confirms it."""


Number = Callable[[], int]
"""Returns a new number with each call."""


def info_of(client_id: str) -> ClientInfo:
    """The address in a client's id: ``<ms>_<ip>_<port>`` of a connection, ``ip:port#true`` of any other client.

    Source: Nacos 2.2.3 GrpcServer and IpPortBasedClient.
    """
    if "#" in client_id:
        ip, _, port = client_id.partition("#")[0].rpartition(":")
    else:
        ip, _, port = client_id.partition("_")[2].rpartition("_")
    return ClientInfo(client_id, ip, int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0, "", "")


def instance_numbers(client_id: str, revision: int, wall_ms: int) -> Number:
    """Numbers for instance ids: they rise with the wall clock, and differ by client and revision."""
    seed = wall_ms << _MEMBER_BITS + _SEQUENCE_BITS | (sum(client_id.encode()) % (1 << _MEMBER_BITS)) << _SEQUENCE_BITS
    numbers = count(seed + revision % (1 << _SEQUENCE_BITS))
    return lambda: next(numbers)


def instance_of(command: RegisterInstance, number: Number, shared: Shared) -> Instance:
    """The instance of a client's registration, with the id that the client asks for, or a generated one.

    Source: Nacos 2.3 InstanceIdGeneratorManager: address, cluster and service, or a number in place of the address.

    Raises:
        InvalidParam: a name, the address or the weight is not allowed.
    """
    if len(command.instance_id) > INSTANCE_ID_CHARS_MAX:
        raise InvalidParam(
            f"Param 'instanceId' is illegal, the param length should not exceed {INSTANCE_ID_CHARS_MAX}."
        )
    metadata = plain_metadata(command.metadata)
    # The application is the client's, and not told to peers with its instances.
    asked = command._replace(ephemeral=True, metadata=metadata, app=RegisterInstance._field_defaults["app"])
    made = operations.register(None, asked, (), shared)
    check_instance(made, command.namespace, command.service)
    if command.instance_id:
        return replace(made, instance_id=command.instance_id)
    if operations.is_numbered(made.metadata):
        return replace(made, instance_id=f"{number()}#{command.cluster}#{command.service}")
    return made


def instances_of(commands: Iterable[RegisterInstance], number: Number, shared: Shared) -> dict[str, Instance]:
    """The instances of a batch by instance key; of several with one key the last.

    Raises:
        InvalidParam: as ``instance_of``.
    """
    made = [instance_of(command, number, shared) for command in commands]
    return {one.key: one for one in made}


def check_legal(command: RegisterInstance) -> None:
    """Refuse a registration with a beat interval over its time-outs, or a wrong cluster name; batches are not checked.

    Raises:
        InvalidParam: Source: Nacos 2.2.3 NamingUtils.checkInstanceIsLegal.
    """
    metadata = command.metadata or {}
    if any(name in metadata for name in (PRESERVED_BEAT_INTERVAL, PRESERVED_BEAT_TIMEOUT, PRESERVED_DELETE_TIMEOUT)):
        one = Instance(command.ip, command.port, metadata=metadata)
        if one.beat_interval_ms > min(one.beat_timeout_ms, one.delete_timeout_ms):
            raise InvalidParam(
                "Instance 'heart beat interval' must less than 'heart beat timeout' and 'ip delete timeout'."
            )
    if not CLUSTER_NAME.fullmatch(command.cluster):
        raise InvalidParam(
            f"Instance 'clusterName' should be characters with only 0-9a-zA-Z-. (current: {command.cluster[:512]})"
        )


def is_client_id(text: str) -> bool:
    """Whether a text can be a client's id: no comma, as members ask each other for lists of ids."""
    return 0 < len(text) <= CLIENT_ID_CHARS_MAX and text.isprintable() and "," not in text


def is_persistent_id(client_id: str) -> bool:
    """Whether an id is that of a 2.x client of persistent instances, which belong to no client here."""
    return client_id.endswith(PERSISTENT_ID_END)


def plain_metadata(metadata: Metadata | None) -> Metadata:
    """Metadata without null values, which no SDK of 2.x sends on purpose, and without ``RESERVED_METADATA``."""
    metadata = metadata or NO_METADATA
    if None not in metadata.values() and not any(name in metadata for name in RESERVED_METADATA):
        return metadata
    return {key: text for key, text in metadata.items() if text is not None and key not in RESERVED_METADATA}
