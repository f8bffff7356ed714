"""Delay tasks: merging, deadlines, order, retries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distro.model.types import DistroKey, MemberState, Outcome, PeerReport
from distro.protocol.tasks import LOOKED_AT_FACTOR, BackOff, DelayTasks, PeerQueue
from distro.protocol.verify_rounds import PeerRounds
from tests.support.engine import OWN_KIND, SELF, B, Engine


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


@pytest.mark.parametrize(("begun_ms", "end_ms"), [(960, 1_020), (970, 1_020), (1_005, 1_020), (1_013, 1_023)])
def test_streams_of_changes_go_to_all_peers_at_the_same_times(begun_ms: int, end_ms: int) -> None:
    queue = PeerQueue(BackOff(250, 1_000))
    for key in keys(*map(str, range(16))):
        queue.tasks.add(key, 0)
    assert len(queue.take_sync(begun_ms, 100, 10)) == 16
    assert queue.gathers_ms(begun_ms) == end_ms - begun_ms


def test_a_peer_that_answers_again_ends_the_wait_of_new_keys_and_of_those_that_failed() -> None:
    tasks = DelayTasks()
    tasks.add(*keys("a"), 0)
    tasks.retry(keys("b"), 5_000)
    assert tasks.pop_due(1, 10) == []
    tasks.resume(1)
    assert tasks.pop_due(1, 10) == keys("b", "a")


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
    assert queue.next_due_ms() is None
    engine = Engine(B)
    engine.load()
    for state in (MemberState.DOWN, MemberState.UP):
        engine.now_ms += 9_000
        report = PeerReport(B, state, OWN_KIND, {}, (SELF, B))
        engine.protocol.on_report_done(B, Outcome.DELIVERED, report, engine.now_ms)
        assert engine.protocol.peers.queues[B].reachable is (state is MemberState.UP)
    assert engine.protocol.rounds.of[B].next_due_ms(engine.now_ms) == engine.now_ms


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
    tasks.resume(7)
    assert tasks.next_due_ms() == 0


def test_a_first_wait_of_nothing_grows_from_one_on() -> None:
    back_off = BackOff(0, 5)
    assert [back_off.failed() for _ in range(5)] == [0, 1, 2, 4, 5]


def test_the_rest_of_a_verify_round_is_due_at_once() -> None:
    rounds = PeerRounds(due_ms=900)
    assert rounds.next_due_ms(100) == 900
    rounds.types = ["t"]
    assert rounds.next_due_ms(100) == 100


def test_a_failed_send_touches_none_of_the_keys_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand may wait for a peer that takes nothing, and each send to it fails."""
    tasks = DelayTasks()
    keys = [DistroKey("t", f"k{number}") for number in range(2_000)]
    for key in keys:
        tasks.add(key, 0)
    taken = tasks.pop_due(0, 10)
    hashed: list[object] = []
    plain = DistroKey.__hash__
    monkeypatch.setattr(DistroKey, "__hash__", lambda self: hashed.append(self) or plain(self))  # type: ignore[func-returns-value]
    tasks.retry(taken, 100)
    tasks.pop_due(50, 10)
    assert tasks.pop_due(100, 10) == taken
    assert set(map(id, hashed)) <= set(map(id, taken))


def test_a_send_looks_at_a_bounded_number_of_keys_of_other_types() -> None:
    tasks, keys_max = DelayTasks(), 5
    near, far = DistroKey("a", "near"), DistroKey("a", "far")
    others = [DistroKey("b", f"k{number}") for number in range(LOOKED_AT_FACTOR * keys_max)]
    for key in (DistroKey("a", "first"), others[0], near, *others[1:], far):
        tasks.add(key, 0)
    assert tasks.pop_due(0, keys_max) == [DistroKey("a", "first"), near]
    assert tasks.pop_due(0, keys_max) == others[:keys_max]
    assert far in tasks


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 9)),
            st.tuples(st.just("send"), st.integers(1, 5)),
            st.tuples(st.just("fail"), st.integers(1, 5)),
        ),
        max_size=60,
    )
)
def test_keys_leave_in_the_order_of_their_first_change_failed_ones_first(steps: list[tuple[str, int]]) -> None:
    tasks, expected = DelayTasks(), list[DistroKey]()
    for now_ms, (what, number) in enumerate(steps):
        if what == "add":
            key = DistroKey("t", f"k{number}")
            tasks.add(key, now_ms)
            expected += [key] if key not in expected else []
        else:
            taken = tasks.pop_due(now_ms, number)
            assert taken == expected[:number]
            del expected[:number]
            if what == "fail" and taken:
                tasks.add(taken[0], now_ms)  # it changes while it is under way
                tasks.retry(taken, now_ms)
                expected = [*taken, *expected]
        assert list(tasks) == expected
        assert len(tasks) == len(expected)
        assert tasks.is_due(now_ms) == bool(expected)
