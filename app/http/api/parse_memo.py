"""The commands that parsers made of queries, kept for when the same query comes again."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from app.http.input.hot_params import quick_metadata
from app.http.input.params import Parameters
from app.naming.registry.operations import RegisterInstance

C = TypeVar("C")

MEMO_ENTRIES_MAX = 131_072
MEMO_QUERY_BYTES_MAX = 1_024
WRITES_KEPT_MAX = 32_768
MEMO_FULL_S = 60.0
"""A full memo is kept for so long: were the oldest replaced, a steady round of beats would never find its own."""
PASSWORD = b"password="
"""In a call that brings its user's password, which is not kept in memory."""
_METADATA = b"&metadata="
_TARGET_CHARS = bytes(set(range(0x21, 0x7F)) - set(b"#&+="))
"""Of a value that cannot end the request's target, and that is all of one parameter."""
_HOLE = b"\n"
"""In place of the value: neither a query nor a request's target has a line's end in it."""


def cut_metadata(data: bytes, begin: int, end: int) -> tuple[bytes, bytes] | None:
    """The shape of bytes with a query between ``begin`` and ``end``, which lacks the metadata, and the metadata.

    None for a query without metadata, and for a value of characters that are special in a query.
    """
    at = data.find(_METADATA, begin, end)
    if at < 0:
        return None
    start = at + len(_METADATA)
    stop = data.find(b"&", start, end)
    if stop < 0:
        stop = end
    value = data[start:stop]
    return None if value.translate(None, _TARGET_CHARS) else (data[:start] + _HOLE + data[stop:], value)


def is_model(command: object, parameters: Parameters) -> bool:
    """Whether the command of these parameters is that of others with the same shape, but for the metadata.

    Of plain parameters each has a name of its own: the metadata of the command are of the value that was cut out.
    """
    return type(command) is RegisterInstance and parameters.plain is not None


class ParseMemo:
    """The commands that parsers made of queries, by parser and query. One thread uses it."""

    def __init__(self, entries_max: int = MEMO_ENTRIES_MAX, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._entries_max = entries_max
        self._clock_s = clock_s
        self._full_s: float | None = None
        self.made: dict[tuple[Callable[..., object], bytes], Any] = {}

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


class WriteMemo:
    """The commands of writes that members pass on, also of those that come again but for their metadata.

    One thread uses it. Commands are immutable, so that one is given for each query that means the same.
    """

    def __init__(self) -> None:
        self._memo = ParseMemo(WRITES_KEPT_MAX)

    def parse(self, parser: Callable[[Parameters], C], query: bytes, parameters: Callable[[], Parameters]) -> C:
        """The command that a parser makes of a query without a body; ``parameters`` parses it, where that must be.

        Raises:
            InvalidParam: as the parser.
        """
        cut = cut_metadata(query, 0, len(query))
        if PASSWORD in query or (cut is None and _METADATA in query):
            return parser(parameters())  # what holds a password is not kept, nor what is another one each time
        if cut is None:
            return self._parse_whole(parser, query, parameters)
        shape, value = cut
        key = (parser, shape)
        model = self._memo.made.get(key)
        if model is not None:
            if model[0] == value:
                return model[1]
            if (metadata := quick_metadata(value)) is not None:
                command = model[1].with_metadata(metadata)
                self._memo.made[key] = value, command
                return command
        found = parameters()
        made = parser(found)
        if is_model(made, found):
            self._memo.keep(key, (value, made))
        return made

    def _parse_whole(self, parser: Callable[[Parameters], C], query: bytes, parameters: Callable[[], Parameters]) -> C:
        key = (parser, query)
        made = self._memo.made.get(key)
        if made is None:
            made = parser(parameters())
            self._memo.keep(key, made)
        return made
