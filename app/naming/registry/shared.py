"""Shared: one object for equal values, since the parts of a million instances are mostly equal."""

from collections.abc import Callable

from app.naming.model.meta import metadata_bytes
from app.naming.model.model import Instance, Metadata, StoredInstance
from distro.model.types import Version

Traits = tuple[str, str, str | None, float]
"""Service, cluster, application and weight of an instance."""
TRAITS_MAX = 65_536
"""The bound of a table. A table that reaches it is emptied and filled anew, as for each bound here."""
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

        ``size``: its ``metadata_bytes``, if known.
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
            _set(one, "metadata", self.metadata(one.metadata))
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
