"""The times of rounds: no drift, none at the same time, and an end."""

from collections.abc import Callable
from threading import Event

import pytest

from app.tools.audit.watch.command import every


class Clock:
    """Time that goes on only while somebody waits or works; the wait is an ``Event`` of this clock."""

    def __init__(self, ends_s: float) -> None:
        self.now_s = 100.0
        self.ends_s = ends_s

    def stop(self) -> Event:
        clock = self

        class Waiting(Event):
            def wait(self, timeout: float | None = None) -> bool:
                clock.now_s += timeout or 0.0
                if clock.now_s >= clock.ends_s:
                    self.set()
                return self.is_set()

        return Waiting()


@pytest.mark.parametrize(
    ("took_s", "times"),
    [
        (lambda _: 1.5, [0, 10, 20, 30, 40]),
        (lambda number: 25.0 if number == 1 else 0.0, [0, 10, 40]),
        (lambda _: 10.0, [0, 20, 40]),
    ],
    ids=["short", "one that takes long", "as long as a period"],
)
def test_rounds_begin_at_whole_periods(took_s: Callable[[int], float], times: list[float]) -> None:
    clock, begun = Clock(ends_s=150.0), []

    def run() -> None:
        begun.append(clock.now_s - 100.0)
        clock.now_s += took_s(len(begun) - 1)

    every(10.0, clock.stop(), lambda: clock.now_s, run)
    assert begun == times


def test_what_is_stopped_before_it_begins_does_nothing() -> None:
    stop = Event()
    stop.set()
    every(10.0, stop, lambda: 0.0, lambda: pytest.fail("it ran"))
