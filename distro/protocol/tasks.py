"""The work that is pending for one peer: keys to send and to fetch, and waits after failures."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from distro.model.types import DataCall, DistroKey

LOOKED_AT_FACTOR = 4
"""So many times the keys of a send are looked at for it: those of another resource type are passed over."""


class DelayTasks:
    """The keys that are to be sent to one peer, each with the time from which on. A key waits once, however it changes.

    It keeps the due time of its first change, so that a key that changes all the time is sent, too. Values are read
    when they are sent: the number of keys bounds the tasks.
    """

    def __init__(self) -> None:
        self._again: dict[DistroKey, int] = {}
        """The keys of sends that failed, no more than those had: they go before all others."""
        self._due: dict[DistroKey, int] = {}
        self._alone: set[DistroKey] = set()
        self._not_before_ms = 0

    def __len__(self) -> int:
        return len(self._again) + len(self._due)

    def __iter__(self) -> Iterator[DistroKey]:
        return chain(self._again, self._due)

    def __contains__(self, key: object) -> bool:
        """Return whether a key waits. Look-ups alone, which any thread may make."""
        return key in self._again or key in self._due

    def add(self, key: DistroKey, due_ms: int) -> None:
        """Send the key from ``due_ms`` on; nothing changes if it waits already."""
        if key not in self._again:
            self._due.setdefault(key, due_ms)

    def retry(self, keys: Iterable[DistroKey], not_before_ms: int, *, alone: bool = False) -> None:
        """Put the keys of a failed send before all others; nothing at all is due before ``not_before_ms``.

        However many others wait, they are not touched.

        ``alone``: each of them gets a separate send, since the peer rejected them together.
        """
        again = dict.fromkeys(keys, not_before_ms)
        if alone:
            self._alone.update(again)
        for key in again:
            self._due.pop(key, None)
        for key, due_ms in self._again.items():
            again.setdefault(key, due_ms)
        self._again = again
        self._not_before_ms = max(self._not_before_ms, not_before_ms)

    def pop_due(self, now_ms: int, keys_max: int) -> list[DistroKey]:
        """Take the oldest due keys of one resource type, at most ``keys_max``."""
        if now_ms < self._not_before_ms:
            return []
        taken: list[DistroKey] = []
        waiting = chain(self._again.items(), self._due.items())
        for key, due_ms in islice(waiting, LOOKED_AT_FACTOR * keys_max):
            if due_ms > now_ms:
                # Due times rise in the order of arrival; retried keys come first and are all due at one time.
                break
            if taken and key.resource_type != taken[0].resource_type:
                continue
            if key in self._alone:
                if not taken:
                    taken.append(key)
                    self._alone.discard(key)
                break
            taken.append(key)
            if len(taken) == keys_max:
                break
        for key in taken:
            del self._of(key)[key]
        return taken

    def _of(self, key: DistroKey) -> dict[DistroKey, int]:
        return self._again if key in self._again else self._due

    def is_due(self, now_ms: int) -> bool:
        """Return whether ``pop_due`` would return keys now."""
        due_ms = self.next_due_ms()
        return due_ms is not None and due_ms <= now_ms

    def next_due_ms(self) -> int | None:
        """From when on ``pop_due`` returns keys; None without any."""
        first = next(chain(self._again.values(), self._due.values()), None)
        return None if first is None else max(first, self._not_before_ms)

    def clear(self) -> int:
        """Drop all tasks; return how many. Verify rounds repair what the peer misses by it."""
        count = len(self)
        self._again.clear()
        self._due.clear()
        self._alone.clear()
        self._not_before_ms = 0
        return count

    def resume(self, now_ms: int) -> None:
        """End the wait after a failed send, and that of its keys."""
        self._not_before_ms = 0
        self._again = {key: min(due_ms, now_ms) for key, due_ms in self._again.items()}


class BackOff:
    """The waits after failures in a row: ``first_ms``, doubling up to ``max_ms``."""

    def __init__(self, first_ms: int, max_ms: int) -> None:
        self._first_ms = min(first_ms, max_ms)
        self._max_ms = max_ms
        self._next_ms = self._first_ms

    def failed(self) -> int:
        """The wait after this failure, in ms."""
        wait_ms = self._next_ms
        self._next_ms = min(max(self._next_ms * 2, 1), self._max_ms)
        return wait_ms

    @property
    def is_failing(self) -> bool:
        """Return whether there was a failure, and no success since."""
        return self._next_ms != self._first_ms

    def succeeded(self) -> None:
        """Begin again with the first wait."""
        self._next_ms = self._first_ms


SPACING_FACTOR, SPACING_FACTOR_MAX, KEYS_PER_STEP = 4, 6, 8
"""Factors of the spacing of sends in a stream of changes: up to the first of these, and one more for each step of keys.

