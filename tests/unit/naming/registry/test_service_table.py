"""ServiceTable: what keeps a service, what readers see of it, and when it goes."""

from collections.abc import Callable

import pytest

from app.naming.model.keys import datum_key
from app.naming.model.meta import ServiceMeta
from app.naming.model.model import NOT_DUE_MS, Instance, Publication, Service, StoredInstance, Tombstone
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX, ServiceTable
from distro.model.types import NO_VERSION, Datum, Version
from tests.support.taken_first import TakenFirst

NAME, LINGER_MS, LATER_MS = ("public", "G@@orders"), 5_000, 10**9
KEY = datum_key(*NAME)
VERSION = Version(1, 5, "10.0.0.2:8848~1")
ONE = Instance("10.1.0.1", 80, service_name=NAME[1])
OF_CLIENT = Publication({ONE.key: ONE}, False, 0, NO_VERSION)


def found_in(table: ServiceTable) -> Service:
    found = table.find(KEY)
    assert found is not None
    return found


def published(table: ServiceTable, at_ms: int = 0) -> Service:
    """The service, with the publication of one client and a health check far off."""
    table.publish(*NAME, "c", OF_CLIENT, at_ms)
    service = found_in(table)
    service.due_ms = NOT_DUE_MS
    return service


def withdrawn(table: ServiceTable, at_ms: int = 0) -> Service:
    """The service, which only a publication had made."""
    service = published(table, at_ms)
    assert table.withdraw(*NAME, "c", OF_CLIENT, at_ms)
    return service


class TestServicesOfClients:
    def test_one_outlives_its_last_publication_for_a_while(self) -> None:
        table = ServiceTable(LINGER_MS)
        service = withdrawn(table, 1_000)
        assert service.due_ms == 1_000 + LINGER_MS + 1, "the health check comes when it is over"
        assert table.drop_bare(service, service.due_ms - 1) == service.due_ms
        assert table.names(NAME[0]) == [NAME[1]]
        assert table.drop_bare(service, service.due_ms) == NOT_DUE_MS
        assert table.names(NAME[0]) == []
        assert table.find(KEY) is None

    def test_it_does_not_end_that_way_when_something_else_keeps_it(self) -> None:
        listed, empty, kept = ServiceTable(LINGER_MS), ServiceTable(LINGER_MS), ServiceTable(LINGER_MS, keep_empty=True)
        withdrawn(listed).version = VERSION
        withdrawn(kept)
        empty.set_meta(*NAME, ServiceMeta(), 0)
        for table in (listed, kept, empty):
            assert table.drop_bare(found_in(table), 0) == NOT_DUE_MS
            assert table.drop_bare(found_in(table), LATER_MS) == NOT_DUE_MS
            assert table.names(NAME[0]) == [NAME[1]]

    def test_it_does_not_end_while_it_has_a_publication(self) -> None:
        table = ServiceTable(LINGER_MS)
        service = published(table)
        assert table.drop_bare(service, 0) == NOT_DUE_MS
        assert table.drop_bare(service, LATER_MS) == NOT_DUE_MS
        assert table.names(NAME[0]) == [NAME[1]]

    def test_a_service_that_took_the_name_of_a_removed_one_is_not_dropped_in_its_place(self) -> None:
        """The health check may come to a service that was removed, and made anew, since it began its round."""
        table = ServiceTable(LINGER_MS)
        removed = withdrawn(table)
        table.set_meta(*NAME, None, 0)
        assert table.find(KEY) is None
        again = published(table)
        assert table.drop_bare(removed, LATER_MS) == NOT_DUE_MS
        assert table.find(KEY) is again
        assert table.names(NAME[0]) == [NAME[1]]

    def test_a_publication_that_was_replaced_is_not_withdrawn(self) -> None:
        table = ServiceTable(LINGER_MS)
        assert not table.withdraw(*NAME, "c", OF_CLIENT, 0), "there is no service"
        table.set_meta(*NAME, ServiceMeta(), 0)
        assert not table.withdraw(*NAME, "c", OF_CLIENT, 0), "it never had a publication"
        newer = Publication({ONE.key: ONE}, True, 1, NO_VERSION)
        table.publish(*NAME, "c", newer, 0)
        revision = found_in(table).revision
        assert not table.withdraw(*NAME, "c", OF_CLIENT, 0)
        assert not table.withdraw(*NAME, "other", newer, 0)
        assert found_in(table).revision == revision
        assert table.withdraw(*NAME, "c", newer, 0)
        assert found_in(table).revision > revision

    def test_the_clusters_of_each_source_are_added(self) -> None:
        table = ServiceTable(LINGER_MS)
        for source, cluster in enumerate(("A", "B", "A")):
            one = Instance("10.1.0.1", 80 + source, cluster)
            table.publish(*NAME, str(source), Publication({one.key: one}, False, 0, NO_VERSION), 0)
        one = Instance("10.1.0.1", 90, "C")
        table.set_persistent(*NAME, one.key, one, 0)
        assert found_in(table).clusters == {"A", "B", "C"}


def test_totals_are_of_what_readers_see_and_of_all_sources() -> None:
    table = ServiceTable(LINGER_MS)
    assert table.totals() == (0, 0)
    table.publish(*NAME, "c", OF_CLIENT, 0)
    table.publish("other", "G@@users", "c", OF_CLIENT, 0)
    table.set_meta("other", "G@@empty", ServiceMeta(), 0)
    assert table.totals() == (3, 2)
    assert table.withdraw(*NAME, "c", OF_CLIENT, 0)
    assert table.totals() == (3, 1)


