"""Beats that come to a member which holds a copy of the instance: answered here, told to the owner in batches.

No datum is written: the owner notes when each instance was last heard of, and says which ones it does not know. The
next beat of such a one is passed on, so that the owner's answer, that it should register, reaches it.

A batch is ``{datum key: {instance key: age in ms}}``, its answer ``{"unknown": {datum key: [instance key]}}``.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from itertools import islice

import orjson

from app.http.input import json_text
from app.naming.wire.datum_codec import AGE_MS_MAX
from distro.errors import CodecError

COLLECTED_MAX = 100_000
"""For one member; beats of further instances are passed on one by one."""
UNKNOWN_MAX = 100_000
BATCH_MAX = 5_000
"""Instances in one call: those of 100,000 beat so often in 200 ms. To read them takes a millisecond or two."""
KEEP_MS = 10_000
"""A beat that could not be told for so long is dropped: others have come since, or its time is over."""

Batch = dict[tuple[str, str], int]
"""The monotonic ms at which each (datum key, instance key) was heard of."""


class BeatCollector:
    """Called by the event loop and by threads of pools; ``take`` and ``put_back`` by the loop.

    The lock keeps a batch still while it is read: between the making of an iterator and its use another thread may
    have its turn.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: dict[str, Batch] = {}
        self._unknown: set[tuple[str, str]] = set()
        self.collected = 0

    def collect(self, owner: str, key: str, instance_key: str, now_ms: int) -> bool:
        """Note a beat for its owner; False when it must be passed on."""
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
            batch[entry] = now_ms
            self.collected += 1
            return True

    def take(self, now_ms: int, busy: Collection[str] = ()) -> list[tuple[str, Batch]]:
        """What is to be told now: owner and batch, of at most ``BATCH_MAX``, those first that wait the longest.

        What is left, and all for owners that are busy, waits for the next time: no turn of the loop has much to do.
        """
        taken: list[tuple[str, Batch]] = []
        with self._lock:
            for owner in self._batches.keys() - set(busy):
                batch = self._batches[owner]
                beats = [(entry, batch.pop(entry)) for entry in list(islice(batch, BATCH_MAX))]
                if not batch:
                    self._batches.pop(owner)
                if told := {entry: at_ms for entry, at_ms in beats if now_ms - at_ms < KEEP_MS}:
                    taken.append((owner, told))
        return taken

    def put_back(self, owner: str, batch: Batch) -> None:
        """The owner was not reached: it is told next time, if nothing newer is known."""
        with self._lock:
            now = self._batches.setdefault(owner, {})
            for entry, at_ms in batch.items():
                if len(now) >= COLLECTED_MAX:
                    return
                now.setdefault(entry, at_ms)

    def note_unknown(self, answer: bytes) -> None:
        """Take the owner's answer.

        Raises:
            CodecError: it is none.
        """
        try:
            unknown = orjson.loads(answer).get("unknown", {})
            entries = [(str(key), str(one)) for key, ids in unknown.items() for one in ids]
        except (orjson.JSONDecodeError, AttributeError, TypeError):
            raise CodecError("the answer to a batch of beats cannot be read") from None
        with self._lock:
            if len(self._unknown) + len(entries) > UNKNOWN_MAX:
                self._unknown.clear()  # they are told again when they beat again
            self._unknown.update(entries)


def encode_batch(batch: Batch, now_ms: int) -> bytes:
    ages: dict[str, dict[str, int]] = {}
    for (key, instance_key), at_ms in batch.items():
        ages.setdefault(key, {})[instance_key] = max(now_ms - at_ms, 0)
    return orjson.dumps(ages)


TakeBeats = Callable[[str, Mapping[str, int]], list[str]]
"""Takes the beats of one service, as ages in ms by instance key; returns the instance keys that are not known."""


def take_batch(body: bytes, take: TakeBeats, is_ours: Callable[[str], bool]) -> bytes:
    """Take another member's batch; return the answer. Services that are not ours are left to their owner.

    Raises:
        CodecError: the batch cannot be read.
    """
    services = json_text.loads_body(body)
    if not isinstance(services, dict):
        raise CodecError("a batch of beats is a JSON object")
    for ages in services.values():
        if not isinstance(ages, dict) or not all(type(age) is int and 0 <= age <= AGE_MS_MAX for age in ages.values()):
            raise CodecError("a service of a batch of beats is a JSON object of ages in ms")
    unknown = {key: names for key, ages in services.items() if is_ours(key) and (names := take(key, ages))}
    return orjson.dumps({"unknown": unknown})
