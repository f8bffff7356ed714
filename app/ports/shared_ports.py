"""What every frontend asks of the node."""

from collections.abc import Callable, Mapping
from typing import Protocol

from distro.model.types import Member, MemberState

ReadCounters = Callable[[], Mapping[str, int | float]]
"""Reads ``cpu``, ``load``, ``mem`` and the counters of all parts, for the metrics endpoint."""


class MemberDirectory(Protocol):
    """The member list, as this node sees it."""

    self_address: str
    is_behind: bool
    """This process stood still, and has not compared its data with a peer's since: no read is to be answered (R9)."""
    check_pause: Callable[[], None]
    """Notices that this process stood still. To be called on the loop's thread before what was read is answered."""

    def stood_still(self) -> None:
        """Compare with a peer before reads are answered, as this process stood still. Returns at once."""
        ...

    def members(self) -> list[Member]:
        """All members with this node among them, by address."""
        ...

    def state(self) -> MemberState:
        """This node's state; STARTING until the other members' data is loaded."""
        ...

    def unready_reason(self) -> str:
        """Why this node does not serve, in words for an operator; empty while it does."""
        ...

    def is_listed(self, remote_ip: str) -> bool:
        """Whether ``remote_ip`` is the address of a listed member; standalone there is none."""
        ...

    def is_heard(self, remote_ip: str) -> bool:
        """Whether datums may come from ``remote_ip``: of a member that is listed, or was until lately."""
        ...

    def is_over(self, deadline: str) -> bool:
        """Whether a call of a member with this deadline may not be executed any more (R13)."""
        ...
