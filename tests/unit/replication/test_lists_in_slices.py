"""Many instance lists at once: how much is changed under one hold of the registry's lock, and who is told."""

from types import TracebackType

import pytest

from app.naming.model.events import Event, InstancesChanged, Origin
from app.naming.model.keys import datum_key
from app.naming.model.model import Instance
from app.naming.registry.list_state import TOMBSTONE_SLACK_MS, ListState
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX
from app.replication import warm_start
from app.replication.warm_start import WarmStart
from distro.model.types import Datum, Version
from tests.support.registry_parts import store_of
from tests.unit.replication.test_warm_start import listed

ME, OTHER = "10.0.0.1:8848~2", "10.0.0.2:8848~1"
COUNT = 300
NOW_MS = 1_000_000


class WatchedLock:
    """A lock that notes how many lists each of its holders changed."""

    def __init__(self, lists: ListState) -> None:
        self._lists = lists
        self._before: dict[str, Version] = {}
        self.changes: list[int] = []

    def __enter__(self) -> None:
        self._before = self._lists.versions()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        after = self._lists.versions()
        keys = self._before.keys() | after.keys()
        self.changes.append(sum(self._before.get(key) != after.get(key) for key in keys))


class Bed:
    def __init__(self) -> None:
        self.registry = Registry.of(ME)
        self.events: list[Event] = []
        self.store = store_of(self.registry, self.events.append)
        self.keys = [datum_key("public", f"DEFAULT_GROUP@@s{number}") for number in range(COUNT)]

    def put(self, version: Version, *, empty: bool = False) -> None:
        for key in self.keys:
            value = InstanceList({}, {}) if empty else one_instance(version)
            assert self.registry.replication.apply(Datum(key, version, value), None, NOW_MS)

    def watch(self) -> WatchedLock:
        self.registry.table.lock = lock = WatchedLock(self.registry.lists)  # type: ignore[assignment]
        return lock


@pytest.fixture
def bed() -> Bed:
    return Bed()


def one_instance(version: Version) -> InstanceList:
    one = Instance("10.1.0.1", 80)
    return InstanceList({one.key: listed(one, version, 0)}, {})


def test_a_claim_of_many_lists_holds_the_lock_over_few_and_tells_nobody(bed: Bed) -> None:
    bed.put(Version(1, 1, OTHER))
    lock = bed.watch()
    assert bed.store.claim_all(bed.keys, NOW_MS) == bed.keys
    assert sum(lock.changes) == COUNT
    assert max(lock.changes) <= COPIED_UNDER_LOCK_MAX
    assert bed.events == []


def test_empty_lists_are_forgotten_without_a_push_and_go_from_the_copy_on_disk(bed: Bed) -> None:
    bed.put(Version(1, 1, ME), empty=True)
    lock = bed.watch()
    assert bed.store.forget_all(bed.keys, NOW_MS + TOMBSTONE_SLACK_MS) == 0, "not yet"
    assert bed.store.forget_all(bed.keys, NOW_MS + TOMBSTONE_SLACK_MS + 1) == COUNT
    assert sum(lock.changes) == COUNT
    assert max(lock.changes) <= COPIED_UNDER_LOCK_MAX
    assert bed.events == [InstancesChanged(key, Origin.PEER, shown=False) for key in bed.keys]
    assert bed.registry.lists.versions() == {}


def test_a_list_that_is_written_between_the_decision_and_the_deed_stays(bed: Bed) -> None:
    bed.put(Version(1, 1, ME), empty=True)
    later_ms = NOW_MS + TOMBSTONE_SLACK_MS + 1
    assert bed.store.is_forgettable(bed.keys[0], later_ms)
    bed.registry.writes.register(RegisterInstance("DEFAULT_GROUP@@s0", "10.1.0.1", 80), later_ms)
    assert bed.store.forget_all(bed.keys[:2], later_ms) == 1
    assert list(bed.registry.lists.versions()) == [bed.keys[0], *bed.keys[2:]]


def test_a_list_that_is_forgotten_comes_back_above_its_version(bed: Bed) -> None:
    bed.put(Version(7, 1, ME), empty=True)
    bed.store.forget_all(bed.keys, NOW_MS + TOMBSTONE_SLACK_MS + 1)
    bed.registry.writes.register(RegisterInstance("DEFAULT_GROUP@@s0", "10.1.0.1", 80), NOW_MS)
    version = bed.registry.lists.version(bed.keys[0])
    assert version is not None
    assert version > Version(7, 1, ME)


def test_the_copy_on_disk_is_merged_in_steps(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    version = Version(1, 1, OTHER)
    start = WarmStart(bed.registry.lists, bed.registry.replication, lambda: 0, claims=False)
    start.read(Datum(key, version, one_instance(version)) for key in bed.keys)
    held: list[int] = []
    monkeypatch.setattr(warm_start, "rest", lambda: held.append(len(bed.registry.lists.versions())))
    lock = bed.watch()
    start.fill(NOW_MS)
    assert held == [100, 200, 300], "between two rests a millisecond of work"
    assert max(lock.changes) == 1
    assert len(bed.registry.lists.versions()) == COUNT


def test_a_stop_ends_the_merge_at_its_next_step_for_good(bed: Bed) -> None:
    version = Version(1, 1, OTHER)
    start = WarmStart(bed.registry.lists, bed.registry.replication, lambda: 0, claims=False)
    start.read(Datum(key, version, one_instance(version)) for key in bed.keys)
    apply = bed.registry.replication.apply

    def stop_at_the_third(datum: Datum, expected: Version | None, now_ms: int) -> bool:
        if datum.key == bed.keys[2]:
            start.stop()
        return apply(datum, expected, now_ms)

    bed.registry.replication.apply = stop_at_the_third  # type: ignore[method-assign]
    start.fill(NOW_MS)
    start.fill(NOW_MS)
    assert list(bed.registry.lists.versions()) == bed.keys[:3]


def test_a_merge_that_failed_goes_on_behind_the_list_that_it_failed_at(bed: Bed) -> None:
    version = Version(1, 1, OTHER)
    start = WarmStart(bed.registry.lists, bed.registry.replication, lambda: 0, claims=False)
    start.read(Datum(key, version, one_instance(version)) for key in bed.keys)
    apply = bed.registry.replication.apply

    def fail_at_the_third(datum: Datum, expected: Version | None, now_ms: int) -> bool:
        if datum.key == bed.keys[2]:
            raise MemoryError
        return apply(datum, expected, now_ms)

    bed.registry.replication.apply = fail_at_the_third  # type: ignore[method-assign]
    with pytest.raises(MemoryError):
        start.fill(NOW_MS)
    start.fill(NOW_MS)
    assert list(bed.registry.lists.versions()) == [*bed.keys[:2], *bed.keys[3:]]
