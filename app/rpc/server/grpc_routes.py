"""The requests that a gRPC port answers: the handler of each type, who may call it, and how large it may be.

SDKs send the same messages again and again: a message that came twice is known by its bytes, and is read no more.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.auth.access_rules import AccessRule, Action, Scope
from app.naming.model.json_fields import Fields
from app.peers.payload import Payload
from app.rpc.server.connections import Connection
from app.rpc.server.grpc_messages import ANYBODYS_BYTES_MAX

KNOWN_BYTES_MAX = 1_024
"""The most bytes of a kept message; a longer one is parsed each time. A registration has some 500 bytes."""
ENTRY_BYTES, VALUE_BYTES = 1_000, 96
"""The memory of a kept message next to its body, with the results of its handler, and of each value in the body."""


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
    """The handler of a type of request, the type of its answer, and the right that it needs."""

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
    used: bool = True


class MessageKeeper:
    """Makes the messages that a memo keeps: all that came before, as the bytes of each decide its meaning."""

    def keep(self, data: bytes, known: KnownMessage) -> tuple[KnownMessage, int]:
        """Return a message, and the bytes of memory that it takes with its parsed fields."""
        return known, _bytes_of(known)

    def drop(self, data: bytes, known: KnownMessage) -> int:
        """Return the bytes of memory that a message frees."""
        return _bytes_of(known)


def _bytes_of(known: KnownMessage) -> int:
    body, headers = known.message.body, len(known.message.headers)
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    return ENTRY_BYTES + len(body) + VALUE_BYTES * (values + headers)
