"""The counts of instances and bytes follow each change of a list, and removals stay within their bound."""

from collections.abc import Callable

import pytest

from app.naming.limits.admission import REMOVALS_SHARE, Admission, NamingLimits
from app.naming.model.keys import datum_key
from app.naming.model.meta import ServiceMeta, description_bytes
from app.naming.model.model import Change, Instance, Publication, Service, StoredInstance, Tombstone
from app.naming.model.override import Override
from app.naming.registry.list_state import (
    TOMBSTONE_BYTES,
    TOMBSTONE_BYTES_MAX,
    TOMBSTONES_PER_SERVICE_MAX,
    bound_tombstone_bytes,
)
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import Beat, PatchInstance, RegisterInstance
from app.naming.registry.override_table import set_override
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import ServiceTable
from distro.model.types import NO_VERSION, Datum, Version
from tests.support.taken_first import TakenFirst

ME, OTHER = "10.0.0.1:8848~1", "10.0.0.2:8848~1"
NAME, IP = "G@@orders", "10.1.0.1"
KEY = datum_key("public", NAME)
FIRST = Version(3, 4, OTHER)


def key_of(port: int) -> str:
    return Instance(IP, port).key


def service_of(registry: Registry) -> Service:
    found = registry.table.find(KEY)
    assert found is not None
    return found


def held(registry: Registry) -> tuple[int, int]:
    """The counted instances and bytes of metadata."""
    return registry.table.totals()[1], registry.table.counts_held.metadata_bytes


def metadata(size: int) -> dict[str, str]:
    """Metadata of so many bytes."""
    return {"v": "x" * (size - 1)} if size else {}


def parts(version: Version, sizes: dict[int, int], removed: tuple[int, ...] = ()) -> InstanceList:
    """Instances by port with metadata of these sizes, and removals."""
    ones = [
        StoredInstance(Instance(IP, port, service_name=NAME, metadata=metadata(size)), version, 0)
        for port, size in sizes.items()
    ]
    tombstones = {key_of(port): Tombstone(version, 0, 90_000) for port in removed}
    return InstanceList({one.instance.key: one for one in ones}, tombstones)


def register(registry: Registry, port: int, size: int = 0, name: str = NAME) -> object:
    return registry.writes.register(RegisterInstance(name, IP, port, metadata=metadata(size)), 0)


@pytest.fixture
def registry() -> Registry:
    return Registry.of(ME)


@pytest.fixture
def copied() -> Registry:
    """A registry with a copy of another member's list: three instances of 10, 20 and 30 bytes."""
    registry = Registry.of(ME)
    assert registry.replication.apply(Datum(KEY, FIRST, parts(FIRST, {1: 10, 2: 20, 3: 30})), None, 0)
    assert held(registry) == (3, 60)
    return registry


# --- counts ---------------------------------------------------------------------------------------


def test_writes_of_clients_are_counted(registry: Registry) -> None:
    steps: list[tuple[Callable[[], object], tuple[int, int]]] = [
        (lambda: register(registry, 1, 10), (1, 10)),
        (lambda: register(registry, 2, 20), (2, 30)),
        (lambda: register(registry, 1, 15), (2, 35)),
        (lambda: register(registry, 1, 15), (2, 35)),
        (lambda: registry.writes.patch(PatchInstance(NAME, IP, 2, metadata=metadata(5)), 0), (2, 20)),
        (lambda: registry.writes.put_from_beat(Beat(NAME, IP, 3, full=True, metadata=metadata(7)), 0), (3, 27)),
        (lambda: registry.writes.remove("public", NAME, key_of(1), 0), (2, 12)),
        (lambda: register(registry, 4, 8, "G@@users"), (3, 20)),
        (lambda: registry.writes.empty("public", NAME, 0), (1, 8)),
    ]
    for number, (step, expected) in enumerate(steps):
        step()
        assert held(registry) == expected, number


def test_a_list_in_place_of_another_is_counted_in_its_place(copied: Registry) -> None:
    version = FIRST.next(OTHER)
    assert copied.replication.apply(Datum(KEY, version, parts(version, {2: 25, 5: 50})), FIRST, 0)
    assert held(copied) == (2, 75)
    copied.upkeep.forget(KEY)
    assert held(copied) == (0, 0)


@pytest.mark.parametrize(
    ("sizes", "removed", "expected"),
    [
        ({4: 40, 5: 50}, (), (5, 150)),
        ({2: 25, 3: 31}, (), (3, 66)),
        ({2: 20}, (), (3, 60)),
        ({}, (1, 3), (1, 20)),
        ({}, (8, 9), (3, 60)),
        ({4: 0}, (), (4, 60)),
        ({2: 25, 4: 40, 5: 50}, (1, 3), (3, 115)),
    ],
)
def test_changes_by_another_member_are_counted(
    copied: Registry, sizes: dict[int, int], removed: tuple[int, ...], expected: tuple[int, int]
) -> None:
    version = Version(FIRST.epoch, FIRST.counter + 3, OTHER)
    assert copied.replication.apply_delta(Datum(KEY, version, parts(version, sizes, removed), FIRST), 0)
    assert held(copied) == expected
    assert len(service_of(copied).stored) == expected[0]


