"""The parts of a service: instances, tombstones, publications, and the views and copies for readers.

Values are frozen; only ``StoredInstance`` and ``Service`` change, in place, by the registry and its table.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.naming.model.id_allocator import IdAllocator
from app.naming.model.keys import (
    DEFAULT_CLUSTER,
    SIMPLE_ID,
    WORD_MARGIN_MS,
    datum_key,
    instance_key,
    metadata_bytes,
    simple_instance_id,
    surplus_bytes,
)
from app.naming.model.keys import NO_METADATA as NO_METADATA
from app.naming.model.keys import Metadata as Metadata
from app.naming.model.meta import NO_META, ServiceMeta
from app.naming.model.override import NO_OVERRIDES, Overrides
from distro.model.types import NO_VERSION, Version, value

BEAT_INTERVAL_MS, BEAT_TIMEOUT_MS, DELETE_TIMEOUT_MS = 5_000, 15_000, 30_000
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
    """Return a duration from reserved metadata. Only plain digits count. Source: Nacos 1.4.1 Instance."""
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
    """True if its health is fixed: neither beats nor their absence change it."""
    metadata: Metadata | None = field(default_factory=dict)
    """None if the instance came from a beat without metadata."""
    app: str | None = None
    instance_id: str | None = None
    """``SIMPLE_ID`` stands for the id that follows from address, cluster and service. Readers get that text."""
    shown: tuple[bool, bool, bytes] | None = field(default=None, init=False, repr=False, compare=False)
    """Its last JSON in lists, with the two flags that it depends on; see ``app.naming.wire.service_info``."""

    def keep_shown(self, healthy: bool, java: bool, made: bytes) -> None:
        """Cache the instance's JSON in ``shown``. The instance is frozen, but its value stays the same."""
        object.__setattr__(self, "shown", (healthy, java, made))

    @property
    def key(self) -> str:
        """Return the instance key: its identity inside its service."""
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


class _InstanceId:
    """The attribute ``instance_id``: a text that follows from the other fields is made when it is read, not stored.

    It would take a sixth of an instance's memory, and nearly every instance has such an id.
    """

    def __init__(self, slot: Any) -> None:
        self._get, self._set = slot.__get__, slot.__set__

    def __get__(self, one: Instance | None, _owner: type) -> Any:
        if one is None:
            return None
        kept = self._get(one)
        if kept is SIMPLE_ID:
            return simple_instance_id(one.ip, one.port, one.cluster_name, one.service_name)
        return kept

    def __set__(self, one: Instance, text: str | None) -> None:
        if text is not SIMPLE_ID and text == simple_instance_id(one.ip, one.port, one.cluster_name, one.service_name):
            text = SIMPLE_ID
        self._set(one, text)


_id_slot = Instance.__dict__["instance_id"]
kept_id: Callable[[Instance], str | None] = _id_slot.__get__
"""Returns the stored ``instance_id``, ``SIMPLE_ID`` or a text, to give it to another instance of the same address."""
# The dataclass declares a field of text; this replaces its slot by a descriptor that reads and writes such texts.
Instance.instance_id = _InstanceId(_id_slot)  # type: ignore[assignment]

NEVER_MS = -(1 << 60)
"""A time before all others: the event is not known to have happened."""
NOT_DUE_MS = 1 << 60
"""A time after all others: nothing to do."""


