"""One whole request of a connection, the known facts about it, and the last answer to bytes that are none."""

from typing import NamedTuple

from app.http.api.call import Route
from app.http.api.call_memo import CallMemo
from app.http.api.loop_call import HeaderBlock
from app.metrics.request_stats import RouteStats


class RequestFacts(CallMemo):
    """The known facts about a request that came before: its route with its statistics, and its query."""

    __slots__ = ("query", "route")

    def __init__(self, route: tuple[Route, RouteStats], query: bytes) -> None:
        super().__init__()
        self.route = route
        self.query = query


class Request(NamedTuple):
    """One whole request: method, target and headers as the client sent them, the body without its chunks."""

    method: bytes
    target: bytes
    block: HeaderBlock
    body: bytes
    keep_alive: bool
    facts: RequestFacts | None = None
    """The known facts about the request, if the same bytes came before: then it is one of HTTP/1.1."""


class Refusal(NamedTuple):
    """The last answer of a connection, to bytes that form no request within the bounds."""

    status: int
    text: str
