"""Commands of local calls, and the instance that results from each, made of parts that equal instances share."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from app.naming.model.id_allocator import IdAllocator
from app.naming.model.keys import DEFAULT_CLUSTER, DEFAULT_NAMESPACE, SIMPLE_ID, instance_key, metadata_bytes
from app.naming.model.model import (
    PRESERVED_ID_GENERATOR,
    WEIGHT_MAX,
    WEIGHT_POSITIVE_MIN,
    Instance,
    Metadata,
    StoredInstance,
    kept_id,
)
from app.naming.model.nacos_errors import InstanceMissing, WeightRefused
from distro.model.types import Version, value

Traits = tuple[str, str, str | None, float]
"""Service, cluster, application and weight of an instance."""
TRAITS_MAX = 65_536
"""The bound of a table. A table that reaches it is emptied and filled again, as for each bound here."""
TRAITS_CHARS_MAX = 1_024
PORTS_MAX = 65_536
WRITERS_MAX = 1_024
MAPS_MAX = 16_384
MAPS_MET_ONCE_MAX = 4_096
"""The bound for mappings met once, lower than for those met again: where each registration is new, none is ever met
again, and a thousand bytes for each stay until there are so many."""
MAP_ENTRIES_MAX = 16
MAP_BYTES_MAX = 512
"""The largest shared metadata. Longer ones are seldom equal, and the table must stay small."""

_set: Callable[[object, str, object], None] = object.__setattr__


class RegisterInstance(NamedTuple):
    """Register an instance, or replace all of it. ``service`` is the full name. (A tuple: it is cheaper to make.)"""

    service: str
    ip: str
    port: int
    namespace: str = DEFAULT_NAMESPACE
    cluster: str = DEFAULT_CLUSTER
    weight: float = 1.0
    healthy: bool = True
    enabled: bool = True
    ephemeral: bool = True
    metadata: Metadata | None = None
    app: str = "DEFAULT"
    instance_id: str = ""
    """The id that the client requests, empty for none. Only clients with a connection send one."""


class UpdateInstance(NamedTuple):
    """Replace an instance; an unknown one is refused if ``strict``, else registered."""

    instance: RegisterInstance
    strict: bool


@value
class DeregisterInstance:
    """Remove an instance. ``service`` is the full name."""

    service: str
    ip: str
    port: int
    namespace: str = DEFAULT_NAMESPACE
    cluster: str = DEFAULT_CLUSTER
    ephemeral: bool = True


@dataclass(frozen=True, slots=True)
class PatchInstance:
    """Change attributes of an instance; None leaves one as it is."""

    service: str
    ip: str
    port: int
    namespace: str = DEFAULT_NAMESPACE
    cluster: str = DEFAULT_CLUSTER
    metadata: Metadata | None = None
    app: str | None = None
    weight: float | None = None
    healthy: bool | None = None
    enabled: bool | None = None


@dataclass(frozen=True, slots=True)
class ChangeMetadata:
    """Set keys of an instance's metadata, and remove others."""

    put: Metadata = field(default_factory=dict)
    remove: frozenset[str] = frozenset()


class BeatAnswer(NamedTuple):
    """The answer to a beat."""

    interval_ms: int
    """The time until the client's next beat."""
    known: bool
    """False tells the client to register again (code 20404)."""
    is_new: bool = False
    is_healed: bool = False
    """True if the beat made the instance healthy again; ``is_new`` is true then, and if it brought it back."""


class Beat(NamedTuple):
    """A client's beat. A full one (``full``) describes the instance and can register it; a light one cannot."""

    service: str
    ip: str
    port: int
    namespace: str = DEFAULT_NAMESPACE
    cluster: str = DEFAULT_CLUSTER
    full: bool = False
    weight: float = 0.0
    metadata: Metadata | None = None
    ephemeral: bool = True


CollectBeat = Callable[[str, str, str, int], bool]
"""Takes a beat for another member: that member, the datum key, the instance key, and when it came (monotonic ms)."""


