"""Checks that wait for a thread, by service: each service has its turn, and none has all the threads."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """What waits, and what is worked on, by owner. Not thread-safe."""

    def __init__(self, *, waiting_max: int, owner_waiting_max: int, owner_running_max: int) -> None:
        self._waiting_max = waiting_max
        self._owner_waiting_max = owner_waiting_max
        self._owner_running_max = owner_running_max
        self._waiting: dict[Hashable, deque[T]] = {}
        """In the order of their turns."""
        self._running: dict[Hashable, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, owner: Hashable, item: T) -> bool:
        """Have an item wait; False when too many do, of its owner or of all."""
        items = self._waiting.get(owner)
        if self._count >= self._waiting_max or (items is not None and len(items) >= self._owner_waiting_max):
            return False
        if items is None:
            items = self._waiting[owner] = deque()
        items.append(item)
        self._count += 1
        return True

    def take(self) -> T | None:
        """The next item, of the owner whose turn it is; ``done`` is to follow. None when no owner may have one."""
        for owner in self._waiting:
            if self._running.get(owner, 0) < self._owner_running_max:
                break
        else:
            return None
        items = self._waiting.pop(owner)
        item = items.popleft()
        if items:
            self._waiting[owner] = items  # behind all others
        self._running[owner] = self._running.get(owner, 0) + 1
        self._count -= 1
        return item

    def done(self, owner: Hashable) -> None:
        """An item of an owner is worked on no more."""
        left = self._running.pop(owner) - 1
        if left:
            self._running[owner] = left
