"""The digest that follows the changes of a store is the one that a look at all its keys would give."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from app.naming.model.keys import datum_key
from app.naming.model.model import DELETE_TIMEOUT_MS
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.replication.instance_list_type import InstanceListStore
from app.tools.simulation.world.digest_check import digest_from_scratch, told_by
from distro.model.digest import LEAVES, KeyDigest
from distro.model.types import Datum, Version
from tests.support.named_store import NamedStore
from tests.support.registry_parts import store_of

KEYS = [f"k{number}" for number in range(12)]
WRITERS = ["10.0.0.1:8848~1", "10.0.0.2:8848~1", "10.0.0.3:8848"]
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(KEYS), st.integers(0, 5), st.sampled_from(WRITERS)),
        st.tuples(st.just("forget"), st.sampled_from(KEYS)),
        st.tuples(st.just("empty"), st.sampled_from(KEYS), st.integers(6, 9)),
        st.tuples(st.just("refresh")),
    )
)


@given(CHANGES)
def test_it_follows_all_changes(changes: list[tuple[object, ...]]) -> None:
    store = NamedStore()
    digest = KeyDigest(store)
    for kind, *parts in changes:
        match kind, parts:
            case "put", [str(key), int(counter), str(writer)]:
                store.put(key, Version(1, counter, writer))
            case "empty", [str(key), int(counter)]:
                store.forgettable.add(key)
                store.put(key, Version(1, counter, WRITERS[0]))
            case "forget", [str(key)] if key in store.stored:
                store.forget(key, 0)
            case "refresh", _:
                digest.refresh()
    digest.refresh()
    assert told_by(digest) == told_by(digest_from_scratch(store, store.stored))


NAMES = [f"DEFAULT_GROUP@@svc{number}" for number in range(4)]
CALLS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["register", "remove", "expire", "empty", "claim", "forget", "absent", "apply", "merge"]),
            st.sampled_from(NAMES),
            st.integers(1, 3),
        ),
        st.tuples(st.just("refresh"), st.just(""), st.just(0)),
    ),
    max_size=40,
)


def change(mine: Registry, store: InstanceListStore, kind: str, name: str, port: int, copy: Datum, now_ms: int) -> None:
    """Change the list of a service, or not, in one of the ways that there are."""
    match kind:
        case "register":
            mine.writes.register(RegisterInstance(name, "10.1.0.1", port), now_ms)
        case "remove":
            mine.writes.remove("public", name, f"10.1.0.1:{port}:DEFAULT", now_ms)
        case "expire":
            for one in mine.table.services():
                mine.upkeep.prune_tombstones(one, now_ms + DELETE_TIMEOUT_MS * 9)
        case "empty":
            mine.writes.empty("public", name, now_ms)
        case "claim":
            store.claim_all([copy.key], now_ms)
        case "apply":
            store.apply(copy, mine.lists.version(copy.key), now_ms)
        case "merge":
            store.merge(copy, now_ms)
        case "forget" | "absent":
            store.forget(copy.key, now_ms, absent=kind == "absent")


@given(CALLS)
def test_it_follows_the_registry(calls: list[tuple[str, str, int]]) -> None:
    """Whatever changes an instance list, here or from a peer, is noted."""
    mine, theirs = Registry.of(WRITERS[0]), Registry.of(WRITERS[1])
    store = store_of(mine, lambda _event: None)
    digest = KeyDigest(store)
    for now_ms, (kind, name, port) in enumerate(calls):
        if kind == "refresh":
            digest.refresh()
            continue
        theirs.writes.register(RegisterInstance(name, "10.1.0.1", port, weight=1.0 + now_ms), now_ms)
        [copy] = theirs.lists.datums([datum_key("public", name)])
        change(mine, store, kind, name, port, copy, now_ms)
    digest.refresh()
    assert told_by(digest) == told_by(digest_from_scratch(store, store.versions()))


def test_no_change_is_lost_while_it_is_refreshed() -> None:
    """Three threads change the same keys while two others refresh."""
    store = NamedStore()
    digest, keys = KeyDigest(store), [f"key{number}" for number in range(300)]
    done = threading.Event()

    def write(writer: int) -> None:
        for counter in range(12):
            for key in keys:
                store.put(key, Version(writer, counter, WRITERS[0]))

    def refresh() -> None:
        while not done.is_set():
            digest.refresh()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    readers = [threading.Thread(target=refresh) for _ in range(2)]
    for one in [*writers, *readers]:
        one.start()
    for one in writers:
        one.join()
    done.set()
    for one in readers:
        one.join()
    digest.refresh()
    assert len(digest) == len(keys)
    assert told_by(digest) == told_by(digest_from_scratch(store, store.stored))
    assert sorted(digest.keys_in(range(LEAVES))) == sorted(keys)
