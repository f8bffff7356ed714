"""Writes of clients for one member gathered into one call: one head, one signature and one deadline for all of them."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Protocol

from app.commands.write_caller import BATCH_CHANGE
from app.config.version import MEMBER_AGENT
from app.peers.headers import CLOCK, WANTS_CHANGE
from app.peers.link_results import LinkAnswer, LinkResult, NotAnswered, NotSent
from app.peers.peer_parts import ClientCall, PeerParts
from app.peers.signed_requests import OwnRequests
from app.peers.write_batches import (
    CALLS_MAX,
    WRITES_PATH,
    BatchedAnswer,
    BatchedCall,
    DoneAnswer,
    batched,
    decode_answers,
    encode_calls,
)
from distro.model.errors import CodecError
from distro.model.types import CAPABILITY_WRITE_BATCHES

log = logging.getLogger(__name__)

GATHER_S = 0.005
"""Two writes go together for about the cost of one: of some hundred a second to one member, most find company so."""
COMPANY_S = 0.1
"""For so long after several went together, calls wait for others, though one may have gone alone in the meantime."""
MANY = 8
"""So many calls, or as many as went last if those were more, wait no longer: where clients write on as soon as they are
answered, all have come then. With less than this, chance would make ever fewer go together."""
_CLOCK = CLOCK.encode()
_REFUSED = range(HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR)
"""The member does not read batches as this one writes them, or does not list this one yet; it executed nothing. What
it says of a batch does not answer a client."""


class Alone:
    """A call that no other joined in this turn of the loop: it goes to the same member, as it came."""


ALONE = Alone()
Told = Callable[[LinkResult | DoneAnswer | Alone | None], None]
"""Takes the result of one call; None if no member executed it, so that its owner is looked up again."""


class BatchLinks(Protocol):
    """The links that send the batches to their members."""

    requests: OwnRequests

    def ask(
        self, member: str, request: bytes, deadline_s: float, done: Callable[[LinkResult], None], *, own_kind: bool
    ) -> bool:
        """Send bytes to a member; False when too many requests wait for it."""
        ...


class _Gathering:
    """The calls for one member that wait to be sent, and how many batches are under way to it."""

    __slots__ = ("calls", "company_until_s", "deadline_s", "enough", "timer", "told", "under_way", "waits")

    def __init__(self) -> None:
        self.calls: list[BatchedCall] = []
        self.told: list[Told] = []
        self.deadline_s = 0.0
        """The deadline of the first call, which is the earliest."""
        self.timer: asyncio.Handle | None = None
        self.company_until_s = 0.0
        """Until then, by the loop's time, a call waits for others; of one client that writes on and on, none does."""
        self.enough = MANY
        """The number of calls that is sent without waiting for more."""
        self.under_way = 0
        self.waits = False
        """True if the calls wait longer than this turn of the loop: the owner may be another one by then."""


class WriteBatches:
    """Gathers calls of one turn of the loop; where several went together lately, for ``GATHER_S`` or until enough came.

    Used on the loop's thread only. What was sent and not answered may have been executed, every call of it.
    """

    def __init__(self, services: PeerParts, loop: asyncio.AbstractEventLoop, links: BatchLinks) -> None:
        self._cluster = services.cluster
        self._stats = services.forwarder.stats
        self._context_path = services.settings.context_path
        self._loop = loop
        self._links = links
        self._gathering: dict[str, _Gathering] = {}

    def add(self, member: str, call: ClientCall, deadline_s: float, told: Told) -> bool:
        """Take a call for a member, for which no other waits; False for one that goes alone.

        ``told`` is called once.
        """
        if CAPABILITY_WRITE_BATCHES not in self._cluster.capabilities(member) or (one := batched(call)) is None:
            return False
        gathering = self._gathering.get(member)
        if gathering is None:
            self._forget_idle()
            gathering = self._gathering[member] = _Gathering()
        gathering.deadline_s = deadline_s
        loop, flush = self._loop, partial(self._flush, member, gathering)
        gathering.waits = waits = gathering.under_way > 0 or loop.time() < gathering.company_until_s
        gathering.timer = loop.call_later(GATHER_S, flush) if waits else loop.call_soon(flush)
        gathering.calls.append(one)
        gathering.told.append(told)
        return True

    def join(self, member: str, call: ClientCall, told: Told) -> bool:
        """Add a call to others for the member, which are sent whether or not it does; False where none wait.

        False also for a call that goes alone. ``told`` is called once.
        """
        gathering = self._gathering.get(member)
        if gathering is None or not (calls := gathering.calls) or (one := batched(call)) is None:
            return False
        calls.append(one)
        gathering.told.append(told)
        if len(calls) >= CALLS_MAX:
            self._flush(member, gathering)
        elif len(calls) == gathering.enough and gathering.timer is not None:
            gathering.timer.cancel()
            gathering.timer = self._loop.call_soon(self._flush, member, gathering)  # others may come in this turn
        return True

    def _forget_idle(self) -> None:
        """Forget members to which nothing is under way: one that left the list is called no more."""
        for member in [name for name, one in self._gathering.items() if not one.calls and not one.under_way]:
            del self._gathering[member]

    def _flush(self, member: str, gathering: _Gathering) -> None:
        if gathering.timer is not None:
            gathering.timer.cancel()
            gathering.timer = None
        calls, told = gathering.calls, gathering.told
        if not calls:
            return
        gathering.calls, gathering.told = [], []
        gathering.enough = max(len(calls), MANY)
        if len(calls) == 1:
            told[0](None if gathering.waits else ALONE)
            return
        now_s = self._loop.time()
        gathering.company_until_s = now_s + COMPANY_S
        left_ms = int((gathering.deadline_s - now_s) * 1_000)
        requests = self._links.requests
        headers = {
            "user-agent": MEMBER_AGENT,
            WANTS_CHANGE: BATCH_CHANGE,
            **requests.hop_headers(member, left_ms, relay=False),
        }
        request = requests.signed("PUT", self._context_path + WRITES_PATH, member, headers, encode_calls(calls))
        done = partial(self._on_result, member, gathering, told)
        gathering.under_way += 1
        self._stats.forward_batches += 1
        if not self._links.ask(member, request, gathering.deadline_s, done, own_kind=True):
            gathering.under_way -= 1
            for one in told:
                one(NotSent())

    def _on_result(self, member: str, gathering: _Gathering, told: list[Told], result: LinkResult) -> None:
        gathering.under_way -= 1
        for one, answer in zip(told, self._answers(member, result, len(told)), strict=True):
            try:
                one(answer)
            except Exception:
                log.exception("the answer of %s to a call could not be used", member)

    def _answers(self, member: str, result: LinkResult, count: int) -> list[LinkResult | DoneAnswer | None]:
        if not isinstance(result, LinkAnswer):
            return [result] * count
        if self._links.requests.learn(member, result) or result.status in _REFUSED:
            return [None] * count
        if result.status != HTTPStatus.OK:
            return [result] * count
        try:
            answers = decode_answers(result.body, count, result.headers.get(_CLOCK, b"").decode("latin-1"))
        except CodecError as error:
            log.warning("%s: %s", member, error)
            return [NotAnswered()] * count
        return [
            LinkAnswer(one.status, one.body, one.headers) if isinstance(one, BatchedAnswer) else one for one in answers
        ]
