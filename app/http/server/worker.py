"""The gunicorn worker class: one event loop (uvloop) that carries HTTP, and the end of it in order."""

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

from app.config.settings import SettingError
from app.http.api.call import LoopFrontend
from app.http.server.connection import HttpConnection
from app.http.server.server import HttpServer, services_of

log = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.0005
"""How long a thread that computes keeps the loop's thread from going on (Python's default is ten times that)."""
GC_THRESHOLDS = (10_000, 20, 1_000_000)
"""The last says: hardly ever look at what lived for long.

That is the registry, a million instances and more, all of which a full collection would visit: a second in which
nobody is answered. Its objects form no cycles (a test counts), so they go when the last reference goes. Cycles that
requests leave behind are young, and found by the collections of the young.
"""
NOTIFY_S = 1.0
CLOSE_NOTICE_S = 0.25
"""The other members are told at once that this one goes."""
DRAIN_POLL_S = 0.02
STOP_SIGNALS = (signal.SIGTERM, signal.SIGQUIT)
LISTENERS = 8
"""For each listening socket. libuv takes one connection at each in a turn of the loop: under load, with turns of some
milliseconds, five hundred clients that come at once would wait for seconds."""
SERVER_BACKLOG = 2_048


class LoopWorker(Worker):
    """Serves the application that gunicorn loaded. Exactly one runs for a node."""

    def init_process(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.loop = uvloop.new_event_loop()
        asyncio.set_event_loop(self.loop)
        super().init_process()

    def init_signals(self) -> None:
        super().init_signals()
        # The loop has a wake-up of its own for signals; gunicorn's would leave its pipe to nobody.
        signal.set_wakeup_fd(-1)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.alive = False

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:
        self.alive = False

    def run(self) -> None:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        try:
            self.loop.run_until_complete(self._serve())
        finally:
            self.loop.close()
            # The node stops now, whoever asks for it again: a service manager signals the master and this process, and
            # the master signals us once more.
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_IGN)

    async def _serve(self) -> None:
        services = services_of(self.wsgi)
        await self._start(services.loop_frontends)
        server = HttpServer(self.wsgi, services, self.loop, self.cfg.worker_connections)
        listening: list[Any] = [
            await self.loop.create_server(
                lambda: HttpConnection(server), sock=one.sock.dup(), backlog=self.cfg.backlog or SERVER_BACKLOG
            )
            for one in self.sockets
            for _ in range(LISTENERS)
        ]
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
        # What is on its way is answered, that this node goes: who passes a write on to it then asks the next owner,
        # while of a connection that is cut it could not know what became of the write.
        for frontend in services.loop_frontends:
            frontend.leave()
        server.drain(idle=False)
        await asyncio.sleep(CLOSE_NOTICE_S)
        # The sockets themselves, too: whoever comes now should hear at once that nobody listens.
        for one in (*listening, *self.sockets):
            one.close()
        await self._drain(server)
        for frontend in services.loop_frontends:
            await frontend.stop()
        server.stop()

    async def _start(self, frontends: Sequence[LoopFrontend]) -> None:
        """Open the other doors; a node that cannot ends gunicorn too."""
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
        """Let what is under way end, for as long as gunicorn was told."""
        end_s = self.loop.time() + self.cfg.graceful_timeout
        while server.drain() and self.loop.time() < end_s:
            self.notify()
            await asyncio.sleep(DRAIN_POLL_S)
