"""Messages of calls that came before, by their bytes: SDKs send the same again and again, and it is read once."""

from typing import TYPE_CHECKING, Any

from app.naming.model.json_fields import Fields
from app.peers.payload import Payload

if TYPE_CHECKING:
    from app.rpc.server.grpc_routes import GrpcRoute

MESSAGE_BYTES_MAX = 1_024
"""The most bytes of a kept message; a longer one is parsed each time. A registration has some 500 bytes."""
MESSAGES_MAX = 4_096
"""The most messages in either half: with their parsed parts 20 MB at the most, some 8 MB for registrations of SDKs."""


class KnownMessage:
    """A parsed message, with the answer's route. Shared by all connections that send its bytes."""

    __slots__ = ("fields", "memo", "message", "route")

    def __init__(self, message: Payload, route: "GrpcRoute", fields: Fields) -> None:
        self.message = message
        self.route = route
        self.fields = fields
        """The fields of its JSON, which no reader may change."""
        self.memo: Any = None
        """The results of the route's handler about the message, kept for its next time."""


class KnownMessages:
    """A bounded memo: it drops a message that did not come again while as many others came."""

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        self._messages_max = messages_max
        self._young: dict[bytes, KnownMessage] = {}
        self._old: dict[bytes, KnownMessage] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, data: bytes) -> KnownMessage | None:
        """Return the message of these bytes, or None if they did not come before."""
        found = self._young.get(data)
        if found is None and (found := self._old.pop(data, None)) is not None:
            self._put(data, found)
        return found

    def add(self, data: bytes, message: Payload, route: "GrpcRoute", fields: Fields) -> KnownMessage:
        """Keep the message of these bytes, unless it is longer than ``MESSAGE_BYTES_MAX``."""
        known = KnownMessage(message, route, fields)
        if len(data) <= MESSAGE_BYTES_MAX:
            self._put(data, known)
        return known

    def _put(self, data: bytes, known: KnownMessage) -> None:
        if len(self._young) >= self._messages_max:
            self._young, self._old = {}, self._young
        self._young[data] = known
