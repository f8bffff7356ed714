"""What a service is made of.

Values are frozen; only ``StoredInstance`` and ``Service`` change, in place and by the registry.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from app.naming.model.id_allocator import IdAllocator
from app.naming.model.keys import DEFAULT_CLUSTER, datum_key, instance_key
from app.naming.model.meta import NO_META, ServiceMeta
from app.naming.model.meta import NO_METADATA as NO_METADATA
from app.naming.model.meta import Metadata as Metadata
from distro.types import NO_VERSION, Version
from distro.value import value

BEAT_INTERVAL_MS = 5_000
BEAT_TIMEOUT_MS = 15_000
DELETE_TIMEOUT_MS = 30_000
"""Source of the three: Nacos 1.4.1 Constants."""
SHORTEST_TIMEOUT_MS = min(BEAT_TIMEOUT_MS, DELETE_TIMEOUT_MS)
WEIGHT_MAX = 10_000.0
WEIGHT_POSITIVE_MIN = 0.01
PRESERVED_BEAT_INTERVAL = "preserved.heart.beat.interval"
PRESERVED_BEAT_TIMEOUT = "preserved.heart.beat.timeout"
PRESERVED_DELETE_TIMEOUT = "preserved.ip.delete.timeout"
PRESERVED_ID_GENERATOR = "preserved.instance.id.generator"
DURATION_DIGITS_MAX = 15


def preserved_ms(metadata: Metadata | None, name: str, default: int) -> int:
    """A duration from reserved metadata; only plain digits count. Source: Nacos 1.4.1 Instance."""
    text = metadata.get(name) if metadata else None
    if text and text.isascii() and text.isdecimal() and len(text) <= DURATION_DIGITS_MAX:
        return int(text)
    return default


@value
class Instance:
    """One address of a service. Field names are the wire's, in snake_case."""

    ip: str
    port: int
    cluster_name: str = DEFAULT_CLUSTER
    service_name: str = ""
    weight: float = 1.0
    healthy: bool = True
    enabled: bool = True
    ephemeral: bool = True
    marked: bool = False
    """Health is frozen: neither beats nor their absence change it."""
    metadata: Metadata | None = field(default_factory=dict)
    """None when the instance came from a beat without metadata."""
    app: str | None = None
    instance_id: str | None = None
    shown: tuple[bool, bool, bytes] | None = field(default=None, init=False, repr=False, compare=False)
    """Its JSON in lists, as it was made last, with what it depends on; see ``app.naming.wire.service_info``."""

    def keep_shown(self, healthy: bool, java: bool, made: bytes) -> None:
        object.__setattr__(self, "shown", (healthy, java, made))

    @property
    def key(self) -> str:
        return instance_key(self.ip, self.port, self.cluster_name)

    @property
    def beat_interval_ms(self) -> int:
        return preserved_ms(self.metadata, PRESERVED_BEAT_INTERVAL, BEAT_INTERVAL_MS)

    @property
    def beat_timeout_ms(self) -> int:
        return preserved_ms(self.metadata, PRESERVED_BEAT_TIMEOUT, BEAT_TIMEOUT_MS)

    @property
    def delete_timeout_ms(self) -> int:
        return preserved_ms(self.metadata, PRESERVED_DELETE_TIMEOUT, DELETE_TIMEOUT_MS)


NEVER_MS = -(1 << 60)
"""No such moment is known."""
NOT_DUE_MS = 1 << 60
"""No moment is known at which there is anything to do."""


class StoredInstance:
    """An instance as a member holds it. ``beat_ms`` is stored in place, without the lock: one word, last one wins.

    There are a million of these: what follows from the instance is computed, not kept, but for what each beat needs.

    ``version`` is that of its last change; ``client_version`` that of the last change which its client or an operator
    asked for, so without changes of health that a health check found. At ``last_confirmed_ms`` the instance lived for
    certain: a copy may have been under way for long, so its ``beat_ms`` is good enough for a health check, in the
    instance's favour, but proves nothing against a removal.
    """

    __slots__ = ("beat_ms", "client_version", "instance", "last_confirmed_ms", "usual", "version")

    def __init__(
        self,
        instance: Instance,
        version: Version,
        beat_ms: int,
        client_version: Version | None = None,
        last_confirmed_ms: int | None = None,
    ) -> None:
        self.instance = instance
        self.version = version
        self.client_version = version if client_version is None else client_version
        self.beat_ms = beat_ms
        self.last_confirmed_ms = beat_ms if last_confirmed_ms is None else last_confirmed_ms
        self.usual = instance.healthy and not (instance.metadata and PRESERVED_BEAT_INTERVAL in instance.metadata)
        """Healthy, and beats as often as others: all that a beat asks of it, kept where the beat is stored."""

    @property
    def beat_timeout_ms(self) -> int:
        return self.instance.beat_timeout_ms

    @property
    def delete_timeout_ms(self) -> int:
        return self.instance.delete_timeout_ms

    @property
    def shortest_timeout_ms(self) -> int:
        """For so long it may be silent before its judge has anything to do."""
        if not self.instance.metadata:
            return SHORTEST_TIMEOUT_MS
        return min(self.instance.beat_timeout_ms, self.instance.delete_timeout_ms)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A removed instance: what removed it, and until when (monotonic ms) that knows of its life.

    For a deregistration that is its moment; for an expiry the last sign of life that its judge had heard.
    """

    version: Version
    at_ms: int
    keep_ms: int
    """Remembered for so long after ``at_ms``."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What one client with a connection says of one service: one instance, or a batch. It replaces what it said before.

    Of several registrations of one address the newest counts, on every member the same one: among clients by ``at_ms``
    and then by client id, against an instance of the service's list by that one's version and ``seen``.
    """

    instances: Mapping[str, Instance]
    """By instance key."""
    batch: bool
    at_ms: int
    """Wall clock of the member that holds the connection."""
    seen: Version
    """Of the service's list as that member held it."""

    def says_the_same(self, other: "Publication") -> bool:
        return self.batch is other.batch and self.instances == other.instances


