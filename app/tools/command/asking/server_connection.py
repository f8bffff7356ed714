"""Calls to one server over a kept connection, with the standard library alone: `requests` takes longer to load than a
command takes to run.
"""

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from app.config.addresses import split_address
from app.config.version import __version__
from app.tools.audit.client.access import Access

AGENT = f"Rollcall-Command:v{__version__}"
BODY_BYTES_MAX = 256 * 1024 * 1024
PIECE_BYTES = 256 * 1024
ANSWER_S_MAX = 120.0
SILENT_S = 60.0
"""The silence after which a stream is lost: a member sends something each 15 s, if only that nothing changed."""
LINE_BYTES_MAX = 64 * 1024
_LATER = (401, 403, 429, 502, 503, 504)
"""Statuses after which a later try may open the stream: with a new token, or when the member serves again."""
FORM = "application/x-www-form-urlencoded"
Parameters = Mapping[str, str | int]


class NoServerAnswer(Exception):
    """The server gave no whole answer; the text says why in a few words."""


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A whole answer."""

    status: int
    body: bytes

    def json(self) -> Any:
        """Return the value of the body; None if that is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def text(self) -> str:
        """Return the body as text, even if its bytes are invalid."""
        return self.body.decode("utf-8", "replace")


class ServerConnection:
    """A connection to one server, for one thread. A read is repeated once if the kept connection was closed."""

    def __init__(self, address: str, access: Access) -> None:
        self._base = access.context_path
        self._timeout_s = access.timeout_s
        self._make = partial(_connection, address, access)
        self._http = self._make()
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
        """Change something, over a new connection; a change without an answer is not sent again.

        Values go in the body, as access logs record the URL; those of DELETE, which has no body, go in the query.

        Raises:
            NoServerAnswer: no whole answer came.
        """
        self.close()
        if method == "DELETE":
            return self._once(method, f"{path}?{_encoded(parameters)}", None, timeout_s)
        return self._once(method, path, _encoded(parameters).encode(), timeout_s)

    def events(self, path: str, parameters: Parameters) -> "EventStream | None":
        """Open a stream of events over a new connection, from any thread; return None if the server offers no stream.

        Raises:
            NoServerAnswer: the stream cannot be opened now.
        """
        connection = self._make()
        try:
            connection.request("GET", f"{self._base}{path}?{_encoded(parameters)}", None, self._headers())
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            connection.close()
            raise NoServerAnswer(_why(error, self._timeout_s)) from None
        is_stream = (answer.getheader("Content-Type") or "").startswith("text/event-stream")
        if answer.status == http.HTTPStatus.OK and is_stream:
            return EventStream(connection, answer)
        connection.close()
        if answer.status in _LATER:
            raise NoServerAnswer(f"status {answer.status}")
        return None

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": AGENT, "Accept": "*/*"}
        return {**headers, "Authorization": f"Bearer {self.token}"} if self.token else headers

    def _once(self, method: str, target: str, form: bytes | None, timeout_s: float | None) -> ServerReply:
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        headers = self._headers()
        if form is not None:
            headers["Content-Type"] = FORM
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


class EventStream:
    """A stream of server-sent events with one line of data each. Iterating blocks until the next event."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self._connection, self._answer = connection, answer
        self._socket = connection.sock
        if self._socket is not None:
            self._socket.settimeout(SILENT_S)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the data of each event, until the stream's end.

        Raises:
            NoServerAnswer: the stream broke off.
        """
        try:
            while line := self._answer.readline(LINE_BYTES_MAX):
                if line.startswith(b"data:"):
                    yield line[5:].strip()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoServerAnswer(_why(error, SILENT_S)) from None
        finally:
            self._answer.close()
            self._connection.close()

    def end(self) -> None:
        """End the stream, from any thread: its iteration then ends or raises."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def _connection(address: str, access: Access) -> http.client.HTTPConnection:
    host, port = split_address(address)
    if access.scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=access.timeout_s)
    context = ssl.create_default_context(cafile=access.ca or None)
    if access.ca:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return http.client.HTTPSConnection(host, port, timeout=access.timeout_s, context=context)


def _encoded(parameters: Parameters) -> str:
    """Return the encoded parameters of a call. Arguments may have bytes that are not text; names on servers do not."""
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
    """Return a failure in a few words."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted ({error.verify_message})"
        case ssl.SSLError():
            return "the TLS handshake failed; is it an http:// address?"
        case TimeoutError():
            return f"no answer within {timeout_s:g} s"
        case http.client.RemoteDisconnected() | ConnectionResetError() | BrokenPipeError():
            return "the connection was closed"
        case http.client.IncompleteRead():
            return "the connection ended in the middle of the answer"
        case http.client.BadStatusLine() | http.client.LineTooLong() | http.client.UnknownProtocol():
            return "its answer is not HTTP; is it the HTTP port, or an https:// address?"
        case OSError():
            return (error.strerror or str(error) or type(error).__name__).lower()
        case http.client.HTTPException():
            return str(error) or type(error).__name__
    return "its address is not a valid host name"
