"""What every frontend asks of the node."""

from collections.abc import Mapping
from typing import Protocol

from app.config.settings import Settings
from app.naming.records.durable_service import DurableService
from app.naming.service import NamingService
from distro.types import Member, MemberState


class MemberDirectory(Protocol):
    """The member list, as this node sees it."""

    self_address: str

    def members(self) -> list[Member]:
        """All members with this node among them, by address."""
        ...

    def state(self) -> MemberState:
        """This node's state; STARTING until the other members' data is loaded."""
        ...

    def is_listed(self, remote_ip: str) -> bool:
        """Whether peers may call from ``remote_ip``: a listed member's address; when standalone, any loopback one."""
        ...


class NodeServices(Protocol):
    """The parts of a node that every frontend uses."""

    @property
    def settings(self) -> Settings: ...

    @property
    def naming(self) -> NamingService: ...

    @property
    def durable(self) -> DurableService: ...

    def counters(self) -> Mapping[str, int | float]:
        """``cpu``, ``load``, ``mem`` and the counters of all parts, for the metrics endpoint."""
        ...

    def wall_ms(self) -> int: ...
