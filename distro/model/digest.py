"""KeyDigest: shows members of our kind whether they hold the same keys in the same versions, and where they differ.

Each key belongs to one of ``LEAVES`` leaves, and each leaf to one of ``BUCKETS`` buckets. The digest of a leaf is the
XOR of a hash of key and version over its keys; those of a bucket and of all keys are the XOR of their leaves'.
"""

import hashlib
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Lock
from typing import Protocol
from zlib import crc32

from distro.model.types import Version
from distro.timing.sliced import paced

BUCKETS = 256
LEAVES_PER_BUCKET = 32
LEAVES = BUCKETS * LEAVES_PER_BUCKET
"""100,000 keys make about a dozen to a leaf: a key that differs costs the exchange of that many versions."""
HASH_BYTES = 8
_BUCKETS, _LEAVES = struct.Struct(f">{BUCKETS}Q"), struct.Struct(f">{LEAVES_PER_BUCKET}Q")
BUCKETS_BYTES, BUCKET_BYTES = _BUCKETS.size, _LEAVES.size
"""The sizes in bytes of the digests of all buckets, and of the digests of one bucket's leaves."""


class ChangedKeys:
    """The keys that changed since they were last taken out. Never more than the keys that were ever stored.

    Any thread may note a key, after the change itself; one at a time takes them out. A key that is noted again before
    that counts once.
    """

    __slots__ = ("_keys", "note")

    def __init__(self, *, kept: bool = True) -> None:
        """``kept``: False for a node without peers, where no thread takes the keys out."""
        self._keys: dict[str, None] = {}
        # A method of the mapping itself: one step for other threads, and each write of a client calls it.
        self.note: Callable[[str], None] = self._keys.setdefault if kept else self._keys.get

    def __len__(self) -> int:
        return len(self._keys)

    def pop(self) -> str | None:
        """Take out one key; None without any."""
        try:
            return self._keys.popitem()[0]
        except KeyError:
            return None

    def take(self) -> list[str]:
        """Take out all keys, in the order in which they were first noted. A key that changes later is noted again."""
        keys = list(self._keys)
        for key in keys:
            del self._keys[key]
        return keys

    def discard(self, key: str) -> None:
        """Take out a key that is about to be read."""
        self._keys.pop(key, None)


class DigestedStore(Protocol):
    """The part of a store that a digest uses. Every call may come from any thread."""

    def version(self, key: str) -> Version | None:
        """The version stored, or None for an unknown key."""
        ...

    def versions(self) -> Mapping[str, Version]:
        """Return a copy of all keys with their versions."""
        ...

    def is_empty(self, key: str) -> bool:
        """Return whether a key holds only removals. Only such a key can be forgettable (R6)."""
        ...


def leaf_of(key: str) -> int:
    """The leaf that a key belongs to."""
    return crc32(key.encode("utf-8", "surrogatepass")) % LEAVES


def state_hash(key: str, version: Version | None) -> int:
    """64 bits that stand for a key in a version; 0, which changes no XOR, for an unknown key.

    So it is for the version of a state of real Nacos (R8), as each member counts such states by itself.
    """
    if version is None or "~" not in version.writer:
        return 0
    return hash_of(f"{key}\0{version.epoch}.{version.counter}.{version.writer}")


def hash_of(text: str) -> int:
    """64 bits that stand for a text."""
    body = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(body, digest_size=HASH_BYTES).digest(), "big")


_NO_KEYS: dict[str, Version] = {}


