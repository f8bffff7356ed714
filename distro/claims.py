"""Taking over keys: which are looked at, when, and how many at once (R2)."""

from collections.abc import Callable, Iterator
from itertools import chain, islice

from distro.ports import Components
from distro.types import DistroKey

SLICE_KEYS = 2_000


class Claims:
    """The keys to become the writer of. Not thread-safe: its owner is the engine's thread.

    Single keys are claimed at most once in ``interval_ms``: two members that each think that they own one would claim
    in a circle.
    """

    def __init__(self, components: Components, interval_ms: int, now_ms: int) -> None:
        self._components = components
        self._interval_ms = interval_ms
        self._later: dict[DistroKey, None] = {}
        self._pass: Iterator[DistroKey] | None = None
        self._seen_view_ms = -1
        self._next_ms = now_ms

    def later(self, key: DistroKey) -> None:
        """A key is ours and written by another."""
        self._later[key] = None

    def recheck_all(self) -> None:
        """Who is responsible may have changed for every key."""
        self._seen_view_ms = -1

    def tick(self, view_since_ms: int, now_ms: int, responsible: Callable[[DistroKey], bool]) -> list[DistroKey]:
        """Claim a slice of what is ours by a steady view, which is that since ``view_since_ms``; return those keys."""
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
        """When ``tick`` has something to do, None when it has not; single keys wait for a steady view."""
        if self._pass is not None:
            return now_ms
        return self._next_ms if self._later and steady else None
