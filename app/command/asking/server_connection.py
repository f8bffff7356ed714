"""Calls to one server over a kept connection, with the standard library alone: `requests` takes longer to load than
a command to run.
"""

import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from app.audit.client.access import Access
from app.config.addresses import split_address
from app.config.version import __version__

AGENT = f"Rollcall-Command:v{__version__}"
BODY_BYTES_MAX = 256 * 1024 * 1024
PIECE_BYTES = 256 * 1024
ANSWER_S_MAX = 120.0
FORM = "application/x-www-form-urlencoded"
Parameters = Mapping[str, str | int]


class NoServerAnswer(Exception):
    """The server brought no whole answer; the text says why in a few words."""


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A whole answer."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The value of the body; None where that is no JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def text(self) -> str:
        """The body as text, whatever its bytes are."""
        return self.body.decode("utf-8", "replace")


class ServerConnection:
    """One server. For one thread. A read whose kept connection turns out to be closed is made once more."""

    def __init__(self, address: str, access: Access) -> None:
        self._base = access.context_path
        host, port = split_address(address)
        self._timeout_s = access.timeout_s
        if access.scheme == "https":
            context = ssl.create_default_context(cafile=access.ca or None)
            if access.ca:
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            self._http: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=access.timeout_s, context=context
            )
        else:
            self._http = http.client.HTTPConnection(host, port, timeout=access.timeout_s)
        self.token = access.token

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        self._http.close()

    def get(self, path: str, parameters: Parameters) -> ServerReply:
        """Read something.

        Raises:
            NoServerAnswer: no whole answer came.
        """
        is_kept = self._http.sock is not None
        try:
            return self._once("GET", f"{path}?{_encoded(parameters)}", None, None)
        except NoServerAnswer:
            if not is_kept:
                raise
            return self._once("GET", f"{path}?{_encoded(parameters)}", None, None)

    def change(self, method: str, path: str, parameters: Parameters, timeout_s: float | None = None) -> ServerReply:
        """Change something, over a connection of its own; what was sent and not answered is not sent again.

        Values go in the body, where no log of addresses has them; with DELETE, which has none, in the query.

        Raises:
            NoServerAnswer: no whole answer came.
        """
        self.close()
        if method == "DELETE":
            return self._once(method, f"{path}?{_encoded(parameters)}", None, timeout_s)
        return self._once(method, path, _encoded(parameters).encode(), timeout_s)

    def _once(self, method: str, target: str, form: bytes | None, timeout_s: float | None) -> ServerReply:
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        headers = {"User-Agent": AGENT, "Accept": "*/*"}
        if form is not None:
            headers["Content-Type"] = FORM
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        self._http.timeout = limit_s
        if self._http.sock is not None:
            self._http.sock.settimeout(limit_s)
        try:
            self._http.request(method, self._base + target, form, headers)
            answer = self._http.getresponse()
            return ServerReply(answer.status, _body(answer))
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            self.close()
            raise NoServerAnswer(_why(error, limit_s)) from None
        except BaseException:
            with contextlib.suppress(OSError):
                self.close()  # an answer may be half read
            raise


def _encoded(parameters: Parameters) -> str:
    """The parameters of a call. An argument may have bytes that are no text; no name on a server has."""
    return urlencode(parameters, errors="replace")


def _body(answer: http.client.HTTPResponse) -> bytes:
    deadline_s = time.monotonic() + ANSWER_S_MAX
    body = bytearray()
    while piece := answer.read1(PIECE_BYTES):
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise http.client.HTTPException(f"the answer is over {BODY_BYTES_MAX} bytes")
        if time.monotonic() > deadline_s:
            raise http.client.HTTPException(f"the answer took over {ANSWER_S_MAX:g} s")
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    answer.close()  # all is read, and the connection is free for the next call
    return bytes(body)


def _why(error: Exception, timeout_s: float) -> str:
    """A failure in a few words."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted ({error.verify_message})"
        case ssl.SSLError():
            return "it does not speak TLS as it should; is it an http:// address?"
        case TimeoutError():
            return f"no answer within {timeout_s:g} s"
        case http.client.RemoteDisconnected() | ConnectionResetError() | BrokenPipeError():
            return "the connection was closed"
        case http.client.IncompleteRead():
            return "the answer broke off"
        case http.client.BadStatusLine() | http.client.LineTooLong() | http.client.UnknownProtocol():
            return "what it answers is not HTTP; is it the HTTP port, or an https:// address?"
        case OSError():
            return (error.strerror or str(error) or type(error).__name__).lower()
        case http.client.HTTPException():
            return str(error) or type(error).__name__
    return "its address is no host name"
