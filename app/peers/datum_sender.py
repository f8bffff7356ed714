"""Makes the engine's small calls to members of our own kind from the event loop."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from app.peers.link_results import LinkAnswer, LinkResult
from app.peers.passed_writes import LoopForwarder
from app.peers.peer_parts import PeerParts
from app.peers.small_datums import PeerPut, PutAnswer

Told = Callable[[PutAnswer | None], None]


class DatumSender:
    """LoopCalls on the connections of ``LoopForwarder``. ``put`` is for any thread, ``close`` for the loop's."""

    def __init__(self, services: PeerParts, forwarder: LoopForwarder[Any]) -> None:
        self._services = services
        self._forwarder = forwarder
        self._loop: asyncio.AbstractEventLoop = forwarder.loop
        self._waiting: dict[int, Told] = {}
        """The callbacks that wait for an answer, by number; at most one for each peer and resource type."""
        self._number = 0
        self._closed = False

    def put(self, call: PeerPut, done: Told) -> None:
        """Make a call, signed, and signed anew once if the member asks for that."""
        try:
            self._loop.call_soon_threadsafe(self._begin, call, done)
        except RuntimeError:  # the loop is closed
            done(None)

    def close(self) -> None:
        """End all calls; later ones are not made."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        for told in waiting.values():
            told(None)

    def _begin(self, call: PeerPut, done: Told) -> None:
        if self._closed:
            done(None)
            return
        self._number += 1
        self._waiting[self._number] = done
        self._send(call, self._number, self._loop.time() + call.timeout_s, signed_anew=False)

    def _send(self, call: PeerPut, number: int, deadline_s: float, *, signed_anew: bool) -> None:
        target = self._services.settings.context_path + call.path
        request = self._forwarder.requests.signed("PUT", target, call.peer, dict(call.headers), call.body)
        on_result = partial(self._on_result, call, number, deadline_s, signed_anew)
        if not self._forwarder.ask(call.peer, request, deadline_s, on_result, own_kind=True):
            self._tell(number, None)

    def _on_result(self, call: PeerPut, number: int, deadline_s: float, signed_anew: bool, result: LinkResult) -> None:
        if not isinstance(result, LinkAnswer):
            self._tell(number, None)
        elif not signed_anew and self._forwarder.requests.learn(call.peer, result):
            self._send(call, number, deadline_s, signed_anew=True)
        else:
            self._tell(number, PutAnswer(result.status, result.body))

    def _tell(self, number: int, answer: PutAnswer | None) -> None:
        told = self._waiting.pop(number, None)
        if told is not None:
            told(answer)
