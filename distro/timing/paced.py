"""Long work of a thread beside an event loop: in steps, with rests in which the loop's thread gets the interpreter."""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
STEP_ENTRIES = 500
"""Between two rests: a millisecond of work."""
STEP_STORED = 100
"""Between two rests where each entry is stored, or a stored one dropped: it costs some ten microseconds."""
REST_S = 0.001
"""Without one the loop's thread has to ask for the interpreter each time, and waits for as long as other processes run
in place of the thread that holds it: on few cores that makes a hundred milliseconds of one."""


def rest() -> None:
    """Leave the interpreter and the core to others for a moment."""
    time.sleep(REST_S)


def parts_of(entries: Iterable[T], size: int) -> Iterator[list[T]]:
    """The entries in lists of ``size``, the last one of what is left."""
    rest_of = iter(entries)
    while part := list(islice(rest_of, size)):
        yield part


def paced(entries: Iterable[T], step: int = STEP_ENTRIES) -> Iterator[T]:
    """The entries one by one, with a rest after each ``step`` of them."""
    for number, entry in enumerate(entries, 1):
        yield entry
        if not number % step:
            rest()
