"""What of a member list that was found is taken: who comes at once, who is gone only when looks agree."""

LOOKS, LOOKS_OF_MOST = 2, 4
"""Looks in a row that must miss a member before it is dropped, and those where more than half are missed together:
a file is seen while it is written, and an answer of a name service may be cut short."""


class ListCheck:
    """Compares what each look finds with the list in use. Not thread-safe; it holds nothing but that list's members."""

    def __init__(self, members: tuple[str, ...], self_address: str) -> None:
        self.members = members
        """The list in use."""
        self._self_address = self_address
        self._missed: dict[str, int] = {}
        """In how many looks in a row members of the list were missed."""

    @property
    def held(self) -> int:
        """Members that the last look missed, and that are kept until further looks agree."""
        return len(self._missed)

    def offer(self, found: tuple[str, ...]) -> bool:
        """Take what a look found into ``members`` as far as it may be; return whether that changed them.

        ``found``: with this node. A look that found nothing is none, and not offered.
        """
        others = [one for one in self.members if one != self._self_address]
        missed = [one for one in others if one not in found]
        counts = {one: self._missed.get(one, 0) + 1 for one in missed}
        needed = LOOKS_OF_MOST if 2 * len(missed) > len(others) else LOOKS
        self._missed = {one: count for one, count in counts.items() if count < needed}
        wanted = (*found, *self._missed)
        if set(wanted) == set(self.members):
            return False
        self.members = wanted
        return True
