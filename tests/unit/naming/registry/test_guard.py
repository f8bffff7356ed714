"""The empty-push guard: by the cause of a loss, and for a bounded time."""

import pytest

from app.naming.health.beat_check import HealthCheckGate
from app.naming.model.events import Event, ServiceChanged
from app.naming.model.keys import datum_key
from app.naming.model.model import Instance, StoredInstance, Tombstone
from app.naming.registry.merge import GUARD_FROM_INSTANCES, InstanceList, vanished
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from distro.model.types import Datum, Version
from tests.support import views
from tests.support.registry_parts import check_of

SERVICE = "g@@s"
KEY = datum_key("public", SERVICE)
GUARD_MS = 10_000
VERSION = Version(1, 5, "b:1~1")


def instance(number: int) -> Instance:
    return Instance(f"10.0.0.{number}", 80, service_name=SERVICE)


def keys(count: int) -> list[str]:
    return [instance(number).key for number in range(count)]


def listed(stored: int, removed: range = range(0)) -> InstanceList:
    """A value with the first so many instances, and removals of others."""
    return InstanceList(
        {instance(number).key: StoredInstance(instance(number), VERSION, 0) for number in range(stored)},
        {instance(number).key: Tombstone(VERSION, 0, 90_000) for number in removed},
    )


class TestVanished:
    @pytest.mark.parametrize(
        ("shown", "stored", "removed", "lost"),
        [
            (0, 0, range(0), 0),
            (1, 0, range(0), 1),  # empties
            (1, 0, range(1), 0),  # the last one was removed by somebody
            (3, 1, range(0), 0),  # a small service may halve
            (3, 0, range(0), 3),
            (4, 2, range(0), 0),  # half is not more than half
            (4, 1, range(0), 3),
            (4, 1, range(1, 4), 0),  # three removals
            (10, 4, range(0), 6),
            (10, 4, range(4, 10), 0),
            (10, 4, range(4, 9), 0),  # five removed, one of five others vanished
            (10, 1, range(4, 10), 3),  # six removed, three of the other four vanished
            (10, 0, range(9), 1),  # nine removed, and the last one vanished
        ],
    )
    def test_what_goes_on_being_shown(self, shown: int, stored: int, removed: range, lost: int) -> None:
        before = {instance(number).key: instance(number) for number in range(shown)}
        assert len(vanished(before, listed(stored, removed))) == lost

    def test_new_instances_do_not_make_up_for_lost_ones(self) -> None:
        before = {instance(number).key: instance(number) for number in range(100, 104)}
        assert len(vanished(before, listed(8))) == 4


class Node:
    """A registry of which a peer's service is known."""

    def __init__(self, count: int = 6, guard_ms: int = GUARD_MS) -> None:
        self.registry = Registry.of("a:1~1", guard_ms=guard_ms)
        self.counter = 10
        self.take(listed(count), now_ms=0)

    def take(self, value: InstanceList, now_ms: int) -> None:
        """A datum of the peer's comes in."""
        self.counter += 1
        version = Version(1, self.counter, "b:1~1")
        assert self.registry.replication.apply(Datum(KEY, version, value), self.registry.lists.version(KEY), now_ms)

    def shown(self) -> int:
        view = views.view(self.registry, "public", SERVICE)
        return len(view.instances) if view else 0

    def lay(self, now_ms: int) -> bool:
        service = self.registry.table.find(KEY)
        return service is not None and self.registry.upkeep.drop_retained(service, now_ms)


