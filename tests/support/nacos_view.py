"""The part of the engine's view that the index of HTTP instances reads, for tests without an engine."""

from distro.members.mapper import DistroMapper
from distro.model.types import CAPABILITY_CLIENTS_ONLY, CAPABILITY_VERSIONS, Member, MemberState

REAL = "10.0.0.9:8848"


class NacosView:
    """A view with a real Nacos of 2.x, unless ``has_nacos`` is False; ``servers`` are the members of our own kind."""

    def __init__(self, self_address: str, *servers: str) -> None:
        self.self_address = self_address
        self.servers = servers
        self.loading = False
        self.has_nacos = True

    @property
    def members(self) -> "NacosView":
        return self

    @property
    def listed(self) -> list[Member]:
        kind = CAPABILITY_CLIENTS_ONLY if self.has_nacos else CAPABILITY_VERSIONS
        return [Member(REAL, MemberState.UP, frozenset({kind}))]

    @property
    def own_mapper(self) -> DistroMapper:
        return DistroMapper.over(self.self_address, self.servers)
