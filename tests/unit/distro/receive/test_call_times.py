"""Deadlines of calls in the clock of the called member (R13): never later than the caller means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distro.receive.call_times import DRIFT_PER_MS, LATE_IN_A_ROW_MAX, STEP_MS, UNDER_WAY_MS_MAX, CallDeadlines

ME, PEER = "10.0.0.1:8848", "10.0.0.2:8848"


class Clock:
    """A member's clock, which shows ``offset_ms`` more than the world's."""

    def __init__(self, offset_ms: int) -> None:
        self.offset_ms = offset_ms
        self.world_ms = 1_000_000

    def boot_ms(self) -> int:
        return self.world_ms + self.offset_ms

    monotonic_ms = wall_ms = boot_ms


def pair(offset_ms: int = 0) -> tuple[CallDeadlines, Clock, CallDeadlines, Clock]:
    own, other = Clock(0), Clock(offset_ms)
    return CallDeadlines(f"{ME}~1", own), own, CallDeadlines(f"{PEER}~1", other), other


@given(
    offset_ms=st.integers(-900_000, 10**9),
    report_delays_ms=st.lists(st.integers(0, 5_000), min_size=1, max_size=16),
    left_ms=st.integers(1, 5_000),
    call_delay_ms=st.integers(0, 60_000),
)
def test_a_call_is_executed_only_before_its_caller_gives_it_up(
    offset_ms: int, report_delays_ms: list[int], left_ms: int, call_delay_ms: int
) -> None:
    mine, clock, theirs, other = pair(offset_ms)
    for delay_ms in report_delays_ms:
        clock_ms = theirs.clock_ms()
        clock.world_ms = other.world_ms = clock.world_ms + delay_ms
        mine.note(PEER, f"{PEER}~1", clock_ms)
    text = mine.text(PEER, left_ms)
    other.world_ms += call_delay_ms
    is_over = theirs.left_ms(text) < 0
    if call_delay_ms > left_ms:
        assert is_over
    drift_ms = sum(report_delays_ms) // DRIFT_PER_MS + 1
    if call_delay_ms + min(report_delays_ms) + drift_ms + STEP_MS <= left_ms:
        assert not is_over


def test_a_peer_that_names_no_clock_gets_no_deadline() -> None:
    mine, clock, *_ = pair()
    assert not mine.is_heard(PEER)
    mine.note(PEER, "", None)
    assert mine.is_heard(PEER)
    assert mine.text(PEER, 2_000) == ""
    assert mine.sent_ms(PEER, " 5") == clock.monotonic_ms()
    assert not mine.is_known_run(PEER, " 5")


def test_another_run_of_the_peer_has_another_clock() -> None:
    mine, clock, theirs, other = pair(500_000)
    mine.note(PEER, f"{PEER}~0", theirs.clock_ms())
    for_former_run = mine.text(PEER, 2_000)
    assert theirs.left_ms(for_former_run) < 0
    other.offset_ms = -500_000  # its machine was started again
    mine.note(PEER, f"{PEER}~1", theirs.clock_ms())
    assert theirs.left_ms(mine.text(PEER, 2_000)) >= 0
    clock.world_ms = other.world_ms = clock.world_ms + 2_001
    assert theirs.left_ms(mine.text(PEER, -1)) < 0


@pytest.mark.parametrize(
    "text", ["", " ", f"{PEER}~1", f"{PEER}~1 ", f"{PEER}~1 x", f"{PEER}~1 -5", f"{PEER}~1 ٣", f"{PEER}~1 " + 40 * "9"]
)
def test_what_is_no_deadline_is_over(text: str) -> None:
    _, _, theirs, _ = pair()
    assert theirs.left_ms(text) < 0


@given(
    offset_ms=st.integers(-900_000, 10**9),
    report_delay_ms=st.integers(0, 5_000),
    call_delay_ms=st.integers(0, 60_000),
)
def test_a_call_is_dated_when_it_was_sent(offset_ms: int, report_delay_ms: int, call_delay_ms: int) -> None:
    mine, clock, theirs, other = pair(offset_ms)
    clock_ms = theirs.clock_ms()
    clock.world_ms = other.world_ms = clock.world_ms + report_delay_ms
    mine.note(PEER, f"{PEER}~1", clock_ms)
    sent_ms, text = clock.monotonic_ms(), theirs.stamp()
    clock.world_ms += call_delay_ms
    dated_ms = mine.sent_ms(PEER, text)
    assert sent_ms <= dated_ms <= clock.monotonic_ms() or call_delay_ms > UNDER_WAY_MS_MAX
    drift_ms = call_delay_ms // DRIFT_PER_MS + 1
    assert dated_ms <= max(sent_ms + report_delay_ms + drift_ms, clock.monotonic_ms() - UNDER_WAY_MS_MAX)
    assert clock.monotonic_ms() - dated_ms <= UNDER_WAY_MS_MAX


def test_reports_that_waited_while_this_process_stood_still_date_no_call_later() -> None:
    """Any number of them in a row: what an earlier report showed of the peer's clock is still so."""
    mine, clock, theirs, other = pair()
    mine.note(PEER, f"{PEER}~1", theirs.clock_ms())
    first_ms, text = clock.monotonic_ms(), theirs.stamp()
    clock.world_ms += 18_000
    for sent_after_ms in range(0, 9_000, 500):
        mine.note(PEER, f"{PEER}~1", other.boot_ms() + sent_after_ms)
    assert first_ms <= mine.sent_ms(PEER, text) <= first_ms + 18_000 // DRIFT_PER_MS


