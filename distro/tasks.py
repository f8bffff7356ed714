"""What one peer is owed: delay tasks, keys to fetch from it, its next verify round, and waits after failures."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from distro.types import DistroKey


class DelayTasks:
    """The keys that one peer is still owed. One task a key: a second change merges into the first.

    A merged task keeps its first deadline, so a key that changes all the time still leaves. Bounded by the number of
    keys, since a task holds no value: values are read when sent.
    """

    def __init__(self) -> None:
        self._due: dict[DistroKey, int] = {}
        self._alone: set[DistroKey] = set()
        self._not_before_ms = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: DistroKey) -> bool:
        return key in self._due

    def add(self, key: DistroKey, due_ms: int) -> None:
        self._due.setdefault(key, due_ms)

    def retry(self, keys: Iterable[DistroKey], not_before_ms: int, *, alone: bool = False) -> None:
        """Queue keys of a failed send again, before those that came since; nothing leaves before ``not_before_ms``.

        With ``alone`` each of them leaves in a send of its own: the peer refused them together.
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
                # Deadlines rise in the order of arrival, but for retries, which stand first and are all due together.
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
            del self._due[key]
        return taken

    def is_due(self, now_ms: int) -> bool:
        """Whether ``pop_due`` would give something now."""
        due_ms = self.next_due_ms()
        return due_ms is not None and due_ms <= now_ms

    def next_due_ms(self) -> int | None:
        """When ``pop_due`` may next give something, or None without tasks."""
        if not self._due:
            return None
        return max(next(iter(self._due.values())), self._not_before_ms)

    def clear(self) -> int:
        """Drop all tasks; return how many there were. Verify rounds repair what is lost here."""
        count = len(self._due)
        self._due.clear()
        self._alone.clear()
        self._not_before_ms = 0
        return count

    def resume(self) -> None:
        """Forget the wait of a failed send: the peer has answered again."""
        self._not_before_ms = 0


class BackOff:
    """How long to wait after the n-th failure in a row."""

    def __init__(self, first_ms: int, max_ms: int) -> None:
        self._first_ms = min(first_ms, max_ms)
        self._max_ms = max_ms
        self._next_ms = self._first_ms

    def failed(self) -> int:
        wait_ms = self._next_ms
        self._next_ms = min(max(self._next_ms * 2, 1), self._max_ms)
        return wait_ms

    def succeeded(self) -> None:
        self._next_ms = self._first_ms


REST_FACTOR = 2
"""So much longer than a send took is the pause after it: what is sent again and again takes a third of the time."""
REST_MS_MAX = 1_000


@dataclass(slots=True)
class PeerQueue:
    """What one peer is owed, and whether a call to it is under way: one at a time."""

    back_off: BackOff
    tasks: DelayTasks = field(default_factory=DelayTasks)
    fetch: dict[DistroKey, None] = field(default_factory=dict)
    """Keys of which the peer holds newer data."""
    fetch_not_before_ms: int = 0
    sync_not_before_ms: int = 0
    """The end of the spacing after the last send."""
    busy: bool = False
    verify_due_ms: int = 0
    verify_types: list[str] = field(default_factory=list)
    """Resource types that this round has still to send."""
    reachable: bool = False
    agreed: dict[DistroKey, int] = field(default_factory=dict)
    """In how many rounds the peer agreed that a spent key may be forgotten."""

    def is_sync_due(self, now_ms: int) -> bool:
        return now_ms >= self.sync_not_before_ms and self.tasks.is_due(now_ms)

    def take_sync(self, now_ms: int, keys_max: int, spacing_ms: int) -> list[DistroKey]:
        """Take the keys to send now, of one resource type; the next are due ``spacing_ms`` later at the earliest."""
        if not self.is_sync_due(now_ms):
            return []
        self.sync_not_before_ms = now_ms + spacing_ms
        return self.tasks.pop_due(now_ms, keys_max)

    def sent(self, begun_ms: int, now_ms: int) -> None:
        """A send arrived. After one that took long, as lists of thousands do, the peer and this node get a rest."""
        self.back_off.succeeded()
        rest_ms = min(REST_FACTOR * (now_ms - begun_ms), REST_MS_MAX)
        self.sync_not_before_ms = max(self.sync_not_before_ms, now_ms + rest_ms)

    def take_fetch(self, keys_max: int) -> list[DistroKey]:
        """Take the oldest keys to fetch that are of one resource type, at most ``keys_max``."""
        resource_type = next(iter(self.fetch)).resource_type
        keys = [key for key in self.fetch if key.resource_type == resource_type][:keys_max]
        for key in keys:
            del self.fetch[key]
        return keys

    def found(self, now_ms: int) -> None:
        """The peer can be reached again: what was not sent to it shows in a verify round, now."""
        self.reachable = True
        self.verify_due_ms = now_ms
        self.tasks.resume()
        self.back_off.succeeded()

    def lost(self) -> int:
        """The peer cannot be reached: nothing is owed to it any more. Return how many tasks were dropped."""
        self.reachable = False
        self.fetch.clear()
        self.agreed.clear()
        self.back_off.succeeded()
        return self.tasks.clear()

    def next_due_ms(self, now_ms: int) -> int:
        """When the next call to the peer is due."""
        due = [now_ms if self.verify_types else self.verify_due_ms]
        if self.fetch:
            due.append(self.fetch_not_before_ms)
        if (tasks_ms := self.tasks.next_due_ms()) is not None:
            due.append(max(tasks_ms, self.sync_not_before_ms))
        return min(due)
