"""One object for equal values: a million instances mostly say the same of themselves."""

from collections.abc import Callable
from typing import TypeVar

from app.naming.model import Held, Instance, Metadata
from distro.types import Version

V = TypeVar("V", str, int, float)

VALUES_MAX = 65_536
"""Of each kind; then all are forgotten, and kept anew as they come."""
TEXT_CHARS_MAX = 256
MAPS_MAX = 16_384
MAP_ENTRIES_MAX = 16
MAP_CHARS_MAX = 512
"""What is longer is hardly that of another instance too, and all maps together must stay small."""

_set: Callable[[object, str, object], None] = object.__setattr__


class Shared:
    """Replaces the parts of a value by equal ones that it knows.

    The value is the same afterwards, so others may look at it meanwhile. Thread-safe: of two threads that bring the
    same new part, both may go on with their own.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._ports: dict[int, int] = {}
        self._weights: dict[float, float] = {}
        self._maps: dict[tuple[tuple[str, str | None], ...], Metadata] = {}

    def settle(self, one: Instance) -> None:
        """Let the instance share what it has in common with others."""
        _set(one, "service_name", self._text(one.service_name))
        _set(one, "cluster_name", self._text(one.cluster_name))
        _set(one, "port", _kept(self._ports, one.port))
        _set(one, "weight", _kept(self._weights, one.weight))
        if one.app is not None:
            _set(one, "app", self._text(one.app))
        if one.metadata is not None:
            _set(one, "metadata", self._map(one.metadata))

    def settle_received(self, held: Held) -> None:
        """As ``settle``, for one that came over the wire, with texts of its own in its versions too."""
        self.settle(held.instance)
        self._writer(held.version)
        if held.said is not held.version:
            self._writer(held.said)

    def _writer(self, version: Version) -> None:
        _set(version, "writer", self._text(version.writer))

    def _text(self, text: str) -> str:
        return _kept(self._texts, text) if len(text) <= TEXT_CHARS_MAX else text

    def _map(self, fields: Metadata) -> Metadata:
        if len(fields) > MAP_ENTRIES_MAX:
            return fields
        key = tuple(fields.items())
        known = self._maps.get(key)
        if known is not None:
            return known
        if sum(len(name) + len(value or "") for name, value in key) > MAP_CHARS_MAX:
            return fields
        if len(self._maps) >= MAPS_MAX:
            self._maps.clear()
        self._maps[key] = fields
        return fields


def _kept(values: dict[V, V], value: V) -> V:
    if len(values) >= VALUES_MAX:
        values.clear()
    return values.setdefault(value, value)
