"""Long work of a thread beside an event loop: in steps, with pauses in which the loop's thread gets the interpreter."""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
STEP_ENTRIES = 500
"""Entries between two pauses: a millisecond of work."""
STEP_STORED = 100
"""Entries between two pauses when each is stored, or a stored one dropped, at some ten microseconds each."""
REST_S = 0.001
"""The length of a pause.

Without pauses the loop's thread has to request the interpreter each time. It then waits for as long as other processes
run in place of the thread that holds it: on few cores one millisecond becomes a hundred.
"""


def rest() -> None:
    """Leave the interpreter and the core to others for a moment."""
    time.sleep(REST_S)


def parts_of(entries: Iterable[T], size: int) -> Iterator[list[T]]:
    """Return the entries in lists of ``size``; the last list may be shorter."""
    rest_of = iter(entries)
    while part := list(islice(rest_of, size)):
        yield part


def paced(entries: Iterable[T], step: int = STEP_ENTRIES) -> Iterator[T]:
    """Return the entries one by one, with a pause after each ``step`` of them."""
    for number, entry in enumerate(entries, 1):
        yield entry
        if not number % step:
            rest()
