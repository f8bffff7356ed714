"""Instance ids that are numbers: the least free one, without a look at all others."""

from collections.abc import Iterable
from heapq import heappop, heappush

DIGITS_MAX = 18


class IdAllocator:
    """Knows the ids of a service's instances. What it costs to ask does not grow with them."""

    __slots__ = ("_freed", "_next", "_taken")

    def __init__(self, ids: Iterable[str | None]) -> None:
        self._taken: dict[str, int] = {}
        """How many have an id: what a peer sent may be anything, and the same twice."""
        self._freed: list[int] = []
        """A heap of numbers below ``_next``; each of them has been free since it was put there, or was taken again."""
        self._next = 0
        for one in ids:
            self.take(one)

    def lowest_free(self) -> int:
        """The least number that is nobody's id."""
        while self._freed:
            if str(self._freed[0]) not in self._taken:
                return self._freed[0]
            heappop(self._freed)
        while str(self._next) in self._taken:
            self._next += 1
        return self._next

    def take(self, instance_id: str | None) -> None:
        """Somebody has the id from now on."""
        if not instance_id:
            return
        self._taken[instance_id] = self._taken.get(instance_id, 0) + 1
        if self._freed and str(self._freed[0]) == instance_id:
            heappop(self._freed)

    def give(self, instance_id: str | None) -> None:
        """One that had the id has it no more."""
        if not instance_id:
            return
        count = self._taken.pop(instance_id, 0)
        if count > 1:
            self._taken[instance_id] = count - 1
        elif instance_id.isascii() and instance_id.isdecimal() and len(instance_id) <= DIGITS_MAX:
            number = int(instance_id)
            if number < self._next and str(number) == instance_id:
                heappush(self._freed, number)
