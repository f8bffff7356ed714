"""One object for equal values: a million instances mostly say the same of themselves."""

from collections.abc import Callable

from app.naming.model.model import Metadata, StoredInstance
from distro.types import Version

Traits = tuple[str, str, str | None, float]
"""Service, cluster, application and weight of an instance."""
TRAITS_MAX = 65_536
"""Then all are forgotten, and kept anew as they come; so with all that is kept here."""
TRAITS_CHARS_MAX = 1_024
PORTS_MAX = 65_536
WRITERS_MAX = 1_024
MAPS_MAX = 16_384
MAP_ENTRIES_MAX = 16
MAP_CHARS_MAX = 512
"""What is longer is hardly that of another instance too, and all that is kept must stay small."""

_set: Callable[[object, str, object], None] = object.__setattr__


class Shared:
    """Gives for a value an equal one that was there before. Thread-safe: of two that are new at once, both may stay."""

    __slots__ = ("_maps", "_ports", "_traits", "_writers")

    def __init__(self) -> None:
        self._traits: dict[Traits, Traits] = {}
        self._ports: dict[int, int] = {}
        self._writers: dict[str, str] = {}
        self._maps: dict[tuple[tuple[str, str | None], ...], Metadata] = {}

    def traits(self, traits: Traits) -> Traits:
        known = self._traits.get(traits)
        if known is not None:
            return known
        if len(traits[0]) + len(traits[1]) + len(traits[2] or "") <= TRAITS_CHARS_MAX:
            if len(self._traits) >= TRAITS_MAX:
                self._traits.clear()
            self._traits[traits] = traits
        return traits

    def port(self, port: int) -> int:
        if len(self._ports) >= PORTS_MAX:
            self._ports.clear()
        return self._ports.setdefault(port, port)

    def metadata(self, fields: Metadata) -> Metadata:
        if len(fields) > MAP_ENTRIES_MAX:
            return fields
        key = tuple(fields.items())  # in their order, which answers show
        known = self._maps.get(key)
        if known is not None:
            return known
        if sum(len(name) + len(value or "") for name, value in key) <= MAP_CHARS_MAX:
            if len(self._maps) >= MAPS_MAX:
                self._maps.clear()
            self._maps[key] = fields
        return fields

    def settle(self, stored: StoredInstance) -> None:
        """Let an instance that came over the wire share its parts. It is the same value afterwards, for everybody."""
        one = stored.instance
        service, cluster, app, weight = self.traits((one.service_name, one.cluster_name, one.app, one.weight))
        _set(one, "service_name", service)
        _set(one, "cluster_name", cluster)
        _set(one, "app", app)
        _set(one, "weight", weight)
        _set(one, "port", self.port(one.port))
        if one.metadata is not None:
            _set(one, "metadata", self.metadata(one.metadata))
        self._settle_version(stored.version)
        if stored.client_version is not stored.version:
            self._settle_version(stored.client_version)

    def _settle_version(self, version: Version) -> None:
        if len(self._writers) >= WRITERS_MAX:
            self._writers.clear()
        _set(version, "writer", self._writers.setdefault(version.writer, version.writer))


class _Nothing(Shared):
    """Gives back what it is given."""

    __slots__ = ()

    def traits(self, traits: Traits) -> Traits:
        return traits

    def port(self, port: int) -> int:
        return port

    def metadata(self, fields: Metadata) -> Metadata:
        return fields


NOTHING_SHARED = _Nothing()
"""For single instances, of which there are few."""
