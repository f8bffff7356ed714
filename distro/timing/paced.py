"""Long work of a thread beside an event loop: in steps, with pauses in which the loop's thread gets the interpreter."""

import time
from collections.abc import Iterable, Iterator, Sized
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


def paced(entries: Iterable[T], step: int = STEP_ENTRIES) -> Iterable[T]:
    """Return the entries one by one, with a pause after each ``step`` of them. A shorter collection stays as it is."""
    return entries if isinstance(entries, Sized) and len(entries) < step else _with_pauses(entries, step)


def _with_pauses(entries: Iterable[T], step: int) -> Iterator[T]:
    for number, entry in enumerate(entries, 1):
        yield entry
        if not number % step:
            rest()
