"""Pushes of fuzzy watches on the worker's loop: changes come from any thread, messages leave a few at a time.

Source of the messages: Nacos 3.0.3 NamingFuzzyWatchSyncRequest and NamingFuzzyWatchChangeNotifyRequest.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from app.naming.clients.client_model import ServiceKey
from app.naming.registry.service_table import ServiceTable
from app.naming.registry.union import has_instances
from app.peers import payload as wire
from app.rpc.sdk.fuzzy_state import ServiceNames, WatchingClient
from app.rpc.sdk.fuzzy_watches import FuzzyWatches
from app.rpc.server.connections import Connections
from app.rpc.server.fuzzy_pattern import service_key

LOG = logging.getLogger(__name__)
SLICE_S = 0.002
"""The time for changes and messages in one piece; then the loop runs its other callbacks."""
WAIT_MS = 50
"""The time between two checks whether pushes may continue."""
SHARED_MAX = 1_000
"""The most messages that are kept for further clients."""
CHANGE, NAMES = "NamingFuzzyWatchChangeNotifyRequest", "NamingFuzzyWatchSyncRequest"
CHANGED, FIRST_NAMES, END_OF_FIRST, DIFFERENCE = (
    "FUZZY_WATCH_RESOURCE_CHANGED",
    "FUZZY_WATCH_INIT_NOTIFY",
    "FINISH_FUZZY_WATCH_INIT_NOTIFY",
    "FUZZY_WATCH_DIFF_SYNC_NOTIFY",
)
"""The values of ``syncType``: of a change, of a client's first list, of that list's end, of a later list."""
ADDED, REMOVED = "ADD_SERVICE", "DELETE_SERVICE"
"""The values of ``changedType``. Nacos has two more, ``INSTANCE_CHANGED`` and ``HEART_BEAT``, and sends neither."""


class FuzzyPusher:
    """Sends watching clients what comes and goes. ``changed`` is called from any thread, everything else on the
    loop."""

    def __init__(
        self,
        watches: FuzzyWatches,
        table: ServiceTable,
        connections: Connections,
        monotonic_ms: Callable[[], int],
        waits: Callable[[], bool] = lambda: False,
    ) -> None:
        """``waits``: returns whether pushes wait now, as this node may hold the state from before a pause (R9)."""
        self._watches = watches
        self._table = table
        self._connections = connections
        self._now_ms = monotonic_ms
        self._waits = waits
        self._changed: dict[ServiceKey, None] = {}
        """Services of watched namespaces that changed since the last turn, each once."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._awake = False
        self._running: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._shared: dict[tuple[ServiceKey, bool], tuple[str, bytes]] = {}
        """The messages of changes in the present run, with their request ids: all clients get the same bytes."""

    def start(self) -> None:
        """Push from now on, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self.go_on()

    def stop(self) -> None:
        """Push nothing more. May be called twice."""
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            self._running.cancel()

    def changed(self, namespace: str, service: str) -> None:
        """Look whether a service came or went that changed. Callable from any thread."""
        if namespace not in self._watches.namespaces:
            return
        self._changed[namespace, service] = None
        loop = self._loop
        if loop is not None and not self._awake:
            self._awake = True
            with suppress(RuntimeError):  # the loop has ended, and with it all connections
                loop.call_soon_threadsafe(self.go_on)

    # --- on the loop -----------------------------------------------------------------------------

    def answered(self, client_id: str, request_id: str, went_well: bool) -> None:
        """Take a client's answer to a request of ours, of a fuzzy watch or another."""
        if self._watches.answered(client_id, request_id, went_well, self._now_ms()):
            self.go_on()

    def go_on(self) -> None:
        """Send all ready messages, unless that is under way."""
        self._awake = False  # before the changes are read: a later one wakes again
        if self._loop is not None and self._running is None:
            self._running = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            due_ms = await self._send_all()
        except Exception:
            LOG.exception("sending to fuzzy watches failed unexpectedly")
            due_ms = self._now_ms() + WAIT_MS
        finally:
            self._running = None
            self._shared.clear()
        self._schedule(due_ms)

    async def _send_all(self) -> int | None:
        """Send everything that is ready, in slices; return when to come again."""
        begun_s = time.perf_counter()
        while self._changed or self._watches.is_ready:
            if self._waits():
                return self._now_ms() + WAIT_MS
            while self._changed:
                key, _ = self._changed.popitem()  # before it is read: a later change adds it again
                self._watches.look(key, has_instances(self._table.get(*key)))
                begun_s = await breathe(begun_s)
            for watcher in self._watches.ready():
                self._send(watcher)
                begun_s = await breathe(begun_s)
        self._watches.tick(self._now_ms())
        return self._now_ms() if self._watches.is_ready else self._watches.next_due_ms()

    def _schedule(self, due_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None and self._loop is not None:
            self._timer = self._loop.call_later(max(due_ms - self._now_ms(), 1) / 1_000, self.go_on)

    def _send(self, watcher: WatchingClient) -> None:
        connection = self._connections.get(watcher.client_id)
        if connection is None:
            return
        while connection.has_room:
            if (one := self._watches.take(watcher)) is None:
                return
            if one.batch is not None:
                request_id, message = self._names_message(one.batch)
            else:
                assert one.key is not None
                request_id, message = self._change_message(one.key)
            connection.offer(message)
            self._watches.sent(one, request_id, self._now_ms())
        self._watches.hold(watcher, self._now_ms())

    def _change_message(self, key: ServiceKey) -> tuple[str, bytes]:
        is_there = self._watches.is_there(key)
        if (made := self._shared.get((key, is_there))) is None:
            if len(self._shared) >= SHARED_MAX:
                self._shared.clear()
            request_id = self._connections.next_request_id()
            body = wire.request_body(
                requestId=request_id,
                module="naming",
                syncType=CHANGED,
                serviceKey=service_key(*key),
                changedType=ADDED if is_there else REMOVED,
            )
            made = self._shared[key, is_there] = request_id, wire.encode(CHANGE, body)
        return made

    def _names_message(self, names: ServiceNames) -> tuple[str, bytes]:
        """Return the message of the next batch, or of the end of a first list, with its request id."""
        is_end = names.at >= len(names.names)
        space, request_id = names.pattern.namespace, self._connections.next_request_id()
        body = wire.request_body(
            requestId=request_id,
            module="naming",
            syncType=END_OF_FIRST if is_end else FIRST_NAMES if names.is_first else DIFFERENCE,
            groupKeyPattern=names.pattern.text,
            contexts=[
                {"serviceKey": service_key(space, name), "changedType": ADDED if is_there else REMOVED}
                for name, is_there in self._watches.batch(names)
            ],
            totalBatch=1 if is_end else names.total,
            currentBatch=1 if is_end else names.number,
        )
        return request_id, wire.encode(NAMES, body)


async def breathe(begun_s: float) -> float:
    """Give the loop a turn if the slice is over; return when the present slice began."""
    if time.perf_counter() - begun_s < SLICE_S:
        return begun_s
    await asyncio.sleep(0)
    return time.perf_counter()
