"""One client's stream: writes one message at a time, as fast as the client reads."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from app.machine.process.loop_parts import begin
from app.naming.clients.client_model import ServiceKey
from app.rpc.server.connections import Connection
from app.rpc.server.grpc_messages import UNAVAILABLE

LOG = logging.getLogger(__name__)
GRACE_S = 1.0
"""The time that a client has to read the messages that wait for it when its stream is ended."""
GO_ELSEWHERE = "this server ends the connection, please connect to another one"

TakePending = Callable[[Connection, ServiceKey], Awaitable[bytes | None]]
"""Returns the push message of a service with its current state; None when the client no longer needs it."""


class StreamWriter(Protocol):
    """The transport of a stream."""

    def can_send(self, stream_id: int) -> bool:
        """Return whether a message would leave now; else ``ClientStream.go_on`` is called when one would."""
        ...

    def send(self, stream_id: int, message: bytes) -> None: ...

    def end_stream(self, stream_id: int, status: int, text: str) -> None: ...

    def soon(self, stream: "ClientStream") -> None:
        """Have ``go_on`` called in a later turn of the loop."""
        ...


class ClientStream:
    """Writes the messages that wait in a client's connection, one after the other. Used on the loop's thread."""

    __slots__ = (
        "_building",
        "_cutting",
        "_id",
        "_is_due",
        "_take_pending",
        "_writer",
        "connection",
        "ending",
        "is_over",
    )

    def __init__(
        self, connection: Connection, stream_id: int, writer: StreamWriter, take_pending: TakePending
    ) -> None:  # fmt: skip
        self.connection = connection
        self._id = stream_id
        self._writer = writer
        self._take_pending = take_pending
        self._building: asyncio.Task[bytes | None] | None = None
        self._is_due = False
        self._cutting: asyncio.TimerHandle | None = None
        self.ending = False
        self.is_over = False

    @property
    def has_news(self) -> bool:
        """True if a message waits to be written, or the stream is to end."""
        return self.ending or bool(self.connection.controls or self.connection.pending)

    def wake(self) -> None:
        if not self._is_due and not self.is_over and self._building is None:
            self._is_due = True
            self._writer.soon(self)

    def end(self) -> None:
        """End the stream with an error; messages that wait are written before, if the client takes them soon."""
        if self.ending or self.is_over:
            return
        self.ending = True
        self._cutting = asyncio.get_running_loop().call_later(GRACE_S, self.cut)
        self.wake()

    def cut(self) -> None:
        """End the stream with an error now; messages that wait are dropped."""
        if not self.is_over:
            self.forget()
            # Some SDKs do not notice the end of a stream with status OK.
            self._writer.end_stream(self._id, UNAVAILABLE, GO_ELSEWHERE)

    def forget(self) -> None:
        """Drop the messages that wait, as the stream is over."""
        self.is_over = True
        if self._building is not None:
            self._building.cancel()
        if self._cutting is not None:
            self._cutting.cancel()
        self.connection.controls.clear()
        self.connection.pending.clear()
        self.connection.stream = None

    def go_on(self) -> None:
        """Write the messages that wait, until the client has to read."""
        self._is_due = False
        connection = self.connection
        while not self.is_over and self._building is None and self._writer.can_send(self._id):
            if connection.controls:
                self._writer.send(self._id, connection.controls.popleft())
            elif connection.pending:
                key = next(iter(connection.pending))
                del connection.pending[key]
                self._push(key)
            else:
                if self.ending:
                    self.cut()
                return

    def _push(self, key: ServiceKey) -> None:
        try:
            message = begin(self._build(key), self._on_building)
        except Exception:
            self._fail()
            return
        if message is not None:
            self._writer.send(self._id, message)

    async def _build(self, key: ServiceKey) -> bytes | None:
        return await self._take_pending(self.connection, key)

    def _on_building(self, task: asyncio.Task[bytes | None]) -> None:
        self._building = task
        task.add_done_callback(self._on_built)

    def _on_built(self, task: asyncio.Task[bytes | None]) -> None:
        self._building = None
        if task.cancelled() or self.is_over:
            return
        try:
            message = task.result()
        except Exception:
            self._fail()
            return
        if message is not None:
            self._writer.send(self._id, message)
        self.wake()

    def _fail(self) -> None:
        LOG.exception("writing to %s failed unexpectedly", self.connection.id)
        self.cut()