class Service:
    """A service's instances and description, changed in place by the registry under its lock."""

    __slots__ = (
        "changed_ms",
        "claimed_ms",
        "clusters",
        "dropped",
        "due_ms",
        "full_name",
        "hidden",
        "id_allocator",
        "key",
        "meta",
        "namespace",
        "persistent",
        "published",
        "retained",
        "retained_until_ms",
        "revision",
        "shortest_timeout_ms",
        "stored",
        "tombstones",
        "version",
        "view",
    )

    def __init__(self, namespace: str, full_name: str, now_ms: int) -> None:
        self.namespace = namespace
        self.full_name = full_name
        self.key = datum_key(namespace, full_name)
        self.stored: dict[str, StoredInstance] = {}
        self.tombstones: dict[str, Tombstone] = {}
        self.version: Version = NO_VERSION
        self.revision = 0
        """Rises with every change that a reader can see, here only: it dates the cached view."""
        self.changed_ms = now_ms
        self.claimed_ms = now_ms
        """When this node became the writer; no beat is older than this for the judge."""
        self.due_ms = 0
        """Not before this has the judge anything to do here: beats move that moment away, and need not say so.

        Whatever may bring it nearer lowers this under the lock, after the change itself.
        """
        self.shortest_timeout_ms = NOT_DUE_MS
        """No instance has a shorter time-out than this."""
        self.clusters: set[str] = set()
        self.retained: dict[str, Instance] = {}
        """Instances that vanished without anybody having removed them: still shown, until this is certain."""
        self.retained_until_ms = 0
        self.dropped = False
        """Removed by its own call: it is hidden as soon as nothing is in it."""
        self.hidden = False
        """Readers do not see it: only its removals are still known."""
        self.meta: ServiceMeta | None = None
        """Its durable description, by which it stays when it is empty."""
        self.persistent: dict[str, Instance] = {}
        """Durable instances by instance key; their health comes from active checks."""
        self.published: dict[str, Publication] | None = None
        """What clients with a connection say of it, by client id; None until one does."""
        self.id_allocator: IdAllocator | None = None
        """The numbers among its instances' ids, once one is asked for in a service that is not small."""
        self.view: ServiceView | None = None

    def expect(self, due_ms: int) -> None:
        """Bring the next health check forward to ``due_ms``. The caller holds the lock."""
        if due_ms < self.due_ms:
            self.due_ms = due_ms

    def ids(self) -> Iterator[str | None]:
        """The instance ids of the list; lazy, as nearly no caller asks for the first."""
        for stored in list(self.stored.values()):
            yield stored.instance.instance_id


@dataclass(frozen=True, slots=True)
class ServiceSnapshot:
    """All that is held of a service at one moment, by instance key: copies, which no later change reaches."""

    namespace: str
    full_name: str
    version: Version
    """Of the ephemeral instances' list."""
    stored: Mapping[str, StoredInstance]
    persistent: Mapping[str, Instance]
    published: Mapping[str, Publication]
    """By client id."""


@dataclass(frozen=True, slots=True)
class ServiceView:
    """What a reader gets: one moment of a service."""

    namespace: str
    full_name: str
    revision: int
    version: Version
    instances: tuple[Instance, ...]
    """Persistent ones first."""
    clusters: tuple[str, ...]
    meta: ServiceMeta = NO_META

    @property
    def metadata(self) -> Metadata:
        return self.meta.metadata

    @property
    def protect_threshold(self) -> float:
        return self.meta.protect_threshold
