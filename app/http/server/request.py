"""One whole request of a connection, and the last answer to bytes that are none."""

from typing import NamedTuple

from app.http.server.header_block import HeaderBlock
from app.http.server.request_memo import RequestFacts


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
