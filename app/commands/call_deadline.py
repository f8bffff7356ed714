"""The deadline of the call that a thread executes (R13), for the moment at which a write gets its turn at the disk."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from app.naming.model.nacos_errors import Unavailable

TOO_LATE = "server is asked too late: the call was given up"
"""The text of the 503 for a call that came after its deadline; it means that nothing was executed."""
_is_over: ContextVar[Callable[[], bool] | None] = ContextVar("is_over", default=None)


@contextmanager
def executing_until(is_over: Callable[[], bool]) -> Iterator[None]:
    """Let ``check_call_deadline`` in the body fail as soon as ``is_over`` says so."""
    token = _is_over.set(is_over)
    try:
        yield
    finally:
        _is_over.reset(token)


def check_call_deadline() -> None:
    """Check that the call which this thread executes may still write.

    Raises:
        Unavailable: its caller has given it up.
    """
    is_over = _is_over.get()
    if is_over is not None and is_over():
        raise Unavailable(TOO_LATE)
