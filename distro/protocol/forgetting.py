"""Forgetting (R6): the keys on whose removal all peers agreed, until their store has dropped them."""

from collections.abc import Iterable, Set
from itertools import islice

from distro.model.types import DistroKey, Forget

FORGOTTEN_MAX = 1_000
"""Keys that one action forgets."""
AGREED_ROUNDS = 2
"""Verify rounds in which each peer must agree to drop a key (R6): in the first it may only have asked for it."""


class Forgetting:
    """The forgettable keys, with the rounds in which peers agreed. The thread that owns the protocol changes it."""

    def __init__(self) -> None:
        self._agreed: dict[str, dict[DistroKey, int]] = {}
        """The number of verify rounds in which a peer agreed to drop a forgettable key, by peer and key."""
        self._dropped: dict[DistroKey, None] = {}
        self._under_way: tuple[DistroKey, ...] = ()

    @property
    def dropped(self) -> Set[DistroKey]:
        """Return the keys to be forgotten, in the order of verify rounds: and no round names them. A live set."""
        return self._dropped.keys()

    @property
    def is_under_way(self) -> bool:
        """Return whether keys are being forgotten."""
        return bool(self._under_way)

    def begin_anew(self, peer: str) -> None:
        """Note that the next round with the peer does not count as following the last one."""
        self._agreed.pop(peer, None)

    def agree(self, peer: str, key: DistroKey) -> None:
        """Note that the peer agreed in a round that names keys."""
        agreed = self._agreed.setdefault(peer, {})
        agreed[key] = agreed.get(key, 0) + 1

    def disagree(self, peer: str, key: DistroKey) -> None:
        """Note that the peer has another state of the key."""
        self._agreed.get(peer, {}).pop(key, None)

    def agree_on(self, peer: str, keys: Iterable[DistroKey]) -> None:
        """Note all keys on which the peer agreed in a round of digests; only rounds one after the other count."""
        before = self._agreed.get(peer, {})
        self._agreed[peer] = {key: before.get(key, 0) + 1 for key in keys}

    def drop_agreed(self, peer: str, peers: Iterable[str]) -> None:
        """Forget those keys on which the peer agreed in its last round and all these ``peers`` agree."""
        for key in [one for one in self._agreed.get(peer, {}) if self.is_agreed(one, peers)]:
            self.drop(key)

    def is_agreed(self, key: DistroKey, peers: Iterable[str]) -> bool:
        """Return whether each of the peers agreed in enough rounds."""
        return all(self._agreed.get(peer, {}).get(key, 0) >= AGREED_ROUNDS for peer in peers)

    def drop(self, key: DistroKey) -> None:
        """Forget the key in a later action."""
        self._dropped[key] = None
        for agreed in self._agreed.values():
            agreed.pop(key, None)

    def next_action(self) -> Forget | None:
        """Return the action to give out now; None while one is under way, and without keys."""
        if not self._dropped or self._under_way:
            return None
        self._under_way = tuple(islice(self._dropped, FORGOTTEN_MAX))
        return Forget(self._under_way)

    def on_done(self) -> None:
        """Note that the action ended; the next keys may follow. Keys that were not forgotten are found again."""
        for key in self._under_way:
            self._dropped.pop(key, None)
        self._under_way = ()
