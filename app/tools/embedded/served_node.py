"""One node in this process: its start on an event loop, and both ways of its end."""

import asyncio
import socket
from collections.abc import Callable

from app.config.settings import LEAVE_S, SettingError, Settings
from app.http.factory import create_app
from app.http.server.connection import HttpConnection
from app.http.server.server import HttpServer
from app.machine.process.open_files import CONNECTIONS_MAX
from app.naming.push.udp_subscribers import PushState
from app.node.node import Node
from app.rpc.frontend import GrpcFrontend
from app.tools.embedded.clock_ahead import ClockAhead
from app.tools.embedded.cut_network import CutAnswers, CutNetwork
from app.tools.embedded.errors_of_use import UseError
from app.tools.embedded.free_ports import BACKLOG
from app.tools.embedded.loop_thread import LoopThread
from distro.model.types import MemberState

STOP_S = 8.0
NOTICE_S = 0.1
"""The shortest time for which a leaving member answers: others send it their last changes for it."""
POLL_S = 0.005


class ServedNode:
    """Runs one node, once: ``start``, then ``stop`` or ``kill``. Not for two threads at once."""

    def __init__(self, settings: Settings, clock: ClockAhead, network: CutNetwork | None, loop: LoopThread) -> None:
        self._network = network
        self._clock = clock
        self._loop = loop
        self._server: HttpServer | None = None
        self._requests: CutAnswers | None = None
        self._listening: asyncio.Server | None = None
        self.node = Node(settings, clock)

    def start(self, opened: socket.socket) -> None:
        """Serve from now on. ``opened``: listens on the port of HTTP; it is closed at the end.

        Raises:
            SettingError: a port or the data folder cannot be used.
        """
        try:
            self.node.start()
            self._loop.run(self._serve(opened))
        except BaseException:
            opened.close()
            self.node.stop(STOP_S)
            raise
        self._clock.follow(self.node.catch_up, self.node.settings.distro.pause_ms)

    def stop(self) -> None:
        """End as at SIGTERM: calls under way are answered, and members told."""
        self._clock.unfollow(self.node.catch_up)
        self._loop.run(self._leave())
        self._finish()

    def kill(self) -> None:
        """End as at SIGKILL: every connection is cut without notice."""
        self._clock.unfollow(self.node.catch_up)
        self.node.engine.runtime.halt()
        self._finish()

    def _finish(self) -> None:
        self._loop.run(self._end())
        ended = self.node.stop(STOP_S)
        if self._requests is not None:
            self._requests.join()
        for frontend in self.node.services.loop_frontends:
            frontend.join()
        if not ended:
            raise UseError(f"threads of the node on port {self.node.settings.port} did not end within {STOP_S:.0f} s")

    # --- what there is to see --------------------------------------------------------------------

    def push_states(self, namespace: str, service: str) -> list[PushState]:
        """Return how far each subscriber of a service has followed its changes; ``service``: with its group."""
        found = self.node.background.push.states(namespace, service)
        for frontend in self.node.services.loop_frontends:
            if isinstance(frontend, GrpcFrontend):
                found += frontend.push_states(namespace, service)
        return found

    def knows(self, members: frozenset[str]) -> bool:
        """Return whether this member serves, and for long enough has seen just these and itself as carrying keys."""
        engine, own = self.node.engine.reader.view, self.node.settings.self_address
        view = frozenset(engine.mapper.servers) | {own}
        return (
            self.node.engine.cluster.state() is MemberState.UP
            and view == members
            and engine.steady(self._clock.monotonic_ms())
        )

    def connect(self, members: tuple[str, ...]) -> None:
        """Keep gRPC connections only to these members."""
        if (links := self.node.engine.links) is not None:
            links.replace(members)

    # --- on the loop -----------------------------------------------------------------------------

    async def _serve(self, opened: socket.socket) -> None:
        services, loop = self.node.services, asyncio.get_running_loop()
        try:
            for frontend in services.loop_frontends:
                await frontend.start()
        except SettingError:
            for frontend in services.loop_frontends:
                await frontend.stop()
            raise
        requests = self._requests = CutAnswers(create_app(services), services, loop, self._network)
        server = self._server = HttpServer(services, requests, loop, CONNECTIONS_MAX)
        self._listening = await loop.create_server(lambda: HttpConnection(server), sock=opened, backlog=BACKLOG)

    async def _leave(self) -> None:
        """Tell clients and members, answer them until they know, and answer the calls under way."""
        services, server = self.node.services, self._server
        services.cluster.leave()
        for frontend in services.loop_frontends:
            frontend.leave()
        if server is None or self._listening is None:
            return
        server.drain(idle=False)
        if not self.node.settings.standalone:
            await asyncio.sleep(NOTICE_S)
            await _until(lambda: services.reports.is_leave_known() and services.beats.is_empty)
        self._listening.close()
        await _until(lambda: not server.drain())

    async def _end(self) -> None:
        """Cut the connections that are left."""
        if self._listening is not None:
            self._listening.close()
        for frontend in self.node.services.loop_frontends:
            await frontend.stop()
        if (server := self._server) is not None:
            server.stop()
            await _until(lambda: not server.drain())


async def _until(is_over: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    end_s = loop.time() + LEAVE_S
    while not is_over() and loop.time() < end_s:
        await asyncio.sleep(POLL_S)
