"""The form in which members of Nacos pass calls on: every parameter in the query, the client's headers with theirs."""

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from app.auth.member_calls import PREFIX
from app.auth.member_signer import MemberSigner
from app.config.version import MEMBER_AGENT, NACOS_VERSION
from app.peers.headers import BROWSER_SIGNS, CLIENT_ADDRESS, CLIENT_AGENT
from app.peers.peer_parts import ClientCall, MemberRequest

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
_NOT_EXECUTED_503 = b"server is "
"""The beginning of the answer of a member that does not serve yet, or not any more."""
_NOT_EXECUTED_400 = b"receive invalid redirect request"


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


def not_executed(status: int, answer: bytes, refused: bool) -> bool:
    """Return whether a member did not execute the call: it does not serve, or (``refused``) says it is not the owner.

    It says the latter, too, if its member list lacks this node: for a moment, the lists of two members may differ.
    """
    if status == 503:
        return answer.startswith(_NOT_EXECUTED_503)
    if status == 403:
        return refused
    return status == 400 and (refused or _NOT_EXECUTED_400 in answer)
