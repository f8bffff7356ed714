"""The commands that parsers made of queries, kept for when the same query comes again."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from app.http.input.forms import Parameters

C = TypeVar("C")

MEMO_ENTRIES_MAX = 131_072
MEMO_QUERY_BYTES_MAX = 1_024
WRITES_KEPT_MAX = 32_768
MEMO_FULL_S = 60.0
"""A full memo is kept for so long: were the oldest replaced, a steady round of beats would never find its own."""
PASSWORD = b"password="
"""In a call that brings its user's password, which is not kept in memory."""
METADATA = b"metadata="
"""In a write that changes an instance, which seldom says the same twice."""


class ParseMemo:
    """The commands that parsers made of queries, by parser and query. One thread uses it."""

    def __init__(self, entries_max: int = MEMO_ENTRIES_MAX, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._entries_max = entries_max
        self._clock_s = clock_s
        self._full_s: float | None = None
        self.made: dict[tuple[Callable[..., object], bytes], Any] = {}

    def parse(self, parser: Callable[[Parameters], C], query: bytes, parameters: Callable[[], Parameters]) -> C:
        """Return the command that a parser makes of a query without a body; ``parameters`` reads it where needed.

        Commands are immutable, so that one is given for each query that is the same.

        Raises:
            InvalidParam: as the parser.
        """
        key = (parser, query)
        made = self.made.get(key)
        if made is None:
            made = parser(parameters())
            if PASSWORD not in query and METADATA not in query:
                self.keep(key, made)
        return made

    def keep(self, key: tuple[Callable[..., object], bytes], made: object) -> None:
        """Remember a parsed command, if there is room."""
        if len(key[1]) > MEMO_QUERY_BYTES_MAX:
            return
        if len(self.made) >= self._entries_max:
            now_s = self._clock_s()
            if self._full_s is None:
                self._full_s = now_s
            if now_s - self._full_s < MEMO_FULL_S:
                return
            self.made.clear()
            self._full_s = None
        self.made[key] = made
