"""Results about a call that are kept, and used again when the same bytes come again."""

from collections.abc import Callable
from typing import Any, Protocol

from app.auth.access_control import Session
from app.http.input.forms import Parameters


class ParsedCall(Protocol):
    """A call whose parameters are parsed when they are asked for."""

    @property
    def parameters(self) -> Parameters:
        """Query and form."""
        ...


class CallMemo:
    """The command that a parser made of a call, and the user it was allowed to. Used on the event loop's thread."""

    __slots__ = ("allowed", "command", "parser")

    def __init__(self) -> None:
        self.parser: Callable[..., object] | None = None
        """The parser that made ``command``, which is immutable."""
        self.command: Any = None
        self.allowed: tuple[int, Session] | None = None
        """The session of the call's user, and the version of the users under which it may make the call."""

    def parse(self, parser: Callable[..., Any], call: ParsedCall) -> Any:
        """The command that a parser makes of the call, kept for the next time."""
        command = parser(call.parameters)
        self.parser, self.command = parser, command
        return command

    def allow(self, version: int, session: Session) -> None:
        """Take note that the user of a session may make the call, under this version of the users."""
        self.allowed = version, session

    def session(self, version: int, now_ms: int) -> Session | None:
        """The session, if the call was allowed under this ``version`` of the users and the session has not ended."""
        if self.allowed is None or self.allowed[0] != version or self.allowed[1].end_ms <= now_ms:
            return None
        return self.allowed[1]
