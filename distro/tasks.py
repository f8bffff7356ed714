"""The work that is pending for one peer: keys to send and to fetch, its next verify round, waits after failures."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from distro.types import DataCall, DistroKey


class DelayTasks:
    """The keys that are to be sent to one peer, each with the time from which on. A key waits once, however it changes.

    It keeps the due time of its first change, so that a key that changes all the time is sent, too. Values are read
    when they are sent: the number of keys bounds the tasks.
    """

    def __init__(self) -> None:
        self._due: dict[DistroKey, int] = {}
        self._alone: set[DistroKey] = set()
        self._not_before_ms = 0
        self.popped_since_ms = 0
        """From when on the oldest of the keys was due that ``pop_due`` took last."""

    def __len__(self) -> int:
        return len(self._due)

    def __iter__(self) -> Iterator[DistroKey]:
        return iter(self._due)

    def __contains__(self, key: object) -> bool:
        """Whether a key waits. One look-up, which any thread may make."""
        return key in self._due

    def add(self, key: DistroKey, due_ms: int) -> None:
        """Send the key from ``due_ms`` on; nothing changes if it waits already."""
        self._due.setdefault(key, due_ms)

    def retry(self, keys: Iterable[DistroKey], not_before_ms: int, *, alone: bool = False) -> None:
        """Put the keys of a failed send before all others; nothing at all is due before ``not_before_ms``.

        ``alone``: each of them gets a send of its own, since the peer rejected them together.
        """
        again = dict.fromkeys(keys, not_before_ms)
        if alone:
            self._alone.update(again)
        for key, due_ms in self._due.items():
            again.setdefault(key, due_ms)
        self._due = again
        self._not_before_ms = max(self._not_before_ms, not_before_ms)

    def pop_due(self, now_ms: int, keys_max: int) -> list[DistroKey]:
        """Take the oldest due keys of one resource type, at most ``keys_max``."""
        if now_ms < self._not_before_ms:
            return []
        taken: list[DistroKey] = []
        for key, due_ms in self._due.items():
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
        if taken:
            self.popped_since_ms = self._due[taken[0]]
        for key in taken:
            del self._due[key]
        return taken

    def is_due(self, now_ms: int) -> bool:
        """Whether ``pop_due`` would return keys now."""
        due_ms = self.next_due_ms()
        return due_ms is not None and due_ms <= now_ms

    def next_due_ms(self) -> int | None:
        """From when on ``pop_due`` returns keys; None without any."""
        if not self._due:
            return None
        return max(next(iter(self._due.values())), self._not_before_ms)

    def clear(self) -> int:
        """Drop all tasks; return how many. Verify rounds repair what the peer misses by it."""
        count = len(self._due)
        self._due.clear()
        self._alone.clear()
        self._not_before_ms = 0
        return count

    def resume(self) -> None:
        """End the wait after a failed send."""
        self._not_before_ms = 0


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
        """Whether there was a failure, and no success since."""
        return self._next_ms != self._first_ms

    def succeeded(self) -> None:
        """Begin again with the first wait."""
        self._next_ms = self._first_ms


STUCK_MS = 1_000
"""A call that has been under way for so long may not have arrived."""
REST_FACTOR = 2
"""After a send comes a rest of this many times its duration: sends in a row take a third of the time."""
REST_MS_MAX = 1_000


@dataclass(slots=True)
class PeerQueue:
    """All that is pending for one peer, and whether a call to it is under way: there is one at a time."""

    back_off: BackOff
    tasks: DelayTasks = field(default_factory=DelayTasks)
    fetch: dict[DistroKey, None] = field(default_factory=dict)
    """Keys of which the peer has a state that this node lacks."""
    fetch_not_before_ms: int = 0
    sync_not_before_ms: int = 0
    """The end of the spacing, or of the rest, after the last send."""
    call: DataCall | None = None
    """The call of data that is under way."""
    call_since_ms: int = 0
    """When it began."""
    in_flight: tuple[DistroKey, ...] = ()
    """The keys of the send that is under way."""
    failing_since_ms: int | None = None
    """From when on the oldest of the keys was due whose send failed, since the last send that arrived."""
    verify_due_ms: int = 0
    verify_types: list[str] = field(default_factory=list)
    """Resource types that the present verify round has still to send."""
    verify_again: dict[str, int] = field(default_factory=dict)
    """Resource types whose part of the round failed, and when it is sent again."""
    verify_back_offs: dict[str, BackOff] = field(default_factory=dict)
    reachable: bool = False
    agreed: dict[DistroKey, int] = field(default_factory=dict)
    """In how many verify rounds the peer agreed that a forgettable key may be dropped (R6)."""

    def is_stuck(self, now_ms: int) -> bool:
        """Whether calls of data do not get through to the peer, as far as known."""
        is_late = self.call is not None and now_ms - self.call_since_ms >= STUCK_MS
        return is_late or self.back_off.is_failing

    def is_sync_due(self, now_ms: int) -> bool:
        """Whether keys are due, and the spacing after the last send is over."""
        return now_ms >= self.sync_not_before_ms and self.tasks.is_due(now_ms)

    def take_sync(self, now_ms: int, keys_max: int, spacing_ms: int) -> list[DistroKey]:
        """Take the keys to send now, of one resource type; more are due after ``spacing_ms`` at the earliest."""
        if not self.is_sync_due(now_ms):
            return []
        self.sync_not_before_ms = now_ms + spacing_ms
        return self.tasks.pop_due(now_ms, keys_max)

    def oldest_due_ms(self) -> int:
        """From when on the oldest of the keys was due that are under way, the tries before counted in."""
        since_ms = self.tasks.popped_since_ms
        return since_ms if self.failing_since_ms is None else min(since_ms, self.failing_since_ms)

    def keep_oldest_due(self) -> None:
        """Remember how old the keys under way are, as their send failed and they become due anew."""
        self.failing_since_ms = self.oldest_due_ms()

    def sent(self, begun_ms: int, now_ms: int) -> None:
        """Note that a send of ``begun_ms`` arrived. The longer it took, the longer both members get a rest."""
        self.back_off.succeeded()
        self.failing_since_ms = None
        rest_ms = min(REST_FACTOR * (now_ms - begun_ms), REST_MS_MAX)
        self.sync_not_before_ms = max(self.sync_not_before_ms, now_ms + rest_ms)

    def take_fetch(self, keys_max: int) -> list[DistroKey]:
        """Take the oldest keys to fetch that are of one resource type, at most ``keys_max``."""
        resource_type = next(iter(self.fetch)).resource_type
        keys = [key for key in self.fetch if key.resource_type == resource_type][:keys_max]
        for key in keys:
            del self.fetch[key]
        return keys

    def verify_failed(self, resource_type: str, now_ms: int, new_back_off: Callable[[], BackOff]) -> None:
        """Send the part of the round again after a wait: a peer that is reached again lacks what it finds."""
        if resource_type not in self.verify_back_offs:
            self.verify_back_offs[resource_type] = new_back_off()
        self.verify_again[resource_type] = now_ms + self.verify_back_offs[resource_type].failed()

    def next_verify_type(self, now_ms: int) -> str | None:
        """Take the resource type whose part of the verify round is to be sent now, if there is one."""
        if self.verify_types:
            return self.verify_types.pop()
        due = next((name for name, due_ms in self.verify_again.items() if due_ms <= now_ms), None)
        if due is not None:
            del self.verify_again[due]
        return due

    def on_reachable(self, now_ms: int) -> None:
        """Begin a verify round now: it finds the keys that were not sent while the peer could not be reached."""
        self.reachable = True
        self.verify_back_offs.clear()
        self.verify_due_ms = now_ms
        self.tasks.resume()
        self.back_off.succeeded()

    def on_unreachable(self) -> int:
        """Drop the keys to send and to fetch; return how many were to be sent."""
        self.reachable = False
        self.fetch.clear()
        self.agreed.clear()
        self.verify_again.clear()
        self.failing_since_ms = None
        self.back_off.succeeded()
        return self.tasks.clear()

    def next_due_ms(self, now_ms: int) -> int:
        """When the next call to the peer is due, whether or not one is under way."""
        due = [now_ms if self.verify_types else self.verify_due_ms, *self.verify_again.values()]
        if self.fetch:
            due.append(self.fetch_not_before_ms)
        if (tasks_ms := self.tasks.next_due_ms()) is not None:
            due.append(max(tasks_ms, self.sync_not_before_ms))
        return min(due)