class StoredInstance:
    """An instance in a member's list, with its last beat (monotonic ms) and its last changes.

    ``beat_ms`` is written without the lock: it is one machine word, and the last beat wins. ``version`` is that of the
    last change. ``client_version`` is that of the last change by its client or an operator, not by a health check, and
    ``changed_ms`` the time when the client last stated it. Two sides of a partition count versions apart, so the later
    statement is found by time (R14), and a client that repeats its registration states it again. ``last_confirmed_ms``
    is the last time at which the instance was alive for certain: a received ``beat_ms`` may be too late by the time
    that it was under way. A health check counts that in the instance's favour, but a removal does not.

    There are a million of these: each has only the fields that beats need, and the rest is computed from the instance.
    """

    # fmt: off
    __slots__ = (
        "beat_ms", "changed_ms", "client_version", "counted_bytes", "instance", "last_confirmed_ms", "usual", "version",
    )
    # fmt: on

    def __init__(
        self,
        instance: Instance,
        version: Version,
        beat_ms: int,
        client_version: Version | None = None,
        last_confirmed_ms: int | None = None,
        changed_ms: int | None = None,
        counted_bytes: int | None = None,
    ) -> None:
        """``counted_bytes``: the ``instance_bytes`` of the instance, if the caller has them."""
        self.instance = instance
        self.version = version
        self.client_version = version if client_version is None else client_version
        self.beat_ms = beat_ms
        self.last_confirmed_ms = beat_ms if last_confirmed_ms is None else last_confirmed_ms
        self.changed_ms = beat_ms if changed_ms is None else changed_ms
        self.usual = instance.healthy and not (instance.metadata and PRESERVED_BEAT_INTERVAL in instance.metadata)
        """True if healthy and with the default beat interval: then a beat needs nothing else of the instance."""
        self.counted_bytes = instance_bytes(instance) if counted_bytes is None else counted_bytes
        """The bytes that the list counts for this instance, kept until it is replaced or removed."""

    def with_health(self, healthy: bool, version: Version) -> "StoredInstance":
        """Return the instance with another health, as of ``version``. Its beats and its client's last change stay."""
        kept = (self.client_version, self.last_confirmed_ms, self.changed_ms, self.counted_bytes)
        return StoredInstance(replace(self.instance, healthy=healthy), version, self.beat_ms, *kept)

    def carry_beat(self, old: "StoredInstance") -> None:
        """Take over the beat of the instance that this one replaced: it may have come after this one was made.

        The same applies to a repeated registration. The writer of a beat checks afterwards whether the instance is
        still stored: between the two no beat is lost.
        """
        if old.beat_ms > self.beat_ms:
            self.beat_ms = old.beat_ms
        if old.last_confirmed_ms > self.last_confirmed_ms:
            self.last_confirmed_ms = old.last_confirmed_ms
        if old.changed_ms > self.changed_ms and old.client_version == self.client_version:
            self.changed_ms = old.changed_ms

    @property
    def shortest_timeout_ms(self) -> int:
        """Return the time without a beat after which the health check first changes it."""
        metadata = self.instance.metadata
        if not metadata or (PRESERVED_BEAT_TIMEOUT not in metadata and PRESERVED_DELETE_TIMEOUT not in metadata):
            return SHORTEST_TIMEOUT_MS
        return min(self.instance.beat_timeout_ms, self.instance.delete_timeout_ms)


@value
class Tombstone:
    """A removed instance: the version of its removal, and the last time at which it was known to be alive.

    ``at_ms`` (monotonic) is the time of a deregistration, or the last beat that the health check knew of at an expiry.
    """

    version: Version
    at_ms: int
    keep_ms: int
    """How long after ``at_ms`` the tombstone is kept."""
    unknown: bool = False
    """True if the member that took the deregistration did not know the instance (R15)."""


@value
class Change:
    """One change of one instance, by the owner of the list with the datum key ``key``, which gave it ``version``.

    ``stored`` is the instance after it, ``tombstone`` its removal. Without both, the owner sent only the version.
    ``alone``: the list holds nothing else, so that it is complete where the key is unknown.
    """

    key: str
    instance_key: str
    version: Version
    stored: StoredInstance | None
    tombstone: Tombstone | None
    alone: bool = False


def instance_bytes(one: Instance) -> int:
    """Return the bytes that count for an instance: those of its metadata, and its surplus on the wire."""
    size = metadata_bytes(one.metadata)
    return size + surplus_bytes(size, one.metadata, one.ip, one.cluster_name, one.app)


@dataclass(frozen=True, slots=True)
class Publication:
    """One client's instances of one service: one registered alone, or a batch.

    The newest of several registrations of one address counts, the same one on every member: between clients by
    ``at_ms`` and then client id, against a listed instance by that instance's ``client_version`` and ``seen``.
    """

    instances: Mapping[str, Instance]
    """The instances by instance key."""
    batch: bool
    at_ms: int
    """The wall clock of the member that holds the connection."""
    seen: Version
    """The version that the service's list had at that member."""
    metadata_bytes: int = field(init=False, compare=False, repr=False)
    """The bytes of the metadata of all its instances together."""

    def __post_init__(self) -> None:
        size = sum(map(instance_bytes, self.instances.values()))
        object.__setattr__(self, "metadata_bytes", size)

    def says_the_same(self, other: "Publication") -> bool:
        """Return whether both have the same instances and kind, whenever they were made."""
        return self.batch is other.batch and self.instances == other.instances


