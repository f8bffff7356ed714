"""Requests to other members, and what becomes of each."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LinkAnswer:
    """The answer of a member. Header names are in lower case."""

    status: int
    body: bytes
    headers: dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class NotSent:
    """The request was not executed: it was not sent, or behind an answer that closed the connection."""


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """The request was sent and not answered: the member may have executed it."""


LinkResult = LinkAnswer | NotSent | NotAnswered
Done = Callable[[LinkResult], None]


@dataclass(slots=True)
class Exchange:
    """One request on its way, and who is told what becomes of it."""

    request: bytes
    deadline_s: float
    done: Done | None
    """None after its call."""

    def tell(self, result: LinkResult) -> None:
        """Call ``done``, once. Its exceptions are logged: they must not reach other requests on the same connection."""
        done, self.done = self.done, None
        if done is not None:
            try:
                done(result)
            except Exception:
                log.exception("a member's answer could not be used")
