"""Requests that come again to the byte, as clients' beats, lists and registrations do: parsed once, answered each time.

Nothing of an answer is kept: only what the same bytes always mean.
"""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from app.http.api.call import Route
from app.http.api.call_memo import CallMemo
from app.metrics.request_stats import RouteStats

R = TypeVar("R")

ENTRIES_MAX = 32_768
BYTES_MAX = 1_024
"""The most bytes of a request with its head; a longer request is parsed each time."""
MARKS_MAX = 32_768
"""Requests that came once. With so many all are forgotten: what repeats within as many requests is found."""
FULL_S = 60.0
"""The time that a full memo is kept: were the oldest replaced, a steady round of beats would never find its own."""


class RequestFacts(CallMemo):
    """The known facts about a request that came before: its route with its statistics, and its query."""

    __slots__ = ("query", "route")

    def __init__(self, route: tuple[Route, RouteStats], query: bytes) -> None:
        super().__init__()
        self.route = route
        self.query = query


class RequestMemo(Generic[R]):
    """The requests that the bytes of one piece are, for those that came twice at least. One thread uses it."""

    def __init__(self, keep: Callable[[R], R | None], clock_s: Callable[[], float] = time.monotonic) -> None:
        """``keep``: returns a request as it may be kept; None for one whose meaning other things decide, too."""
        self._keep = keep
        self._clock_s = clock_s
        self._full_s: float | None = None
        self._marks: set[int] = set()
        """Hashes of those that came once, as many come only once: two that share one do no harm."""
        self._made: dict[bytes, R] = {}
        self.find: Callable[[bytes], R | None] = self._made.get
        """The request that a piece of bytes is, behind a whole request; None for one that is to be parsed."""

    def note(self, data: bytes, request: R) -> bool:
        """Take note that a piece of bytes was one whole request, and nothing else; return whether it came before."""
        if len(data) > BYTES_MAX:
            return False
        mark = hash(data)
        if mark not in self._marks:
            if len(self._marks) >= MARKS_MAX:
                self._marks.clear()
            self._marks.add(mark)
            return False
        if self._has_room() and (kept := self._keep(request)) is not None:
            self._made[data] = kept
        return True

    def _has_room(self) -> bool:
        if len(self._made) < ENTRIES_MAX:
            return True
        now_s = self._clock_s()
        if self._full_s is None:
            self._full_s = now_s
        if now_s - self._full_s < FULL_S:
            return False
        self._made.clear()
        self._full_s = None
        return True
