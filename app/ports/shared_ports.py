"""The interfaces of the node that every frontend uses."""

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

    def members(self) -> list[Member]:
        """All members with this node among them, by address."""
        ...

    def state(self) -> MemberState:
        """This node's state; STARTING until the other members' data is loaded."""
        ...

    def unready_reason(self) -> str:
        """Return why this node does not serve, for an operator to read; empty while it serves."""
        ...

    def is_over(self, deadline: str) -> bool:
        """Return whether it is too late to execute a member's call with this deadline (R13)."""
        ...