class Shared:
    """Returns for each value the equal one that it met before.

    Thread-safe: two threads may each keep their first one.
    """

    __slots__ = ("_maps", "_met_once", "_ports", "_traits", "_writers")

    def __init__(self) -> None:
        self._traits: dict[Traits, Traits] = {}
        self._ports: dict[int, int] = {}
        self._writers: dict[str, str] = {}
        self._maps: dict[tuple[tuple[str, str | None], ...], Metadata] = {}
        self._met_once: dict[int, Metadata] = {}
        """Mappings met once, by the hash of their items: nearly all are forgotten again, and need no tuple as a key."""

    def traits(self, traits: Traits) -> Traits:
        """Return the shared tuple that equals these traits."""
        known = self._traits.get(traits)
        if known is not None:
            return known
        if len(traits[0]) + len(traits[1]) + len(traits[2] or "") <= TRAITS_CHARS_MAX:
            if len(self._traits) >= TRAITS_MAX:
                self._traits.clear()
            self._traits[traits] = traits
        return traits

    def port(self, port: int) -> int:
        """Return the shared number that equals this port."""
        if len(self._ports) >= PORTS_MAX:
            self._ports.clear()
        return self._ports.setdefault(port, port)

    def metadata(self, fields: Metadata, size: int | None = None) -> Metadata:
        """Return the shared mapping with the same items in the same order.

        ``size``: its ``metadata_bytes``, or a few more, if known.
        """
        if len(fields) > MAP_ENTRIES_MAX:
            return fields
        key = tuple(fields.items())  # in order, because answers show it
        known = self._maps.get(key)
        if known is not None:
            return known
        mark = hash(key)
        known = self._met_once.pop(mark, None)
        if known is not None and tuple(known.items()) == key:
            if len(self._maps) >= MAPS_MAX:
                self._maps.clear()
            self._maps[key] = known
            return known
        if (metadata_bytes(fields) if size is None else size) <= MAP_BYTES_MAX:
            if len(self._met_once) >= MAPS_MET_ONCE_MAX:
                self._met_once.clear()
            self._met_once[mark] = fields
        return fields

    def settle(self, stored: StoredInstance, former: Instance | None = None) -> None:
        """Replace the parts of a received instance by shared ones. The instance stays equal to itself before.

        ``former``: the instance that it replaces, whose parts are shared and mostly equal.
        """
        one = stored.instance
        if former is not None and _has_traits_of(one, former):
            service, cluster, app, weight = former.service_name, former.cluster_name, former.app, former.weight
        else:
            service, cluster, app, weight = self.traits((one.service_name, one.cluster_name, one.app, one.weight))
        _set(one, "service_name", service)
        _set(one, "cluster_name", cluster)
        _set(one, "app", app)
        _set(one, "weight", weight)
        _set(one, "port", self.port(one.port) if former is None or one.port != former.port else former.port)
        if one.metadata is not None:
            _set(one, "metadata", self.metadata(one.metadata, stored.counted_bytes))
        if stored.changed_ms == stored.beat_ms:
            stored.changed_ms = stored.beat_ms
        self._settle_version(stored.version)
        if stored.client_version is not stored.version:
            self._settle_version(stored.client_version)

    def _settle_version(self, version: Version) -> None:
        if len(self._writers) >= WRITERS_MAX:
            self._writers.clear()
        _set(version, "writer", self._writers.setdefault(version.writer, version.writer))


def _has_traits_of(one: Instance, other: Instance) -> bool:
    return (
        one.app == other.app
        and one.weight == other.weight
        and one.cluster_name == other.cluster_name
        and one.service_name == other.service_name
    )


def check_weight(weight: float) -> float:
    """Return the weight to store: 0 stays 0, and a smaller weight than the least positive one becomes that.

    Raises:
        WeightRefused: not a number, or out of range. Real Nacos stores NaN; no balancer can use it.
    """
    if WEIGHT_POSITIVE_MIN <= weight <= WEIGHT_MAX:
        return weight + 0.0
    if math.isnan(weight) or weight > WEIGHT_MAX or weight < 0:
        raise WeightRefused("instance format invalid: The weights range from 0.0 to 10000.0")
    return clamp_weight(weight)


def clamp_weight(weight: float) -> float:
    """Return a received weight brought into range, as each Nacos member does: otherwise checksums never agree."""
    if math.isnan(weight):
        return 1.0
    if weight > WEIGHT_MAX:
        return WEIGHT_MAX
    # Adding 0 turns a -0.0 into 0.0.
    return WEIGHT_POSITIVE_MIN if 0 < weight < WEIGHT_POSITIVE_MIN else max(weight, 0.0) + 0.0


Ids = Iterable[str | None] | IdAllocator
"""The instance ids of a service. Read only to find a free number."""


