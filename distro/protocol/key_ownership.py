"""Ownership: who owns which keys by the present view of the members, and from when on this member acts on it.

And SendRights: the states that this member may send, its own and those of other writers (R12, R16).
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping

from distro.members.mapper import DistroMapper, Mappers, WriterMapper
from distro.model.types import NO_VERSION, DistroKey, MemberKind, Version
from distro.protocol.engine_reader import EngineReader
from distro.protocol.protocol_parts import ProtocolParts

PASSED_ON_MAX = 100_000
"""Keys with states of other writers that are forwarded; beyond it the peers wait for the claim of the oldest."""


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
        """Return the states among these keys that are forwarded, by the name of the key."""
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


LOG = logging.getLogger(__name__)
VIEW_ID_BYTES = 8


class Ownership:
    """The mappers over the present view. The thread that owns the protocol changes it."""

    def __init__(self, parts: ProtocolParts) -> None:
        self._members = members = parts.members
        self._components = parts.components
        self._report_interval_ms = parts.config.report_interval_ms
        mapper = DistroMapper.over(members.self_address, members.view, members.standalone)
        self.mappers = Mappers(mapper, mapper, WriterMapper(members.self_address, (), members.standalone))
        self.view_id = self._digest()
        """A digest of the members that carry keys, with the kind of each."""
        self.is_unlisted = False
        """All peers that answer say that this member is not in their lists."""
        self.leaving = False
        """This member claims nothing from now on, as it is going."""

    def mapper_of(self, resource_type: str) -> DistroMapper:
        """Return the present mapper of a resource type."""
        return self.mappers.of(self._components[resource_type])

    def follow(self) -> bool:
        """Bring the mappers in line with the view; return whether other Rollcall members carry keys now."""
        members, before = self._members, self.mappers
        if members.view != before.all_kinds.servers:
            LOG.info("members that carry keys: %s", ", ".join(members.view) or "none")
            self.mappers = self.mappers._replace(all_kinds=self._over(members.view))
        kind, me = members.kind, members.self_address
        own = tuple([one for one in members.view if one == me or kind(one) is MemberKind.OWN])
        if own != before.own_kind.servers:
            self.mappers = self.mappers._replace(own_kind=self._over(own))
        if self.mappers is not before:
            self.view_id = self._digest()
        if (is_unlisted := members.is_unlisted) != self.is_unlisted:
            self.is_unlisted = is_unlisted
            if is_unlisted:
                LOG.warning("no answering member lists this one: it refuses calls of clients")
        return own != before.own_kind.servers

    def _over(self, servers: tuple[str, ...]) -> DistroMapper:
        return DistroMapper(self._members.self_address, servers, self._members.standalone)

    def _digest(self) -> str:
        text = f"{','.join(self.mappers.all_kinds.servers)} {','.join(self.mappers.own_kind.servers)}"
        return hashlib.blake2b(text.encode(), digest_size=VIEW_ID_BYTES).hexdigest()

    def has_written(self) -> bool:
        """Return whether this run wrote a key that another member may come to own (R16)."""
        parts = [one for one in self._components.values() if MemberKind.OWN in one.taken_by and not one.owned_by_writer]
        return any(part.store.highest_own() != NO_VERSION for part in parts)

    def steady_from_ms(self, *, loading: bool, has_peers: bool) -> int | None:
        """Return from when on keys may be claimed and beats checked (R2, R7, R9); None: not before the view changes."""
        members = self._members
        if members.standalone:
            return 0
        if loading or self.leaving or (members.confirmed_ms < 0 and has_peers):
            return None
        return members.view_since_ms + self._report_interval_ms
