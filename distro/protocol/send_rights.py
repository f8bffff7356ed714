"""SendRights: the states that this member may send, its own and those of other writers (R12, R16)."""

from collections.abc import Iterable, Mapping

from distro.model.types import DistroKey, Version
from distro.protocol.engine_reader import EngineReader
from distro.protocol.protocol_parts import ProtocolParts

PASSED_ON_MAX = 100_000
"""Keys with states of other writers that are passed on; beyond it the peers wait for the claim of the oldest."""


class SendRights:
    """The other writers for which this member sends. The thread that owns the protocol changes it."""

    def __init__(self, parts: ProtocolParts, reader: EngineReader) -> None:
        self._components = parts.components
        self._reader = reader
        self.relayed: Mapping[str, frozenset[str]] = {}
        """The peers to which this member passes on what other members, that cannot reach them, wrote (R12)."""
        self._passed_on: dict[DistroKey, Version] = {}
        """The states of other writers that peers may get from this member, until it claims their keys (R16)."""

    def pass_on(self, key: DistroKey, version: Version) -> None:
        """Let peers get this state of another writer, until the key is claimed (R16)."""
        self._passed_on.pop(key, None)  # the latest last
        self._passed_on[key] = version
        while len(self._passed_on) > PASSED_ON_MAX:
            del self._passed_on[next(iter(self._passed_on))]

    def on_claimed(self, keys: Iterable[DistroKey]) -> None:
        """Note that this member took these keys over: their states are its own now."""
        for key in keys:
            self._passed_on.pop(key, None)

    def passed_on(self, keys: Iterable[DistroKey]) -> dict[str, Version]:
        """Return the states among these keys that are passed on, by the name of the key."""
        return {key.key: self._passed_on[key] for key in keys if key in self._passed_on} if self._passed_on else {}

    def speaks_for(self, resource_type: str, name: str, version: Version) -> bool:
        """Return whether the version is this member's own."""
        return self._reader.speaks_for(resource_type, name, version)

    def is_own_state(self, key: DistroKey) -> bool:
        """Return whether the stored state of the key is this member's own."""
        version = self._components[key.resource_type].store.version(key.key)
        return version is not None and self._reader.speaks_for(key.resource_type, key.key, version)

    def may_send(self, resource_type: str, peer: str, name: str, version: Version) -> bool:
        """Return whether this member sends the key to the peer: its own, or another writer's (R12, R16)."""
        is_relayed = version.writer.partition("~")[0] in self.relayed.get(peer, ())
        if is_relayed or self._reader.speaks_for(resource_type, name, version):
            return True
        return self._passed_on.get(DistroKey(resource_type, name)) == version
