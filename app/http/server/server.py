"""The HTTP server behind the worker: hot calls are answered on the loop, all others by Flask in bounded pools."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from time import perf_counter

from app.auth.member_calls import CLIENT, Caller, Unidentified
from app.http.api.answers import MEMBER_REPLIES, error_reply
from app.http.api.browsers import OwnHosts
from app.http.api.call import (
    AGENT_CHARS_MAX,
    ROUTES,
    Answer,
    Decline,
    Events,
    Forward,
    Later,
    Reply,
    Route,
    Services,
)
from app.http.api.loop_call import HeaderBlock, LoopCall, run_hot
from app.http.api.parse_memo import QUERIES_BYTES_MAX, ParseMemo
from app.http.api.rights import unidentified_reply
from app.http.api.stats import HttpStats, LagMeter
from app.http.input.forms import unescape
from app.http.server.connection import HttpConnection
from app.http.server.http_messages import (
    REPEATED_BYTES_MAX,
    AnyRequest,
    RepeatedRequest,
    Request,
    RequestKeeper,
    date_line,
    is_slow,
)
from app.http.server.late_replies import HeldReplies, LiveStreams
from app.http.server.open_connections import OpenConnections, waiting_connections
from app.http.server.pool_calls import REFUSED, PoolCalls, log_access
from app.http.server.request_reader import CLIENT_BODY_BYTES_MAX, path_of
from app.http.server.wsgi_bridge import WsgiApp
from app.machine.limits.answer_budget import part_of_memory
from app.machine.process.loop_parts import MARKS_MAX, RequestMemo, TurnSends
from app.metrics.audit_trail import Actor
from app.metrics.request_stats import RequestStats, RouteStats
from app.naming.model.nacos_errors import TooManyRequests
from app.peers.beats import BeatSender
from app.peers.passed_writes import LoopForwarder
from app.peers.small_datums import DatumSender

DISTRO_PATH = "/v1/ns/distro/"
MEMBER_BODY_BYTES_MAX = 8 * 1024 * 1024
"""The longest body of a member, except those that bring datums."""
LOGIN_BODY_BYTES_MAX = 16 * 1024
"""The longest body of a call about users and passwords, which anybody may make."""
USERS_PATH, LOGIN_PAGE = b"/auth/", b"/console/login"
"""In the paths of such calls."""
BODIES_BYTES_MAX = 128 * 1024 * 1024
"""All bodies of requests under way, or twice the largest of a member; clients' large ones get half."""
MEMO_BYTES_MAX = 192 * 1024 * 1024
"""The memory of the memo of repeated requests, or an eighth of the memory limit; the beats of 300,000 instances fit."""
SWEEP_S = 1.0
CHECKED_PER_TURN = 1_000
"""Connections whose times are checked in a row, in a third of a millisecond."""

log = logging.getLogger(__name__)


