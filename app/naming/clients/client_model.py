"""A client with a connection, and what it may publish. Values are frozen; ``Client`` is changed by ``Clients``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from app.naming.model.keys import CLUSTER_NAME, check_names
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
from app.naming.model.value_limits import INSTANCE_ID_CHARS_MAX, INT_MAX, IP_CHARS_MAX, METADATA_CHARS_MAX, PORT_MAX
from app.naming.registry import operations
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.shared import Shared
from distro.types import Version
from distro.value import value

ServiceKey = tuple[str, str]
"""Namespace and full service name."""

REVISION_MAX = INT_MAX
"""Java reads it into a signed 32-bit number, and fails at larger ones."""
CLIENT_ID_CHARS_MAX = 512
RESERVED_METADATA = ("customInstanceId", "publishInstanceWeight", "publishInstanceEnable")
"""Names under which members tell each other an instance's id, weight and state, where its metadata stand too.

Source: Nacos 2.2.3 Constants; other values than those would break the readers of real Nacos.
"""
PERSISTENT_ID_END = "#false"
_SEQUENCE_BITS = 12
_MEMBER_BITS = 10


@value
class ClientInfo:
    """Who connected, as it said of itself. ``agent`` is its SDK's version."""

    client_id: str
    ip: str
    port: int
    app: str
    agent: str


@dataclass(frozen=True, slots=True)
class ClientBounds:
    """How much clients may bring. What goes beyond is refused, and changes nothing."""

    clients_max: int = 100_000
    services_per_client_max: int = 10_000
    """Published ones; and as many subscribed ones."""
    instances_per_batch_max: int = 10_000
    instances_per_client_max: int = 50_000
    """Of all its services: a client's state travels as one."""


class Client:
    """One connection's publications and subscriptions. Its mappings are copied by who reads them without the lock."""

    __slots__ = (
        "info",
        "instances",
        "native",
        "published",
        "renewed_ms",
        "revision",
        "subscribed",
        "updated_ms",
        "version",
    )

    def __init__(self, info: ClientInfo, *, native: bool, now_ms: int, version: Version) -> None:
        self.info = info
        self.native = native
        """Connected here; otherwise a copy of what a peer says of it, which is never sent on."""
        self.published: dict[ServiceKey, Publication] = {}
        self.subscribed: dict[ServiceKey, str] = {}
        """The clusters asked for, by service; never those of a copy."""
        self.instances = 0
        """Of all publications together."""
        self.revision = 0
        """Rises with every change of what is published, and says to the peers whether they hold the latest."""
        self.version = version
        """The same among members of our own kind, with who says it: its counter is the revision."""
        self.updated_ms = now_ms
        self.renewed_ms = now_ms
        """When its member last confirmed a copy."""

    @property
    def client_id(self) -> str:
        return self.info.client_id


Number = Callable[[], int]
"""Gives a number that no instance has yet."""


def id_allocator(client_id: str, revision: int, wall_ms: int) -> Number:
    """Numbers for the ids of instances that want one: they rise with time, and differ by client and change."""
    seed = wall_ms << _MEMBER_BITS + _SEQUENCE_BITS | (sum(client_id.encode()) % (1 << _MEMBER_BITS)) << _SEQUENCE_BITS
    left = iter(range(seed + revision % (1 << _SEQUENCE_BITS), 1 << 128))
    return lambda: next(left)


def instance_of(command: RegisterInstance, number: Number, shared: Shared) -> Instance:
    """The instance that a client publishes, with the id that it asks for or gets.

    Source: Nacos 2.3 InstanceIdGeneratorManager: address, cluster and service, or a number in the place of the address.

    Raises:
        InvalidParam: a name, the address or the weight is not allowed.
    """
    check_names(command.service, command.cluster, command.namespace)
    check_address(command.ip, command.port)
    if len(command.instance_id) > INSTANCE_ID_CHARS_MAX:
        raise InvalidParam(
            f"Param 'instanceId' is illegal, the param length should not exceed {INSTANCE_ID_CHARS_MAX}."
        )
    metadata = plain_metadata(command.metadata)
    check_metadata(metadata)
    # The application is the client's, and not told to peers with its instances.
    asked = command._replace(ephemeral=True, metadata=metadata, app=RegisterInstance._field_defaults["app"])
    made = operations.register(None, asked, (), shared)
    if command.instance_id:
        return replace(made, instance_id=command.instance_id)
    if operations.is_numbered(made.metadata):
        return replace(made, instance_id=f"{number()}#{command.cluster}#{command.service}")
    return made


def instances_of(commands: Iterable[RegisterInstance], number: Number, shared: Shared) -> dict[str, Instance]:
    """The instances of a batch by key; of several with one address the last.

    Raises:
        InvalidParam: as ``instance_of``.
    """
    made = [instance_of(command, number, shared) for command in commands]
    return {one.key: one for one in made}


def check_address(ip: str, port: int) -> None:
    """Refuse what is no address.

    Raises:
        InvalidParam: names the field.
    """
    if not ip or len(ip) > IP_CHARS_MAX or not ip.isprintable() or " " in ip:
        raise InvalidParam(f"Param 'ip' is illegal, it is empty, too long or not printable: {ip[:IP_CHARS_MAX]!r}")
    if not 0 <= port <= PORT_MAX:
        raise InvalidParam(f"Param 'port' is illegal, it should be between 0 and {PORT_MAX}: {port}")


def check_legal(command: RegisterInstance) -> None:
    """Refuse a single registration whose times or cluster make no sense; a batch is not asked.

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


def check_metadata(metadata: Metadata) -> None:
    """Refuse more metadata than an instance may have.

    Raises:
        InvalidParam: names the field.
    """
    if sum(len(name) + len(text or "") for name, text in metadata.items()) > METADATA_CHARS_MAX:
        raise InvalidParam(f"Param 'metadata' is illegal, the param length should not exceed {METADATA_CHARS_MAX}.")


def is_client_id(text: str) -> bool:
    """Whether a text can be the id of a client: members ask each other for several at once, with commas between."""
    return 0 < len(text) <= CLIENT_ID_CHARS_MAX and text.isprintable() and "," not in text


def is_persistent_id(client_id: str) -> bool:
    """Whether it is the id of a client of 2.x that publishes persistent instances, which are no client's here."""
    return client_id.endswith(PERSISTENT_ID_END)


def plain_metadata(metadata: Metadata | None) -> Metadata:
    """Metadata without nulls, which no SDK of 2.x can mean, and without what peers would take for something else."""
    metadata = metadata or NO_METADATA
    if None not in metadata.values() and not any(name in metadata for name in RESERVED_METADATA):
        return metadata
    return {key: text for key, text in metadata.items() if text is not None and key not in RESERVED_METADATA}
