"""PushSchedule: spacing of changes, acknowledgements in time or late, repeats, and the end of them."""

from dataclasses import dataclass

from app.naming.push.schedule import Overdue, PushSchedule

KEY, OTHER = ("public", "G@@a"), ("public", "G@@b")
BEGIN_MS = 1_000


@dataclass(slots=True, eq=False)
class One:
    sends: int = 0
    due_ms: int = 0


def schedule(retry_ms: int = 0, sends_max: int | None = None) -> PushSchedule[One]:
    return PushSchedule(ack_timeout_ms=500, retry_ms=retry_ms, sends_max=sends_max)


def test_a_change_is_due_at_once_and_the_next_at_the_end_of_the_spacing() -> None:
    due, one = schedule(), One()
    due.add(KEY, one)
    assert due.changed(KEY, BEGIN_MS)
    assert due.take_due(BEGIN_MS) == [one]
    assert due.changed(KEY, BEGIN_MS + 1)
    assert due.changed(KEY, BEGIN_MS + 2)
    assert due.next_due_ms() == BEGIN_MS + 50
    assert due.take_due(BEGIN_MS + 49) == []
    assert due.take_due(BEGIN_MS + 50) == [one]
    assert due.take_due(BEGIN_MS + 1_000) == []


def test_the_spacing_outlives_a_services_last_subscriber_and_is_then_forgotten() -> None:
    due, one = schedule(), One()
    due.add(KEY, one)
    due.changed(KEY, BEGIN_MS)
    due.take_due(BEGIN_MS)
    due.remove(KEY, one)
    assert not due.has(KEY)
    assert not due.changed(KEY, BEGIN_MS + 1)
    due.add(KEY, one)
    assert due.changed(KEY, BEGIN_MS + 1)
    assert due.next_due_ms() == BEGIN_MS + 50
    due.take_due(BEGIN_MS + 50)
    due.take_due(BEGIN_MS + 100)
    assert (due._spaced_ms, len(due._spaced)) == ({}, 0)


def test_services_are_due_by_their_own_times() -> None:
    due, one, other = schedule(), One(), One()
    due.add(KEY, one)
    due.add(OTHER, other)
    due.changed(KEY, BEGIN_MS)
    due.take_due(BEGIN_MS)
    due.changed(KEY, BEGIN_MS + 1)
    due.changed(OTHER, BEGIN_MS + 2)
    assert due.take_due(BEGIN_MS + 2) == [other]
    assert due.take_due(BEGIN_MS + 50) == [one]


def test_a_push_is_repeated_as_often_as_allowed_and_then_given_up() -> None:
    due, one = schedule(sends_max=2), One()
    due.add(KEY, one)
    due.sent(one, BEGIN_MS)
    assert due.take_overdue(BEGIN_MS + 499) == Overdue([], [], [])
    assert due.take_overdue(BEGIN_MS + 500) == Overdue([one], [one], [])
    assert (due.next_due_ms(), list(due.waiting())) == (None, []), "the caller sends it, and says so"
    due.sent(one, BEGIN_MS + 500)
    assert (one.sends, list(due.waiting())) == (2, [one])
    assert due.take_overdue(BEGIN_MS + 1_000) == Overdue([one], [], [one])
    assert (one.sends, due.next_due_ms()) == (0, None)


def test_without_a_bound_it_is_repeated_after_the_retry_time_again_and_again() -> None:
    due, one = schedule(retry_ms=100), One()
    due.add(KEY, one)
    now_ms = BEGIN_MS
    for _ in range(5):
        due.sent(one, now_ms)
        assert due.take_overdue(now_ms + 500) == Overdue([one], [], [])
        assert due.next_due_ms() == now_ms + 600
        now_ms += 600
        assert due.take_overdue(now_ms) == Overdue([], [one], [])


def test_a_refused_push_is_repeated_after_the_retry_time_alone() -> None:
    due, one = schedule(retry_ms=100), One()
    due.add(KEY, one)
    due.sent(one, BEGIN_MS)
    due.refused(one, BEGIN_MS + 10)
    assert list(due.waiting()) == []
    assert due.take_overdue(BEGIN_MS + 109) == Overdue([], [], [])
    assert due.take_overdue(BEGIN_MS + 110) == Overdue([], [one], [])


def test_a_refusal_that_comes_after_the_time_out_puts_the_repeat_off() -> None:
    due, one = schedule(retry_ms=100), One()
    due.sent(one, BEGIN_MS)
    assert due.take_overdue(BEGIN_MS + 500) == Overdue([one], [], [])
    due.refused(one, BEGIN_MS + 550)
    assert due.take_overdue(BEGIN_MS + 649) == Overdue([], [], [])
    assert due.take_overdue(BEGIN_MS + 650) == Overdue([], [one], [])


def test_what_is_settled_or_removed_is_neither_waited_for_nor_repeated() -> None:
    due, waits, repeats, gone = schedule(retry_ms=100), One(), One(), One()
    for one in (waits, repeats, gone):
        due.add(KEY, one)
        due.sent(one, BEGIN_MS)
    due.refused(repeats, BEGIN_MS)
    due.settle(waits)
    due.settle(repeats)
    due.remove(KEY, gone)
    assert (waits.sends, repeats.sends, gone.sends) == (0, 0, 0)
    assert due.next_due_ms() is None
    assert due.take_overdue(BEGIN_MS + 10_000) == Overdue([], [], [])
    due.changed(KEY, BEGIN_MS)
    assert due.take_due(BEGIN_MS) == [waits, repeats]


def test_a_newer_send_takes_the_last_place_among_those_waited_for() -> None:
    due, first, second = schedule(), One(), One()
    due.sent(first, BEGIN_MS)
    due.sent(second, BEGIN_MS + 1)
    due.sent(first, BEGIN_MS + 2)
    assert list(due.waiting()) == [second, first]
    assert due.take_overdue(BEGIN_MS + 501) == Overdue([second], [second], [])