A write that another member passed on may wait for the next send (R5), and that member asks for it after 100 ms.
"""
STUCK_MS = 1_000
"""A call that has been under way for so long may not have arrived."""
UNFIT_MS, UNFIT_MAX = 60_000, 1_000
"""The time for which keys too large for a call are set aside, as each try moves all of one; and how many keys."""
REST_FACTOR = 2
"""After a long send comes a rest of this many times its duration: sends in a row take a third of the time."""
REST_FROM_BYTES = 8 * 1024
"""Sends of fewer bytes, as they leave, need no rest: they cost next to nothing, however long the peer takes."""
REST_MS_MAX = 1_000


@dataclass(slots=True)
class PeerQueue:
    """All that is pending for one peer, and whether a call to it is under way: there is one at a time."""

    back_off: BackOff
    tasks: DelayTasks = field(default_factory=DelayTasks)
    fetch: dict[DistroKey, None] = field(default_factory=dict)
    """Keys of which the peer has a state that this node lacks."""
    fetch_not_before_ms: int = 0
    fetch_keys_max: int = 1 << 30
    """Keys of one query: fewer after one that failed, as its answer may be too long or too slow as a whole."""
    unfit: dict[DistroKey, int] = field(default_factory=dict)
    """Keys that were too large for a separate call, and until when verify rounds do not bring them up again."""
    sync_keys_max: int = 1 << 30
    """Keys of one send, likewise: a take-over has whole lists, and a late send is too late with each repetition."""
    sync_not_before_ms: int = 0
    """The end of the spacing, or of the rest, after the last send."""
    call: DataCall | None = None
    """The call of data that is under way."""
    call_since_ms: int = 0
    """When it began."""
    bytes_before: int = 0
    """How many bytes the peer had been sent by then."""
    in_flight: tuple[DistroKey, ...] = ()
    """The keys of the send that is under way."""
    reachable: bool = False
    waiting: tuple[DistroKey, ...] = ()
    """The first keys to send, while the peer does not answer; its own calls are informed of them (R12)."""

    def is_stuck(self, now_ms: int) -> bool:
        """Return whether calls of data do not get through to the peer, as far as known."""
        is_late = self.call is not None and now_ms - self.call_since_ms >= STUCK_MS
        return is_late or self.back_off.is_failing

    def is_sync_due(self, now_ms: int) -> bool:
        """Return whether keys are due, and the spacing after the last send is over."""
        return now_ms >= self.sync_not_before_ms and self.tasks.is_due(now_ms)

    def take_sync(self, now_ms: int, keys_max: int, spacing_ms: int) -> list[DistroKey]:
        """Take the keys to send now, of one resource type; more are due after ``spacing_ms`` at the earliest.

        Where several came within the spacing, the next one is longer, up to ``SPACING_FACTOR_MAX`` times: a send costs
        as much as several changes in it, and in a stream of them no caller waits for one. Many changes come to few
        keys. A longer one ends at a multiple of itself: so the sends to all peers fall into one turn, and are read
        once.
        """
        if not self.is_sync_due(now_ms):
            return []
        taken = self.tasks.pop_due(now_ms, keys_max := min(keys_max, self.sync_keys_max))
        has_more = len(taken) == keys_max
        wait_ms = (1 if has_more else _spacing_factor(len(taken))) * spacing_ms
        end_ms = now_ms + wait_ms
        if wait_ms > spacing_ms:
            end_ms = max(end_ms - end_ms % wait_ms, now_ms + spacing_ms)
        self.sync_not_before_ms = end_ms
        return taken

    def gathers_ms(self, now_ms: int) -> int:
        """For how long a key that changes from now on waits, as the spacing after the last send lasts."""
        return max(self.sync_not_before_ms - now_ms, 0)

    def sync_ended(self, count: int, *, delivered: bool) -> None:
        """Note how a send of so many keys ended: the next one has half as many, or may have twice as many."""
        self.sync_keys_max = max(count // 2, 1) if not delivered else max(self.sync_keys_max, count * 2)

    def sent(self, begun_ms: int, now_ms: int, bytes_count: int) -> None:
        """Note that a send of ``begun_ms`` arrived. The longer much data took, the longer both members get a rest."""
        self.back_off.succeeded()
        if bytes_count < REST_FROM_BYTES:
            return
        rest_ms = min(REST_FACTOR * (now_ms - begun_ms), REST_MS_MAX)
        self.sync_not_before_ms = max(self.sync_not_before_ms, now_ms + rest_ms)

    def send_now(self, keys: Iterable[DistroKey], now_ms: int) -> None:
        """Send keys at once, without a rest: whole datums of which deltas did not fit (R5)."""
        for key in keys:
            self.tasks.add(key, now_ms)
        self.sync_not_before_ms = now_ms

    def take_fetch(self, keys_max: int) -> list[DistroKey]:
        """Take the oldest keys to fetch that are of one resource type, at most ``keys_max``."""
        keys_max = min(keys_max, self.fetch_keys_max)
        resource_type = next(iter(self.fetch)).resource_type
        keys = list(islice((key for key in self.fetch if key.resource_type == resource_type), keys_max))
        for key in keys:
            del self.fetch[key]
        return keys

    def set_aside(self, key: DistroKey, now_ms: int) -> None:
        """Neither fetch a key for ``UNFIT_MS``, nor send it as the peer asks for it: it does not fit into a call."""
        self.unfit.pop(key, None)
        self.unfit[key] = now_ms + UNFIT_MS
        if len(self.unfit) > UNFIT_MAX:
            del self.unfit[next(iter(self.unfit))]

    def is_aside(self, key: DistroKey, now_ms: int) -> bool:
        """Return whether a key was set aside, and its time is not over."""
        return self.unfit.get(key, now_ms) > now_ms

    def fetch_ended(self, count: int, *, delivered: bool) -> None:
        """Note how a query of so many keys ended: the next one has half as many, or may have twice as many."""
        self.fetch_keys_max = max(count // 2, 1) if not delivered else max(self.fetch_keys_max, count * 2)

    def on_reachable(self, now_ms: int) -> None:
        """End the waits after failures: the peer can be reached."""
        self.reachable = True
        self.tasks.resume(now_ms)
        self.back_off.succeeded()

    def on_answering(self, now_ms: int) -> None:
        """End all waits after failures (R16): the peer, which was reachable through others, answers again."""
        self.tasks.resume(now_ms)
        self.fetch_not_before_ms = min(self.fetch_not_before_ms, now_ms)

    def on_unreachable(self) -> int:
        """Drop the keys to send and to fetch; return how many were to be sent."""
        self.reachable = False
        self.fetch.clear()
        self.back_off.succeeded()
        return self.tasks.clear()

    def first_keys(self, keys_max: int) -> tuple[str, ...]:
        """Return the names of the first keys to send, those under way first."""
        return tuple([key.key for key in islice(chain(self.in_flight, self.tasks), keys_max)])

    def next_send_ms(self) -> int | None:
        """Return when keys are sent next; None if none wait."""
        next_ms = self.tasks.next_due_ms()
        return None if next_ms is None else max(next_ms, self.sync_not_before_ms)

    def waits(self, key: DistroKey) -> str:
        """Return what is still to be done with a key, in words. Look-ups alone, which any thread may make."""
        found = [
            "nothing is sent while the peer is not UP; it is compared when UP again" if not self.reachable else "",
            "being sent" if key in self.in_flight else "",
            ("to be sent again" if self.back_off.is_failing else "to be sent") if key in self.tasks else "",
            "to be fetched" if key in self.fetch else "",
        ]
        return ", ".join(one for one in found if one)

    def next_due_ms(self) -> int | None:
        """When the next send or query is due, whether or not a call is under way; None without any keys."""
        tasks_ms = self.tasks.next_due_ms()
        due = [] if tasks_ms is None else [max(tasks_ms, self.sync_not_before_ms)]
        if self.fetch:
            due.append(self.fetch_not_before_ms)
        return min(due, default=None)


def _spacing_factor(keys: int) -> int:
    """How many times the usual spacing follows a send of so many keys."""
    return min(keys, SPACING_FACTOR + keys // KEYS_PER_STEP, SPACING_FACTOR_MAX)
