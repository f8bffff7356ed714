"""The start from the copy on disk: the states of the last run, unless other members hold newer ones."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from app.naming.model.model import NEVER_MS
from app.naming.registry.list_replication import ListReplication
from app.naming.registry.list_state import TOMBSTONE_SLACK_MS, ListState
from app.naming.registry.merge import InstanceList
from distro.model.types import Datum, Merged
from distro.timing.sliced import STEP_STORED, rest

LOG = logging.getLogger(__name__)
RECENT_MS = TOMBSTONE_SLACK_MS
"""States this recent can be merged in any version: other members still know any later removal."""
PROGRESS_LISTS = 25_000


class WarmStart:
    """The datums of the last run, from their reading until the load from other members is over."""

    def __init__(
        self, lists: ListState, replication: ListReplication, monotonic_ms: Callable[[], int], *, claims: bool
    ) -> None:
        """``claims``: a single node becomes the writer at once, as no other member takes the services over."""
        self._lists = lists
        self._replication = replication
        self._monotonic_ms = monotonic_ms
        self._claims = claims
        self._datums: Iterator[Datum] = iter(())
        self._taken = 0
        self._stopped = False

    def read(self, datums: Iterable[Datum]) -> None:
        """Take the datums of the last run. Each is made when ``fill`` asks for it."""
        self._datums = iter(datums)

    def stop(self) -> None:
        """End ``fill`` at its next step, for good. The datums left over are still on the disk. For any thread."""
        self._stopped = True

    def fill(self, now_ms: int) -> None:
        """Take over the datums that no other member gave in a newer state (R7), with a full time-out each.

        Pauses between steps, as there may be a hundred thousand datums. After a failure a second call continues where
        the first ended.
        """
        number, began_ms = 0, self._monotonic_ms()
        while not self._stopped and (datum := next(self._datums, None)) is not None:
            # They are also freed one by one: freeing all at once would hold up the other threads.
            self._taken += self._take(datum, now_ms)
            number += 1
            if not number % STEP_STORED:
                rest()
            if not number % PROGRESS_LISTS:
                LOG.info("%d lists of the last run are merged", number)
        if self._taken:
            took_s = (self._monotonic_ms() - began_ms) / 1_000
            text = "%d services with their instances are taken over from the last run, in %.1f s"
            LOG.info(text, self._taken, took_s)
            self._taken = 0

    def _take(self, datum: Datum, now_ms: int) -> bool:
        """Take over the newer parts of one datum. Return whether there were any."""
        replication, taken = self._replication, False
        stored = self._lists.version(datum.key)
        for one in datum.value.stored.values():
            # The instance may be alive, but that is a guess: any known removal wins.
            one.beat_ms, one.last_confirmed_ms = now_ms, NEVER_MS
        if stored is None:
            taken = replication.apply(datum, stored, now_ms)
        elif datum.version > stored:
            taken = replication.merge(datum, now_ms) is not Merged.NOTHING
        elif datum.version < stored and replication.lacks(recent := _said_since(datum, now_ms - RECENT_MS)):
            # Two sides of a partition count versions apart: this member's lower version may be the later change.
            taken = replication.merge(recent, now_ms) is not Merged.NOTHING
        if self._claims:
            replication.claim(datum.key, now_ms)
        return taken


def _said_since(datum: Datum, since_ms: int) -> Datum:
    """Return the datum with only those instances and tombstones that clients reported since then."""
    found: InstanceList = datum.value
    stored = {key: one for key, one in found.stored.items() if one.changed_ms >= since_ms}
    tombstones = {key: one for key, one in found.tombstones.items() if one.at_ms >= since_ms}
    return replace(datum, value=InstanceList(stored, tombstones))
