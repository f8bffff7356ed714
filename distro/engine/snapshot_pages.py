"""A snapshot that comes in pages (R7): the versions of all keys first, then the datums of those that are lacking."""

from collections.abc import Callable, Mapping, Sequence

from distro.model.errors import TransportError, UnfitError
from distro.model.types import Datum, Page, Version

KEYS_MIN, KEYS_MAX = 16, 1_000
"""Asked for in one page: twice as many as the last one had, within these."""


class SnapshotPages:
    """One pass through the keys of a peer's snapshot.

    A key that changed after its version was sent comes with its latest version; forgotten keys are left out. A
    pass that breaks off is begun again with the versions of then, and passes over what was taken. So does one next to
    it, from another peer: each goes through the keys in a different order, and they share the work.
    """

    def __init__(
        self,
        versions: Mapping[str, Version],
        *,
        lacks: Callable[[str, Version], bool],
        fetch: Callable[[Sequence[str]], Page],
        take: Callable[[list[Datum]], int],
        shuffle: Callable[[list[str]], None],
    ) -> None:
        """``lacks``: whether this member's state of a key is below a version. ``take`` returns how many it stored.

        ``shuffle`` puts keys into an order that differs from pass to pass.
        """
        self._versions = versions
        self._lacks = lacks
        self._fetch = fetch
        self._take = take
        self._left = list(versions)
        shuffle(self._left)
        self._ask = KEYS_MIN
        self.taken = 0
        """Datums that were stored."""
        self.unfit: list[str] = []
        """Keys whose datums no page can bring; they are passed over."""

    @property
    def is_done(self) -> bool:
        """Return whether every key was asked for, or was not lacking."""
        return not self._left

    def next_page(self) -> None:
        """Fetch and take the next page, unless nothing is lacking any more.

        One that does not fit into a call, or takes too long, is asked for again with half as many keys, down to the one
        that is too large.

        Raises:
            TransportError: it did not come, nor would a smaller one; it can be asked for again.
        """
        asked = self._next_keys()
        if not asked:
            return
        self._left += reversed(asked)  # until they are answered
        try:
            page = self._fetch(asked)
        except TransportError as error:
            is_unfit = isinstance(error, UnfitError)
            if error.refused or (len(asked) == 1 and not is_unfit):
                raise
            if len(asked) == 1:
                self.unfit.append(self._left.pop())
            self._ask = max(len(asked) // 2, 1)
            return
        named = set(page.keys)
        answered = next((at for at in range(len(asked), 0, -1) if asked[at - 1] in named), len(asked))
        # An empty page: the peer has none of them any more.
        del self._left[-answered:]
        self._ask = min(max(2 * len(named), KEYS_MIN), 2 * len(asked), KEYS_MAX)
        self.taken += self._take(page.datums)

    def _next_keys(self) -> list[str]:
        left, versions = self._left, self._versions
        asked: list[str] = []
        while left and len(asked) < self._ask:
            key = left.pop()
            if self._lacks(key, versions[key]):
                asked.append(key)
        return asked
