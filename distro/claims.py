"""Claims (R2): which keys are examined for one, when, and how many at a time.

``Claims`` belongs to the engine's thread and only counts; ``Claimer`` goes through the keys, beside it (R11).
"""

from collections.abc import Callable, Collection, Iterator
from itertools import chain, islice

from distro.ports import Component, Components
from distro.types import Claim, DistroKey

SLICE_KEYS = 2_000
"""Keys examined by one action."""
REFUSED_MS = 5_000
"""Until keys are examined again whose store did not take the claim, as its disk may be full."""


class Claims:
    """The keys that may have to be claimed: all after a change of the view, single ones as they come.

    Single keys are examined once in ``interval_ms``, so that two members that each think they own a key do not claim
    it in a circle. Not thread-safe: the engine's thread owns it.
    """

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        self._interval_ms = interval_ms
        self._later: dict[DistroKey, None] = {}
        self._seen_view_ms = -1
        self._next_ms = now_ms
        self._not_before_ms = now_ms
        self._under_way = False
        self._unfinished = False
        """The last action left keys to examine."""

    def later(self, key: DistroKey) -> None:
        """Examine this key in a later action: it seems to be ours and has another writer."""
        self._later[key] = None

    def refused(self, keys: Collection[DistroKey], now_ms: int) -> None:
        """Examine these keys again after ``REFUSED_MS``."""
        if keys:
            self._later |= dict.fromkeys(keys)
            self._next_ms = max(self._next_ms, now_ms + REFUSED_MS)

    def recheck_all(self) -> None:
        """Examine all keys again, although the view is the same: responsibility may have moved all the same."""
        self._seen_view_ms = -1

    def next_action(self, view_since_ms: int, now_ms: int) -> Claim | None:
        """The action to give out now; None while one is under way, and without keys to examine.

        Called only while the view is steady; ``view_since_ms``, the time of its last change, tells views apart.
        """
        if self._under_way or now_ms < self._not_before_ms:
            return None
        is_new = self._seen_view_ms != view_since_ms
        keys: tuple[DistroKey, ...] = ()
        if self._later and now_ms >= self._next_ms:
            self._next_ms = now_ms + self._interval_ms
            keys, self._later = tuple(self._later), {}
        if not (is_new or keys or self._unfinished):
            return None
        self._seen_view_ms, self._under_way = view_since_ms, True
        return Claim(view_since_ms, keys, all_keys=is_new)

    def on_done(self, *, unfinished: bool) -> None:
        """Note that the action ended; ``unfinished``: there are more keys to examine."""
        self._under_way, self._unfinished = False, unfinished

    def on_failed(self, now_ms: int) -> None:
        """Note that the action failed: all keys are examined again, but not at once."""
        self._under_way, self._unfinished, self._seen_view_ms = False, False, -1
        self._not_before_ms = now_ms + self._interval_ms

    def next_due_ms(self, view_since_ms: int, now_ms: int, *, steady: bool) -> int | None:
        """When ``next_action`` gives one out, None without keys; keys wait until the view is ``steady``."""
        if self._under_way or not steady:
            return None
        if self._unfinished or self._seen_view_ms != view_since_ms:
            return max(self._not_before_ms, now_ms)
        return max(self._next_ms, self._not_before_ms, now_ms) if self._later else None


class Claimer:
    """Examines keys for ``Claim`` actions, and claims those that are ours. For one thread at a time."""

    def __init__(self, components: Components, own_writer: str) -> None:
        self._components = components
        self._own_writer = own_writer
        self._pass: Iterator[DistroKey] = iter(())

    def run(
        self, action: Claim, now_ms: int, may_claim: Callable[[], bool], responsible: Callable[[DistroKey], bool]
    ) -> tuple[list[DistroKey], list[DistroKey], bool]:
        """Examine the next ``SLICE_KEYS`` keys.

        Returns:
            The keys that were claimed, those that their store refused, and whether there are more to examine.

        ``may_claim``: whether the view is still that of the action, and steady; without it all keys wait.
        """
        if action.all_keys:
            parts = [one for one in self._components.items() if not one[1].owned_by_writer]
            self._pass = iter([DistroKey(name, key) for name, part in parts for key in part.store.versions()])
        self._pass = chain(self._pass, action.keys)
        if not may_claim():
            return [], [], True
        candidates = list(islice(self._pass, SLICE_KEYS))
        claimed, refused = list[DistroKey](), list[DistroKey]()
        for name, part in self._components.items():
            own = [one.key for one in candidates if one.resource_type == name and responsible(one)]
            done = part.store.claim_all(own, now_ms)
            claimed += [DistroKey(name, key) for key in done]
            if len(done) < len(own) and not part.owned_by_writer:
                refused += [DistroKey(name, key) for key in own if self._is_of_another(part, key)]
        return claimed, refused, len(candidates) == SLICE_KEYS

    def _is_of_another(self, part: Component, key: str) -> bool:
        version = part.store.version(key)
        return version is not None and version.writer != self._own_writer
