"""The call that the event loop gives to a hot function: headers decoded on demand, repeated queries parsed once."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from app.auth.member_calls import CLIENT, Caller
from app.http.api.call import AUTHORIZATION, BEARER, Call
from app.http.api.parse_memo import ParseMemo
from app.http.input.forms import Parameters, is_form
from app.http.input.params import parse_beat, parse_list
from app.http.server.header_block import HeaderBlock
from app.http.server.request import RequestFacts

C = TypeVar("C")

MEMOISED = frozenset({parse_beat, parse_list})
"""Clients repeat these calls to the byte for as long as they live; the parsed command is immutable."""


class LoopCall(Call):
    """A call on the loop: the headers are decoded and the query is parsed only when an endpoint asks for them."""

    __slots__ = ("_block", "_parsed", "deadline", "wants_change")
    deadline: str | None
    wants_change: str | None

    def __init__(
        self,
        method: str,
        path: str,
        raw_query: bytes,
        block: HeaderBlock,
        body: bytes,
        remote_ip: str,
        context_path: str,
        parsed: ParseMemo,
        memo: RequestFacts | None = None,
        has_member_certificate: bool = False,
        caller: Caller = CLIENT,
    ) -> None:
        self.method = method
        self.path = path
        self.raw_query = raw_query
        self.body = body
        self.remote_ip = remote_ip
        self.context_path = context_path
        self.raw_path = self.user = self.hop_token = ""
        self.on_loop = True
        self.has_member_certificate = has_member_certificate
        self.caller = caller
        self.address = self.read = None
        self._parameters: Parameters | None = None
        self.memo = memo
        self._block = block
        self.deadline = block.deadline
        self.wants_change = block.wants_change
        self._parsed = parsed

    @property
    def headers(self) -> Mapping[str, str]:  # type: ignore[override]  # read where asked for, a field in the base class
        named = self._block.named
        return {**named, AUTHORIZATION: BEARER + self.hop_token} if self.hop_token else named

    def give_token(self, token: str, *secrets: str) -> None:
        # The headers are shared by the requests of the connection.
        self.hop_token = token
        self._parameters = self.parameters.without(*secrets)

    def header(self, name: str) -> str | None:
        return self._block.get(name)

    @property
    def client_agent(self) -> str:
        return self._block.client_agent

    def parse(self, parser: Callable[[Parameters], C]) -> C:
        memo = self.memo
        if memo is not None:
            known: C = memo.command if memo.parser is parser else memo.parse(parser, self)
            return known
        if parser not in MEMOISED:
            return parser(self.parameters)
        query = self.raw_query
        if self.body:
            if not is_form(self.method, self.header("content-type") or ""):
                return parser(self.parameters)
            query = b"%b\n%b" % (query, self.body)  # no query has a line's end in it
        key = (parser, query)
        made = self._parsed.made.get(key)
        if made is None:
            made = parser(self.parameters)
            self._parsed.keep(key, made)
        return made
