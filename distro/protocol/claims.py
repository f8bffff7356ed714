"""Claims (R2): which keys are examined for one, when, and how many at a time.

``Claims`` belongs to the engine's thread and only counts; ``Claimer`` goes through the keys, next to it (R11).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator

from distro.model.ports import Components
from distro.model.types import Claim, DistroKey
from distro.timing.sliced import STEP_ENTRIES, rest

EXAMINED_MAX = 10_000
"""Keys examined by one action, most of which need no claim."""
CLAIMED_MAX = 1_000
"""Keys claimed by one action: those of records are one write to the disk, and the engine sends all in one turn."""
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

    @property
    def is_under_way(self) -> bool:
        """Return whether keys are being examined."""
        return self._under_way

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
        self._single: deque[DistroKey] = deque()
        self._all: Iterator[DistroKey] = iter(())
        """The rest of the pass over all keys."""

    def run(
        self, action: Claim, now_ms: int, may_claim: Callable[[], bool], responsible: Callable[[DistroKey], bool]
    ) -> tuple[list[DistroKey], list[DistroKey], bool]:
        """Examine at most ``EXAMINED_MAX`` of the keys that are left, and claim at most ``CLAIMED_MAX``.

        Returns:
            The keys that were claimed, those that their store refused, and whether there are more to examine.

        ``may_claim``: whether the view is still that of the action, and steady; without it all keys wait.
        """
        if action.all_keys:
            self._all = self._every_key()
        self._single.extend(action.keys)
        if not may_claim():
            return [], [], True
        found: dict[str, list[str]] = {}
        examined, left = 0, CLAIMED_MAX
        while (key := self._next()) is not None:
            if self._is_of_another(key) and responsible(key):
                found.setdefault(key.resource_type, []).append(key.key)
                left -= 1
            examined += 1
            if examined == EXAMINED_MAX or not left:
                break
            if not examined % STEP_ENTRIES:
                rest()
        unfinished = key is not None
        claimed, refused = list[DistroKey](), list[DistroKey]()
        for name, keys in found.items():
            done = self._components[name].store.claim_all(keys, now_ms)
            claimed += [DistroKey(name, key) for key in done]
            if len(done) < len(keys):
                missed = [DistroKey(name, key) for key in keys]
                refused += [key for key in missed if self._is_of_another(key)]
        return claimed, refused, unfinished

    def _next(self) -> DistroKey | None:
        """The next key that is left, single ones first: a peer may wait for them."""
        return self._single.popleft() if self._single else next(self._all, None)

    def _every_key(self) -> Iterator[DistroKey]:
        """All keys that may be claimed, one by one: to make a hundred thousand at once takes as long as a turn may."""
        for name, part in self._components.items():
            if not part.owned_by_writer:
                for key in part.store.all_keys():
                    yield DistroKey(name, key)

    def _is_of_another(self, key: DistroKey) -> bool:
        part = self._components[key.resource_type]
        version = part.store.version(key.key)
        return not part.owned_by_writer and version is not None and version.writer != self._own_writer
