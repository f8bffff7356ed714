"""How large a message may be before it is read: by its type, by its sender's right to it, and by its address."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.auth.access_control import AccessControl
from app.auth.member_calls import Callers
from app.naming.model.ip_addresses import caller_key
from app.naming.model.nacos_errors import NacosError
from app.peers.payload import Payload, begin_of
from app.rpc.server.connections import Connection
from app.rpc.server.grpc_messages import ANYBODYS_BYTES_MAX
from app.rpc.server.user_check import session_of

if TYPE_CHECKING:
    from app.rpc.server.grpc_routes import GrpcRoute

WINDOW_S = 10.0
UNPAID_BYTES_MAX = 8 << 20
"""The most unpaid bytes of one address in a window: some 25 ms of the event loop."""
ADDRESSES_MAX = 4_096
"""The addresses that are counted at a time; further addresses share one count."""
OTHERS = ""


class UnpackedBytes:
    """The bytes to which packed messages of each address grew within a window, beyond those of useful messages."""

    def __init__(self) -> None:
        self._begin_s = 0.0
        self._counts: dict[str, int] = {}

    def has_room(self, remote_ip: str, now_s: float) -> bool:
        """Return whether an address may have a further message unpacked."""
        if not self._counts:
            return True
        if now_s - self._begin_s >= WINDOW_S:
            self._counts.clear()
            return True
        return self._counts.get(self._key(remote_ip), 0) < UNPAID_BYTES_MAX

    def add(self, remote_ip: str, count: int, now_s: float) -> None:
        """Count bytes of a message."""
        if not self._counts:
            self._begin_s = now_s
        key = self._key(remote_ip)
        self._counts[key] = self._counts.get(key, 0) + count

    def _key(self, remote_ip: str) -> str:
        key = caller_key(remote_ip)
        return key if key in self._counts or len(self._counts) < ADDRESSES_MAX else OTHERS


class TypeBounds:
    """The bounds of messages by their types: large only where a type needs it, and its sender may make the call."""

    def __init__(self, routes: Mapping[str, "GrpcRoute"], callers: Callers, access: AccessControl | None) -> None:
        """``access``: None while authentication is off."""
        self._routes = routes
        self._callers = callers
        self._access = access

    def bytes_max(self, connection: Connection | None, begin: bytes) -> int:
        """Return the size that a message of a connection may have, by its beginning; a small one before the setup."""
        if connection is None or not connection.registered:
            return ANYBODYS_BYTES_MAX
        message = begin_of(begin)
        route = None if message is None else self._routes.get(message.type)
        if message is None or route is None or not self._may_be_large(connection, route, message):
            return ANYBODYS_BYTES_MAX
        return route.bytes_max

    def _may_be_large(self, connection: Connection, route: "GrpcRoute", message: Payload) -> bool:
        if route.bytes_max <= ANYBODYS_BYTES_MAX:
            return False
        if route.members_only:
            return connection.on_cluster_port and self._callers.may_be_large_over_grpc(
                message.type, message.headers, connection.remote_ip, connection.named
            )
        if self._access is None:
            return True
        try:
            session_of(self._access, route.access, message.headers)
        except NacosError:
            return False
        return True


class MessageBounds:
    """The bounds of the messages of one connection."""

    __slots__ = ("_types", "_unpacked", "client", "now_s", "remote_ip")

    def __init__(self, types: TypeBounds, unpacked: UnpackedBytes, now_s: float) -> None:
        self._types = types
        self._unpacked = unpacked
        self.now_s = now_s
        """The time when bytes came last. Set by the owner."""
        self.remote_ip = ""
        self.client: Connection | None = None
        """The client's data, once it made a call."""

    def bytes_max(self, begin: bytes) -> int:
        """Return the size that a message with this beginning may have."""
        return self._types.bytes_max(self.client, begin)

    def may_unpack(self) -> bool:
        """Return whether messages of this address may still be unpacked."""
        return self._unpacked.has_room(self.remote_ip, self.now_s)

    def on_unpaid(self, count: int) -> None:
        """Count bytes against the address."""
        self._unpacked.add(self.remote_ip, count, self.now_s)
