"""What becomes of a service that lost its last instance."""

import pytest

from app.naming.model.keys import datum_key
from app.naming.model.meta import ServiceMeta
from app.naming.registry.operations import RegisterInstance, key_of
from app.naming.registry.registry import Registry

NAME = "G@@a"
COMMAND = RegisterInstance(NAME, "10.0.0.1", 80)
LATER_MS = 10_000_000


def emptied(*, keep_empty: bool = False) -> Registry:
    registry = Registry.of("m:1~1", keep_empty=keep_empty)
    registry.writes.register(COMMAND, 0)
    registry.writes.remove("public", NAME, key_of(COMMAND), 1_000)
    return registry


def forget_when_spent(registry: Registry) -> None:
    service = registry.table.get("public", NAME)
    assert service is not None
    assert not registry.upkeep.is_forgettable(service.key, 61_000), "its removal is still remembered"
    registry.upkeep.prune_tombstones(service, LATER_MS)
    assert registry.upkeep.is_forgettable(service.key, LATER_MS)
    registry.upkeep.forget(service.key)


def test_it_is_shown_at_first_and_forgotten_later() -> None:
    registry = emptied()
    assert registry.table.names("public") == [NAME]
    forget_when_spent(registry)
    assert registry.table.names("public") == []
    assert registry.table.find(datum_key("public", NAME)) is None


def test_it_stays_where_the_setting_says_so() -> None:
    registry = emptied(keep_empty=True)
    forget_when_spent(registry)
    assert registry.table.names("public") == [NAME]
    assert registry.lists.version(datum_key("public", NAME)) is None, "members need not talk about it"


@pytest.mark.parametrize("keep_empty", [False, True])
def test_one_that_was_created_stays_and_one_that_was_removed_goes(keep_empty: bool) -> None:
    registry = emptied(keep_empty=keep_empty)
    registry.table.set_meta("public", NAME, ServiceMeta(0.5), 2_000)
    forget_when_spent(registry)
    assert registry.table.names("public") == [NAME]
    registry.table.set_meta("public", NAME, None, LATER_MS)
    assert registry.table.names("public") == []


def test_a_forgotten_service_that_comes_back_repeats_no_version() -> None:
    registry = emptied()
    key = datum_key("public", NAME)
    before = registry.lists.version(key)
    forget_when_spent(registry)
    registry.writes.register(COMMAND, LATER_MS)
    after = registry.lists.version(key)
    assert before is not None
    assert after is not None
    assert after > before


def test_a_forgotten_service_that_comes_back_repeats_no_revision() -> None:
    """Kept lists are found by revision: those of its former life must not be taken for today's."""
    registry = emptied()
    seen = registry.table.get("public", NAME)
    assert seen is not None
    forget_when_spent(registry)
    assert registry.table.get("public", NAME) is None
    revisions = {seen.revision}
    for number in range(2, 6):
        registry.writes.register(RegisterInstance(NAME, f"10.0.0.{number}", 80), LATER_MS)
        again = registry.table.get("public", NAME)
        assert again is not None
        assert again.revision > max(revisions)
        revisions.add(again.revision)


def test_one_whose_removals_were_over_at_its_writer_is_forgettable_where_it_arrives() -> None:
    """A member that was away would keep it for a while, and hand it back to those that were right to forget it."""
    key = datum_key("public", NAME)
    there, here = emptied(), Registry.of("n:1~1")
    service = there.table.get("public", NAME)
    assert service is not None
    assert here.replication.apply(next(there.lists.datums([key])), None, 2_000)
    assert not here.upkeep.is_forgettable(key, 2_000), "the removals are remembered"
    there.upkeep.prune_tombstones(service, LATER_MS)
    here = Registry.of("n:1~1")
    assert here.replication.apply(next(there.lists.datums([key])), None, 2_000)
    assert here.upkeep.is_forgettable(key, 2_000)
