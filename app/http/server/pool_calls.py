"""Calls that may block: the server's pools of threads, which of them a call belongs to, and its way to its reply."""

import asyncio
import enum
from contextlib import suppress
from time import perf_counter
from typing import Any

from app.auth.member_calls import Caller
from app.http.api.answers import text_reply
from app.http.api.call import ADDRESS, AGAIN_MS, LOGIN_WAIT, READ, ROUTE, Reply, Route, Services
from app.http.api.parse_memo import PASSWORD
from app.http.server.call_pool import CallPool
from app.http.server.connection import HttpConnection
from app.http.server.http_messages import LOOP_FORM_BYTES_MAX, AnyRequest
from app.http.server.wsgi_bridge import WsgiApp, WsgiRun, make_environ
from app.metrics.access_log import AccessLog
from app.metrics.instruments import NO_ROUTE

QUEUED_PER_THREAD = 8
"""Calls that may wait for a pool, for each of its threads."""
PEER_THREADS = 8
FORM_THREADS = 2
READ_THREADS = 4
"""Few, as reads compute and do not wait: more at a time gain nothing, and between two turns of the loop each may
compute for a switch interval. With a thread each, eight clients on cold pages made the p99 of beats 150 to 700 ms."""
POOL_FULL = text_reply(503, "too many requests are under way, please try another server")
REFUSED = 429
"""From this status on an answer is this node's will: a limit or a failure, and no fault of the request."""
READS = (b"GET", b"HEAD")
WAITING_READS = (
    "/v1/ns/service/subscribers",
    "/v1/ns/service/versions",
    "/v1/ns/service/beats",
    "/v1/ns/explain",
    "/v1/ns/link/list",
    "/v1/ns/operator/client",
    "/v1/ns/api/clientBeat",
    "/v2/core/loader/cluster",
    "/v2/core/loader/smartReloadCluster",
    "/v3/admin/core/loader/cluster",
    "/v3/admin/ns/service/subscribers",
    "/v3/console/ns/service/subscribers",
)
"""Reads that ask other members: they wait, and belong to ``http-people``. Pages of the console may, too."""
CONSOLE_PATH = "/console/"
PEER_PATHS = ("/v1/ns/distro/", "/v1/core/cluster/report", "/v1/ns/operator/cluster/state")


class PoolKind(enum.Enum):
    """The pools of a server."""

    PEOPLE = enum.auto()
    """Calls that may wait."""
    READERS = enum.auto()
    """Reads, which compute."""
    PEERS = enum.auto()
    """Calls of members."""
    FORMS = enum.auto()
    """Calls of clients with a large body."""


class PoolChoice:
    """The choice under one context path."""

    def __init__(self, context_path: str) -> None:
        self._peer_paths = tuple((context_path + path).encode() for path in PEER_PATHS)
        waiting = (*(context_path + path for path in (*WAITING_READS, CONSOLE_PATH)), *WAITING_READS)
        self._waiting_reads = tuple(path.encode() for path in waiting)
        self._front_page = f"{context_path}/".encode()

    def kind_of(self, request: AnyRequest, caller: Caller) -> PoolKind:
        """The pool that answers a request."""
        target = request.target
        if caller.is_recent and (request.block.claims_member or target.startswith(self._peer_paths)):
            return PoolKind.PEERS
        if len(request.body) > LOOP_FORM_BYTES_MAX and not caller.is_recent:
            return PoolKind.FORMS
        waits = target.startswith(self._waiting_reads) or PASSWORD in target or target == self._front_page
        if request.method in READS and not waits:
            return PoolKind.READERS
        return PoolKind.PEOPLE


