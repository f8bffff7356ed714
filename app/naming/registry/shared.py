"""Shared: one object for equal values, since a million instances are mostly alike in their parts."""

from collections.abc import Callable

from app.naming.model.meta import metadata_bytes
from app.naming.model.model import Instance, Metadata, StoredInstance
from distro.model.types import Version

Traits = tuple[str, str, str | None, float]
"""Service, cluster, application and weight of an instance."""
TRAITS_MAX = 65_536
"""With so many in a table the table is emptied and filled anew; so for each bound here."""
TRAITS_CHARS_MAX = 1_024
PORTS_MAX = 65_536
WRITERS_MAX = 1_024
MAPS_MAX = 16_384
MAPS_MET_ONCE_MAX = 4_096
"""Fewer than of those that were met again: where each registration says something new, none is ever met again, and a
thousand bytes for each stay until there are so many."""
MAP_ENTRIES_MAX = 16
MAP_BYTES_MAX = 512
"""Longer metadata is seldom shared, and the table must stay small."""

_set: Callable[[object, str, object], None] = object.__setattr__


class Shared:
    """Returns for each value the equal one it met before. Thread-safe: two threads may each keep their first one."""

    __slots__ = ("_maps", "_met_once", "_ports", "_traits", "_writers")

    def __init__(self) -> None:
        self._traits: dict[Traits, Traits] = {}
        self._ports: dict[int, int] = {}
        self._writers: dict[str, str] = {}
        self._maps: dict[tuple[tuple[str, str | None], ...], Metadata] = {}
        self._met_once: dict[int, Metadata] = {}
        """By the hash of their items: nearly all are forgotten again, and tuples of them would be made to be kept."""

    def traits(self, traits: Traits) -> Traits:
        """The shared tuple that equals these traits."""
        known = self._traits.get(traits)
        if known is not None:
            return known
        if len(traits[0]) + len(traits[1]) + len(traits[2] or "") <= TRAITS_CHARS_MAX:
            if len(self._traits) >= TRAITS_MAX:
                self._traits.clear()
            self._traits[traits] = traits
        return traits

    def port(self, port: int) -> int:
        """The shared number that equals this port."""
        if len(self._ports) >= PORTS_MAX:
            self._ports.clear()
        return self._ports.setdefault(port, port)

    def metadata(self, fields: Metadata, size: int | None = None) -> Metadata:
        """The shared mapping with the same items in the same order. ``size``: its ``metadata_bytes``, where known."""
        if len(fields) > MAP_ENTRIES_MAX:
            return fields
        key = tuple(fields.items())  # in their order, which answers show
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
        """Replace the parts of a received instance by shared ones; it stays equal to itself before.

        ``former``: the one that it replaces, whose parts are shared and mostly equal.
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