class TestRegistry:
    def test_an_emptiness_without_a_cause_is_shown_late(self) -> None:
        node = Node()
        node.take(listed(0), now_ms=1_000)
        assert (node.shown(), node.registry.lists.held_back) == (6, 1)
        assert not node.lay(1_000 + GUARD_MS - 1)
        assert node.lay(1_000 + GUARD_MS)
        assert node.shown() == 0
        assert not node.lay(1_000 + GUARD_MS), "that is told once"

    def test_removals_are_shown_at_once(self) -> None:
        node = Node()
        node.take(listed(0, range(6)), now_ms=1_000)
        assert (node.shown(), node.registry.lists.held_back) == (0, 0)

    def test_a_removal_counts_for_what_is_held_back_too(self) -> None:
        node = Node()
        node.take(listed(0), now_ms=1_000)
        node.take(listed(0, range(2)), now_ms=2_000)
        assert node.shown() == 4

    def test_what_comes_back_is_shown_once(self) -> None:
        node = Node()
        node.take(listed(1), now_ms=1_000)
        assert node.shown() == 6
        node.take(listed(6), now_ms=2_000)
        assert node.shown() == 6
        assert not node.lay(60_000)
        assert node.shown() == 6

    def test_the_time_does_not_begin_anew(self) -> None:
        node = Node()
        for now_ms in range(1_000, GUARD_MS, 1_000):
            node.take(listed(0), now_ms)
        assert node.registry.lists.held_back == 1
        assert node.lay(1_000 + GUARD_MS)

    def test_a_registration_ends_the_retained_instance(self) -> None:
        node = Node()
        node.take(listed(0), now_ms=1_000)
        node.registry.writes.register(RegisterInstance(SERVICE, "10.0.0.1", 80), 2_000)
        assert node.shown() == 6
        node.lay(60_000)
        assert node.shown() == 1

    def test_local_removals_pass_at_once(self) -> None:
        """Also of the last instance, and of more than half."""
        node = Node()
        for key in keys(6):
            node.registry.writes.remove("public", SERVICE, key, 1_000)
        assert (node.shown(), node.registry.lists.held_back) == (0, 0)

    def test_a_deregistration_of_what_is_held_back_passes_at_once(self) -> None:
        node = Node()
        node.take(listed(0), now_ms=1_000)
        assert node.registry.writes.remove("public", SERVICE, instance(0).key, 2_000) == (KEY, None, instance(0).key)
        assert node.shown() == 5
        [datum] = node.registry.lists.datums([KEY])
        assert instance(0).key in datum.value.tombstones, "the others are told too"

    def test_a_removal_of_the_service_takes_what_is_held_back_along(self) -> None:
        node = Node()
        node.take(listed(1), now_ms=1_000)
        assert node.registry.writes.empty("public", SERVICE, 2_000) == KEY
        assert node.shown() == 0
        [datum] = node.registry.lists.datums([KEY])
        assert datum.value.tombstones.keys() == set(keys(6))

    def test_a_beat_that_ran_out_is_not_looked_for_among_them(self) -> None:
        node = Node()
        node.take(listed(0), now_ms=1_000)
        assert node.registry.writes.remove("public", SERVICE, instance(0).key, 2_000, beat_ms=0) is None

    def test_a_key_that_a_peer_lists_no_more_goes_late(self) -> None:
        node = Node()
        node.registry.upkeep.forget(KEY, 1_000)
        assert node.shown() == 6
        node.lay(1_000 + GUARD_MS)
        assert node.registry.table.find(KEY) is None

    def test_a_lone_node_has_no_guard(self) -> None:
        node = Node(guard_ms=0)
        node.take(listed(0), now_ms=1_000)
        assert node.shown() == 0

    def test_a_small_loss_passes(self) -> None:
        node = Node()
        node.take(listed(GUARD_FROM_INSTANCES), now_ms=1_000)
        assert (node.shown(), node.registry.lists.held_back) == (GUARD_FROM_INSTANCES, 0)


def test_the_end_of_holding_back_is_told_to_subscribers() -> None:
    """By the health check's tick, on members that own nothing of it too."""
    node = Node()
    events: list[Event] = []
    check = check_of(node.registry, events.append)
    ask_gate = HealthCheckGate(False, 0, lambda service: False)
    node.take(listed(0), now_ms=1_000)
    check.tick(1_000, lambda: ask_gate)
    check.tick(GUARD_MS, lambda: ask_gate)
    assert (events, node.shown()) == ([], 6)
    check.tick(1_000 + GUARD_MS, lambda: ask_gate)
    assert (events, node.shown()) == ([ServiceChanged("public", SERVICE)], 0)
