"""Results about calls, kept for when the same bytes come again: the command, and the session that allowed it."""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from app.auth.access_control import Session
from app.http.input.forms import Parameters
from app.machine.process.loop_parts import RequestMemo

C = TypeVar("C")
Parser = Callable[..., object]

MIB = 1 << 20
QUERIES_BYTES_MAX = 96 * MIB
"""The memory of the commands of beats and lists whose requests differ in a header; 200,000 light beats fit."""
WRITES_KEPT_MAX = 16 * MIB
"""The memory of the commands of writes that members forwarded, of some 30,000 registrations."""
MEMO_QUERY_BYTES_MAX = 1_024
MARKS_MAX = 65_536
ENTRY_BYTES, PLAIN_BYTES, VALUE_BYTES = 352, 128, 128
"""The memory of a kept command without its query, if that has up to ``PLAIN_BYTES``, and of each value in JSON."""
PASSWORD = b"password="
"""In a call that brings its user's password, which is not kept in memory."""
SHARED_CHARS_MAX = 64
"""The longest text that kept commands share: nearly all names of services, clusters and namespaces are shorter."""
_shared = lru_cache(16_384)(str)
METADATA = b"metadata="
"""In a write that changes an instance, which seldom says the same twice."""


class CallMemo:
    """The command that a parser made of a call, and the user it was allowed to. Used on the event loop's thread."""

    __slots__ = ("allowed", "command", "parser", "used")

    def __init__(self, parser: Parser | None = None, command: Any = None) -> None:
        self.parser = parser
        """The parser that made ``command``, which is immutable."""
        self.command = command
        self.allowed: tuple[int, Session] | None = None
        """The session of the call's user, and the version of the users under which it may make the call."""
        self.used = True
        """A client made the call since the memo looked last."""

    def allow(self, version: int, session: Session) -> None:
        """Take note that the user of a session may make the call, under this version of the users."""
        self.allowed = version, session

    def session(self, version: int, now_ms: int) -> Session | None:
        """The session, if the call was allowed under this ``version`` of the users and the session has not ended."""
        if self.allowed is None or self.allowed[0] != version or self.allowed[1].end_ms <= now_ms:
            return None
        return self.allowed[1]


def as_kept(command: C) -> C:
    """The command with short texts that other kept ones share, as most name the same services and clusters."""
    if not isinstance(command, tuple):
        return command
    parts = [_shared(one) if type(one) is str and len(one) <= SHARED_CHARS_MAX else one for one in command]
    return tuple.__new__(type(command), parts)


class CommandKeeper:
    """Makes the commands that a memo keeps: of all queries but those with a password."""

    def keep(self, data: bytes, parsed: tuple[Parser, object]) -> tuple[CallMemo, int] | None:
        """Return a parser with the command that it made, and the memory that they take with their query."""
        parser, command = parsed
        return None if PASSWORD in data else (CallMemo(parser, as_kept(command)), ENTRY_BYTES + _bytes_of(data))

    def drop(self, data: bytes, kept: CallMemo) -> int:
        """Return the bytes of memory that a command frees."""
        return ENTRY_BYTES + _bytes_of(data)


def _bytes_of(data: bytes) -> int:
    """Return about how much memory a query takes, and its command beyond a short one."""
    values = data.count(b",") + data.count(b"%2C") + data.count(b"%2c")
    return len(data) + max(0, len(data) - PLAIN_BYTES) + VALUE_BYTES * values


class ParseMemo(RequestMemo[tuple[Parser, object], CallMemo]):
    """The commands that parsers made of queries that came at least twice. One thread uses it."""

    __slots__ = ()

    def __init__(
        self,
        bytes_max: int = QUERIES_BYTES_MAX,
        marks_max: int = MARKS_MAX,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(CommandKeeper(), bytes_max, MEMO_QUERY_BYTES_MAX, marks_max, clock_s)

    def parse(self, parser: Callable[[Parameters], C], query: bytes, parameters: Callable[[], Parameters]) -> C:
        """Return the command that a parser makes of a query without a body; ``parameters`` reads it where needed.

        Commands are immutable, so that one is given for each query that is the same.

        Raises:
            InvalidParam: as the parser.
        """
        kept = self.find(query)
        if kept is not None and kept.parser is parser:
            kept.used = True
            known: C = kept.command
            return known
        made = parser(parameters())
        if kept is None and METADATA not in query:
            self.note(query, (parser, made))
        return made
