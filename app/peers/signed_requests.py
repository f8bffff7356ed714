"""Bytes of requests to other members, each signed: calls of clients, in our own form and in that of Nacos, and our own.

In the form of Nacos every parameter is in the query, and the client's headers go with ours.
"""

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from urllib.parse import urlencode

from app.auth.member_calls import PREFIX
from app.auth.member_signer import MemberSigner
from app.auth.signed import header_of
from app.commands.write_caller import SHORT_CHANGE
from app.config.version import MEMBER_AGENT, NACOS_VERSION
from app.peers.headers import (
    AUTHORIZATION,
    BEARER,
    BROWSER_SIGNS,
    CLIENT_ADDRESS,
    CLIENT_AGENT,
    CLOCK,
    DEADLINE,
    RELAY,
    TOKEN_HEADER,
    WANTS_CHANGE,
)
from app.peers.link_results import LinkAnswer
from app.peers.peer_parts import ClientCall, MemberRequest, PeerParts

URLENCODED = "application/x-www-form-urlencoded"
QUERY_CHARS_MAX = 6_000
"""Longer parameters go into a form: Tomcat takes 8,192 bytes for line and headers together, gunicorn for the line."""


_NOT_COPIED = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        # About a page in a browser: this node has looked at them, and the next has another name.
        *BROWSER_SIGNS,
    }
)
"""Headers of the client's connection or body, or of the name of this node. Real Nacos copies Host too."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")


def nacos_form(
    request: MemberRequest, own: Mapping[str, str], signer: MemberSigner
) -> Callable[[str, Mapping[str, str]], bytes]:
    """Return a function from a member's address and further headers to the bytes of a signed call.

    ``own``: ``own_headers``.
    """
    target, body = target_of(request)
    headers = headers_of(request, own, signer.secret_header)

    def to(member: str, more: Mapping[str, str]) -> bytes:
        sent = {**headers, **more}
        sent |= signer.headers(member, request.method, target, body, sent)
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        head = f"{request.method} {target} HTTP/1.1\r\nhost: {member}\r\ncontent-length: {len(body)}\r\n{lines}\r\n"
        return head.encode("latin-1", "replace") + body

    return to


def own_headers(self_address: str) -> dict[str, str]:
    """Return the headers that a member of Nacos sends with a call of a client, names in lower case."""
    return {
        "accept-charset": "UTF-8",
        "accept-encoding": "identity",
        "client-version": NACOS_VERSION,
        "content-type": URLENCODED,
        "request-source": self_address,
        "user-agent": MEMBER_AGENT,
    }


def headers_of(request: MemberRequest, own: Mapping[str, str], secret_header: str) -> dict[str, str]:
    """Return the headers of a call that is passed on: the client's, with ours over them.

    A client's header under a name that members use for themselves, ``secret_header`` above all, is left out.
    """
    headers = {
        name: value
        for name, value in request.headers.items()
        if name not in _NOT_COPIED and name != secret_header and not name.startswith(PREFIX) and _TOKEN.fullmatch(name)
    }
    return {**headers, **own, CLIENT_AGENT: request.agent, CLIENT_ADDRESS: request.remote_ip}


def target_of(request: MemberRequest) -> tuple[str, bytes]:
    """Return the request target with all parameters in its query, and no body; a long query becomes a form."""
    pairs = [(name, value) for name, value in request.parameters.items() if name not in ("encoding", "nofix")]
    query = urlencode([*pairs, ("encoding", "UTF-8"), ("nofix", "1")])
    path = request.context_path + request.path
    if len(path) + len(query) < QUERY_CHARS_MAX:
        return f"{path}?{query}", b""
    return f"{path}?encoding=UTF-8&nofix=1", urlencode(pairs).encode()


def without_password(call: ClientCall) -> tuple[bytes, bytes, str]:
    """Return query, body and content type of a call without its password; a long query becomes a form."""
    query = urlencode([(name, value) for name, value in call.parameters.items() if name != "encoding"]).encode()
    return (query, b"", "") if len(query) < QUERY_CHARS_MAX else (b"", query, URLENCODED)


class OwnRequests:
    """Makes the requests. Used on the loop's thread only."""

    def __init__(self, services: PeerParts) -> None:
        self._cluster = services.cluster
        self._signer = services.signer
        self._context_path = services.settings.context_path

    def hop_headers(self, hop: str, left_ms: int, *, relay: bool) -> dict[str, str]:
        """Return the headers of a call to a Rollcall member that is given up after ``left_ms``."""
        deadline = self._cluster.deadline(hop, left_ms)
        headers = {DEADLINE: deadline} if deadline else {}
        return headers | {RELAY: "1"} if relay else headers

    def bytes_for_own(self, member: str, call: ClientCall, more: Mapping[str, str]) -> bytes:
        """Return the request for a Rollcall member: the client's own query and body, and ``more`` headers.

        The client's token goes with it: the member called decides by it, too, whether the client may do this.
        """
        target, query, body = f"{call.context_path}{call.path}", call.raw_query, call.body
        client = {CLIENT_AGENT: call.client_agent, CLIENT_ADDRESS: call.remote_ip}
        # Of a call that a member passed on, that member reads the change (R12).
        wanted = call.header(WANTS_CHANGE) or SHORT_CHANGE
        headers = {"user-agent": MEMBER_AGENT, **client, WANTS_CHANGE: wanted, **more}
        if call.hop_token:
            query, body, content_type = without_password(call)
            headers[AUTHORIZATION] = BEARER + call.hop_token
            if body:
                headers["content-type"] = content_type
        elif call.user:
            for name in (AUTHORIZATION, TOKEN_HEADER):
                if value := call.header(name):
                    headers[name] = value
        if not call.hop_token and body and (given := call.header("content-type")) is not None:
            headers["content-type"] = given
        if query:
            target += "?" + query.decode("latin-1")
        return self.signed(call.method, target, member, headers, body)

    def request_to_own(
        self, method: str, path: str, member: str, body: bytes, left_ms: int, *, relay: bool = False
    ) -> bytes:
        """Return a request of this member's own, for a Rollcall member; it is given up after ``left_ms``."""
        headers = {"user-agent": MEMBER_AGENT}
        if more := self.hop_headers(member, left_ms, relay=relay):
            headers |= {**more, CLOCK: self._cluster.stamp()}
        return self.signed(method, self._context_path + path, member, headers, body)

    def signed(self, method: str, target: str, member: str, headers: dict[str, str], body: bytes) -> bytes:
        """Return a request with this member's signature."""
        # A value that is not ASCII is signed as it goes, which is not always as it came.
        is_plain = "".join(headers.values()).isascii()
        header = headers.get if is_plain else header_of(headers)
        headers |= self._signer.headers_by(member, method, target, body, header)
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = f"{method} {target} HTTP/1.1\r\nhost: {member}\r\n{lines}content-length: {len(body)}\r\n\r\n"
        return head.encode("latin-1", "replace") + body

    def learn(self, hop: str, answer: LinkAnswer) -> bool:
        """Use the fields of a member's refusal with status 401; return whether the call is to be signed again, and
        sent again."""
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return False
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers.items()}
        return self._signer.learn(hop, headers)
