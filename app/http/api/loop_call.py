"""The call that the event loop answers: its headers, its query, and the run of its endpoint."""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from app.auth.member_calls import AGENT, CLIENT, PREFIX, Caller
from app.http.api.answers import INTERNAL_ERROR, error_reply, refuse_unless_up
from app.http.api.call import (
    AUTHORIZATION,
    BEARER,
    CLIENT_AGENT,
    DEADLINE,
    DECLINE,
    WANTS_CHANGE,
    Answer,
    Call,
    Route,
    Services,
)
from app.http.api.parse_memo import CallMemo, ParseMemo, as_kept
from app.http.api.rights import check_access
from app.http.api.user_access import PasswordGiven
from app.http.input.forms import Parameters, is_form
from app.http.input.params import parse_beat, parse_list
from app.naming.model.nacos_errors import NacosError
from distro.model.errors import CodecError, NotInitialized
from distro.model.types import MemberState

log = logging.getLogger(__name__)
C = TypeVar("C")
RawHeaders = list[tuple[bytes, bytes]]

_AGENT_NAMES = ("user-agent", "client-version")
_FRAMING = frozenset({"content-length", "connection", "expect", "host", "transfer-encoding"})
MEMOISED = frozenset({parse_beat, parse_list})
"""Clients repeat these calls to the byte for as long as they live; the parsed command is immutable."""
_UP = MemberState.UP
"""Python 3.11 needs ten times as long to look a member up in its class."""


class HeaderBlock:
    """The headers of a request; kept for the next request of the connection if that has the same, as most have."""

    __slots__ = (
        "chunked",
        "claims_member",
        "client_agent",
        "connection",
        "content_length",
        "deadline",
        "encoded_otherwise",
        "expects",
        "foreign",
        "get",
        "hosts",
        "named",
        "raw",
        "wants_change",
    )

    def __init__(self, raw: RawHeaders) -> None:
        self.raw = raw
        named: dict[str, str] = {}
        self.named = named
        """The values by name in lower case; those of a name that comes twice are joined by a comma.

        A name with an underscore is left out, as in gunicorn: in WSGI it would equal the name with a hyphen.
        """
        self.get: Callable[[str], str | None] = named.get
        """Returns a header by its name in lower case. The mapping's own method, as a call asks for twenty of them."""
        self.content_length: bytes | None = None
        self.connection = self.expects = self.chunked = False
        self.encoded_otherwise = False
        """A header Transfer-Encoding names more or else than chunks, which is all that is undone here."""
        self.foreign = False
        """They are of a page of another origin, which may change nothing. Set by the reader."""
        self.hosts = 0
        """The number of headers Host."""
        self.claims_member = False
        """The agent or a header says that a member makes the call; whether one does is for others to find out."""
        for raw_name, raw_value in raw:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip(" \t")
            if name.startswith(PREFIX) or (AGENT in value and name in _AGENT_NAMES):
                self.claims_member = True
            if "_" in name:
                continue
            named[name] = f"{named[name]},{value}" if name in named else value
            if name not in _FRAMING:
                continue
            match name:
                case "content-length":
                    self.content_length = raw_value.strip()
                case "connection":
                    self.connection = True
                case "expect":
                    self.expects = raw_value.strip().lower() == b"100-continue"
                case "transfer-encoding":
                    self.encoded_otherwise = self.chunked or raw_value.strip().lower() != b"chunked"
                    self.chunked = True
                case "host":
                    self.hosts += 1
        self.deadline = named.get(DEADLINE)
        self.wants_change = named.get(WANTS_CHANGE)
        self.client_agent = named.get(CLIENT_AGENT) or named.get("user-agent") or named.get("client-version") or ""
        """As ``Call.client_agent``."""


class LoopCall(Call):
    """A call on the loop: the query is parsed only when an endpoint asks for it."""

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
        memo: CallMemo | None = None,
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
        self.on_loop, self.has_checked_name = True, False
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

    @property
    def agent(self) -> str:
        get = self._block.get
        return get("user-agent") or get("client-version") or ""

    def parse(self, parser: Callable[[Parameters], C]) -> C:
        memo = self.memo
        if memo is not None and memo.parser is parser:
            known: C = memo.command
            return known
        made = self._parse_repeated(parser) if parser in MEMOISED else parser(self.parameters)
        if memo is not None:
            memo.parser, memo.command = parser, as_kept(made)
        return made

    def _parse_repeated(self, parser: Callable[[Parameters], C]) -> C:
        """Return the command of a query that came before, or parse the query and take note of it."""
        query = self.raw_query
        if self.body:
            if not is_form(self.method, self.header("content-type") or ""):
                return parser(self.parameters)
            query = b"%b\n%b" % (query, self.body)  # no query has a line's end in it
        kept = self._parsed.find(query)
        if kept is not None and kept.parser is parser:
            kept.used = True
            known: C = kept.command
            return known
        made = parser(self.parameters)
        if kept is None:
            self._parsed.note(query, (parser, made))
        return made


def run_hot(row: Route, call: Call, services: Services) -> Answer:
    """The answer of a row's endpoint to a call that the loop waits for."""
    try:
        cluster = services.cluster
        if cluster.state() is not _UP or services.durable.projection.limits_calls or cluster.is_behind:
            refusal = refuse_unless_up(call, services)
            if refusal is not None:
                return refusal
        if services.access.enabled or not row.asks_users_alone:
            check_access(row.access, call, services)
        return row.endpoint(call, services)
    except PasswordGiven:
        return DECLINE
    except (NacosError, CodecError, NotInitialized) as error:
        return error_reply(error)
    except Exception as error:
        log.error("%s %a failed", call.method, call.uri, exc_info=error)
        return INTERNAL_ERROR