def test_a_single_change_by_another_member_is_counted(copied: Registry) -> None:
    version = FIRST.next(OTHER)
    [one] = parts(version, {2: 25}).stored.values()
    assert copied.replication.take_change(Change(KEY, key_of(2), version, one, None), 0)
    assert held(copied) == (3, 65)
    version = version.next(OTHER)
    gone = Change(KEY, key_of(1), version, None, Tombstone(version, 0, 90_000))
    assert copied.replication.take_change(gone, 0)
    assert held(copied) == (2, 55)


def test_durable_parts_are_counted() -> None:
    table = ServiceTable(0)
    one, larger, other = (
        Instance(IP, port, metadata=metadata(size), ephemeral=False) for port, size in ((1, 10), (1, 15), (2, 0))
    )
    for instance, expected in ((one, (1, 10)), (larger, (1, 15)), (other, (2, 15)), (one, (2, 10))):
        table.set_persistent("public", NAME, instance.key, instance, 0)
        assert (table.counts_held.persistent, table.counts_held.metadata_bytes) == expected
        assert table.counts_held.instances() == expected[0]
    assert table.counts(lambda _name: True).instances == 2
    meta = ServiceMeta(metadata=metadata(30))
    table.set_meta("public", NAME, meta, 0)
    assert table.counts_held.metadata_bytes == 10 + description_bytes(meta)
    table.set_meta("public", NAME, None, 0)
    table.set_persistent("public", NAME, one.key, None, 0)
    table.set_persistent("public", NAME, other.key, None, 0)
    assert (table.counts_held.persistent, table.counts_held.metadata_bytes, table.totals()) == (0, 0, (0, 0))


def test_publications_are_counted() -> None:
    table = ServiceTable(0)
    one, two = Instance(IP, 1), Instance(IP, 2)
    small = Publication({one.key: one}, False, 0, NO_VERSION)
    large = Publication({one.key: one, two.key: two}, True, 0, NO_VERSION)
    sizes = {id(small): small.metadata_bytes, id(large): large.metadata_bytes}
    for publication in (small, large, small):
        table.publish("public", NAME, "c", publication, 0)
        assert table.counts_held.metadata_bytes == sizes[id(publication)]
        assert table.totals()[1] == len(publication.instances)
    assert table.withdraw("public", NAME, "c", small, 0)
    assert (table.counts_held.metadata_bytes, table.totals()[1]) == (0, 0)


# --- the bound of removals ------------------------------------------------------------------------


def tombstones_of(count: int, letter: str = "k") -> dict[str, Tombstone]:
    """Removals with keys of ten characters and a writer of twenty."""
    version = Version(1, 0, "w" * 20)
    return {f"{letter * 9}{number}": Tombstone(version, 0, 0) for number in range(count)}


EACH, EACH_CHINESE = 10 + 20 + TOMBSTONE_BYTES, 28 + 20 + TOMBSTONE_BYTES


@pytest.mark.parametrize(
    ("letter", "bytes_max", "left", "free"),
    [
        ("k", 9 * EACH, 9, 0),
        ("k", 9 * EACH + 10 * TOMBSTONE_BYTES_MAX, 9, 10),
        ("k", 9 * EACH - 1, 7, 0),
        ("k", 8 * EACH, 7, 0),
        ("名", 9 * EACH_CHINESE, 9, 0),
        ("名", 9 * EACH_CHINESE - 1, 7, 0),
        ("k", 0, 9, TOMBSTONES_PER_SERVICE_MAX),
    ],
)
def test_the_oldest_removals_go_until_an_eighth_is_free(letter: str, bytes_max: int, left: int, free: int) -> None:
    tombstones = tombstones_of(9, letter)
    newest = list(tombstones)[-left:]
    assert bound_tombstone_bytes(tombstones, bytes_max) == free
    assert list(tombstones) == newest


