"""What every frontend asks of the member list."""

from typing import Protocol

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
