"""The times of the rounds: at whole periods after the start, one at a time, for as long as the process runs."""

import math
from collections.abc import Callable
from threading import Event


def every(period_s: float, stop: Event, clock: Callable[[], float], run: Callable[[], object]) -> None:
    """Call ``run`` now and at each period after now, until ``stop`` is set.

    The times do not drift: they count from the first. Times that fall into a long call are left out.
    """
    began_s = clock()
    while not stop.is_set():
        run()
        passed_s = clock() - began_s
        next_s = began_s + (math.floor(passed_s / period_s) + 1) * period_s
        stop.wait(max(0.0, next_s - clock()))