@pytest.mark.parametrize("copy", [False, True])
def test_removals_in_any_number_stay_within_their_bytes(copy: bool) -> None:
    """Each of them, also the first one after a copy of a list that has as many as fit."""
    each = len(key_of(1000)) + len(ME) + TOMBSTONE_BYTES
    bytes_max = 16 * each
    registry = Registry.of(ME, admission=Admission(NamingLimits(body_bytes=bytes_max * REMOVALS_SHARE)))
    if copy:
        full = parts(FIRST, {1: 0}, tuple(range(2000, 2016)))
        assert registry.replication.apply(Datum(KEY, FIRST, full), None, 0)
    register(registry, 1)
    for port in range(1000, 1040):
        registry.writes.remove("public", NAME, key_of(port), port)
        tombstones = service_of(registry).tombstones
        assert len(tombstones) * each <= bytes_max
        assert list(tombstones)[-1] == key_of(port)


# --- versions -------------------------------------------------------------------------------------


def test_the_highest_version_is_that_of_all_lists(registry: Registry) -> None:
    for port in (1, 2, 3):
        register(registry, port)
    register(registry, 1, name="G@@users")
    assert registry.lists.highest_own() == Version(1, 2, ME)
    copy = Version(6, 0, OTHER)
    registry.replication.apply(Datum(datum_key("public", "G@@copy"), copy, InstanceList({}, {})), None, 0)
    register(registry, 1, name="G@@copy")
    register(registry, 4)
    assert registry.lists.version(KEY) == Version(1, 3, ME)
    assert registry.lists.highest_own() == Version(7, 0, ME)


def test_removals_are_sent_as_changes(registry: Registry) -> None:
    for port in (1, 2):
        register(registry, port)
    for port, counter in ((1, 2), (9, 3)):
        base = registry.lists.version(KEY)
        assert base is not None
        registry.writes.remove("public", NAME, key_of(port), 0)
        delta = registry.replication.delta(KEY, base)
        assert delta is not None
        assert (delta.version, delta.base) == (Version(1, counter, ME), base)
        assert (delta.value.stored, delta.value.tombstones.keys()) == ({}, {key_of(port)})


def test_a_merged_list_is_not_sent_as_the_changes_before_it(registry: Registry) -> None:
    for port in (1, 2, 3):
        register(registry, port)
    base, low = registry.lists.version(KEY), Version(1, 0, OTHER)
    assert base is not None
    registry.replication.merge(Datum(KEY, low, parts(low, {7: 0})), 0)
    assert registry.lists.version(KEY) == base.next(ME)
    assert registry.replication.delta(KEY, base) is None


def test_a_changed_list_is_named_once_and_its_change_is_whole(registry: Registry) -> None:
    register(registry, 1)
    registry.table.lock = lock = TakenFirst(registry.table.lock, lambda: None)  # type: ignore[assignment]
    assert registry.lists.pop_changed() == KEY
    assert lock.was_taken, "a change is noted under the lock"
    assert registry.lists.pop_changed() is None


# --- what a registry is made with -----------------------------------------------------------------


def test_a_registry_without_a_guard_shows_losses_at_once(copied: Registry) -> None:
    version = FIRST.next(OTHER)
    copied.replication.apply(Datum(KEY, version, InstanceList({}, {})), FIRST, 0)
    assert service_of(copied).retained == {}


def test_removals_are_remembered_for_the_slack_beyond_the_time_out() -> None:
    kept_ms = []
    for slack_ms in (1_000, 5_000):
        registry = Registry.of(ME, slack_ms)
        register(registry, 1)
        registry.writes.remove("public", NAME, key_of(1), 0)
        kept_ms.append(service_of(registry).tombstones[key_of(1)].keep_ms)
    assert kept_ms[1] - kept_ms[0] == 4_000


def test_a_service_is_told_when_readers_begin_and_cease_to_see_it() -> None:
    told: list[tuple[str, str, bool]] = []
    registry = Registry.of(ME, on_listed=lambda *what: told.append(what))
    register(registry, 1)
    register(registry, 2)
    assert told == [("public", NAME, True)]
    registry.table.set_meta("public", NAME, None, 0)
    assert told == [("public", NAME, True)], "its instances are still seen"
    registry.writes.empty("public", NAME, 0)
    assert told[1:] == [("public", NAME, False)]
    register(registry, 1)
    assert told[2:] == [("public", NAME, True)]


def test_unhealthy_instances_are_counted_unless_somebody_disabled_them() -> None:
    table = ServiceTable(0)
    for port, values in enumerate(({}, {"healthy": False}, {"healthy": False, "enabled": False}, {"enabled": False})):
        instance = Instance(IP, port, ephemeral=False, **values)
        table.set_persistent("public", NAME, instance.key, instance, 0)
    assert table.counts(lambda _name: True).unhealthy_instances == 1
    set_override(table, "public", NAME, Instance(IP, 1).key, Override(enabled=False))
    assert table.counts(lambda _name: True).unhealthy_instances == 0
    set_override(table, "public", NAME, Instance(IP, 2).key, Override(enabled=True))
    assert table.counts(lambda _name: True).unhealthy_instances == 1
