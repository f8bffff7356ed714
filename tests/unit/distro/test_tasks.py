"""Delay tasks: merging, deadlines, order, retries."""

from distro.tasks import BackOff, DelayTasks, PeerQueue
from distro.types import DistroKey


def keys(*names: str, kind: str = "t") -> list[DistroKey]:
    return [DistroKey(kind, name) for name in names]


def test_changes_of_one_key_are_one_task_with_the_first_deadline() -> None:
    tasks = DelayTasks()
    (key,) = keys("a")
    tasks.add(key, 100)
    tasks.add(key, 900)
    assert tasks.next_due_ms() == 100
    assert tasks.pop_due(99, 10) == []
    assert tasks.pop_due(100, 10) == [key]
    assert (len(tasks), tasks.next_due_ms()) == (0, None)


def test_a_send_takes_the_oldest_keys_of_one_type() -> None:
    tasks = DelayTasks()
    for key in [*keys("a"), *keys("x", kind="other"), *keys("b", "c")]:
        tasks.add(key, 0)
    assert tasks.pop_due(0, 2) == keys("a", "b")
    assert tasks.pop_due(0, 2) == keys("x", kind="other")
    assert tasks.pop_due(0, 2) == keys("c")


def test_failed_keys_wait_and_hold_up_the_newer_ones() -> None:
    tasks = DelayTasks()
    tasks.add(*keys("new"), 0)
    tasks.retry(keys("old"), 500)
    assert tasks.pop_due(499, 10) == []
    assert tasks.pop_due(500, 10) == keys("old", "new")


def test_keys_that_were_refused_together_leave_one_by_one() -> None:
    tasks = DelayTasks()
    tasks.retry(keys("a", "b"), 0, alone=True)
    tasks.add(*keys("c"), 0)
    assert [tasks.pop_due(0, 10) for _ in range(3)] == [keys("a"), keys("b"), keys("c")]


def test_a_peer_that_answers_again_ends_the_wait() -> None:
    tasks = DelayTasks()
    tasks.add(*keys("a"), 0)
    tasks.retry([], 5_000)
    tasks.resume()
    assert tasks.pop_due(1, 10) == keys("a")


def test_back_off_doubles_to_its_bound_and_starts_over() -> None:
    back_off = BackOff(250, 1_000)
    assert [back_off.failed() for _ in range(4)] == [250, 500, 1_000, 1_000]
    back_off.succeeded()
    assert back_off.failed() == 250


def test_nothing_is_pending_for_an_unreachable_peer_and_its_return_begins_a_verify_round() -> None:
    queue = PeerQueue(BackOff(250, 1_000))
    queue.on_reachable(1_000)
    queue.tasks.add(*keys("a"), 0)
    queue.fetch.update(dict.fromkeys(keys("b")))
    assert queue.on_unreachable() == 1
    assert not queue.fetch
    assert not queue.reachable
    queue.on_reachable(9_000)
    assert queue.next_due_ms(9_000) == 9_000


def test_a_key_that_was_sent_alone_may_travel_with_others_the_next_time() -> None:
    tasks = DelayTasks()
    tasks.retry(keys("a"), 0, alone=True)
    assert tasks.pop_due(0, 10) == keys("a")
    for key in keys("a", "b"):
        tasks.add(key, 0)
    assert tasks.pop_due(0, 10) == keys("a", "b")


def test_after_the_end_of_a_wait_keys_are_due_from_the_beginning_of_time_on() -> None:
    tasks = DelayTasks()
    tasks.retry(keys("a"), 5_000)
    tasks.clear()
    tasks.add(*keys("a"), 0)
    assert tasks.next_due_ms() == 0
    tasks.retry([], 5_000)
    tasks.resume()
    assert tasks.next_due_ms() == 0


def test_a_first_wait_of_nothing_grows_from_one_on() -> None:
    back_off = BackOff(0, 5)
    assert [back_off.failed() for _ in range(5)] == [0, 1, 2, 4, 5]


def test_the_rest_of_a_verify_round_is_due_at_once() -> None:
    queue = PeerQueue(BackOff(1, 1), verify_due_ms=900)
    assert queue.next_due_ms(100) == 900
    queue.verify_types = ["t"]
    assert queue.next_due_ms(100) == 100
