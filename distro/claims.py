"""Claims (R2): which keys are examined for one, when, and how many in a tick."""

from collections.abc import Callable, Iterator
from itertools import chain, islice

from distro.ports import Components
from distro.types import DistroKey

SLICE_KEYS = 2_000
"""Keys examined in one tick."""


class Claims:
    """The keys that may have to be claimed: all after a change of the view, single ones as they come.

    Single keys are examined once in ``interval_ms``, so that two members that each think they own a key do not claim
    it in a circle. Not thread-safe: the engine's thread owns it.
    """

    def __init__(self, components: Components, interval_ms: int, now_ms: int) -> None:
        self._components = components
        self._interval_ms = interval_ms
        self._later: dict[DistroKey, None] = {}
        self._pass: Iterator[DistroKey] | None = None
        self._seen_view_ms = -1
        self._next_ms = now_ms

    def later(self, key: DistroKey) -> None:
        """Examine this key in a later tick: it seems to be ours and has another writer."""
        self._later[key] = None

    def recheck_all(self) -> None:
        """Examine all keys again, although the view is the same: responsibility may have moved all the same."""
        self._seen_view_ms = -1

    def tick(self, view_since_ms: int, now_ms: int, responsible: Callable[[DistroKey], bool]) -> list[DistroKey]:
        """Claim those of the next ``SLICE_KEYS`` keys that are ours and have another writer; return them.

        Called only while the view is steady; ``view_since_ms``, the time of its last change, tells views apart.
        """
        if self._seen_view_ms != view_since_ms:
            self._seen_view_ms = view_since_ms
            parts = [one for one in self._components.items() if not one[1].owned_by_writer]
            self._pass = iter([DistroKey(name, key) for name, part in parts for key in part.store.versions()])
        if self._later and now_ms >= self._next_ms:
            self._next_ms = now_ms + self._interval_ms
            self._pass = chain(self._pass or (), self._later)
            self._later = {}
        candidates = list(islice(self._pass or (), SLICE_KEYS))
        if len(candidates) < SLICE_KEYS:
            self._pass = None
        return [
            key
            for key in candidates
            if responsible(key) and self._components[key.resource_type].store.claim(key.key, now_ms)
        ]

    def next_due_ms(self, now_ms: int, *, steady: bool) -> int | None:
        """When ``tick`` has keys to examine, None without any; single keys wait until the view is ``steady``."""
        if self._pass is not None:
            return now_ms
        return self._next_ms if self._later and steady else None
