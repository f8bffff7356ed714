"""Beats for instances that another member owns, answered from the copy here and sent to the owner in batches.

No datum is written: the owner stores the time of each instance's last beat, and answers which instances it does not
know. The next beat of an unknown instance is passed on to the owner, whose answer makes the client register again.

A batch is ``{datum key: {instance key: age in ms}}``, its answer ``{"unknown": {datum key: [instance key]}}``.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from itertools import chain, islice
from typing import Any, Protocol

import orjson

from app.naming.wire.datum_codec import AGE_MS_MAX
from app.peers.link_results import LinkAnswer, LinkResult
from app.peers.passed_writes import LoopForwarder
from app.peers.peer_parts import PeerCluster
from distro.model.errors import CodecError

COLLECTED_MAX = 100_000
"""Beats that wait for one member; beats of further instances are passed on one by one."""
UNKNOWN_MAX = 100_000
BATCH_MAX = 5_000
"""The most instances in one call: of 100,000, so many beat within 200 ms. The owner reads them in 1 to 2 ms."""
TOLD_MS_MIN = 1_000
"""A beat that has waited for so long did not get through: an owner that asks gets it."""
TOLD_CHARS_MAX = 128 * 1024
"""The keys of the beats in one answer to a report, which has a bound, too."""
KEEP_MS = 10_000
"""A beat that could not be sent for so long is dropped: later beats have come, or the instance is silent."""

Batch = dict[tuple[str, str], int]
"""The monotonic ms of the last beat of each (datum key, instance key)."""


class BeatCollector:
    """The beats that wait to be sent, by owner. Thread-safe; ``take`` and what ends a batch are for the loop alone.

    The lock keeps a batch unchanged while it is read: between the making of an iterator and its use another thread may
    run.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: dict[str, Batch] = {}
        self._under_way: dict[str, Batch] = {}
        """Taken, and neither delivered nor put back: such a call may hang for long. Not changed: the loop reads it."""
        self._unknown: set[tuple[str, str]] = set()
        self.collected = 0

    def collect(self, owner: str, key: str, instance_key: str, now_ms: int) -> bool:
        """Add a beat of ``now_ms`` to its owner's batch; False when the beat must be passed on by itself."""
        entry = (key, instance_key)
        with self._lock:
            if entry in self._unknown:
                self._unknown.discard(entry)
                return False
            batch = self._batches.get(owner)
            if batch is None:
                batch = self._batches[owner] = {}
            elif len(batch) >= COLLECTED_MAX and entry not in batch:
                return False
            if (known_ms := batch.get(entry)) is None or known_ms < now_ms:  # one that was passed on may come late
                batch[entry] = now_ms
            self.collected += 1
            return True

    @property
    def is_empty(self) -> bool:
        """True if no beat waits, and none is under way."""
        return not self._batches and not self._under_way

    def take(self, now_ms: int, busy: Collection[str] = ()) -> list[tuple[str, Batch]]:
        """Return owners with their batches to send now, at most ``BATCH_MAX`` beats each.

        Further beats, and those for ``busy`` owners, wait for the next call: no turn of the loop has much to do.
        """
        taken: list[tuple[str, Batch]] = []
        with self._lock:
            for owner in [one for one in self._batches if one not in busy]:
                batch = self._batches[owner]
                beats = [(entry, batch.pop(entry)) for entry in list(islice(batch, BATCH_MAX))]
                if not batch:
                    self._batches.pop(owner)
                if told := {entry: at_ms for entry, at_ms in beats if now_ms - at_ms < KEEP_MS}:
                    self._under_way[owner] = told
                    taken.append((owner, told))
        return taken

    def told_to(self, owner: str, now_ms: int) -> dict[str, dict[str, int]]:
        """The beats that no call has brought to an owner for ``TOLD_MS_MIN``, which fetches them (R12).

        They wait on, as the answer may not arrive, either. Reported beats go to the end of their batch, so that the
        next answer has the others, where one cannot have all.

        Returns:
            Ages in ms, by datum and instance key.
        """
        told: Batch = {}
        chars = 0
        with self._lock:
            waiting, under_way = self._batches.get(owner, {}), self._under_way.get(owner, {})
            for entry, at_ms in chain(waiting.items(), under_way.items()):
                if not TOLD_MS_MIN <= now_ms - at_ms < KEEP_MS or entry in told:
                    continue
                chars += sum(map(len, entry))
                if chars > TOLD_CHARS_MAX:
                    break
                told[entry] = at_ms
            for entry in told:
                if entry in waiting:
                    waiting[entry] = waiting.pop(entry)
        return ages_of(told, now_ms)

    def wait_ms(self, owner: str, now_ms: int) -> int:
        """For how long the oldest beat waits that the owner does not have, as far as known; 0 without any."""
        with self._lock:
            batches = self._batches.get(owner, {}), self._under_way.get(owner, {})
            oldest_ms = min((at_ms for batch in batches for at_ms in batch.values()), default=now_ms)
        return min(max(now_ms - oldest_ms, 0), KEEP_MS)

    def left_out_ms(self, owner: str, now_ms: int) -> int:
        """For how long the oldest beat waits that ``told_to`` leaves out, as it may still be sent; 0 without any."""
        return min(self.wait_ms(owner, now_ms), TOLD_MS_MIN)

    def delivered(self, owner: str) -> None:
        """Note that the owner has the beats that were taken for it."""
        with self._lock:
            self._under_way.pop(owner, None)

    def put_back(self, owner: str, batch: Batch) -> None:
        """Take back a batch that did not reach its owner; a newer beat of the same instance stays."""
        with self._lock:
            self._under_way.pop(owner, None)
            now = self._batches.setdefault(owner, {})
            for entry, at_ms in batch.items():
                if len(now) >= COLLECTED_MAX:
                    return
                now.setdefault(entry, at_ms)

    def note_unknown(self, answer: bytes) -> None:
        """Remember the instances that the owner's answer names as unknown: their next beat is passed on.

        Raises:
            CodecError: the answer cannot be read.
        """
        try:
            unknown = orjson.loads(answer).get("unknown", {})
            entries = [(str(key), str(one)) for key, ids in unknown.items() for one in ids]
        except (orjson.JSONDecodeError, AttributeError, TypeError):
            raise CodecError("the answer to a batch of beats cannot be read") from None
        with self._lock:
            if len(self._unknown) + len(entries) > UNKNOWN_MAX:
                self._unknown.clear()  # the owner names them again after their next beat
            self._unknown.update(entries)


