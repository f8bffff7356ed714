"""The gunicorn worker class: one event loop (uvloop) for HTTP and gRPC, and its orderly shutdown."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import uvloop
from gunicorn.arbiter import Arbiter
from gunicorn.workers.base import Worker

from app.config.settings import LEAVE_S, SettingError
from app.http.api.answers import text_reply
from app.http.api.call import Services
from app.http.factory import SERVICES
from app.http.server.connection import HttpConnection
from app.http.server.http_messages import closing_bytes
from app.http.server.request_answers import RequestAnswers
from app.http.server.server import HttpServer
from app.machine.tls.tls_accept import TlsAcceptor
from app.ports.http_ports import LoopFrontend

log = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.0005
"""The time that a computing thread keeps the loop's thread waiting (Python's default is ten times that)."""
GC_THRESHOLDS = (1_000, 5, 1_000_000)
"""The third makes full collections of garbage very rare.

One would visit the whole registry, a million instances and more: a second in which no client is answered. The
registry's objects form no cycles (a test counts them), so each is freed with its last reference. Cycles that requests
leave behind are young, and the frequent collections of the young generations free them.

The first two bound what such a collection visits while the registry grows, as in a load: a thousand objects, and each
fifth time six thousand, a millisecond's work. With 10,000 and 20 it was 200,000 objects, and a tenth of a second.
"""
NOTIFY_S = 1.0
CLOSE_NOTICE_S = 0.25
"""The time from leaving to closing the listening sockets: the other members hear of it, and late calls are answered."""
DRAIN_POLL_S = 0.02
STOP_SIGNALS = (signal.SIGTERM, signal.SIGQUIT)
LISTENERS = 8
"""So many for each listening socket, as libuv accepts one connection of each in a turn of the loop: under load, with
turns of some milliseconds, five hundred clients that connect at once would wait for seconds."""

GREETINGS_MAX = 2_048
"""Clients of TLS that are connected and have not sent a whole greeting."""
PLAIN_REPLY = closing_bytes(text_reply(400, "this port speaks TLS: use https"))


class LoopWorker(Worker):  # type: ignore[misc]  # gunicorn has no types
    """Serves the application that gunicorn loaded. Exactly one runs for a node."""

    def init_process(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.loop = uvloop.new_event_loop()
        asyncio.set_event_loop(self.loop)
        super().init_process()

    def init_signals(self) -> None:
        super().init_signals()
        # The loop has a wake-up pipe of its own for signals; nobody would read that of gunicorn.
        signal.set_wakeup_fd(-1)

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:
        self.alive = False

    def run(self) -> None:
        gc.collect()
        gc.freeze()
        gc.enable()
        gc.set_threshold(*GC_THRESHOLDS)
        try:
            self.loop.run_until_complete(self._serve())
        finally:
            self.loop.close()
            self.wsgi.extensions[SERVICES].instruments.audit.make_on_loop(None)
            # The node stops now, and further signals change nothing: a service manager signals the master and this
            # process, and the master signals this process once more.
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_IGN)

    async def _serve(self) -> None:
        services: Services = self.wsgi.extensions[SERVICES]
        await self._start(services.loop_frontends)
        services.instruments.audit.make_on_loop(self.loop.call_soon)
        requests = RequestAnswers(self.wsgi, services, self.loop)
        server = HttpServer(services, requests, self.loop, self.cfg.worker_connections)
        listening = await self._listen(server, services)
        server.listening = [one.sock for one in self.sockets]
        ended = asyncio.Event()
        for number in STOP_SIGNALS:
            handler = signal.getsignal(number)
            self.loop.add_signal_handler(number, self._on_signal, number, handler, ended)
        while self.alive and os.getppid() == self.ppid:
            self.notify()
            try:
                await asyncio.wait_for(ended.wait(), NOTIFY_S)
            except TimeoutError:
                continue
        await self._retire(services)
        # Calls on their way are answered "this node leaves": a member that passes a write on to us then asks the next
        # owner. Were its connection cut, it could not know whether the write was executed.
        for frontend in services.loop_frontends:
            frontend.leave()
        server.drain(idle=False)
        await self._tell(services)
        # gunicorn's own sockets, too: a client that connects now should be refused at once, not wait in a backlog.
        for one in (*listening, *self.sockets):
            one.close()
        await self._drain(server)
        for frontend in services.loop_frontends:
            await frontend.stop()
        server.stop()

    async def _retire(self, services: Services) -> None:
        """Keep serving for the time that load balancers need to choose other members; then leave."""
        end_s = self.loop.time() + services.settings.leave_grace_ms / 1_000
        while self.loop.time() < end_s:
            self.notify()
            await asyncio.sleep(min(NOTIFY_S, max(end_s - self.loop.time(), 0.0)))
        services.cluster.leave()

    async def _tell(self, services: Services) -> None:
        """Answer calls until the other members know that this one leaves, and have its beats; for a while at most."""
        begun_s = self.loop.time()
        await asyncio.sleep(CLOSE_NOTICE_S)
        while self.loop.time() < begun_s + LEAVE_S and not (
            services.reports.is_leave_known() and services.beats.is_empty
        ):
            self.notify()
            await asyncio.sleep(DRAIN_POLL_S)

    async def _listen(self, server: HttpServer, services: Services) -> list[Any]:
        """Take connections from now on; return what takes them, to be closed."""

        tls, settings = services.tls, services.settings.http_tls
        if (files := tls.http) is not None and settings is not None:
            return [
                TlsAcceptor(
                    self.loop,
                    one.sock.dup(),
                    server.connections.admit,
                    lambda share: HttpConnection(server, share),
                    lambda: files.current.server,
                    tls.stats,
                    waiting_max=min(GREETINGS_MAX, self.cfg.worker_connections),
                    plain_reply=PLAIN_REPLY,
                    takes_plain=settings.compatible,
                )
                for one in self.sockets
            ]
        return [
            await self.loop.create_server(lambda: HttpConnection(server), sock=one.sock.dup(), backlog=self.cfg.backlog)
            for one in self.sockets
            for _ in range(LISTENERS)
        ]

    async def _start(self, frontends: Sequence[LoopFrontend]) -> None:
        """Start the other frontends; gunicorn ends, too, if one cannot listen."""
        try:
            for frontend in frontends:
                await frontend.start()
        except SettingError as error:
            log.error("%s", error)
            for frontend in frontends:
                await frontend.stop()
            sys.exit(Arbiter.APP_LOAD_ERROR)

    def _on_signal(self, number: int, handler: Any, ended: asyncio.Event) -> None:
        if callable(handler):
            handler(number, None)
        if not self.alive:
            ended.set()

    async def _drain(self, server: HttpServer) -> None:
        """Wait for the requests under way, at most for gunicorn's ``graceful_timeout``."""
        end_s = self.loop.time() + self.cfg.graceful_timeout
        while server.drain() and self.loop.time() < end_s:
            self.notify()
            await asyncio.sleep(DRAIN_POLL_S)
