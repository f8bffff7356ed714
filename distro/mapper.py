"""Which member is responsible for a key: Java's string hash over one immutable list of members."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

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
    """The number that is taken modulo the count of members.

    Java's remainder keeps the sign of the dividend, and the absolute value is taken after it.
    Source: Nacos 1.4.1 DistroMapper.distroHash.
    """
    value = java_string_hash(tag)
    return abs(value) % INT_MAX


@dataclass(frozen=True, slots=True)
class DistroMapper:
    """Answers who is responsible, for one state of the member list.

    ``servers`` holds the ``ip:port`` of the members that carry keys, in code-unit order. A node that is not in the list
    while others are (it waits to come back) is responsible for nothing.
    """

    self_address: str
    servers: tuple[str, ...]
    standalone: bool = False

    @classmethod
    def over(cls, self_address: str, servers: Iterable[str], standalone: bool = False) -> "DistroMapper":
        return cls(self_address, tuple(sorted(servers)), standalone)

    def responsible(self, tag: str) -> bool:
        """Whether this node is the one that may change the key."""
        return self.standalone or self.map_srv(tag) == self.self_address

    def map_srv(self, tag: str) -> str:
        """The responsible member's address; the own one when nobody else is there to ask."""
        if self.standalone or not self.servers:
            return self.self_address
        return self.servers[distro_hash(tag) % len(self.servers)]


class WriterMapper(DistroMapper):
    """For keys that belong to who wrote them: their tag is that member's address."""

    __slots__ = ()

    def responsible(self, tag: str) -> bool:
        return tag == self.self_address

    def map_srv(self, tag: str) -> str:
        return tag