class KeyDigest:
    """The digest of one store's keys, all of them, as of the last ``refresh``. Thread-safe.

    A change costs its writer one note in the store; the next refresh hashes each noted key once.
    """

    def __init__(self, store: DigestedStore) -> None:
        """``store``: may also note which keys change, or each refresh visits all keys.

        Its ``pop_changed()`` then takes one of the keys whose version changed, came or went since it was last taken,
        and returns None without any. A key is in there once its change is whole, and costs the change next to nothing.
        Threads that refresh the digest call it, one at a time; it must not block.
        """
        self._store = store
        self._pop_changed: Callable[[], str | None] | None = getattr(store, "pop_changed", None)
        """None of a store that notes no changes."""
        self._lock = Lock()
        self._root = 0
        self._buckets = [0] * BUCKETS
        self._leaves = [0] * LEAVES
        self._keys: dict[int, dict[str, Version]] = {}
        """The keys of each leaf that has any, in the versions that its digest is of."""
        self._empty: dict[str, None] = {}
        self._unversioned: dict[str, Version] = {}
        """The keys whose state real Nacos wrote, which no digest counts (R8)."""
        self._count = 0

    def __len__(self) -> int:
        """The number of keys."""
        return self._count

    def refresh(self) -> None:
        """Bring the digest up to date with all changes noted before the call. Pause between steps if there are many."""
        with self._lock:
            for key in paced(self._changed()):
                self._hash(key)

    def _changed(self) -> Iterable[str]:
        """The keys that may have changed: all that are stored or in the digest, of a store that notes no changes."""
        if self._pop_changed is not None:
            return iter(self._pop_changed, None)
        return {key: None for leaf in self._keys.values() for key in leaf} | dict.fromkeys(self._store.versions())

    def _hash(self, key: str) -> None:
        # Read after the note was taken out: a change that comes later than this has a separate note.
        version = self._store.version(key)
        new, leaf = state_hash(key, version), leaf_of(key)
        keys = self._keys.get(leaf)
        old = 0
        if version is None:
            if keys is not None and key in keys:
                old = state_hash(key, keys.pop(key))
                self._count -= 1
                if not keys:
                    del self._keys[leaf]
        else:
            if keys is None:
                keys = self._keys[leaf] = {}
            self._count += key not in keys
            old = state_hash(key, keys.get(key))
            keys[key] = version
        if version is not None and self._store.is_empty(key):
            self._empty[key] = None
        else:
            self._empty.pop(key, None)
        if version is not None and not new:
            self._unversioned[key] = version
        else:
            self._unversioned.pop(key, None)
        change = old ^ new
        self._leaves[leaf] ^= change
        self._buckets[leaf // LEAVES_PER_BUCKET] ^= change
        self._root ^= change

    def root(self) -> int:
        """The digest of all keys."""
        with self._lock:
            return self._root

    def buckets(self) -> bytes:
        """The digests of all buckets, ``BUCKETS_BYTES`` long."""
        with self._lock:
            return _BUCKETS.pack(*self._buckets)

    def bucket(self, bucket: int) -> bytes:
        """The digests of the leaves of one bucket, ``BUCKET_BYTES`` long."""
        first = bucket * LEAVES_PER_BUCKET
        with self._lock:
            return _LEAVES.pack(*self._leaves[first : first + LEAVES_PER_BUCKET])

    def count_in(self, leaves: Iterable[int]) -> int:
        """How many keys these leaves have."""
        with self._lock:
            return sum([len(self._keys.get(leaf, ())) for leaf in leaves])

    def keys_in(self, leaves: Collection[int]) -> list[str]:
        """The keys of these leaves, by leaf, and sorted within it."""
        found: list[str] = []
        # Most leaves have no key where there are few keys, and need no lock.
        for leaf in paced([leaf for leaf in sorted(leaves) if leaf in self._keys]):
            with self._lock:
                found += sorted(self._keys.get(leaf, ()))
        return found

    def written_in(self, leaf: int, prefix: str) -> list[str]:
        """Return the keys of a leaf whose version has a writer whose name begins with ``prefix``, in any order."""
        with self._lock:
            return [key for key, one in self._keys.get(leaf, _NO_KEYS).items() if one.writer.startswith(prefix)]

    def empty_keys(self) -> list[str]:
        """The keys that hold only removals."""
        with self._lock:
            return list(self._empty)

    def unversioned_keys(self) -> dict[str, Version]:
        """The keys whose state real Nacos wrote (R8), with the versions that they have on this member."""
        with self._lock:
            return dict(self._unversioned)


def differing_buckets(mine: bytes, other: bytes) -> list[int]:
    """The buckets whose digests differ; both as ``KeyDigest.buckets`` returns them."""
    return _differing(_BUCKETS, mine, other)


def differing_leaves(bucket: int, mine: bytes, other: bytes) -> list[int]:
    """The leaves of a bucket whose digests differ; both as ``KeyDigest.bucket`` returns them."""
    return [bucket * LEAVES_PER_BUCKET + at for at in _differing(_LEAVES, mine, other)]


def leaves_of(bucket: int) -> range:
    """All leaves of a bucket."""
    return range(bucket * LEAVES_PER_BUCKET, (bucket + 1) * LEAVES_PER_BUCKET)


def _differing(form: struct.Struct, mine: bytes, other: bytes) -> list[int]:
    pairs = zip(form.unpack(mine), form.unpack(other), strict=True)
    return [at for at, (one, two) in enumerate(pairs) if one != two]
