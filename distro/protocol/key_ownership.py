"""Ownership: who owns which keys by the present view of the members, and from when on this member acts on it."""

import hashlib
import logging

from distro.members.mapper import DistroMapper, Mappers, WriterMapper
from distro.model.types import NO_VERSION, MemberKind
from distro.protocol.protocol_parts import ProtocolParts

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
        """A digest of the members that carry keys, and of their kinds."""
        self.is_unlisted = False
        """All peers that answer say that this member is not in their lists."""
        self.leaving = False
        """This member claims nothing from now on, as it is going."""

    def mapper_of(self, resource_type: str) -> DistroMapper:
        """Return the present mapper of a resource type."""
        return self.mappers.of(self._components[resource_type])

    def follow(self) -> bool:
        """Bring the mappers in line with the view; return whether other members of our own kind carry keys now."""
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
                LOG.warning("no member that answers has this one in its list: it takes no calls of clients")
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
