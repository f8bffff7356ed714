"""DistroMapper: the member that is responsible for a key, by Java's string hash over a list of members."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from distro.model.ports import Component

INT_MAX = 0x7FFFFFFF
HASH_CACHE_ENTRIES = 200_000


def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode``: ``h = 31 h + c`` over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8) + units[i + 1]) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


@lru_cache(HASH_CACHE_ENTRIES)
def distro_hash(tag: str) -> int:
    """The number of a tag whose remainder by the count of members is the index of the responsible one.

    Java's remainder keeps the sign of the dividend, and the absolute value is taken after it.
    Source: Nacos 1.4.1 DistroMapper.distroHash.
    """
    value = java_string_hash(tag)
    return abs(value) % INT_MAX


@dataclass(frozen=True, slots=True)
class DistroMapper:
    """The responsible member of each key, by one view: ``servers``, the ``ip:port`` of all that carry keys, sorted.

    A node that is not in the view while others are (its rejoin delay is not over) is responsible for nothing.
    """

    self_address: str
    servers: tuple[str, ...]
    standalone: bool = False

    @classmethod
    def over(cls, self_address: str, servers: Iterable[str], standalone: bool = False) -> "DistroMapper":
        """Return the mapper of a view in any order."""
        return cls(self_address, tuple(sorted(servers)), standalone)

    def responsible(self, tag: str) -> bool:
        """Return whether this node is responsible for the keys of this tag."""
        return self.standalone or self.map_srv(tag) == self.self_address

    def map_srv(self, tag: str) -> str:
        """Return the responsible member's address; the own one if no member is in the view."""
        if self.standalone or not self.servers:
            return self.self_address
        return self.servers[distro_hash(tag) % len(self.servers)]


class WriterMapper(DistroMapper):
    """For resource types whose keys belong to their writer: a key's tag is its member's address."""

    __slots__ = ()

    def responsible(self, tag: str) -> bool:
        """Return whether this node wrote the keys of this tag."""
        return tag == self.self_address

    def map_srv(self, tag: str) -> str:
        """Return the tag, which is the writer's address."""
        return tag


class Mappers(NamedTuple):
    """The mappers of one view of the members: resource types differ in the kinds of members that take them."""

    all_kinds: DistroMapper
    """Over all members that carry keys."""
    own_kind: DistroMapper
    """Over the Rollcall members among them."""
    writers: WriterMapper

    def of(self, component: Component) -> DistroMapper:
        """Return the mapper of a resource type."""
        if component.owned_by_writer:
            return self.writers
        return self.all_kinds if component.is_of_all_kinds else self.own_kind
