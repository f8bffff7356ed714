"""The least number that no instance of a service has as its id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.naming.model.id_allocator import IdAllocator
from app.naming.registry.operations import Beat, DeregisterInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX
from tests.support.registry_parts import naming_of

SNOWFLAKE = {"preserved.instance.id.generator": "snowflake"}
IDS = st.one_of(
    st.none(), st.integers(0, 6).map(str), st.sampled_from(["", "a", "03", "-1", "²", "10.0.0.1#80#c#s", "9" * 99])
)


def searched(ids: list[str | None]) -> int:
    """As the definition says."""
    number = 0
    while str(number) in ids:
        number += 1
    return number


@given(st.lists(IDS), st.lists(st.one_of(IDS, st.integers(0, 5), st.just("least"))))
def test_it_is_always_the_least_one(first: list[str | None], changes: list[str | int | None]) -> None:
    """A number among the changes takes that one of the ids away; ``lowest_free`` takes the lowest free one."""
    ids, allocator = list(first), IdAllocator(first)
    for change in changes:
        if isinstance(change, int):
            if change < len(ids):
                allocator.give(ids.pop(change))
        else:
            one = str(allocator.lowest_free()) if change == "least" else change
            allocator.take(one)
            ids.append(one)
        assert allocator.lowest_free() == searched(ids)


def test_what_is_remembered_does_not_grow_with_those_who_come_and_go() -> None:
    allocator = IdAllocator(["0", "1", "2"])
    for _ in range(100):
        allocator.take(str(allocator.lowest_free()))
        allocator.give("1")
        allocator.take(str(allocator.lowest_free()))
        allocator.give("3")
    assert len(allocator._freed) <= 2


def test_what_is_remembered_does_not_grow_with_a_number_that_comes_and_goes() -> None:
    allocator = IdAllocator(["0", "1"])
    assert allocator.lowest_free() == 2
    for _ in range(100):
        allocator.give("1")
        allocator.take("1")
    assert len(allocator._freed) <= 1


def test_a_number_of_several_instances_is_free_after_the_last() -> None:
    allocator = IdAllocator(["0", "0", "0"])
    for lowest in (1, 1, 0):
        assert allocator.lowest_free() == 1
        allocator.give("0")
        assert allocator.lowest_free() == lowest


def test_a_freed_number_that_was_taken_out_of_turn_is_not_free() -> None:
    allocator = IdAllocator(["0", "1", "2"])
    assert allocator.lowest_free() == 3
    for freed in ("0", "1"):
        allocator.give(freed)
    for taken in ("1", "0"):
        allocator.take(taken)
    assert allocator.lowest_free() == 3


def test_a_number_that_no_instance_has_is_given_back_in_vain() -> None:
    allocator = IdAllocator(["0", "1"])
    for _ in range(2):
        allocator.give("0")
    allocator.give("7")
    assert allocator.lowest_free() == 0
    allocator.take("0")
    assert allocator.lowest_free() == 2


class Named:
    """A service whose instances have numbers as ids; one has none."""

    def __init__(self, count: int) -> None:
        self.registry = Registry.of("a:1~1")
        self.naming = naming_of(self.registry, lambda: 0, lambda _event: None)
        self.naming.register(RegisterInstance("g@@s", "10.9.0.1", 80))
        for number in range(count):
            self.register(number)

    def register(self, number: int) -> None:
        self.naming.register(RegisterInstance("g@@s", f"10.0.0.{number}", 80, metadata=SNOWFLAKE))

    def deregister(self, number: int) -> None:
        self.naming.deregister(DeregisterInstance("g@@s", f"10.0.0.{number}", 80))

    def ids(self) -> list[str | None]:
        view = self.naming.service_view("public", "g@@s")
        return [one.instance_id for one in view.instances] if view else []


@pytest.mark.parametrize("count", [5, COPIED_UNDER_LOCK_MAX + 5])
def test_gaps_are_filled_in_small_and_in_large_services(count: int) -> None:
    named = Named(count)
    assert named.ids()[1:] == [str(number) for number in range(count)]
    for number in (3, 1):
        named.deregister(number)
    named.register(201)
    named.naming.beat(Beat("g@@s", "10.0.0.202", 80, full=True, metadata=SNOWFLAKE))
    named.register(203)
    assert named.ids()[-3:] == ["1", "3", str(count)]


def test_a_number_is_free_when_who_had_it_changed_and_went() -> None:
    named = Named(COPIED_UNDER_LOCK_MAX + 5)
    named.naming.register(RegisterInstance("g@@s", "10.0.0.2", 80, metadata=SNOWFLAKE, weight=2.0))
    named.deregister(2)
    named.register(201)
    assert named.ids()[-1] == "2"


def test_a_received_list_is_counted_anew() -> None:
    named = Named(COPIED_UNDER_LOCK_MAX + 5)
    [datum] = named.registry.lists.datums([one.key for one in named.registry.table.services()])
    for key in list(datum.value.stored)[1:]:
        del datum.value.stored[key]
    named.registry.replication.apply(datum, datum.version, 0)
    named.register(201)
    assert named.ids()[1:] == ["0"]
    named.naming.register(RegisterInstance("g@@s", "10.0.0.202", 80, metadata=SNOWFLAKE))
    assert named.ids()[2:] == ["1"]
