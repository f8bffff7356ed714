"""Objects that only the collector would find, which the worker has run very rarely."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

LEFT_MAX = 20
"""Of all kinds; an object for each instance would be many more."""


@contextmanager
def without_circles() -> Iterator[None]:
    """Fail when more than a few objects were left to the collector."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        left = Counter(type(one).__name__ for one in gc.garbage)
        assert left.total() < LEFT_MAX, f"only the collector finds these: {left.most_common(8)}"
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
