"""What a step of the registry, or of the records, does when another thread's step had the lock just before it.

Each asserts too that it asked for the lock at all: without one the other step never runs.
"""

from typing import Any

import pytest

from app.naming.model.keys import datum_key
from app.naming.model.model import Instance, StoredInstance
from app.naming.records.records import Records
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import ChangeMetadata, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX, COPY_TRIES_MAX
from app.tools.simulation.member.disk import MemoryDisk
from distro.model.types import Datum, Version
from tests.support.taken_first import TakenFirst

ME, OTHER, THIRD = "10.0.0.1:8848~1", "10.0.0.2:8848~1", "10.0.0.3:8848~1"
NAME = "DEFAULT_GROUP@@orders"
KEY = datum_key("public", NAME)


@pytest.fixture
def registry() -> Registry:
    made = Registry.of(ME)
    made.replication.apply(Datum(KEY, Version(3, 0, OTHER), InstanceList({}, {})), None, 0)
    return made


def first(owner: Any, step: Any) -> TakenFirst:
    owner._lock = lock = TakenFirst(owner._lock, step)
    return lock


def test_a_list_that_a_write_claimed_is_not_claimed_again(registry: Registry) -> None:
    inner = registry.table.lock

    def write() -> None:
        registry.table.lock = inner
        registry.writes.register(RegisterInstance(NAME, "10.1.0.1", 80), 5)
        registry.table.lock = lock  # type: ignore[assignment]

    registry.table.lock = lock = TakenFirst(inner, write)  # type: ignore[assignment]
    assert not registry.replication.claim(KEY, 10)
    assert lock.was_taken
    assert registry.lists.version(KEY) == Version(4, 0, ME)


def test_a_list_that_a_third_member_wrote_meanwhile_is_claimed_above_that(registry: Registry) -> None:
    inner = registry.table.lock

    def receive() -> None:
        registry.table.lock = inner
        registry.replication.apply(Datum(KEY, Version(7, 0, THIRD), InstanceList({}, {})), Version(3, 0, OTHER), 5)
        registry.table.lock = lock  # type: ignore[assignment]

    registry.table.lock = lock = TakenFirst(inner, receive)  # type: ignore[assignment]
    assert registry.replication.claim(KEY, 10)
    assert lock.was_taken
    assert registry.lists.version(KEY) == Version(8, 0, ME)


def test_a_change_of_metadata_starts_from_what_the_step_before_it_left(registry: Registry) -> None:
    registry.writes.register(RegisterInstance(NAME, "10.1.0.1", 80), 0)
    key, inner = Instance("10.1.0.1", 80).key, registry.table.lock

    def change() -> None:
        registry.table.lock = inner
        registry.writes.set_metadata("public", NAME, key, ChangeMetadata({"a": "1"}), 5)
        registry.table.lock = lock  # type: ignore[assignment]

    registry.table.lock = lock = TakenFirst(inner, change)  # type: ignore[assignment]
    assert registry.writes.set_metadata("public", NAME, key, ChangeMetadata({"b": "2"}), 10) == KEY
    assert lock.was_taken
    service = registry.table.find(KEY)
    assert service is not None
    assert service.stored[key].instance.metadata == {"a": "1", "b": "2"}


def test_the_health_of_a_copy_is_set_past_an_instance_whose_health_is_set_meanwhile(registry: Registry) -> None:
    for port in (80, 81):
        registry.writes.register(RegisterInstance(NAME, "10.1.0.1", port), 0)
    service = registry.table.find(KEY)
    assert service is not None
    inner = registry.table.lock

    def set_first() -> None:
        registry.table.lock = inner
        assert registry.writes.set_health(service, Instance("10.1.0.1", 80).key, False, 5)
        registry.table.lock = lock  # type: ignore[assignment]

    registry.table.lock = lock = TakenFirst(inner, set_first)  # type: ignore[assignment]
    assert registry.writes.take_health(service, {"10.1.0.1:80": False, "10.1.0.1:81": False})
    assert lock.was_taken
    assert not any(one.instance.healthy for one in service.stored.values())


def test_what_was_retained_of_a_service_is_not_shown_in_the_one_that_took_its_name_meanwhile() -> None:
    registry = Registry.of(ME, guard_ms=500)
    lost, version = Instance("10.1.0.1", 80), Version(3, 0, OTHER)
    registry.replication.apply(
        Datum(KEY, version, InstanceList({lost.key: StoredInstance(lost, version, 0)}, {})), None, 0
    )
    registry.upkeep.forget(KEY, 0)
    service = registry.table.find(KEY)
    assert service is not None
    assert service.retained
    table, one = registry.table, Instance("10.1.0.1", 81)
    lock = TakenFirst(table.lock, lambda: table.set_meta("public", NAME, None, 0))
    table.lock = lock  # type: ignore[assignment]
    datum = Datum(KEY, version, InstanceList({one.key: StoredInstance(one, version, 0)}, {}))
    assert registry.replication.apply(datum, None, 0)
    assert lock.was_taken
    found = registry.table.find(KEY)
    assert found is not None
    assert found is not service
    assert found.retained == {}


def test_a_record_is_changed_from_the_value_that_the_write_before_it_left() -> None:
    """Neither of two writes at once is lost, and each has its own version."""
    records = Records(ME, MemoryDisk(), lambda: 0, lambda: 0, lambda _record: None)
    records.put_all({"k": lambda _: {"count": 0}})

    def add_one() -> None:
        records.put_all({"k": lambda value: {"count": (value or {})["count"] + 1}})

    lock = first(records._turns, add_one)
    records.put_all({"k": lambda value: {"count": (value or {})["count"] + 1}})
    assert lock.was_taken
    assert records.value("k") == {"count": 2}
    assert records.version("k") == Version(1, 2, ME)


def test_a_copy_is_made_again_until_nothing_changed_beside_it() -> None:
    """The last try copies under the lock, however large the service is."""
    registry = Registry.of(ME)
    for number in range(COPIED_UNDER_LOCK_MAX + 1):
        registry.writes.register(RegisterInstance(NAME, f"10.0.0.{number}", 80), 0)
    service = registry.table.find(KEY)
    assert service is not None
    for changes in (0, 1, COPY_TRIES_MAX - 2, COPY_TRIES_MAX + 5):
        locked: list[bool] = []

        def make(changes: int = changes, locked: list[bool] = locked) -> int:
            locked.append(registry.table.lock.locked())
            copied = service.revision
            if len(locked) <= changes and not locked[-1]:
                service.revision += 1
            return copied

        copied = registry.table.with_consistent_copy(
            service, make, lambda copied: (copied, registry.table.lock.locked())
        )
        assert copied == (service.revision, True)
        tries = min(changes + 1, COPY_TRIES_MAX)
        assert locked == [False] * min(tries, COPY_TRIES_MAX - 1) + [True] * (tries == COPY_TRIES_MAX)


def test_a_small_service_is_copied_once_and_under_the_lock() -> None:
    registry = Registry.of(ME)
    for number in range(COPIED_UNDER_LOCK_MAX):
        registry.writes.register(RegisterInstance(NAME, f"10.0.0.{number}", 80), 0)
    service = registry.table.find(KEY)
    assert service is not None
    locked: list[bool] = []
    registry.table.with_consistent_copy(service, lambda: locked.append(registry.table.lock.locked()), lambda _: None)
    assert locked == [True]
