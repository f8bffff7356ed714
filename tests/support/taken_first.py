"""A lock that another thread's step always takes first, for tests of what its holder must look at anew."""

from collections.abc import Callable
from threading import Lock
from types import TracebackType


class TakenFirst:
    """In place of a lock: before the first one who asks for it gets it, ``step`` has had it and has ended."""

    def __init__(self, lock: Lock, step: Callable[[], object]) -> None:
        self._lock = lock
        self._step: Callable[[], object] | None = step

    @property
    def was_taken(self) -> bool:
        """Whether anybody asked for the lock yet."""
        return self._step is None

    def __enter__(self) -> bool:
        if (step := self._step) is not None:
            self._step = None
            step()
        return self._lock.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.__exit__(kind, error, trace)