def ages_of(batch: Batch, now_ms: int) -> dict[str, dict[str, int]]:
    """Return the ages in ms of a batch's beats, by datum and instance key."""
    ages: dict[str, dict[str, int]] = {}
    for (key, instance_key), at_ms in batch.items():
        ages.setdefault(key, {})[instance_key] = max(now_ms - at_ms, 0)
    return ages


def encode_batch(batch: Batch, now_ms: int) -> bytes:
    """Return the JSON of a batch, with ages in place of times."""
    return orjson.dumps(ages_of(batch, now_ms))


TakeBeats = Callable[[str, Mapping[str, int]], list[str]]
"""Takes the beats of one service, as ages in ms by instance key; returns the instance keys that are not known."""


def take_batch(services: object, take: TakeBeats) -> bytes:
    """Apply another member's batch, parsed from JSON, ``take`` for each service; return the answer.

    Raises:
        CodecError: the batch cannot be read.
    """
    if not isinstance(services, dict):
        raise CodecError("a batch of beats should be a JSON object")
    for ages in services.values():
        if not isinstance(ages, dict) or not all(type(age) is int and 0 <= age <= AGE_MS_MAX for age in ages.values()):
            raise CodecError("a service of a batch of beats should be a JSON object of ages in ms")
    unknown = {key: names for key, ages in services.items() if (names := take(key, ages))}
    return orjson.dumps({"unknown": unknown})


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
