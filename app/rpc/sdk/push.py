"""Pushes to gRPC clients on the worker's loop: events come from any thread, messages leave a few at a time."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from app.naming.clients.client_model import ServiceKey
from app.naming.model.nacos_errors import TooManyRequests
from app.naming.push.udp_subscribers import PushState
from app.rpc.sdk.service_messages import InfoVariant, ServiceInfos, TooLarge
from app.rpc.sdk.subscriptions import GrpcSubscriptions
from app.rpc.server.connections import Connection, Connections

LOG = logging.getLogger(__name__)
NO_ROOM_MS = 200
"""The time until a push is tried again that had no room next to the answers under way."""
WAIT_MS = 50
"""The time between two checks whether pushes may continue."""
WRITERS_PER_TURN = 8
"""The most clients whose message begins to be written in one turn of the loop, at some 0.15 ms each."""


class GrpcPusher:
    """Runs the schedule of pushes. ``changed`` and ``subscribed`` are called from any thread, everything else on the
    loop."""

    def __init__(
        self,
        subscriptions: GrpcSubscriptions,
        infos: ServiceInfos,
        connections: Connections,
        monotonic_ms: Callable[[], int],
        waits: Callable[[], bool] = lambda: False,
        on_pushed: Callable[[str, str], None] = lambda _namespace, _service: None,
    ) -> None:
        """``waits``: returns whether pushes wait now, as this node may hold the state from before a pause (R9).

        ``on_pushed``: called on the loop when the present state of a service is pushed to a client.
        """
        self._subscriptions = subscriptions
        self._infos = infos
        self._connections = connections
        self._now_ms = monotonic_ms
        self._waits = waits
        self._on_pushed = on_pushed
        self._changed: dict[ServiceKey, None] = {}
        """Services changed since the last turn, each once: at most as many as have subscriptions."""
        self._subscribed: dict[tuple[str, ServiceKey], None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._awake = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._sending: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Push from now on, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._turn()

    def stop(self) -> None:
        """Push nothing more. May be called twice."""
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()

    # --- from any thread -------------------------------------------------------------------------

    def changed(self, namespace: str, service: str) -> None:
        """Push a changed service to its subscriptions; nearly all changes are of services without any."""
        if self._subscriptions.has(key := (namespace, service)):
            self._changed[key] = None
            self._wake()

    def subscribed(self, key: ServiceKey, client_id: str) -> None:
        """Push the present state of a service to a client that subscribed for the first time."""
        self._subscribed[client_id, key] = None
        self._wake()

    def states(self, namespace: str, service: str) -> list[PushState]:
        """Return how far each subscriber of a service has followed its changes."""
        key = (namespace, service)
        is_new = key in self._changed
        found = self._subscriptions.states(key, self._now_ms())
        return [replace(one, is_under_way=True) for one in found] if is_new else found

    def _wake(self) -> None:
        loop = self._loop
        if loop is None or self._awake:
            return
        self._awake = True
        with suppress(RuntimeError):  # the loop has ended, and with it all connections
            loop.call_soon_threadsafe(self._turn)

    # --- on the loop -----------------------------------------------------------------------------

    def answered(self, client_id: str, request_id: str, went_well: bool) -> bool:
        """Take a client's answer to a request of ours; return whether it was a push."""
        is_push = self._subscriptions.answered(client_id, request_id, went_well, self._now_ms())
        if is_push and not went_well:
            self._schedule()
        return is_push

    async def take_pending(self, connection: Connection, key: ServiceKey) -> bytes | None:
        """Return the push of a service's present state to a client.

        None when the client unsubscribed, was shown the same before, or the message is too large. A push without room
        waits for its client once more.
        """
        one = self._subscriptions.find(connection.id, key)
        if one is None:
            return None
        try:
            info = await self._infos.get(key, InfoVariant(one.clusters))
            content = info.content(one.clusters)
            if self._subscriptions.find(connection.id, key) is not one or not self._subscriptions.is_news(one, content):
                return None
            message = self._infos.push(info, one.clusters)
        except TooLarge as error:
            LOG.warning("a push to %s is left out: %s", connection.id, error)
            return None
        except TooManyRequests:
            asyncio.get_running_loop().call_later(NO_ROOM_MS / 1_000, _wait_again, connection, key)
            return None
        self._subscriptions.sent(one, info.request_id, content, self._now_ms())
        self._on_pushed(*key)
        self._schedule()
        return message

    def _turn(self) -> None:
        self._awake = False  # before both are read: a later event wakes again
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
        if self._waits():
            self._timer_ms = self._now_ms() + WAIT_MS
            self._timer = self._loop.call_later(WAIT_MS / 1_000, self._tick)
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
        """Wake the writers of all clients with a push that is ready, a few in each turn of the loop."""
        try:
            for number, one in enumerate(self._subscriptions.ready()):
                if (connection := self._connections.get(one.client_id)) is not None:
                    connection.add_pending(one.key)
                if number % WRITERS_PER_TURN == WRITERS_PER_TURN - 1:
                    await asyncio.sleep(0)
        finally:
            self._sending = None


def _wait_again(connection: Connection, key: ServiceKey) -> None:
    if not connection.is_gone:
        connection.add_pending(key)