class PoolCalls:
    """Answers calls by a WSGI application, each on a thread of its pool. Used on the loop's thread."""

    def __init__(self, app: WsgiApp, services: Services, loop: asyncio.AbstractEventLoop) -> None:
        settings = services.settings
        self._app = app
        self._services = services
        self._loop = loop
        self._stats = services.http
        self._limits_writes = bool(services.addresses.writes_per_s)
        self._counted = services.instruments.http
        self._counts = services.instruments.counts_requests
        self._access_log = services.instruments.access_log
        self._address = (settings.host or "0.0.0.0", settings.port)
        self._choice = PoolChoice(settings.context_path)
        room = settings.http_threads * (1 + QUEUED_PER_THREAD)
        self._people = CallPool("http-people", settings.http_threads, room)
        self._readers = CallPool("http-read", min(READ_THREADS, settings.http_threads), room)
        self._peers = CallPool("http-peer", PEER_THREADS, PEER_THREADS * (1 + QUEUED_PER_THREAD))
        self._forms = CallPool("http-form", FORM_THREADS, room)
        self.put_read = self._readers.put

    def stop(self) -> None:
        """Drop queued calls; running ones continue."""
        for pool in self._all():
            pool.stop()

    def join(self) -> None:
        """Wait for the threads after ``stop``."""
        for pool in self._all():
            pool.join()

    def _all(self) -> tuple[CallPool, ...]:
        return self._people, self._readers, self._peers, self._forms

    def answer(
        self, connection: HttpConnection, request: AnyRequest, caller: Caller, read: dict[str, Any] | None = None
    ) -> Reply | None:
        """Have a thread answer a call; return the refusal if no pool has room for it.

        ``read``: the object that the loop read of the body.
        """
        pool = self._pool_of(request, caller)
        run = WsgiRun(self._app, connection, request, self._loop.call_soon_threadsafe, self._services.answers)
        environ = make_environ(connection, request, self._address, caller)
        if self._limits_writes:
            environ[ADDRESS] = connection.address
        environ[READ] = read
        begun_s = perf_counter()

        def work() -> None:
            run.run(environ)
            if (after_ms := environ.pop(AGAIN_MS, None)) is not None:
                with suppress(RuntimeError):  # the loop has ended, and the connection with it
                    self._loop.call_soon_threadsafe(self._loop.call_later, after_ms / 1_000, again)
                return
            route: Route | None = environ.get(ROUTE)
            if run.status >= REFUSED and route is not None and route.is_beat:
                self._services.refusals.note()
            if self._counts:
                method, path = (environ["REQUEST_METHOD"], NO_ROUTE) if route is None else (route.method, route.path)
                self._counted.count(method, path, run.status, perf_counter() - begun_s)
            if self._access_log.on:
                log_access(self._access_log, connection, request, Reply(run.status, b""), begun_s)

        def again() -> None:
            environ["wsgi.input"].seek(0)
            if connection.is_gone:
                self._services.access.give_up(environ[LOGIN_WAIT])
                connection.reply(POOL_FULL)  # which gives back what its body occupied
            elif not pool.put(work):
                self._services.access.give_up(environ[LOGIN_WAIT])
                connection.reply(POOL_FULL)

        self._stats.pooled += 1  # before its thread runs, as the call may read it
        if pool.put(work):
            return None
        self._stats.pooled -= 1
        self._stats.pool_full += 1
        if request.target.partition(b"?")[0].endswith(b"/beat"):
            self._services.refusals.note()
        if self._counts:
            self._counted.count(request.method.decode("latin-1"), NO_ROUTE, 503, 0.0)
        return POOL_FULL

    def _pool_of(self, request: AnyRequest, caller: Caller) -> CallPool:
        match self._choice.kind_of(request, caller):
            case PoolKind.PEERS:
                return self._peers
            case PoolKind.FORMS:
                return self._forms
            case PoolKind.READERS:
                return self._readers
            case PoolKind.PEOPLE:
                return self._people


def log_access(log: AccessLog, connection: HttpConnection, request: AnyRequest, reply: Reply, begun_s: float) -> None:
    """Add an answered call to the access log."""
    agent = request.block.named.get("user-agent", "")
    taken_s, count = perf_counter() - begun_s, len(reply.body)
    log.add(connection.remote_ip, request.method, request.target, reply.status, count, taken_s, agent)
