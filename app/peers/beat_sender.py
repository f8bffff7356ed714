"""Sends the beats that were answered from copies to the owners of the instances, from the event loop."""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

from app.peers.beats import Batch, BeatCollector, encode_batch
from app.peers.link_results import LinkAnswer, LinkResult
from app.peers.passed_writes import LoopForwarder
from app.peers.peer_parts import PeerCluster
from distro.model.errors import CodecError

SEND_S = 0.2
ANSWER_S = 2.0
"""The time that the owner has to answer; after that the batch goes back to the collector."""
PATH = "/v1/ns/distro/beats"

log = logging.getLogger(__name__)


class _BeatCounts(Protocol):
    beats_collected: int


class BeatParts(Protocol):
    """The parts of a node that its sender of beats uses."""

    @property
    def cluster(self) -> PeerCluster: ...

    @property
    def beats(self) -> BeatCollector: ...

    @property
    def http(self) -> _BeatCounts: ...

    @property
    def monotonic_ms(self) -> Callable[[], int]: ...


class BeatSender:
    """Sends the collected beats to their owners, every ``SEND_S``; one batch at a time to each owner.

    A batch that is refused or not answered is sent again: only the time of an instance's last beat counts.
    """

    def __init__(self, services: BeatParts, forwarder: LoopForwarder[Any]) -> None:
        self._services = services
        self._forwarder = forwarder
        self._in_flight: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        if not services.cluster.standalone:
            self._timer = forwarder.loop.call_later(SEND_S, self._send)

    def stop(self) -> None:
        """Send no further batch; answers to those under way are dropped."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _send(self) -> None:
        self._timer = self._forwarder.loop.call_later(SEND_S, self._send)
        beats, now_ms = self._services.beats, self._services.monotonic_ms()
        self._services.http.beats_collected = beats.collected
        for owner, batch in beats.take(now_ms, self._in_flight):
            if not self._ask(owner, batch, now_ms):
                beats.put_back(owner, batch)

    def _ask(self, owner: str, batch: Batch, now_ms: int) -> bool:
        hop = self._services.cluster.next_hop(owner)
        if hop is None:
            return False
        body, left_ms = encode_batch(batch, now_ms), int(ANSWER_S * 1_000)
        request = self._forwarder.requests.request_to_own("PUT", PATH, hop, body, left_ms, relay=hop != owner)
        deadline_s = self._forwarder.loop.time() + ANSWER_S

        def done(result: LinkResult) -> None:
            self._in_flight.discard(owner)
            if isinstance(result, LinkAnswer):
                self._forwarder.requests.learn(hop, result)  # the batch goes again soon, signed by what this tells
            self._on_result(owner, batch, result)

        self._in_flight.add(owner)
        if self._forwarder.ask(hop, request, deadline_s, done, own_kind=True):
            return True
        self._in_flight.discard(owner)
        return False

    def _on_result(self, owner: str, batch: Batch, result: LinkResult) -> None:
        if self._stopped:
            return
        if isinstance(result, LinkAnswer) and result.status == HTTPStatus.OK:
            self._services.beats.delivered(owner)
            try:
                self._services.beats.note_unknown(result.body)
            except CodecError as error:
                log.warning("%s: %s", owner, error)
            return
        self._services.beats.put_back(owner, batch)