def test_a_clock_that_runs_slower_is_followed() -> None:
    """At the most that clocks drift apart, for a day: calls are dated well, and their deadlines no later than meant."""
    mine, clock, theirs, other = pair()
    for _ in range(1_000):
        clock.world_ms += 86_400
        other.world_ms += 86_400 - 86
        mine.note(PEER, f"{PEER}~1", theirs.clock_ms())
    text = mine.text(PEER, 2_000)
    other.world_ms += 2_001
    assert theirs.left_ms(text) < 0
    assert mine.sent_ms(PEER, f"{PEER}~1 {other.boot_ms() - 2_001}") == clock.monotonic_ms()


def test_a_clock_that_was_set_back_is_believed_after_long_enough() -> None:
    """As that of a machine that was put back to a saved state; no earlier, as all these reports may have waited."""
    mine, clock, theirs, other = pair()
    mine.note(PEER, f"{PEER}~1", theirs.clock_ms())
    other.world_ms -= 500_000
    for late_ms in [*range(LATE_IN_A_ROW_MAX - 1, 0, -1), 500]:
        mine.note(PEER, f"{PEER}~1", theirs.clock_ms() - late_ms)
        assert theirs.left_ms(mine.text(PEER, -400_000)) >= 0, "the clock before it was set counts"
    mine.note(PEER, f"{PEER}~1", theirs.clock_ms() - 300)
    text = theirs.stamp()
    clock.world_ms += 5_000
    other.world_ms += 5_000
    sent_ms = clock.monotonic_ms() - 5_000
    assert mine.sent_ms(PEER, text) == sent_ms + 1 + 5_000 // DRIFT_PER_MS, "the quickest of them counts"
    assert theirs.left_ms(mine.text(PEER, -2 * STEP_MS)) < 0


@pytest.mark.parametrize("clock_ms", ["", "x", "-5", "9" * 30, "\u0665"])
def test_a_call_without_a_readable_clock_is_dated_now(clock_ms: str) -> None:
    mine, clock, theirs, _ = pair()
    mine.note(PEER, f"{PEER}~1", theirs.clock_ms())
    assert mine.sent_ms(PEER, f"{PEER}~1 {clock_ms}") == clock.monotonic_ms()
    assert mine.sent_ms(PEER, None) == clock.monotonic_ms()
    assert mine.sent_ms("10.0.0.9:1", f"{PEER}~1 1") == clock.monotonic_ms()


def test_the_clock_of_one_run_says_nothing_of_another() -> None:
    """A machine that was started anew counts from 0 again."""
    mine, clock, theirs, other = pair()
    mine.note(PEER, f"{PEER}~1", theirs.clock_ms())
    text = theirs.stamp()
    clock.world_ms = other.world_ms = clock.world_ms + 5_000
    assert mine.sent_ms(PEER, text) == clock.monotonic_ms() - 5_000 + 5_000 // DRIFT_PER_MS
    assert mine.is_known_run(PEER, text)
    mine.note(PEER, f"{PEER}~2", theirs.clock_ms())
    assert mine.sent_ms(PEER, text) == clock.monotonic_ms()
    assert not mine.is_known_run(PEER, text)


@pytest.mark.parametrize("text", [None, "", " 5", "5"])
def test_a_call_that_names_no_run_is_of_none_that_is_known(text: str | None) -> None:
    mine, _, theirs, _ = pair()
    assert not mine.is_known_run(PEER, text), "nothing was heard of it"
    mine.note(PEER, f"{PEER}~1", theirs.clock_ms())
    assert not mine.is_known_run(PEER, text)


def test_a_call_may_be_executed_until_its_deadline_and_no_later() -> None:
    mine, clock, *_ = pair()
    text = f"{ME}~1 {clock.boot_ms() + 5}"
    for left_ms in (5, 0, -1):
        clock.world_ms = 1_000_005 - left_ms
        assert mine.left_ms(text) == left_ms


def test_a_time_of_more_digits_than_any_clock_shows_is_none() -> None:
    mine, *_ = pair()
    assert mine.left_ms(f"{ME}~1 {'9' * 19}") >= 0
    assert mine.left_ms(f"{ME}~1 {'9' * 20}") < 0


def test_the_clock_of_a_peer_is_never_ahead_of_the_truth() -> None:
    mine, clock, theirs, other = pair(500_000)
    assert mine.clock_of(PEER) is None
    mine.note(PEER, "", None)
    assert mine.clock_of(PEER) is None
    mine.note(PEER, f"{PEER}~1", theirs.clock_ms())
    assert mine.clock_of(PEER) == (f"{PEER}~1", other.boot_ms())
    clock.world_ms = other.world_ms = clock.world_ms + 60_000
    assert mine.clock_of(PEER) == (f"{PEER}~1", other.boot_ms() - 60_000 // DRIFT_PER_MS)
