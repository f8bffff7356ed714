"""Checks take turns by service."""

from app.background.health_checks import FairQueue


def test_owners_take_turns() -> None:
    queue = FairQueue[str](waiting_max=100, owner_waiting_max=100, owner_running_max=100)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        assert queue.put(item[0], item)
    assert len(queue) == 6
    assert [queue.take() for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", None]
    assert len(queue) == 0


def test_an_owner_has_a_part_of_what_is_worked_on() -> None:
    queue = FairQueue[str](waiting_max=100, owner_waiting_max=100, owner_running_max=2)
    for item in ("a1", "a2", "a3", "b1"):
        queue.put(item[0], item)
    assert [queue.take() for _ in range(4)] == ["a1", "b1", "a2", None]
    queue.done("b")
    assert queue.take() is None
    queue.done("a")
    assert queue.take() == "a3"


def test_what_waits_has_bounds() -> None:
    queue = FairQueue[int](waiting_max=5, owner_waiting_max=3, owner_running_max=1)
    assert [queue.put("a", number) for number in range(4)] == [True, True, True, False]
    assert [queue.put("b", number) for number in range(3)] == [True, True, False]
    assert queue.take() == 0
    assert queue.put("b", 9)
