"""The memory that Python takes while a block runs."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def traced_peak() -> Iterator[Callable[[], int]]:
    """Give a function that returns the most bytes that were taken at once since the block began, until its end."""
    tracemalloc.start()
    most = 0
    try:
        yield lambda: most
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@contextmanager
def traced_rest() -> Iterator[Callable[[], int]]:
    """Give a function that returns the bytes that the block took and has not freed at its end."""
    gc.collect()
    tracemalloc.start()
    rest = 0
    try:
        yield lambda: rest
        gc.collect()
        rest = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
