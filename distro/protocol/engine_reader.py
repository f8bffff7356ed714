"""EngineReader: all that other threads read of an engine, which one thread changes."""

from collections.abc import Mapping

from distro.members.mapper import DistroMapper
from distro.model.ports import Components
from distro.model.types import DistroKey, Version
from distro.protocol.engine_view import EngineView
from distro.protocol.tasks import PeerQueue


class EngineReader:
    """The published state of one engine. Any thread may ask.

    Answers come from ``view``, which the engine's thread replaces and never changes. ``is_pending`` and ``pending_of``
    look one key up in the queues as they are now: a copy of all keys would cost a tick more than everything else.
    """

    view: EngineView
    """The state at the end of the last tick, or after the last event that moved members. Take it once, then read it."""

    def __init__(self, own_writer: str, components: Components, queues: Mapping[str, PeerQueue]) -> None:
        """``queues``: the engine's own, by peer; nothing here walks them."""
        self.own_writer = own_writer
        self._components = components
        self._queues = queues

    def mapper_of(self, resource_type: str) -> DistroMapper:
        """Return the present mapper of a resource type."""
        return self.view.mappers.of(self._components[resource_type])

    def is_responsible(self, key: DistroKey) -> bool:
        """Return whether the key is this node's by the present view."""
        return self.mapper_of(key.resource_type).responsible(self._components[key.resource_type].store.tag(key.key))

    def speaks_for(self, resource_type: str, name: str, version: Version) -> bool:
        """Return whether this run wrote the version; of types owned by writers, whether any run of this member did."""
        component = self._components[resource_type]
        own = component.owned_by_writer and self.mapper_of(resource_type).responsible(component.store.tag(name))
        return own or version.writer == self.own_writer

    def waiting_for(self, peer: str) -> dict[str, dict[str, Version]]:
        """Return the keys that could not be sent to the peer, with their versions, by resource type (R12)."""
        found: dict[str, dict[str, Version]] = {}
        known = self.view.peers.get(peer)
        for key in () if known is None else known.waiting:
            version = self._components[key.resource_type].store.version(key.key)
            if version is not None and self.speaks_for(key.resource_type, key.key, version):
                found.setdefault(key.resource_type, {})[key.key] = version
        return found

    # --- runs that versions name -----------------------------------------------------------------

    def has_left(self, writer: str) -> bool:
        """Return whether the run that a version names as ``writer`` is over, and its hand-over too (R17)."""
        return self.view.members.runs.has_left(writer)

    def is_handing_over(self, writer: str) -> bool:
        """Return whether a run is over, and its clients are still kept until they are back elsewhere (R17)."""
        return self.view.members.runs.is_handing_over(writer)

    def contact_ms(self, writer: str) -> int:
        """Return when the peer that a version names last answered or called, monotonic; of no peer ``ALWAYS_MS``."""
        return self.view.members.contact_ms(writer)

    # --- one key ---------------------------------------------------------------------------------

    def is_pending(self, peer: str, key: DistroKey) -> bool:
        """Return whether a key is being sent to the peer, or is to be."""
        queue = self._queues.get(peer)
        return queue is not None and (key in queue.tasks or key in queue.in_flight)

    def pending_of(self, key: DistroKey) -> dict[str, str]:
        """Return what is still to be done with a key, in words, by peer."""
        found = {address: queue.waits(key) for address in self.view.peers if (queue := self._queues.get(address))}
        return {address: text for address, text in found.items() if text}
