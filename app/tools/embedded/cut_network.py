"""The network between embedded members, which a test cuts and heals; clients are not part of it."""

import asyncio
import threading
from collections.abc import Iterable

from app.auth import signed
from app.http.api.answers import text_reply
from app.http.api.call import Reply, Services
from app.http.server.connection import HttpConnection
from app.http.server.http_messages import AnyRequest
from app.http.server.request_answers import RequestAnswers
from app.http.server.wsgi_bridge import WsgiApp

_LOST = text_reply(503, "the network is cut here")
"""An answer that never arrives, as its connection is cut."""


class CutNetwork:
    """The pairs of members that cannot call each other. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cut = frozenset[frozenset[str]]()

    def is_cut(self, one: str, other: str) -> bool:
        """Return whether the network between two members, named by their addresses, is cut."""
        return bool(self._cut) and frozenset((one, other)) in self._cut

    def part(self, groups: Iterable[Iterable[str]]) -> None:
        """Let each member reach only its group, and end all earlier cuts."""
        sides = [frozenset(group) for group in groups]
        pairs = {
            frozenset((one, other))
            for number, side in enumerate(sides)
            for far in sides[number + 1 :]
            for one in side
            for other in far
        }
        with self._lock:
            self._cut = frozenset(pairs)

    def heal(self) -> None:
        """Let all members reach each other."""
        with self._lock:
            self._cut = frozenset()


class CutAnswers(RequestAnswers):
    """The answers of a member, which cuts the connection of a call from a member that it must not hear."""

    __slots__ = ("_network", "_self_address")

    def __init__(
        self, app: WsgiApp, services: Services, loop: asyncio.AbstractEventLoop, network: CutNetwork | None
    ) -> None:
        """``network``: None for a node without others."""
        super().__init__(app, services, loop)
        self._network = network
        self._self_address = services.settings.self_address

    def answer(self, connection: HttpConnection, request: AnyRequest) -> Reply | None:
        """Answer as usual, or lose the call: its sender sees a broken connection, and nothing was executed."""
        if self._network is not None and (text := request.block.get(signed.SIGNATURE)) is not None:
            made = signed.parse(text)
            if made is not None and self._network.is_cut(made.sender, self._self_address):
                connection.cut()
                return _LOST
        return super().answer(connection, request)
