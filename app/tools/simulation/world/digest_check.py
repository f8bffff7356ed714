"""The contents of a digest, and the digest computed from all keys of a store."""

from collections.abc import Iterable, Mapping
from typing import Any

from distro.model.digest import BUCKETS, LEAVES, DigestedStore, KeyDigest
from distro.model.types import Version


class Frozen:
    """The present state of some keys of a store, which notes no changes."""

    def __init__(self, store: DigestedStore, keys: Iterable[str]) -> None:
        self._store = store
        self._keys = tuple(keys)

    def version(self, key: str) -> Version | None:
        return self._store.version(key)

    def versions(self) -> Mapping[str, Version]:
        found = {key: self._store.version(key) for key in self._keys}
        return {key: version for key, version in found.items() if version is not None}

    def is_empty(self, key: str) -> bool:
        return self._store.is_empty(key)


def digest_from_scratch(store: DigestedStore, keys: Iterable[str]) -> KeyDigest:
    digest = KeyDigest(Frozen(store, keys))
    digest.refresh()
    return digest


def told_by(digest: KeyDigest) -> tuple[Any, ...]:
    """Return the contents of a digest."""
    buckets = [digest.bucket(number) for number in range(BUCKETS)]
    keys = digest.keys_in(range(LEAVES))
    return digest.root(), digest.buckets(), buckets, len(digest), sorted(digest.empty_keys()), keys