class TestRemovedServices:
    def test_one_that_is_used_again_before_its_last_instance_went_is_as_any_other(self) -> None:
        table = ServiceTable(LINGER_MS)
        service = published(table)
        table.set_meta(*NAME, None, 0)
        assert service.dropped
        published(table)
        table.withdraw(*NAME, "c", OF_CLIENT, 0)
        assert table.names(NAME[0]) == [NAME[1]]

    def test_a_hidden_one_repeats_no_revision_of_its_former_life(self) -> None:
        table = ServiceTable(LINGER_MS)
        service = withdrawn(table)
        table.drop_bare(service, LATER_MS)
        hidden = table.open_hidden(*NAME, LATER_MS)
        assert hidden.revision > service.revision
        assert hidden.changed_ms == LATER_MS

    def test_nothing_is_dropped_twice(self) -> None:
        table = ServiceTable(LINGER_MS)
        service = withdrawn(table)
        for _ in range(2):
            assert table.drop_bare(service, LATER_MS) == NOT_DUE_MS
        assert table.services() == []


def guarded() -> Registry:
    """A registry with a service that has retained instances alone."""
    registry = Registry.of("10.0.0.1:8848~1", guard_ms=500)
    registry.replication.apply(
        Datum(KEY, VERSION, InstanceList({ONE.key: StoredInstance(ONE, VERSION, 0)}, {})), None, 0
    )
    registry.upkeep.forget(KEY, 0)
    assert found_in(registry.table).retained == {ONE.key: ONE}
    return registry


KEPT_BY: dict[str, Callable[[Registry], object]] = {
    "list": lambda registry: registry.replication.apply(Datum(KEY, VERSION, InstanceList({}, {})), None, 0),
    "description": lambda registry: registry.table.set_meta(*NAME, ServiceMeta(), 0),
    "persistent": lambda registry: registry.table.set_persistent(*NAME, ONE.key, ONE, 0),
    "publication": lambda registry: registry.table.publish(*NAME, "c", OF_CLIENT, 0),
}


class TestSnapshot:
    def test_it_has_all_sources_and_no_later_change(self) -> None:
        registry = Registry.of("10.0.0.1:8848~1")
        registry.writes.register(RegisterInstance(NAME[1], ONE.ip, ONE.port), 0)
        registry.table.set_persistent(*NAME, ONE.key, ONE, 0)
        registry.table.publish(*NAME, "c", OF_CLIENT, 0)
        version = registry.lists.version(KEY)
        snapshot = registry.table.snapshot(KEY)
        registry.writes.empty(*NAME, 0)
        registry.table.set_persistent(*NAME, ONE.key, None, 0)
        registry.table.withdraw(*NAME, "c", OF_CLIENT, 0)
        assert snapshot is not None
        assert (snapshot.namespace, snapshot.full_name, snapshot.version) == (*NAME, version)
        assert (snapshot.stored.keys(), snapshot.persistent) == ({ONE.key}, {ONE.key: ONE})
        assert snapshot.published == {"c": OF_CLIENT}

    def test_there_is_none_of_a_service_that_readers_do_not_see(self) -> None:
        registry = Registry.of("10.0.0.1:8848~1")
        assert registry.table.snapshot(KEY) is None
        registry.writes.remove(*NAME, ONE.key, 0)
        assert found_in(registry.table).tombstones
        assert registry.table.snapshot(KEY) is None

    def test_there_is_none_of_a_service_that_is_dropped_just_then(self) -> None:
        table = ServiceTable(LINGER_MS)
        service = withdrawn(table)
        assert table.snapshot(KEY) is not None
        table.lock = lock = TakenFirst(table.lock, lambda: table.drop_bare(service, LATER_MS))  # type: ignore[assignment]
        assert table.snapshot(KEY) is None
        assert lock.was_taken

    def test_retained_instances_alone_are_no_service(self) -> None:
        assert guarded().table.snapshot(KEY) is None

    @pytest.mark.parametrize("keep", KEPT_BY.values(), ids=KEPT_BY)
    def test_a_service_with_retained_instances_and_something_else_is_one(
        self, keep: Callable[[Registry], object]
    ) -> None:
        registry = guarded()
        keep(registry)
        assert found_in(registry.table).retained == {ONE.key: ONE}
        assert registry.table.snapshot(KEY) is not None


def parts(service: Service, count: int) -> dict[str, Callable[[], None]]:
    """By name, what fills one part of a service with so many entries."""
    ones = {one.key: one for one in (Instance("10.2.0.1", port) for port in range(1, count + 1))}
    publications = {str(number): Publication({}, False, 0, NO_VERSION) for number in range(count)}
    return {
        "stored": lambda: service.stored.update({key: StoredInstance(one, VERSION, 0) for key, one in ones.items()}),
        "persistent": lambda: service.persistent.update(ones),
        "tombstones": lambda: service.tombstones.update(dict.fromkeys(ones, Tombstone(VERSION, 0, 0))),
        "retained": lambda: service.retained.update(ones),
        "published": lambda: setattr(service, "published", publications),
    }


@pytest.mark.parametrize("part", ["stored", "persistent", "tombstones", "retained", "published"])
@pytest.mark.parametrize(("count", "under_lock"), [(COPIED_UNDER_LOCK_MAX, True), (COPIED_UNDER_LOCK_MAX + 1, False)])
def test_a_service_with_many_of_anything_is_copied_without_the_lock(part: str, count: int, under_lock: bool) -> None:
    table, service = ServiceTable(LINGER_MS), Service(*NAME, 0)
    parts(service, count)[part]()
    locked: list[bool] = []
    table.with_consistent_copy(service, lambda: locked.append(table.lock.locked()), lambda _: None)
    assert locked == [under_lock]