class HttpServer:
    """Owns the connections and the pools. All calls come from the loop's thread."""

    # Without these, Python 3.11 looks each method up anew: it does so for objects with over 29 attributes.
    __slots__ = (
        "_access_log",
        "_beat_sender",
        "_bodies_bytes",
        "_bodies_bytes_max",
        "_context_path",
        "_counted",
        "_counts",
        "_datum_sender",
        "_distro_path",
        "_forwarder",
        "_held",
        "_hot",
        "_lag",
        "_limits_writes",
        "_live",
        "_loop",
        "_own_hosts",
        "_parsed",
        "_pauses",
        "_pools",
        "_services",
        "answers",
        "check_pause",
        "connections",
        "date",
        "draining",
        "listening",
        "now_s",
        "repeated",
        "resting",
        "sends",
        "soon",
        "stats",
    )

    def __init__(
        self,
        app: WsgiApp,
        services: Services,
        loop: asyncio.AbstractEventLoop,
        connections_max: int,
        *,
        hot: bool = True,
    ) -> None:
        """``app``: answers the calls of the pools; with ``hot`` False it answers all calls."""
        self._services = services
        self._loop = loop
        self.connections = OpenConnections(services, connections_max)
        self._bodies_bytes = 0
        self._bodies_bytes_max = max(BODIES_BYTES_MAX, 2 * services.settings.distro.body_bytes_max)
        self.resting = 0
        self._limits_writes = bool(services.addresses.writes_per_s)
        settings = services.settings
        self._context_path = settings.context_path
        self._counted = services.instruments.http
        self._hot = count_routes(hot_routes(settings.context_path), self._counted) if hot else {}
        memory_bytes = services.memory_bytes
        self._parsed = ParseMemo(part_of_memory(QUERIES_BYTES_MAX, memory_bytes), MARKS_MAX)
        self.repeated: RequestMemo[Request, RepeatedRequest] = RequestMemo(
            RequestKeeper(self._hot), part_of_memory(MEMO_BYTES_MAX, memory_bytes), REPEATED_BYTES_MAX
        )
        self._counts = services.instruments.counts_requests
        self._access_log = services.instruments.access_log
        self._distro_path = (settings.context_path + DISTRO_PATH).encode()
        self._own_hosts = OwnHosts(services.cluster, settings.guards.http_hosts)
        self._pools = PoolCalls(app, services, loop)
        self.soon, self.sends = loop.call_soon, TurnSends(loop.call_soon)
        self.stats: HttpStats = services.http
        self.answers = services.answers
        self._forwarder = LoopForwarder(services, loop, MEMBER_REPLIES)
        services.forwarder.attach(self._forwarder)
        self._beat_sender = BeatSender(services, self._forwarder)
        self._datum_sender = DatumSender(services, self._forwarder)
        services.small_sends.attach(self._datum_sender)
        self._held = HeldReplies(loop)
        self._live = LiveStreams(loop, self._pools.put_read)
        self._lag = LagMeter(self.stats, self._counted.loop_lag)
        self.listening: Sequence[socket.socket] = ()
        """The sockets of which connections are accepted."""
        self.draining = False
        self.now_s = loop.time()
        self._pauses = services.pauses
        self.check_pause: Callable[[], None] = services.pauses.check
        """Notices that this process stood still, before anything that came meanwhile is executed (R13)."""
        self.date = b""
        self._sweep()
        self._measure_lag(self.now_s)

    # --- connections -------------------------------------------------------------------------------

    def opened(self, connection: HttpConnection) -> bytes | None:
        return self.connections.add(connection)

    def closed(self, connection: HttpConnection) -> None:
        self.connections.remove(connection)
        self._held.forget(connection)
        self._live.forget(connection)

    def body_bytes_max(self, method: bytes, target: bytes, block: HeaderBlock, remote_ip: str) -> int:
        services, path = self._services, target.partition(b"?")[0]
        if b"%" in path:
            path = unescape(path)
        of_client = LOGIN_BODY_BYTES_MAX if USERS_PATH in path or LOGIN_PAGE in path else CLIENT_BODY_BYTES_MAX
        of_members, may_be_of_member = MEMBER_BODY_BYTES_MAX, block.claims_member
        if target.startswith(self._distro_path):
            of_members, may_be_of_member = services.settings.distro.body_bytes_max, True
        length = block.content_length
        if not may_be_of_member or (length is not None and int(length) <= min(of_members, of_client)):
            return of_client
        call = (method.decode(), target.decode("latin-1"), block.get, remote_ip)
        if not services.callers.may_be_member(*call):
            return of_client
        if length is not None and int(length) <= min(of_members, MEMBER_BODY_BYTES_MAX):
            return of_members
        return of_members if services.callers.may_be_large(*call) else min(of_members, MEMBER_BODY_BYTES_MAX)

    def reserve(self, count: int, *, is_large: bool = False) -> bool:
        held = self._bodies_bytes + count
        if held > self._bodies_bytes_max >> is_large and count > 0:
            return False
        self._bodies_bytes = held
        return True

    def refusal_of_page(self, block: HeaderBlock) -> str | None:
        text = self._own_hosts.refusal(block.get)
        if text is not None:
            self.stats.pages_refused += 1
        return text

    def has_foreign_origin(self, block: HeaderBlock) -> bool:
        return self._own_hosts.has_foreign_origin(block.get)

    def log_refused(self, remote_ip: str, status: int, text: str) -> None:
        self.stats.requests_refused += 1
        log.debug("a request of %s is refused with %d: %s", remote_ip, status, text)

    def drain(self, *, idle: bool = True) -> int:
        """Close each connection with its next reply, idle ones now if ``idle``; return how many are still open."""
        self.draining = True
        self._held.release()
        self._live.end()
        for connection in self.connections if idle else ():
            connection.drain()
        return len(self.connections)

    def stop(self) -> None:
        """Begin no more calls and cut all connections, which are closed in the loop's next turn."""
        self._held.release()
        self._live.end()
        for connection in self.connections:
            connection.cut()
        self._pools.stop()
        self._beat_sender.stop()
        self._services.small_sends.attach(None)
        self._datum_sender.close()
        self._services.forwarder.detach()
        self._forwarder.close()

    # --- requests ----------------------------------------------------------------------------------

    def answer(self, connection: HttpConnection, request: AnyRequest) -> Reply | None:
        caller, memo = CLIENT, None
        if isinstance(request, RepeatedRequest):
            hot, query, memo = request.route, request.data[request.begin : request.end], request
        else:
            path, _, query = request.target.partition(b"?")
            found_hot = self._hot.get((request.method, path))
            if found_hot is None or request.block.claims_member or found_hot[0].for_members:
                found = self._caller_of(connection, request)
                if isinstance(found, Unidentified):
                    self.log_refused(connection.remote_ip, found.status, found.text)
                    called = f"{request.method.decode()} {path_of(request.target)}"
                    who = Actor(connection.remote_ip, agent=request.block.client_agent[:AGENT_CHARS_MAX])
                    self._services.instruments.audit.on_access("member.refused", called, who, found.text)
                    return unidentified_reply(found)
                caller = found
            if found_hot is None:
                return self._pools.answer(connection, request, caller)
            hot = found_hot
            if request.body and not hot[0].for_members and is_slow(request):
                return self._pools.answer(connection, request, caller)
        begun_s = perf_counter()
        row, stats = hot
        call = LoopCall(
            row.method,
            row.path,
            query,
            request.block,
            request.body,
            connection.remote_ip,
            self._context_path,
            self._parsed,
            memo,
            connection.has_member_certificate,
            caller,
        )
        if self._limits_writes:
            call.address = connection.address
            if row.is_client_write and (refusal := self._over_rate(call)) is not None:
                return refusal
        answer = run_hot(row, call, self._services)
        if type(answer) is Reply:
            if self._counts:
                stats.add(answer.status, perf_counter() - begun_s)
            if self._access_log.on:
                log_access(self._access_log, connection, request, answer, begun_s)
            if row.is_beat and answer.status >= REFUSED:
                self._services.refusals.note()
            return answer
        if isinstance(answer, Forward):
            self._pass_on(connection, request, hot, call, answer)
            return None
        if isinstance(answer, Later):
            self._held.hold(connection, answer)
            return None
        if isinstance(answer, Events):
            return self._live.begin(connection, answer)
        if row.is_client_write and call.address is not None:
            call.address.give_back()  # the pool counts it
        return self._pools.answer(connection, request, caller, answer.read if isinstance(answer, Decline) else None)

    def _caller_of(self, connection: HttpConnection, request: AnyRequest) -> Caller | Unidentified:
        block = request.block
        return self._services.callers.caller_of(
            request.method.decode(),
            request.target.decode("latin-1"),
            block.get,
            request.body,
            connection.remote_ip,
            claims=block.claims_member,
        )

    def _over_rate(self, call: LoopCall) -> Reply | None:
        try:
            call.count_write()
        except TooManyRequests as error:
            return error_reply(error)
        return None

    def _pass_on(
        self,
        connection: HttpConnection,
        request: AnyRequest,
        hot: tuple[Route, RouteStats],
        call: LoopCall,
        to: Forward,
    ) -> None:
        (row, stats), begun_s = hot, perf_counter()

        def done(answer: Answer) -> None:
            if type(answer) is not Reply:
                pooled = self._pools.answer(connection, request, call.caller)
                if pooled is None:
                    return
                answer = pooled
            elif self._counts:
                stats.add(answer.status, perf_counter() - begun_s)
            if answer.status >= REFUSED and row.is_beat:
                self._services.refusals.note()
            if self._access_log.on:
                log_access(self._access_log, connection, request, answer, begun_s)
            connection.reply(answer, together=True)  # the owner answers those of several clients at once

        self._forwarder.forward(call, to, lambda: run_hot(row, call, self._services), done)

    # --- time ----------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        self._loop.call_later(SWEEP_S, self._sweep)  # first: if a line below raises, the next sweep still comes
        self.now_s = now_s = self._loop.time()
        self.date = date_line(time.time()) + b"\r\n"
        self._check_times(iter(self.connections), now_s)

    def _check_times(self, connections: Iterator[HttpConnection], now_s: float) -> None:
        """Check some connections in this turn of the loop, and the others in the next ones."""
        checked = list(islice(connections, CHECKED_PER_TURN))
        if len(checked) == CHECKED_PER_TURN:
            self._loop.call_soon(self._check_times, connections, now_s)
        for connection in checked:
            connection.check_time(now_s)

    def _measure_lag(self, expected_s: float) -> None:
        self._pauses.ran(self._is_waiting)
        due_s = self._lag.next_s(expected_s, self._loop.time())
        self._loop.call_at(due_s, self._measure_lag, due_s)

    def _is_waiting(self) -> bool:
        """Return whether connections wait to be accepted."""
        return any(map(waiting_connections, self.listening))


def count_routes(
    routes: dict[tuple[bytes, bytes], Route], stats: RequestStats
) -> dict[tuple[bytes, bytes], tuple[Route, RouteStats]]:
    """The same routes, each with the numbers of its requests."""
    return {key: (row, stats.of_loop(row.method, row.path)) for key, row in routes.items()}


def hot_routes(context_path: str) -> dict[tuple[bytes, bytes], Route]:
    """The rows of the route table that the loop may answer, by method and path with the context path."""
    return {(row.method.encode(), (context_path + row.path).encode()): row for row in ROUTES if row.hot}