def register(
    old: Instance | None, command: RegisterInstance, ids: Ids | None, shared: Shared, size: int | None = None
) -> Instance:
    """Return the instance after a registration. ``old``, the one before it, keeps its health and id.

    ``size``: the bytes of the command's metadata, if known. ``ids`` are read only for a new instance; None if its
    metadata requests no number.
    Source: Nacos 1.4.1 ServiceManager.updateIpAddresses.
    """
    metadata = shared.metadata({} if command.metadata is None else command.metadata, size)
    traits = (command.service, command.cluster, command.app, check_weight(command.weight))
    service, cluster, app, weight = shared.traits(traits)
    if old is not None:
        # Without making a text that follows from the address and the service.
        instance_id = kept_id(old) if old.service_name == service else old.instance_id
    else:
        instance_id = SIMPLE_ID if ids is None else make_instance_id(command, metadata, ids)
    return Instance(
        command.ip,
        shared.port(command.port),
        cluster,
        service,
        weight,
        command.healthy if old is None else old.healthy,
        command.enabled,
        command.ephemeral,
        metadata=metadata,
        app=app,
        instance_id=instance_id,
    )


def is_repetition(old: Instance, command: RegisterInstance) -> bool:
    """Return whether a registration changes nothing of the instance with its address; health is not asked for."""
    return (
        not old.marked
        and old.weight == command.weight
        and old.enabled is command.enabled
        and old.ephemeral is command.ephemeral
        and old.app == command.app
        and old.service_name == command.service
        and old.metadata == (command.metadata or {})
    )


def is_numbered(metadata: Metadata | None) -> bool:
    """Return whether this metadata requests a numeric instance id."""
    generator = metadata.get(PRESERVED_ID_GENERATOR) if metadata else None
    return generator is not None and generator.lower() == "snowflake"


def make_instance_id(command: RegisterInstance | Beat, metadata: Metadata, ids: Ids) -> str:
    """Return a new instance's id, from the generator named in its metadata; ``SIMPLE_ID`` for the default one.

    Source: Nacos 1.4.1 Instance.generateInstanceId.
    """
    if is_numbered(metadata):
        return str((ids if isinstance(ids, IdAllocator) else IdAllocator(ids)).lowest_free())
    return SIMPLE_ID


def patch(old: Instance, command: PatchInstance) -> Instance:
    """Return the instance with the given attributes replaced.

    Raises:
        WeightRefused: as ``check_weight``.
    """
    return replace(
        old,
        metadata=old.metadata if command.metadata is None else command.metadata,
        app=old.app if command.app is None else command.app,
        weight=old.weight if command.weight is None else check_weight(command.weight),
        healthy=old.healthy if command.healthy is None else command.healthy,
        enabled=old.enabled if command.enabled is None else command.enabled,
    )


def change_metadata(old: Instance, change: ChangeMetadata) -> Instance:
    """Return the instance with keys of its metadata set and removed."""
    return replace(old, metadata=changed_metadata(old.metadata, change))


def changed_metadata(old: Metadata | None, change: ChangeMetadata) -> Metadata:
    """Return the metadata with keys set and removed."""
    metadata = {**(old or {}), **change.put}
    return {key: value for key, value in metadata.items() if key not in change.remove} if change.remove else metadata


def check_known(known: Iterable[Instance] | None, command: RegisterInstance) -> None:
    """Refuse to update an unknown instance. ``known``: the service's instances, None for an unknown service.

    The address and the kind are compared, the cluster is not.

    Raises:
        InstanceMissing: Source: Nacos 1.4.1 ServiceManager.updateInstance.
    """
    if known is None:
        raise InstanceMissing(f"service not found, namespace: {command.namespace}, service: {command.service}")
    wanted = (command.ip, command.port, command.ephemeral)
    if not any((one.ip, one.port, one.ephemeral) == wanted for one in known):
        # Java prints the unregistered instance: its weight, health and mark as requested.
        attributes = f"{command.weight}_{str(command.healthy).lower()}_false_{command.cluster}"
        raise InstanceMissing(f"instance not exist: {key_of(command)}_{attributes}")


def instance_from_beat(command: Beat, ids: Ids, shared: Shared) -> Instance:
    """Return the instance that a full beat registers: by default weight 0 and no metadata, as in Nacos 1.4."""
    service, cluster, _, weight = shared.traits((command.service, command.cluster, None, clamp_weight(command.weight)))
    return Instance(
        ip=command.ip,
        port=shared.port(command.port),
        cluster_name=cluster,
        service_name=service,
        weight=weight,
        ephemeral=command.ephemeral,
        metadata=None if command.metadata is None else shared.metadata(command.metadata),
        instance_id=make_instance_id(command, command.metadata or {}, ids),
    )


def key_of(command: RegisterInstance | DeregisterInstance | PatchInstance | Beat) -> str:
    """Return the instance key of a command's instance."""
    return instance_key(command.ip, command.port, command.cluster)
