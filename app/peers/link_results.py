"""Ends of a request to another member."""

from dataclasses import dataclass


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
