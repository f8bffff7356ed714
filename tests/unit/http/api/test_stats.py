"""The lag of a loop: the largest of the last minute, and the count of those over the limit."""

import pytest

from app.http.api.stats import LAG_EVERY_S, LAGS_KEPT, HttpStats, LagMeter


class Loop:
    """Calls the meter when it is due, and as late as the test says."""

    def __init__(self) -> None:
        self.stats = HttpStats()
        self._meter = LagMeter(self.stats)
        self._due_s = 1_000.0

    def late(self, ms: float, times: int = 1) -> float:
        for _ in range(times):
            now_s = self._due_s + ms / 1_000
            self._due_s = self._meter.next_s(self._due_s, now_s)
            assert self._due_s == now_s + LAG_EVERY_S
        return self.stats.loop_lag_max_ms


def test_the_most_of_the_last_minute() -> None:
    loop = Loop()
    assert loop.late(0) == 0
    assert loop.late(12.3456) == pytest.approx(12.346)
    assert loop.late(3.0004) == pytest.approx(12.346)
    assert loop.late(1, LAGS_KEPT - 2) == pytest.approx(12.346)
    assert loop.late(1) == pytest.approx(3)
    assert loop.late(1) == pytest.approx(1)
    assert loop.late(0, LAGS_KEPT) == 0


def test_an_equal_one_stays_when_the_first_leaves() -> None:
    loop = Loop()
    loop.late(5)
    loop.late(5)
    assert loop.late(0, LAGS_KEPT - 1) == pytest.approx(5)
    assert loop.late(0) == 0


def test_a_call_before_its_time_is_not_late() -> None:
    assert Loop().late(-1) == 0


def test_what_is_too_late_is_counted() -> None:
    loop = Loop()
    for ms in (19, 21, 500, 0):
        loop.late(ms)
    assert loop.stats.loop_late == 2
    assert loop.stats.loop_lag_max_ms == 500
