"""The calls of one link: one connection to a member of the other cluster, for comparisons and the stream of changes."""

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlencode

import orjson

from app.config.addresses import split_address
from app.config.link_settings import LinkSettings
from app.config.version import LINK_APP, __version__

TIMEOUT_S = 3.0
"""Without any byte for so long the other side is silent. It sends a line at least each second."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024
LINE_BYTES_MAX = 32 * 1024 * 1024
"""One service, whose instances are bounded, too."""
CHUNK_BYTES = 256 * 1024
COMPARE_PATH, CHANGES_PATH, LOGIN_PATH = "/v1/ns/link/compare", "/v1/ns/link/changes", "/v1/auth/login"
ERROR_CHARS = 200
TTL_S, TTL_MIN_S = 1_800.0, 20.0
"""The time for which a token counts, where the answer to a login names no time, and the shortest."""
USER_AGENT = f"Rollcall-Link:{__version__}"
APP = f"{LINK_APP}-{__version__}"
"""The name of the application under which a Nacos lists a link among its subscribers and connections."""


class LinkError(Exception):
    """A call failed. The text says why, for the operator."""


class LinkRefused(LinkError):
    """The other side answered a call with an error."""


class LinkCalls:
    """A connection to ``server``. Used by one thread; ``cut`` may be called from any."""

    def __init__(self, settings: LinkSettings, server: str, token: str = "", agent: str = USER_AGENT) -> None:
        """``token``: that of an earlier login, which is used again. ``agent``: the User-Agent of all calls."""
        self._settings, self.server, self.token = settings, server, token
        self.token_ttl_s = TTL_S
        host, port = split_address(server)
        self._connection: HTTPConnection
        if settings.tls:
            context = ssl.create_default_context(cafile=str(settings.trusted) if settings.trusted else None)
            self._connection = HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
        else:
            self._connection = HTTPConnection(host, port, timeout=TIMEOUT_S)
        self._headers = {"User-Agent": agent}

    def __enter__(self) -> "LinkCalls":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, timeout_s: float) -> None:
        """Open the connection within ``timeout_s``. Otherwise the first call opens it.

        Raises:
            LinkError: the other side does not answer.
        """
        self._connection.timeout = timeout_s
        try:
            self._connection.connect()
        except (OSError, HTTPException, ValueError) as error:
            raise LinkError(f"{self.server} does not answer: {error or type(error).__name__}") from None
        self._connection.timeout = TIMEOUT_S
        self._connection.sock.settimeout(TIMEOUT_S)

    def close(self) -> None:
        """End the connection. The next call opens another one."""
        self._connection.close()

    @property
    def own_ip(self) -> str:
        """Return the address of this end of the connection; an empty one without a connection."""
        opened = self._connection.sock
        return str(opened.getsockname()[0]) if opened is not None else ""

    def cut(self) -> None:
        """End the call under way, which then fails."""
        opened = self._connection.sock
        if opened is not None:
            with suppress(OSError):
                socket.socket.shutdown(opened, socket.SHUT_RDWR)

    def log_in(self, path: str = LOGIN_PATH) -> None:
        """Log in as the user of the link, if it has one and no token yet.

        Raises:
            LinkError: the other side refuses the user, or does not answer.
        """
        if not self._settings.user or self.token:
            return
        form = urlencode({"username": self._settings.user, "password": self._settings.password}).encode()
        answer = self._object("POST", path, form, "application/x-www-form-urlencoded")
        token = answer.get("accessToken")
        if not isinstance(token, str) or not token.isprintable():
            raise LinkError(f"{self.server} gave no token to user {self._settings.user!r}")
        self.token = token
        ttl_s = answer.get("tokenTtl")
        self.token_ttl_s = max(float(ttl_s), TTL_MIN_S) if type(ttl_s) is int else TTL_S

    def json(self, method: str, path: str, query: Mapping[str, object]) -> dict[str, Any]:
        """Return the JSON object that answers a call.

        Raises:
            LinkRefused: the answer is an error.
            LinkError: there is no answer, or it is not a JSON object.
        """
        return self._object(method, f"{path}?{urlencode(query)}", None, "")

    def text(self, method: str, path: str, query: Mapping[str, object]) -> bytes:
        """Return any answer to a call.

        Raises:
            LinkRefused: the answer is an error.
            LinkError: there is no answer.
        """
        return self._text(method, f"{path}?{urlencode(query)}", None, "")

    def compare(self, query: Mapping[str, object], body: Mapping[str, object]) -> dict[str, Any]:
        """Return the answer to a comparison.

        Raises:
            LinkError: the call is refused or fails, or its answer is not a JSON object.
        """
        return self._object("POST", f"{COMPARE_PATH}?{urlencode(query)}", orjson.dumps(body), "application/json")

    def lines(self, query: Mapping[str, object]) -> Iterator[tuple[list[dict[str, Any]], int]]:
        """Yield the lines of the stream of changes as they come, several together, and their bytes.

        Raises:
            LinkError: the call is refused or fails, nothing comes for ``TIMEOUT_S``, or a line is not a JSON object.
        """
        response = self._begin("GET", f"{CHANGES_PATH}?{urlencode(query)}", None, "")
        left = b""
        while True:
            try:
                chunk = response.read1(CHUNK_BYTES)
            except (OSError, HTTPException, ValueError) as error:
                raise LinkError(f"the stream from {self.server} broke: {error}") from None
            if not chunk:
                return
            whole, newline, rest = (left + chunk).rpartition(b"\n")
            left = rest
            if len(left) > LINE_BYTES_MAX:
                raise LinkError(f"{self.server} sent a line of over {LINE_BYTES_MAX} bytes")
            if newline:
                yield [_object_of(one, self.server) for one in whole.split(b"\n")], len(chunk)

    def _object(self, method: str, path: str, body: bytes | None, content_type: str) -> dict[str, Any]:
        return _object_of(self._text(method, path, body, content_type), self.server)

    def _text(self, method: str, path: str, body: bytes | None, content_type: str) -> bytes:
        response = self._begin(method, path, body, content_type)
        try:
            text = response.read(ANSWER_BYTES_MAX + 1)
        except (OSError, HTTPException, ValueError) as error:
            raise LinkError(f"the answer of {self.server} broke off: {error}") from None
        if len(text) > ANSWER_BYTES_MAX:
            raise LinkError(f"{self.server} sent an answer of over {ANSWER_BYTES_MAX} bytes")
        return text

    def _begin(self, method: str, path: str, body: bytes | None, content_type: str) -> HTTPResponse:
        headers = self._headers | ({"Content-Type": content_type} if content_type else {})
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            self._connection.request(method, self._settings.context_path + path, body, headers)
            response = self._connection.getresponse()
            if response.status == 200:
                return response
            text = response.read(ERROR_CHARS).decode("utf-8", "replace")
            self._connection.close()  # the rest would come before the next answer
        except (OSError, HTTPException, ValueError) as error:
            raise LinkError(f"{self.server} does not answer: {error or type(error).__name__}") from None
        raise LinkRefused(f"{self.server} answers {response.status} to {path.partition('?')[0]}: {text!a}")


def _object_of(text: bytes, server: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise LinkError(f"{server} sent invalid JSON: {error}") from None
    if not isinstance(found, dict):
        raise LinkError(f"{server} sent JSON that is not an object")
    return found
