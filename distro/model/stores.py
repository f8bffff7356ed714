"""The store of a resource type: eight methods that each has, and optional ones, for which the engine has defaults."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from distro.model.types import NO_VERSION, Datum, Merged, Version
from distro.timing.sliced import STEP_STORED, paced

LATER_MS = 1 << 60
"""A time at which each removal is old enough to be forgotten."""


class RequiredStore(Protocol):
    """The datums of one resource type: the methods that each type has. Each write is atomic for its key.

    Any thread may call a method that must not block: the engine's own in its ticks, and the event loops of frontends.
    Methods that may block are called on their own threads, as for calls to peers; several of them at a time.
    """

    def version(self, key: str) -> Version | None:
        """The version stored, or None for an unknown key. Any thread; must not block."""
        ...

    def versions(self) -> Mapping[str, Version]:
        """Return a copy of all keys with their versions. Any thread; must not block."""
        ...

    def datums(self, keys: Iterable[str]) -> Iterable[Datum]:
        """Return the current datums of the keys that are known. Any thread; must not block."""
        ...

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        """Return whether the key holds only removals that are old enough to be forgotten (R6).

        Any thread; must not block.
        """
        ...

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        """Put a peer's datum in place of the stored one.

        Return False if that is no longer ``expected``: resolve again. Threads that take data from peers; may block.
        """
        ...

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        """Merge a peer's datum with the stored state part by part; the newer part wins.

        A state that neither side had gets a version above both, written by this node. Each of its parts is at least as
        new as on either side, so both sides take it. Threads that take data from peers; may block.
        """
        ...

    def reissue(self, datum: Datum, now_ms: int, *, restoring: bool) -> bool:
        """Give this node's state the next version if a peer has other values under the stored one. Return whether.

        If the datum's version is of this run and above the stored one, but this run did not give it (R10), the state
        gets a new epoch above that version. Parts that only the peer knows are then lost. Threads that take data from
        peers; may block.

        ``restoring``: first take the parts of the peer's state that are unknown here.
        """
        ...

    def forget(self, key: str, now_ms: int, *, absent: bool = False) -> None:
        """Drop a spent key; with ``absent``, also one that is not spent but that its owner or all peers dropped.

        The thread of local actions, and those that take data from peers; may block.
        """
        ...


class DistroStore(RequiredStore, Protocol):
    """A store as the engine uses it. A class that inherits from it has the defaults of all optional methods.

    One more has no default here: ``pop_changed``, which ``KeyDigest`` describes.
    """

    def tag(self, key: str) -> str:
        """Return the text that DistroMapper hashes for this key; by default the key. Any thread; must not block."""
        return key

    def all_keys(self) -> list[str]:
        """Return all keys, in one step; some may lack a version. For a pass that visits each key in its own time.

        Any thread; must not block.
        """
        return list(self.versions())

    def highest_own(self) -> Version:
        """Return the highest version that this run gave to any key, forgotten ones included.

        ``NO_VERSION`` before the first, and by default: then no version of this run under an unknown key counts as
        given (R10). Any thread, the engine's in its ticks; must not block.
        """
        return NO_VERSION

    def is_covered(self, datum: Datum) -> bool:
        """Return whether the datum contains every stored change of its key, by the versions of its parts.

        By default it does, as a value without parts. Threads that take data from peers; must not block.
        """
        return True

    def is_empty(self, key: str) -> bool:
        """Return whether a key holds only removals. Only such a key can be forgettable (R6).

        Threads that bring digests up to date; must not block.
        """
        return self.is_forgettable(key, LATER_MS)

    def content(self, key: str) -> tuple[Version, int] | None:
        """Return the stored version and 64 bits that stand for the content every member must have under it.

        None for an unknown key, and for a key whose content members cannot compare now; by default for each key.
        Threads that compare digests; must not block.
        """
        return None

    def grouped(self, keys: Collection[str]) -> AbstractContextManager[None]:
        """Store everything that ``apply`` and ``merge`` take of these keys within the context together, at its end.

        By default, and in a store without a disk, each is stored at once. Threads that take data from peers; may block.

        Raises:
            CodecError: at the end, the disk did not take the datums; none of them is stored.
        """
        return nullcontext()

    def claim_all(self, keys: Collection[str], now_ms: int) -> list[str]:
        """Become the writer of keys and restart their deadlines (R2). Return the keys that another member wrote before.

        Readers see no change, so subscribers are not notified (R11). By default nothing is claimed, which suits types
        that are owned by their writers. The thread of local actions; may block.
        """
        return []

    def forget_all(self, keys: Collection[str], now_ms: int) -> int:
        """Drop the forgettable ones among these keys, as ``forget`` does. Return how many were dropped.

        A store on disk drops them in one step; by default it is one after the other. A key that is written during that
        stays. The thread of local actions; may block.
        """
        forgotten = 0
        for key in paced(keys, STEP_STORED):
            if self.is_forgettable(key, now_ms):
                self.forget(key, now_ms)
                forgotten += 1
        return forgotten


class DeltaStore(Protocol):
    """The further methods of a store that can send changes as deltas (R5)."""

    def delta(self, key: str, base: Version) -> Datum | None:
        """Return what this run changed after ``base``, at a cost of that alone.

        None if it is not known, or nothing changed. The engine's thread may call it; must not block.
        """
        ...

    def claim_delta(self, key: str) -> Datum | None:
        """Return the claim of another writer's state as a delta of that state; None if this run changed it since.

        Threads of calls to peers; must not block.
        """
        ...

    def apply_delta(self, datum: Datum, now_ms: int) -> bool:
        """Apply a peer's whole delta if the stored state is its base, or one between its base and its version.

        Threads that take data from peers; may block.
        """
        ...
