"""The connections that a node accepts: one budget for all its ports, with a reserve for every kind.

A connection first takes from its reserve, and then from the shared rest. So a flood of one kind uses up
what is shared, and never the reserves of the others: gRPC is full, and HTTP still answers.
"""

from app.config.settings import Settings
from app.machine.process.open_files import CONNECTIONS_MAX, MEMBERS_MAX, UNREGISTERED_MAX, room_for_connections

KEPT_PART = 8
"""Each kind of clients has a reserve of an eighth of all connections."""
KEPT_LEAST = 256
"""The least reserve of a kind, where an eighth is less."""
KEPT_PART_MAX = 4
"""No reserve is more than a quarter of all connections."""
KEPT_FOR_MEMBERS = 256
"""The reserve for members, at most half of a kind's: each member has one gRPC and a few HTTP connections."""


class Share:
    """The connections of a single kind. Used on the loop's thread; any thread may read ``count`` and ``refused``."""

    __slots__ = ("_room", "count", "kept", "most", "refused")

    def __init__(self, room: "ConnectionRoom", kept: int, most: int) -> None:
        """``kept``: the reserve, which is always free for this kind. ``most``: the upper bound."""
        self._room = room
        self.kept = kept
        self.most = most
        self.count = 0
        self.refused = 0
        """Refused connections, counted by the callers."""

    @property
    def possible(self) -> int:
        """The most connections of this kind while the other kinds use only their reserves."""
        return min(self.most, self.kept + self._room.shared)

    def take(self) -> bool:
        """Count one more connection. Return False if there is no room."""
        if self.count >= self.kept:
            if not self._room.free or self.count >= self.most:
                return False
            self._room.free -= 1
        self.count += 1
        return True

    def give_back(self) -> None:
        """Count the end of a connection."""
        assert self.count, "more connections ended than began"
        if self.count > self.kept:
            self._room.free += 1
        self.count -= 1

    def bound(self, most: int) -> None:
        """Set the bound to ``most``, before there is any connection. Reserve beyond it becomes shared."""
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
        """The members' connections: those to their gRPC port, and those to the HTTP port."""
        self.shared = self.total - self.http.kept - self.grpc.kept - self.members.kept
        """The connections that no kind has in reserve."""
        self.free = self.shared
        """The shared connections that are free."""

    def take_http(self, *, is_member: bool) -> Share | None:
        """Count a connection over HTTP. Return its share; None if there is no room."""
        if is_member and self.members.take():
            return self.members
        return self.http if self.http.take() else None

    def counters(self) -> dict[str, int]:
        """Return taken, free and refused connections, under names of metrics in snake_case. HTTP counts its own."""
        return {
            "connections_free": self.free,
            "rpc_transports": self.grpc.count,
            "rpc_connections_refused": self.grpc.refused,
            "member_connections": self.members.count,
            "member_connections_refused": self.members.refused,
        }


def build_room(settings: Settings) -> ConnectionRoom:
    """Make the connection room of a node, by the limit of open files, which the process has raised by now."""
    return ConnectionRoom(
        room_for_connections(), has_grpc=settings.rpc is not None, has_members=not settings.standalone
    )
