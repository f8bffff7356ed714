"""The requests that a gRPC port answers: the handler of each type, who may call it, and how large it may be."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.auth.access_rules import AccessRule, Action, Scope
from app.naming.model.json_fields import Fields
from app.naming.model.value_limits import JSON_VALUES_MAX
from app.rpc.server.connections import Connection
from app.rpc.server.grpc_messages import ANYBODYS_BYTES_MAX
from app.rpc.server.known_messages import KnownMessage


class GrpcRequest(NamedTuple):
    """One call of a registered client: its connection and JSON fields."""

    connection: Connection
    fields: Fields
    token: str = ""
    """The user's token; empty while authentication is off."""
    known: KnownMessage | None = None
    """The message, on which a handler may note something for the next time that it comes."""


Handler = Callable[[GrpcRequest], Awaitable[Mapping[str, Any] | bytes]]
"""Returns the fields of the answer, or its whole message. Raises NacosError for a refusal."""
Quick = Callable[[Connection, KnownMessage], bytes | None]
"""Returns the kept answer to a message that came before; None if the handler must be called. It has no effects."""


@dataclass(frozen=True, slots=True)
class GrpcRoute:
    """The handler of a type of request, the type of its answer, and who may call it."""

    handler: Handler
    answer_type: str
    access: AccessRule
    quick: Quick | None = None
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

    def structure_max(self, body: bytes) -> int:
        """Return the most commas and brackets that a request with this body may have."""
        return max(JSON_VALUES_MAX, len(body) // self.bytes_per_value if self.bytes_per_value else 0)
