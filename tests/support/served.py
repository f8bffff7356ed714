"""The HTTP frontend with its server on an event loop, and clients without a network."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from app.http.server.request_answers import RequestAnswers
from app.http.server.server import HttpServer
from app.machine.process.loop_parts import LoopPauses
from tests.support.fake_node import FakeNode
from tests.support.loops import until
from tests.support.shared_apps import app_for
from tests.support.wire import Received, Wire, replies_of


class Served:
    """One node's server. All calls come from the loop's thread."""

    def __init__(self, node: FakeNode, app: Any, *, hot: bool = True, connections_max: int = 100) -> None:
        self.node = node
        loop = asyncio.get_running_loop()
        self.slept_s = 0.0
        """How long the machine slept, which the loop's clock does not count."""
        node.pauses = LoopPauses(
            node.http,
            node.settings.distro.pause_ms,
            node.cluster.stood_still,
            lambda: loop.time() + self.slept_s,
        )
        self.requests = RequestAnswers(app, node, loop, hot=hot)
        self.server = HttpServer(node, self.requests, loop, connections_max)

    def connect(self, client_ip: str = "127.0.0.1") -> Wire:
        return Wire(self.server, client_ip=client_ip)

    async def ask(self, data: bytes, client_ip: str = "127.0.0.1") -> bytes:
        """Return all that comes back for a request that asks for the connection's end."""
        wire = self.connect(client_ip)
        wire.send(data)
        await until(lambda: wire.transport.closing)
        wire.transport.turn()
        return wire.received

    async def reply(self, data: bytes, client_ip: str = "127.0.0.1") -> Received:
        """The only answer to such a request; not one to HEAD, which has no body."""
        [reply] = replies_of(await self.ask(data, client_ip))
        return reply


@contextmanager
def served(
    node: FakeNode | None = None, app: Any = None, *, hot: bool = True, connections_max: int = 100
) -> Iterator[Served]:
    """Serve until the block ends; on a loop that runs."""
    node = node or FakeNode()
    with app_for(node) if app is None else nullcontext(app) as wsgi:
        one = Served(node, wsgi, hot=hot, connections_max=connections_max)
        try:
            yield one
        finally:
            one.server.stop()
