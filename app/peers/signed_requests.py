"""The bytes of requests to members of our own kind, each with this member's signature and with its deadline."""

from collections.abc import Mapping
from http import HTTPStatus

from app.auth.signed import header_of
from app.commands.writes import SHORT_CHANGE
from app.config.version import MEMBER_AGENT
from app.peers.headers import (
    AUTHORIZATION,
    BEARER,
    CLIENT_ADDRESS,
    CLIENT_AGENT,
    CLOCK,
    DEADLINE,
    RELAY,
    TOKEN_HEADER,
    WANTS_CHANGE,
)
from app.peers.link_results import LinkAnswer
from app.peers.nacos_form import without_password
from app.peers.peer_parts import ClientCall, PeerParts


class OwnRequests:
    """Makes the requests. Used on the loop's thread only."""

    def __init__(self, services: PeerParts) -> None:
        self._cluster = services.cluster
        self._signer = services.signer
        self._context_path = services.settings.context_path

    def hop_headers(self, hop: str, left_ms: int, *, relay: bool) -> dict[str, str]:
        """Return the headers of a call to a member of our own kind that is given up after ``left_ms``."""
        deadline = self._cluster.deadline(hop, left_ms)
        headers = {DEADLINE: deadline} if deadline else {}
        return headers | {RELAY: "1"} if relay else headers

    def bytes_for_own(self, member: str, call: ClientCall, more: Mapping[str, str]) -> bytes:
        """Return the request for a member of our own kind: the client's own query and body, and ``more`` headers.

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
        """Return a request of this member's own, for a member of our own kind; it is given up after ``left_ms``."""
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
        """Take what a member's refusal with status 401 says; whether the call is to be signed anew, and sent again."""
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return False
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers.items()}
        return self._signer.learn(hop, headers)
