"""What is remembered of changes, for deltas, is bounded for all lists together."""

import pytest

from app.naming.model.keys import DEFAULT_NAMESPACE, datum_key
from app.naming.model.model import Service
from app.naming.registry import recent_changes
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.recent_changes import ALL_KEYS_MAX, KEYS_LEFT, LISTS_MAX, RecentChanges
from app.naming.registry.registry import Registry
from distro.model.types import Version

WRITER = "a:1~x"


def service(number: int) -> Service:
    return Service(DEFAULT_NAMESPACE, f"DEFAULT_GROUP@@{number}", 0)


def kept(services: list[Service]) -> int:
    return sum(len(one.recent or ()) for one in services)


def change(log: RecentChanges, changed: Service) -> Version:
    """Note a change; return the list's version before it."""
    before = changed.version
    changed.version = before.next(WRITER)
    log.note(changed, f"instance-{changed.version.counter}")
    return before


def test_all_lists_together_have_a_bound() -> None:
    log, services = RecentChanges(), [service(number) for number in range(1_000)]
    for _ in range(100):
        for one in services:
            change(log, one)
        assert len(log) == kept(services) <= ALL_KEYS_MAX
    assert len(log) > ALL_KEYS_MAX // 2, "as much is remembered as there is room for"


def test_the_last_changes_of_a_list_stay_when_others_take_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_changes, "ALL_KEYS_MAX", 100)
    log, services = RecentChanges(), [service(number) for number in range(4)]
    for one in services:
        bases = [change(log, one) for _ in range(200)]
    for one in services:
        assert len(one.recent or ()) >= KEYS_LEFT
    last = services[-1]
    assert log.since(last, bases[-1]) == {f"instance-{last.version.counter}"}
    assert log.since(last, bases[0]) is None, "no longer known: the whole is sent"


def test_a_list_that_begins_anew_counts_no_more() -> None:
    log, services = RecentChanges(), [service(number) for number in range(3)]
    for one in services:
        change(log, one)
        change(log, one)
    log.forget(services[1])
    log.forget(services[1])
    assert len(log) == kept(services) == 4
    assert log.since(services[1], Version(0, 0, "")) is None


def test_lists_beyond_the_bound_begin_anew() -> None:
    log, services = RecentChanges(), [service(number) for number in range(LISTS_MAX + 10)]
    for one in services:
        change(log, one)
    assert len(log) == kept(services) == LISTS_MAX
    assert services[0].recent is None


def test_a_registry_forgets_the_changes_of_lists_that_are_gone() -> None:
    registry = Registry.of(WRITER, tombstone_slack_ms=0)
    registry.writes.register(RegisterInstance("DEFAULT_GROUP@@orders", "10.0.0.1", 80), 1)
    registry.writes.register(RegisterInstance("DEFAULT_GROUP@@stock", "10.0.0.1", 80), 1)
    found = registry.table.find(datum_key(DEFAULT_NAMESPACE, "DEFAULT_GROUP@@orders"))
    assert found is not None
    assert found.recent
    registry.upkeep.forget(found.key)
    assert found.recent is None