class Service:
    """A service's instances from all sources and its description, changed in place under ``ServiceTable.lock``."""

    __slots__ = (
        "calm_revision",
        "changed_ms",
        "claimed",
        "claimed_ms",
        "clusters",
        "dropped",
        "due_ms",
        "foreign",
        "full_name",
        "hidden",
        "id_allocator",
        "key",
        "meta",
        "namespace",
        "overrides",
        "persistent",
        "published",
        "published_count",
        "recent",
        "retained",
        "retained_until_ms",
        "revision",
        "shortest_timeout_ms",
        "stored",
        "stored_bytes",
        "tombstones",
        "tombstones_free",
        "version",
        "view",
    )

    def __init__(self, namespace: str, full_name: str, now_ms: int, revision: int = 0, key: str = "") -> None:
        """``key``: its datum key, if the caller has it."""
        self.namespace = namespace
        self.full_name = full_name
        self.key = key or datum_key(namespace, full_name)
        self.stored: dict[str, StoredInstance] = {}
        self.stored_bytes = 0
        """The ``instance_bytes`` of all instances in ``stored``."""
        self.tombstones: dict[str, Tombstone] = {}
        self.tombstones_free = 0  # how many more fit before their bytes are counted again
        self.version: Version = NO_VERSION
        self.recent: list[str] | None = None
        """The instance keys of the last changes, one for each version; None for none. See ``recent_changes.py``."""
        self.revision = revision
        """Rises with every change, on this member only. A view or copy of another revision is out of date."""
        self.calm_revision = -1  # the last one at which unhealthy instances were looked for, and none found
        self.changed_ms = now_ms
        self.claimed: Version | None = None
        """The version on which this node's last claim was based, for the claim as a delta (R5)."""
        self.claimed_ms = now_ms
        """When this node became the writer: the health check counts silence from this time at the earliest."""
        self.due_ms = 0
        """The time of the next health check. A beat only postpones it, so beats do not change it.
        A change that may bring it forward lowers it, under the lock and after the change itself.
        """
        self.shortest_timeout_ms = NOT_DUE_MS
        """A lower bound of the instances' time-outs."""
        self.clusters: set[str] = set()
        self.retained: dict[str, Instance] = {}
        """Instances that vanished without a tombstone, and that readers still see until ``retained_until_ms``."""
        self.retained_until_ms = 0
        self.dropped = False
        """True after a call removed the service: it is hidden as soon as its last instance is gone."""
        self.hidden = False
        """True if readers do not see it: only its tombstones are left."""
        self.meta: ServiceMeta | None = None
        """Its durable description. A service with one stays when it is empty."""
        self.persistent: dict[str, Instance] = {}
        """Durable instances by instance key. Their health comes from active checks."""
        self.published: dict[str, Publication] | None = None
        """Publications by client id; None until the first."""
        self.published_count = 0
        """The number of instances in ``published``. An address of several clients counts once for each."""
        self.foreign: Mapping[str, Any] | None = None
        """The ``ForeignPart`` of each link, by its name; None without any."""
        self.overrides: Overrides = NO_OVERRIDES
        """Operators' changes, which a view puts over all sources."""
        self.id_allocator: IdAllocator | None = None  # made with the first numeric id in a large service
        self.view: ServiceView | None = None

    def expect(self, due_ms: int) -> None:
        """Bring the next health check forward to ``due_ms``. The caller holds the lock."""
        if due_ms < self.due_ms:
            self.due_ms = due_ms

    def ids(self) -> Iterator[str | None]:
        """Return the instance ids of the list. Lazy, as nearly no caller asks for the first."""
        for stored in list(self.stored.values()):
            yield stored.instance.instance_id


@dataclass(frozen=True, slots=True)
class ServiceSnapshot:
    """A consistent copy of a service: instances by key, publications by client id. No later change reaches it."""

    namespace: str
    full_name: str
    version: Version
    """The version of the instance list."""
    stored: Mapping[str, StoredInstance]
    persistent: Mapping[str, Instance]
    published: Mapping[str, Publication]
    overrides: Overrides = field(default_factory=dict)
    """Operators' changes, which readers see over all of these."""


@dataclass(frozen=True, slots=True)
class ServiceView:
    """The instances and description of a service at one revision, as readers get them."""

    namespace: str
    full_name: str
    revision: int
    version: Version
    instances: tuple[Instance, ...]  # all of them, persistent ones first
    clusters: tuple[str, ...]
    meta: ServiceMeta = NO_META
    searched: Any = field(default=None, init=False, repr=False, compare=False)  # see ``app.operator.search_texts``

    @property
    def metadata(self) -> Metadata:
        return self.meta.metadata

    @property
    def protect_threshold(self) -> float:
        return self.meta.protect_threshold


def is_later_word(mine: Version, mine_ms: int | None, other: Version, other_ms: int | None) -> bool:
    """Return whether the statement of version ``mine`` is later than that of ``other``, and not the same.

    By time (monotonic ms, None if unknown); by version if the times have no order.
    """
    if mine == other:
        return False
    if mine_ms is not None and other_ms is not None and abs(mine_ms - other_ms) > WORD_MARGIN_MS:
        return mine_ms > other_ms
    return mine > other
