"""The digest of a store's keys: it is that of the present versions, whatever came before."""

import hashlib

from distro.model.digest import LEAVES_PER_BUCKET, KeyDigest, hash_of, leaf_of, leaves_of, state_hash
from distro.model.types import Version
from distro.protocol.samples import whole
from tests.support.named_store import NamedStore

OLD, NEW = Version(1, 1, "10.0.0.1:8848~1"), Version(1, 2, "10.0.0.1:8848~1")


def neighbours(count: int) -> list[str]:
    """Keys of one leaf."""
    leaf, found, number = leaf_of("k0"), list[str](), 0
    while len(found) < count:
        if leaf_of(f"k{number}") == leaf:
            found.append(f"k{number}")
        number += 1
    return found


def facts(digest: KeyDigest, leaf: int) -> tuple[object, ...]:
    digest.refresh()
    bucket = leaf // LEAVES_PER_BUCKET
    return len(digest), digest.root(), digest.buckets(), digest.bucket(bucket), digest.keys_in([leaf])


def test_the_hash_of_a_text_is_the_same_in_every_release() -> None:
    assert hash_of("k\0é") == int(hashlib.blake2b("k\0é".encode(), digest_size=8).hexdigest(), 16)
    assert hash_of("\ud800") != hash_of("?"), "half of a surrogate pair is a character, too"


def test_the_keys_of_a_leaf_count_together_and_each_change_once() -> None:
    first, second, third = neighbours(3)
    leaf, store = leaf_of(first), NamedStore()
    digest = KeyDigest(store)
    nothing = facts(digest, leaf)
    for key in (first, second, third):
        store.put(key, OLD)
    everything = facts(digest, leaf)
    expected = state_hash(first, OLD) ^ state_hash(second, OLD) ^ state_hash(third, OLD)
    assert everything[:2] == (3, expected)
    at = leaf % LEAVES_PER_BUCKET
    assert int.from_bytes(digest.bucket(leaf // LEAVES_PER_BUCKET)[8 * at : 8 * at + 8], "big") == expected
    at = leaf // LEAVES_PER_BUCKET
    assert int.from_bytes(digest.buckets()[8 * at : 8 * at + 8], "big") == expected
    assert leaf in leaves_of(at)
    store.put(second, NEW)
    assert facts(digest, leaf) != everything
    store.put(second, OLD)
    assert facts(digest, leaf) == everything
    store.forget(third, 0)
    assert facts(digest, leaf)[:2] == (2, state_hash(first, OLD) ^ state_hash(second, OLD))
    for key in (first, second):
        store.forget(key, 0)
    assert facts(digest, leaf) == nothing


def test_states_of_real_nacos_are_counted_by_no_digest() -> None:
    store = NamedStore()
    digest = KeyDigest(store)
    empty = digest.root()
    store.put("k", Version(0, 3, "10.0.0.9:8848"))
    digest.refresh()
    assert (len(digest), digest.root(), digest.unversioned_keys()) == (1, empty, {"k": Version(0, 3, "10.0.0.9:8848")})
    store.put("k", NEW)
    digest.refresh()
    assert (digest.root(), digest.unversioned_keys()) == (state_hash("k", NEW), {})


def test_sums_together() -> None:
    assert (whole({}), whole({1: 5}), whole({1: 5, "k": 3})) == (0, 5, 6)
