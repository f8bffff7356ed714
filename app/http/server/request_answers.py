"""The answers to requests: hot calls are answered on the loop, all others by Flask in bounded pools."""

import asyncio
from time import perf_counter

from app.auth.member_calls import CLIENT, Caller, Unidentified
from app.http.api.answers import MEMBER_REPLIES, error_reply
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
from app.http.api.loop_call import LoopCall, run_hot
from app.http.api.parse_memo import QUERIES_BYTES_MAX, ParseMemo
from app.http.api.rights import unidentified_reply
from app.http.api.stream_answers import Lines
from app.http.server.connection import HttpConnection
from app.http.server.http_messages import (
    REPEATED_BYTES_MAX,
    AnyRequest,
    RepeatedRequest,
    Request,
    RequestBounds,
    RequestKeeper,
    is_slow,
)
from app.http.server.late_replies import HeldReplies, LiveStreams
from app.http.server.line_streams import LineStreams
from app.http.server.pool_calls import REFUSED, PoolCalls, log_access
from app.http.server.request_reader import path_of
from app.http.server.wsgi_bridge import WsgiApp
from app.machine.limits.answer_budget import part_of_memory
from app.machine.process.loop_parts import MARKS_MAX, RequestMemo
from app.metrics.audit_trail import Actor
from app.metrics.instruments import RequestStats, RouteStats
from app.naming.model.nacos_errors import TooManyRequests
from app.peers.beats import BeatSender
from app.peers.passed_writes import LoopForwarder
from app.peers.small_datums import DatumSender

MEMO_BYTES_MAX = 192 * 1024 * 1024
"""The memory of the memo of repeated requests, or an eighth of the memory limit; the beats of 300,000 instances fit."""


class RequestAnswers:
    """Has the routes, the memos of requests, the pools and the forwarder. Used on the loop's thread."""

    # Without these, Python 3.11 looks each method up again: it does so for objects with over 29 attributes.
    __slots__ = (
        "_access_log",
        "_beat_sender",
        "_context_path",
        "_counts",
        "_datum_sender",
        "_forwarder",
        "_held",
        "_hot",
        "_limits_writes",
        "_lines",
        "_live",
        "_parsed",
        "_pools",
        "_services",
        "bounds",
        "repeated",
    )

    def __init__(self, app: WsgiApp, services: Services, loop: asyncio.AbstractEventLoop, *, hot: bool = True) -> None:
        """``app``: answers the calls of the pools; with ``hot`` False it answers all calls."""
        settings = services.settings
        self.bounds = RequestBounds(services)
        self._services = services
        self._limits_writes = bool(services.addresses.writes_per_s)
        self._context_path = settings.context_path
        counted = services.instruments.http
        self._hot = count_routes(hot_routes(settings.context_path), counted) if hot else {}
        memory_bytes = services.memory_bytes
        self._parsed = ParseMemo(part_of_memory(QUERIES_BYTES_MAX, memory_bytes), MARKS_MAX)
        self.repeated: RequestMemo[Request, RepeatedRequest] = RequestMemo(
            RequestKeeper(self._hot), part_of_memory(MEMO_BYTES_MAX, memory_bytes), REPEATED_BYTES_MAX
        )
        """The requests that came before to the byte."""
        self._counts = services.instruments.counts_requests
        self._access_log = services.instruments.access_log
        self._pools = PoolCalls(app, services, loop)
        self._forwarder = LoopForwarder(services, loop, MEMBER_REPLIES)
        services.forwarder.attach(self._forwarder)
        self._beat_sender = BeatSender(services, self._forwarder)
        self._datum_sender = DatumSender(services, self._forwarder)
        services.small_sends.attach(self._datum_sender)
        self._held = HeldReplies(loop)
        self._live = LiveStreams(loop, self._pools.put_read)
        self._lines = LineStreams(loop, self._pools.put_read)

    def answer(self, connection: HttpConnection, request: AnyRequest) -> Reply | None:
        """Return the reply, or None: then ``connection.reply`` or ``connection.stream_head`` is called later."""
        caller, memo = CLIENT, None
        if isinstance(request, RepeatedRequest):
            hot, query, memo = request.route, request.data[request.begin : request.end], request
        else:
            path, _, query = request.target.partition(b"?")
            found_hot = self._hot.get((request.method, path))
            if found_hot is None or request.block.claims_member or found_hot[0].for_members:
                found = self._caller_of(connection, request)
                if isinstance(found, Unidentified):
                    self.bounds.log_refused(connection.remote_ip, found.status, found.text)
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
        (row, stats), begun_s = hot, perf_counter()
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
        if isinstance(answer, Events | Lines):
            return self._begin_stream(connection, answer)
        if row.is_client_write and call.address is not None:
            call.address.give_back()  # the pool counts it
        return self._pools.answer(connection, request, caller, answer.read if isinstance(answer, Decline) else None)

    def _begin_stream(self, connection: HttpConnection, answer: Events | Lines) -> Reply | None:
        if isinstance(answer, Lines):
            return self._lines.begin(connection, answer)
        return self._live.begin(connection, answer)

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

    # --- the end -------------------------------------------------------------------------------------

    def forget(self, connection: HttpConnection) -> None:
        """Hold nothing for a connection that is closed."""
        self._held.forget(connection)
        self._live.forget(connection)
        self._lines.forget(connection)

    def release(self) -> None:
        """Send the replies that are held, and end the streams of events. May be called twice."""
        self._held.release()
        self._live.end()
        self._lines.end()

    def stop(self) -> None:
        """Begin no more calls."""
        self._pools.stop()
        self._beat_sender.stop()
        self._services.small_sends.attach(None)
        self._datum_sender.close()
        self._services.forwarder.detach()
        self._forwarder.close()

    def join(self) -> None:
        """Wait for the threads of calls after ``stop``. Not on the loop."""
        self._pools.join()
        self._forwarder.fetchers.shutdown()


def count_routes(
    routes: dict[tuple[bytes, bytes], Route], stats: RequestStats
) -> dict[tuple[bytes, bytes], tuple[Route, RouteStats]]:
    """The same routes, each with the numbers of its requests."""
    return {key: (row, stats.of_loop(row.method, row.path)) for key, row in routes.items()}


def hot_routes(context_path: str) -> dict[tuple[bytes, bytes], Route]:
    """The rows of the route table that the loop may answer, by method and path with the context path."""
    return {(row.method.encode(), (context_path + row.path).encode()): row for row in ROUTES if row.hot}
