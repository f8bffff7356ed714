"""The connections that a node keeps: one budget for all its ports, of which each has a part for itself.

A connection takes from the part that its kind has for itself, and beyond it from what all share. So a flood of one kind
uses what the others leave, and never what they keep: gRPC is full, and HTTP still answers.
"""

from app.config.settings import Settings
from app.process.open_files import CONNECTIONS_MAX, MEMBERS_MAX, UNREGISTERED_MAX, room_for_connections

KEPT_PART = 8
"""Each kind of clients keeps an eighth of all for itself,"""
KEPT_LEAST = 256
"""or so many, when that is more,"""
KEPT_PART_MAX = 4
"""but never more than a quarter."""
KEPT_FOR_MEMBERS = 256
"""For members, or half of what a kind of clients keeps: each has a connection over gRPC, and a few over HTTP."""


class Share:
    """The connections of one kind. Used on the loop's thread; ``count`` and ``refused`` are read from any."""

    __slots__ = ("_room", "count", "kept", "most", "refused")

    def __init__(self, room: "ConnectionRoom", kept: int, most: int) -> None:
        """``kept``: those for which there always is room. ``most``: there are never more, whatever is free."""
        self._room = room
        self.kept = kept
        self.most = most
        self.count = 0
        self.refused = 0
        """Counted by those who refuse."""

    @property
    def possible(self) -> int:
        """The most that there may be while the other kinds have no more than they keep."""
        return min(self.most, self.kept + self._room.shared)

    def take(self) -> bool:
        """Count a connection more; False when there is no room."""
        if self.count >= self.kept:
            if not self._room.free or self.count >= self.most:
                return False
            self._room.free -= 1
        self.count += 1
        return True

    def give_back(self) -> None:
        """Count a connection no more."""
        assert self.count, "more connections ended than began"
        if self.count > self.kept:
            self._room.free += 1
        self.count -= 1

    def bound(self, most: int) -> None:
        """Let there be no more than ``most``, and not before there is any; what is kept beyond is for all kinds."""
        self.most = min(self.most, most)
        beyond = max(self.kept - self.most, 0)
        self.kept -= beyond
        self._room.shared += beyond
        self._room.free += beyond


class ConnectionRoom:
    """The shares of all kinds of connections."""

    def __init__(self, total: int | None = None, *, has_grpc: bool = True, has_members: bool = True) -> None:
        """``total``: of all kinds together; None for as many as they may ever have."""
        most_of_grpc = CONNECTIONS_MAX + UNREGISTERED_MAX if has_grpc else 0
        most_of_all = CONNECTIONS_MAX + most_of_grpc + MEMBERS_MAX
        self.total = most_of_all if total is None else min(total, most_of_all)
        kept = max(self.total // KEPT_PART, min(KEPT_LEAST, self.total // KEPT_PART_MAX))
        self.http = Share(self, kept, CONNECTIONS_MAX)
        self.grpc = Share(self, kept if has_grpc else 0, most_of_grpc)
        self.members = Share(self, min(kept // 2, KEPT_FOR_MEMBERS) if has_members else 0, MEMBERS_MAX)
        """The port of members, and their connections to that of HTTP."""
        self.shared = self.total - self.http.kept - self.grpc.kept - self.members.kept
        """What no kind keeps for itself."""
        self.free = self.shared
        """What is left of it."""

    def take_http(self, *, is_member: bool) -> Share | None:
        """Count a connection over HTTP, and return where; None when there is no room."""
        if is_member and self.members.take():
            return self.members
        return self.http if self.http.take() else None

    def counters(self) -> dict[str, int]:
        """What is taken, free and refused, under names of metrics in snake_case; HTTP counts its own."""
        return {
            "connections_free": self.free,
            "rpc_transports": self.grpc.count,
            "rpc_connections_refused": self.grpc.refused,
            "member_connections": self.members.count,
            "member_connections_refused": self.members.refused,
        }


def build_room(settings: Settings) -> ConnectionRoom:
    """Make the room of one node, by the limit of open files, which the process has raised by now."""
    return ConnectionRoom(
        room_for_connections(), has_grpc=settings.rpc is not None, has_members=not settings.standalone
    )
