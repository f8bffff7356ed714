"""The naming timer: the calls of ticks, their times, and failing ticks."""

import logging

import pytest

from app.background.timers import BREATH_MS, NamingTimer, Tick, TimerWait
from distro.model.ports import Clock
from tests.support.processes import HANG_S


class Waits:
    """Stands for the timer's stop event: the clock goes on while one waits for it, and after some waits it is set."""

    def __init__(self, count: int) -> None:
        self.now_ms = 1_000
        self.waited_ms: list[float] = []
        self._left = count

    def wait(self, timeout_s: float) -> bool:
        self.waited_ms.append(timeout_s * 1_000)
        self.now_ms += int(timeout_s * 1_000)
        self._left -= 1
        return self._left < 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


def run(waits: Waits, *ticks: Tick) -> None:
    clock: Clock = waits
    timer = NamingTimer(clock, ticks)
    timer._stopped = waits  # type: ignore[assignment]
    timer._run()


def test_each_is_called_when_it_asked_to_be() -> None:
    waits, calls = Waits(5), list[tuple[str, int]]()

    def every(name: str, interval_ms: int) -> Tick:
        def tick(now_ms: int) -> int:
            calls.append((name, now_ms))
            return now_ms + interval_ms

        return tick

    run(waits, every("a", 100), every("b", 250))
    assert calls == [("a", 1_000), ("b", 1_000), ("a", 1_100), ("a", 1_200), ("b", 1_250), ("a", 1_300)]


def test_who_has_more_to_do_lets_the_others_go_on_before() -> None:
    waits = Waits(4)
    run(waits, lambda now_ms: now_ms)
    assert waits.waited_ms == [0, *[BREATH_MS] * 4]


def test_one_that_fails_is_called_again_later_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    waits, calls = Waits(3), list[int]()

    def fail(_now_ms: int) -> int:
        raise ValueError("out of order")

    def count(now_ms: int) -> int:
        calls.append(now_ms)
        return now_ms + 500

    with caplog.at_level(logging.ERROR):
        run(waits, fail, count)
    assert calls == [1_000, 1_500, 2_000]
    assert len(caplog.records) == 2


def test_an_early_turn_calls_what_a_clock_put_forward_made_due_and_tells_when_nothing_is_left() -> None:
    clock, calls, left = Waits(0), list[int](), [2]

    def tick(now_ms: int) -> int:
        calls.append(now_ms)
        left[0] -= 1
        return now_ms if left[0] > 0 else now_ms + 3_600_000

    timer = NamingTimer(clock, [tick])
    timer.start()
    assert timer.catch_up(HANG_S)
    assert calls == [1_000, 1_000], "the second as it asked for it"
    clock.now_ms += 3_600_000
    assert timer.catch_up(HANG_S)
    assert calls[2:] == [3_601_000]
    assert timer.stop(HANG_S)
    assert not timer.catch_up(0.0), "its thread has ended"


def test_a_wait_ends_with_its_time_early_or_for_ever() -> None:
    wait = TimerWait()
    assert wait.wait(0.0) is False
    wait.wake()
    assert wait.wait(HANG_S) is False
    wait.set()
    assert wait.wait(HANG_S) is True
