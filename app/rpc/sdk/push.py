"""Pushes on the worker's loop: events come from any thread, messages leave a few at a time."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from app.rpc.sdk.service_messages import InfoVariant, ServiceInfos, TooLarge
from app.rpc.sdk.subscriptions import GrpcSubscriptions
from app.rpc.server.connections import Connection, Connections
from app.rpc.server.ports import ServiceKey

LOG = logging.getLogger(__name__)
WRITERS_PER_TURN = 8
"""Messages that begin to be written in one turn of the loop, at some 0.15 ms each."""


class GrpcPusher:
    """Owns the board. ``changed`` and ``subscribed`` are called from any thread, all else on the loop."""

    def __init__(
        self,
        subscriptions: GrpcSubscriptions,
        infos: ServiceInfos,
        connections: Connections,
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._subscriptions = subscriptions
        self._infos = infos
        self._connections = connections
        self._now_ms = monotonic_ms
        self._changed: dict[ServiceKey, None] = {}
        """Told from other threads, each service once: as many as are subscribed to, at the most."""
        self._subscribed: dict[tuple[str, ServiceKey], None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._awake = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._sending: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on, on the loop that runs."""
        self._loop = asyncio.get_running_loop()
        self._turn()

    def stop(self) -> None:
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()

    # --- from any thread -------------------------------------------------------------------------

    def changed(self, namespace: str, service: str) -> None:
        """A service is another one now. Nearly all changes are nobody's business."""
        if self._subscriptions.has(key := (namespace, service)):
            self._changed[key] = None
            self._wake()

    def subscribed(self, key: ServiceKey, client_id: str) -> None:
        """A client subscribed for the first time: it is told of the service as it is."""
        self._subscribed[client_id, key] = None
        self._wake()

    def _wake(self) -> None:
        loop = self._loop
        if loop is None or self._awake:
            return
        self._awake = True
        with suppress(RuntimeError):  # the loop has ended, and with it all who would be told
            loop.call_soon_threadsafe(self._turn)

    # --- on the loop -----------------------------------------------------------------------------

    def answered(self, connection: Connection, request_id: str, went_well: bool) -> None:
        """A client answered a request of ours, a push or another."""
        if self._subscriptions.answered(connection.id, request_id, went_well, self._now_ms()) and not went_well:
            self._schedule()

    def forget(self, connection: Connection) -> None:
        """The client is gone."""
        self._subscriptions.forget(connection.id)

    async def take_pending(self, connection: Connection, key: ServiceKey) -> bytes | None:
        """The message that tells a client of a service as it is now; None when the client wants it no more."""
        one = self._subscriptions.find(connection.id, key)
        if one is None:
            return None
        try:
            info = await self._infos.get(key, InfoVariant(one.clusters))
        except TooLarge as error:
            LOG.warning("%s is not told: %s", connection.id, error)
            return None
        if self._subscriptions.find(connection.id, key) is not one:
            return None
        self._subscriptions.sent(one, info.request_id, self._now_ms())
        self._schedule()
        return info.message(self._infos.now_ms())

    def _turn(self) -> None:
        self._awake = False  # before the look: what comes after it wakes again
        now_ms = self._now_ms()
        for client_id, key in list(self._subscribed):
            del self._subscribed[client_id, key]
            self._subscriptions.add_pending(client_id, key)
        for key in list(self._changed):
            del self._changed[key]
            self._subscriptions.changed(key, now_ms)
        self._tick()

    def _tick(self) -> None:
        self._timer = None
        if self._loop is None:
            return
        self._subscriptions.tick(self._now_ms())
        self._schedule()
        if self._subscriptions.is_ready and self._sending is None:
            self._sending = self._loop.create_task(self._send())

    def _schedule(self) -> None:
        due_ms = self._subscriptions.next_due_ms()
        if due_ms is None or self._loop is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self._loop.call_later(max(due_ms - self._now_ms(), 1) / 1_000, self._tick)

    async def _send(self) -> None:
        """Wake the writers of all that are owed something, a few in each turn of the loop."""
        try:
            for number, one in enumerate(self._subscriptions.ready()):
                if (connection := self._connections.get(one.client_id)) is not None:
                    connection.add_pending(one.key)
                if number % WRITERS_PER_TURN == WRITERS_PER_TURN - 1:
                    await asyncio.sleep(0)
        finally:
            self._sending = None
