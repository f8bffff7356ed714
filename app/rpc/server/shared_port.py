"""The resources that the connections of one gRPC port share, as they see them."""

import asyncio
from typing import Any, Protocol

from app.machine.limits.answer_budget import AnswerBudget
from app.machine.process.loop_parts import TurnSends
from app.rpc.server.client_stream import ClientStream, TakePending
from app.rpc.server.connections import Connections
from app.rpc.server.control_credit import KeptBytes
from app.rpc.server.dispatcher import Dispatcher
from app.rpc.server.http2 import Http2Limits
from app.rpc.server.message_bounds import UnpackedBytes


class Port(Protocol):
    """The resources that all connections of a port share."""

    connections: Connections
    dispatcher: Dispatcher
    take_pending: TakePending
    limits: Http2Limits
    on_cluster_port: bool
    answers: AnswerBudget
    """The budget of all ports."""
    kept: KeptBytes
    unpacked: UnpackedBytes
    kept_bytes_max: int
    """The most bytes that are kept for one connection."""
    keep_alive_s: float
    keep_alive_timeout_s: float
    loop: asyncio.AbstractEventLoop
    sends: TurnSends

    def opened(self, transport: Any) -> bool:
        """Return whether there is room for one more connection."""
        ...

    def closed(self, transport: Any) -> None: ...

    def begin_call(self) -> bool:
        """Count a call that waits; return False when there are too many."""
        ...

    def end_call(self) -> None: ...

    def soon(self, stream: ClientStream) -> None:
        """Have ``go_on`` called in a later turn of the loop."""
        ...
