"""Long work of a thread beside an event loop: in steps, with rests in which the loop's thread gets the interpreter."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
STEP_ENTRIES = 500
"""Between two rests: a millisecond of work."""
REST_S = 0.001
"""Without one the loop's thread has to ask for the interpreter each time, and waits for as long as other processes run
in place of the thread that holds it: on few cores that makes a hundred milliseconds of one."""


def rest() -> None:
    """Leave the interpreter and the core to others for a moment."""
    time.sleep(REST_S)


def paced(entries: Iterable[T]) -> Iterator[T]:
    """The entries one by one, with a rest after each ``STEP_ENTRIES`` of them."""
    for number, entry in enumerate(entries, 1):
        yield entry
        if not number % STEP_ENTRIES:
            rest()
