"""Checks that wait for a thread, by service: each service has its turn, and none has all the threads."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """The waiting items, and the items in progress, by owner. Not thread-safe."""

    def __init__(self, *, waiting_max: int, owner_waiting_max: int, owner_running_max: int) -> None:
        self._waiting_max = waiting_max
        self._owner_waiting_max = owner_waiting_max
        self._owner_running_max = owner_running_max
        self._waiting: dict[Hashable, deque[T]] = {}
        """The waiting items by owner, in the order of the owners' turns."""
        self._running: dict[Hashable, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, owner: Hashable, item: T) -> bool:
        """Have an item wait. Return False if too many do, of its owner or of all."""
        items = self._waiting.get(owner)
        if self._count >= self._waiting_max or (items is not None and len(items) >= self._owner_waiting_max):
            return False
        if items is None:
            items = self._waiting[owner] = deque()
        items.append(item)
        self._count += 1
        return True

    def take(self) -> T | None:
        """Return the next item, of the owner whose turn it is.

        None if no owner may have one. Call ``done`` afterwards.
        """
        for owner in self._waiting:
            if self._running.get(owner, 0) < self._owner_running_max:
                break
        else:
            return None
        items = self._waiting.pop(owner)
        item = items.popleft()
        if items:
            self._waiting[owner] = items  # at the end
        self._running[owner] = self._running.get(owner, 0) + 1
        self._count -= 1
        return item

    def done(self, owner: Hashable) -> None:
        """Note that an item of an owner is finished."""
        left = self._running.pop(owner) - 1
        if left:
            self._running[owner] = left
