"""IdAllocator: numeric instance ids. It finds the lowest free one without a search through all others."""

from collections.abc import Iterable
from heapq import heappop, heappush

DIGITS_MAX = 18


class IdAllocator:
    """The ids of one service's instances, and the lowest free number. Its cost does not grow with the instances."""

    __slots__ = ("_freed", "_next", "_taken")

    def __init__(self, ids: Iterable[str | None]) -> None:
        self._taken: dict[str, int] = {}
        """The number of instances with an id: a peer may send one id twice, or one that is not a number."""
        self._freed: list[int] = []
        """A heap of the numbers below ``_next`` that were freed; some of them may be taken again."""
        self._next = 0
        for one in ids:
            self.take(one)

    def lowest_free(self) -> int:
        """Return the lowest number that is not the id of an instance. It stays free until ``take``."""
        while self._freed:
            if str(self._freed[0]) not in self._taken:
                return self._freed[0]
            heappop(self._freed)
        while str(self._next) in self._taken:
            self._next += 1
        return self._next

    def take(self, instance_id: str | None) -> None:
        """Count one more instance with this id."""
        if not instance_id:
            return
        self._taken[instance_id] = self._taken.get(instance_id, 0) + 1
        if self._freed and str(self._freed[0]) == instance_id:
            heappop(self._freed)

    def give(self, instance_id: str | None) -> None:
        """Count one instance fewer with this id. The number is free when none is left."""
        if not instance_id:
            return
        count = self._taken.pop(instance_id, 0)
        if count > 1:
            self._taken[instance_id] = count - 1
        elif instance_id.isascii() and instance_id.isdecimal() and len(instance_id) <= DIGITS_MAX:
            number = int(instance_id)
            if number < self._next and str(number) == instance_id:
                heappush(self._freed, number)
