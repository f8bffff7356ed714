"""Runs a coroutine without a task for as long as it does not wait; only one that waits becomes a task."""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


def begin(coroutine: Coroutine[Any, Any, T], on_task: Callable[[asyncio.Task[T]], None]) -> T | None:
    """Return the result of a coroutine that need not wait; else None, and ``on_task`` is called with its task.

    Until it waits it runs outside of a task: it may await futures, but no ``asyncio.timeout``.

    Raises:
        Exception: the one of the coroutine, before it waits.
    """
    try:
        waited = coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    on_task(asyncio.get_running_loop().create_task(_finish(coroutine, waited)))
    return None


async def _finish(coroutine: Coroutine[Any, Any, T], waited: Any) -> T:
    return await _rest(coroutine, waited)


@types.coroutine
def _rest(coroutine: Coroutine[Any, Any, T], waited: Any) -> Generator[Any, Any, T]:
    """Go on with a coroutine that waits for the future ``waited``."""
    while True:
        failure: BaseException | None = None
        try:
            got = yield waited
        except BaseException as error:
            failure = error
        try:
            waited = coroutine.send(got) if failure is None else coroutine.throw(failure)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            failure = None  # its traceback has this frame, which would refer to itself
