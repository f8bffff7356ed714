"""The requests that a gRPC port answers: the handler of each type, who may call it, and how large it may be.

SDKs send the same messages again and again: a message that came before is known by its bytes, and is read once.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.auth.access_rules import AccessRule, Action, Scope
from app.naming.model.json_fields import Fields
from app.naming.model.keys import JSON_VALUES_MAX
from app.peers.payload import Payload
from app.rpc.server.connections import Connection
from app.rpc.server.grpc_messages import ANYBODYS_BYTES_MAX

KNOWN_BYTES_MAX = 1_024
"""The most bytes of a kept message; a longer one is parsed each time. A registration has some 500 bytes."""
KNOWN_MAX = 4_096
"""The most messages in either half: with their parsed parts 20 MB at the most, some 8 MB for registrations of SDKs."""


class GrpcRequest(NamedTuple):
    """One call of a registered client: its connection and JSON fields."""

    connection: Connection
    fields: Fields
    token: str = ""
    """The user's token; empty while authentication is off."""
    known: "KnownMessage | None" = None
    """The message, on which a handler may note something for the next time that it comes."""


Handler = Callable[[GrpcRequest], Awaitable[Mapping[str, Any] | bytes]]
"""Returns the fields of the answer, or its whole message. Raises NacosError for a refusal."""
HotHandler = Callable[[Connection, "KnownMessage"], bytes | None]
"""Returns the kept answer to a message that came before; None if the handler must be called. It has no effects."""


@dataclass(frozen=True, slots=True)
class GrpcRoute:
    """The handler of a type of request, the type of its answer, and who may call it."""

    handler: Handler
    answer_type: str
    access: AccessRule
    hot: HotHandler | None = None
    bytes_max: int = ANYBODYS_BYTES_MAX
    """The size of the longest request; the port may take less."""
    bytes_per_value: int = 0
    """The fewest bytes per value in requests with many values: a long one may have more than ``JSON_VALUES_MAX``."""

    members_only: bool = field(init=False)
    """True if calls must come over the cluster port from a listed member's address; others are refused."""
    is_client_read: bool = field(init=False)
    """True if the answer shows data that this node holds."""
    is_client_write: bool = field(init=False)
    """True if a call counts against the writes of the client's address."""

    def __post_init__(self) -> None:
        # Each call asks for these, and Python 3.11 is slow to look a member up in its class.
        action, scope = self.access.action, self.access.scope
        object.__setattr__(self, "members_only", scope is Scope.MEMBERS)
        object.__setattr__(self, "is_client_read", action is Action.READ and scope is Scope.NAMING)
        is_write = action is Action.WRITE and scope in (Scope.NAMING, Scope.ADMIN)
        object.__setattr__(self, "is_client_write", is_write)


@dataclass(slots=True, eq=False)
class KnownMessage:
    """A parsed message, with the answer's route. Shared by all connections that send its bytes."""

    message: Payload
    route: GrpcRoute
    fields: Fields
    """The fields of its JSON, which no reader may change."""
    memo: Any = None
    """The results of the route's handler about the message, kept for its next time."""


class KnownMessages:
    """A bounded memo: it drops a message that did not come again while as many others came."""

    def __init__(self, messages_max: int = KNOWN_MAX) -> None:
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

    def read(self, data: bytes, message: Payload, route: GrpcRoute) -> KnownMessage:
        """Parse the message of these bytes, and keep it unless it is longer than ``KNOWN_BYTES_MAX``.

        Raises:
            PayloadError: its body is no JSON object, or has too many values.
        """
        values_max = len(message.body) // route.bytes_per_value if route.bytes_per_value else 0
        known = KnownMessage(message, route, Fields(message.json(max(JSON_VALUES_MAX, values_max))))
        if len(data) <= KNOWN_BYTES_MAX:
            self._put(data, known)
        return known

    def _put(self, data: bytes, known: KnownMessage) -> None:
        if len(self._young) >= self._messages_max:
            self._young, self._old = {}, self._young
        self._young[data] = known
