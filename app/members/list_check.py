"""The check of a member list that was found: new members count at once.

A member is dropped once several looks agree.
"""

LOOKS, LOOKS_OF_MOST = 2, 4
"""The number of consecutive looks that must miss a member before it is dropped; the second applies if more than half of
the members are missing at once. A file may be seen half written, and an answer of a name service may be cut short."""


class ListCheck:
    """Compares the result of each look with the list in use.

    Not thread-safe. It holds only the members of that list.
    """

    def __init__(self, members: tuple[str, ...], self_address: str) -> None:
        self.members = members
        """The list in use."""
        self._self_address = self_address
        self._missed: dict[str, int] = {}
        """The number of consecutive looks that missed a member, by member."""

    @property
    def held(self) -> int:
        """The number of members that the last look missed, and that stay until further looks agree."""
        return len(self._missed)

    def offer(self, found: tuple[str, ...]) -> bool:
        """Apply the result of a look to ``members``, as far as it is trusted. Return whether that changed them.

        ``found``: includes this node. Do not offer the result of a look that found nothing.
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
