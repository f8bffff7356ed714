"""Clients with connections, and their states. Only ``Client`` is not frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from app.naming.model.keys import INT_MAX, check_namespace, check_service_chars, check_service_format
from app.naming.model.model import Publication
from distro.model.types import Version, value

ServiceKey = tuple[str, str]
"""Namespace and full service name."""

RECENT_MAX = 64
"""How many last changes of a client are remembered: at least this many, and at most twice as many."""
REVISION_MAX = INT_MAX
"""The highest revision: Java reads it into a signed 32-bit number, and fails at larger ones."""
ANY_REVISION = 0
"""Confirms every copy of a client, at any revision: members before 2.1.2 keep no revisions."""
CLIENT_ID_CHARS_MAX = 512
RESERVED_METADATA = ("customInstanceId", "publishInstanceWeight", "publishInstanceEnable")
"""Metadata names with which members send an instance's id, weight and state. A client's own metadata may not use them.

Source: Nacos 2.2.3 Constants. Other values than its own would break the readers of real Nacos.
"""
RESERVED_NAMES = frozenset(RESERVED_METADATA)
PERSISTENT_ID_END = "#false"
WITHDRAWALS_SENT_MS = 30_000
"""For how long a client's state includes its withdrawals. All members have that state long before."""
WITHDRAWALS_SENT_MAX = 100
"""The most services of one client whose withdrawals are sent; the latest count."""


@value
class ClientInfo:
    """A client's description of itself when it connects. ``agent`` is its SDK with the version."""

    client_id: str
    ip: str
    port: int
    app: str
    agent: str


@dataclass(frozen=True, slots=True)
class ClientBounds:
    """Bounds on clients' publications and subscriptions. A call that exceeds one is refused and changes nothing."""

    clients_max: int = 100_000
    services_per_client_max: int = 10_000
    """The most publications of one client."""
    instances_per_batch_max: int = 10_000
    instances_per_client_max: int = 50_000
    """The most instances of a client in all services together: its state is sent as one message."""
    subscriptions_per_client_max: int = 10_000


class Withdrawal(NamedTuple):
    """A client's withdrawal of instances of one service."""

    instance_keys: frozenset[str]
    published_ms: int
    """When the client had published the instances, by its member's wall clock: ``Publication.at_ms``."""
    since_ms: int
    """Since when the client was known here (monotonic)."""
    at_ms: int
    """When it withdrew the instances (monotonic)."""

    def is_later(self, published_ms: int, contact_ms: int) -> bool:
        """Return whether it is later than all news of a member with its last contact at ``contact_ms`` (monotonic).

        If that member had a contact since the client came, it would have reported the end of that client: then its
        client is another one.
        """
        return published_ms <= self.published_ms and contact_ms < self.since_ms


class Client:
    """A client's publications and subscriptions. It changes under ``ClientTable.lock``; others copy the mappings."""

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
        """True if it is connected here. Otherwise it is a copy from a peer, which is never sent on."""
        self.published: dict[ServiceKey, Publication] = {}
        self.subscribed: dict[ServiceKey, str] = {}
        """The clusters that it subscribed to, by service; empty for a copy."""
        self.instances = 0
        """The number of instances in ``published``."""
        self.metadata_bytes = 0
        """The bytes of their metadata."""
        self.revision = 0
        """Rises with every change of a publication; peers of real Nacos compare it in verify rounds."""
        self.version = version
        """The same for Rollcall members, with the member's run as writer. Its counter is the revision."""
        self.since_ms = now_ms
        """Since when it is known here (monotonic ms)."""
        self.renewed_ms = now_ms
        """When the client's member last confirmed this copy (monotonic ms)."""
        self.came_from = ""
        """The run, now over, whose copies kept this client's instances until it published them here (R17)."""
        self.ended = False
        """True if its connection is gone, and it is expected to publish at another member in a moment (R17)."""
        self.ended_ms = 0
        """Since when it has ended (monotonic ms)."""
        self.back_ms = 0
        """When a part of it was last published elsewhere (monotonic ms)."""
        self.left: dict[ServiceKey, Publication] = {}
        """Its publications before any part of it came back elsewhere, without those withdrawn there since (R17).

        Empty while nothing is back. Other members get these publications: each leaves out the clients that it knows to
        be back.
        """

        self.recent: list[ServiceKey] | None = None
        """The service that each of the last revisions changed, for deltas (R5); None if there was no single one."""
        self.withdrawn: dict[ServiceKey, Withdrawal] = {}
        """Its recent withdrawals while a member was silent: others may never hear of those publications (R15)."""

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
    """True if the publications have their time and the version they saw; otherwise they count from their arrival."""
    ended_from: str = ""
    """The run, now over, from which the client came, if its connection is gone and it is expected elsewhere."""
    withdrawn: Mapping[ServiceKey, tuple[frozenset[str], int]] = field(default_factory=dict)
    """Its recent withdrawals while a member was silent: instance keys, and ``Publication.at_ms``, by service (R15)."""
    gone: frozenset[ServiceKey] = frozenset()
    """In a delta (R5), which has only the changed publications: the services of which it now publishes nothing."""


@dataclass(frozen=True, slots=True)
class ClientSnapshot:
    """A client as one member knows it: connected, a copy, or gone (``state`` None)."""

    version: Version
    info: ClientInfo | None
    state: ClientState | None
    unconfirmed: bool = False
    """True if it came from another member than the client's own: it soon expires unless that one confirms it."""


def info_of(client_id: str) -> ClientInfo:
    """Return the address in a client's id: ``<ms>_<ip>_<port>`` of a connection, ``ip:port#true`` of any other client.

    Source: Nacos 2.2.3 GrpcServer and IpPortBasedClient.
    """
    if "#" in client_id:
        ip, _, port = client_id.partition("#")[0].rpartition(":")
    else:
        ip, _, port = client_id.partition("_")[2].rpartition("_")
    return ClientInfo(client_id, ip, int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0, "", "")


def is_client_id(text: str) -> bool:
    """Return whether a text can be a client's id: no comma, because members request lists of ids from each other."""
    return 0 < len(text) <= CLIENT_ID_CHARS_MAX and text.isprintable() and "," not in text


def is_persistent_id(client_id: str) -> bool:
    """Return whether an id is that of a 2.x client of persistent instances, which belong to no client here."""
    return client_id.endswith(PERSISTENT_ID_END)


def check_service_key(key: ServiceKey) -> None:
    """Refuse the name of a service that cannot be stored.

    Raises:
        InvalidParam: the name has not two parts, or a part or the namespace has other characters or is too long.
    """
    check_service_format(key[1])
    check_service_chars(key[1])
    check_namespace(key[0])
