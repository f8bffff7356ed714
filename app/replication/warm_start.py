"""The start from the copy on disk: what the last run held and no other member holds newer."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

from app.naming.model.model import NEVER_MS
from app.naming.registry.merge import InstanceList
from app.naming.registry.registry import TOMBSTONE_SLACK_MS, Registry
from distro.model.types import Datum, Merged
from distro.timing.paced import STEP_STORED, rest

LOG = logging.getLogger(__name__)
RECENT_MS = TOMBSTONE_SLACK_MS
"""What was said so lately can be merged whatever its version: a removal since then is still known to the others."""
PROGRESS_LISTS = 25_000


class WarmStart:
    """The datums of the last run, from their reading until the load from other members is over."""

    def __init__(self, registry: Registry, *, claims: bool) -> None:
        """``claims``: a node alone becomes the writer at once, as no other member takes the services over."""
        self._registry = registry
        self._claims = claims
        self._datums: Iterator[Datum] = iter(())
        self._taken = 0
        self._stopped = False

    def read(self, datums: Iterable[Datum]) -> None:
        """Take the datums of the last run, each of which is made when ``fill`` asks for it."""
        self._datums = iter(datums)

    def stop(self) -> None:
        """End ``fill`` at its next step, for good: what it leaves is still on the disk. Any thread."""
        self._stopped = True

    def fill(self, now_ms: int) -> None:
        """Take over the datums that no other member gave in a newer state (R7), with a full time-out each.

        With rests, as there may be a hundred thousand, each of them once: after a failure a second call goes on.
        """
        number = 0
        while not self._stopped and (datum := next(self._datums, None)) is not None:
            # One by one they are freed, too: all at once that would hold up the other threads.
            self._taken += self._take(datum, now_ms)
            number += 1
            if not number % STEP_STORED:
                rest()
            if not number % PROGRESS_LISTS:
                LOG.info("%d lists of the last run are merged", number)
        if self._taken:
            LOG.info("%d services with their instances are taken over from the last run", self._taken)
            self._taken = 0

    def _take(self, datum: Datum, now_ms: int) -> bool:
        """Take over what is newer in one datum; return whether there was anything."""
        registry, taken = self._registry, False
        stored = registry.version(datum.key)
        for one in datum.value.stored.values():
            # That the instance lives is a guess: any known removal wins.
            one.beat_ms, one.last_confirmed_ms = now_ms, NEVER_MS
        if stored is None:
            taken = registry.apply(datum, stored, now_ms)
        elif datum.version > stored:
            taken = registry.merge(datum, now_ms) is not Merged.NOTHING
        elif datum.version < stored and registry.lacks(recent := _said_since(datum, now_ms - RECENT_MS)):
            # Two sides of a partition count versions apart: this member's lower one may be of a later word.
            taken = registry.merge(recent, now_ms) is not Merged.NOTHING
        if self._claims:
            registry.claim(datum.key, now_ms)
        return taken


def _said_since(datum: Datum, since_ms: int) -> Datum:
    """The datum with those of its instances and tombstones only that clients said since then."""
    found: InstanceList = datum.value
    stored = {key: one for key, one in found.stored.items() if one.changed_ms >= since_ms}
    tombstones = {key: one for key, one in found.tombstones.items() if one.at_ms >= since_ms}
    return replace(datum, value=InstanceList(stored, tombstones))
