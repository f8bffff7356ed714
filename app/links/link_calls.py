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
from app.config.version import __version__

TIMEOUT_S = 3.0
"""Without any byte for so long the other side is silent. It sends a line at least each second."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024
LINE_BYTES_MAX = 32 * 1024 * 1024
"""One service, whose instances are bounded, too."""
CHUNK_BYTES = 256 * 1024
COMPARE_PATH, CHANGES_PATH, LOGIN_PATH = "/v1/ns/link/compare", "/v1/ns/link/changes", "/v1/auth/login"
ERROR_CHARS = 200
USER_AGENT = f"Rollcall-Link:{__version__}"


class LinkError(Exception):
    """A call failed. The text says why, for the operator."""


class LinkCalls:
    """A connection to ``server``. Used by one thread; ``cut`` may be called from any."""

    def __init__(self, settings: LinkSettings, server: str, token: str = "") -> None:
        """``token``: that of an earlier login, which is used again."""
        self._settings, self.server, self.token = settings, server, token
        host, port = split_address(server)
        self._connection: HTTPConnection
        if settings.tls:
            context = ssl.create_default_context(cafile=str(settings.trusted) if settings.trusted else None)
            self._connection = HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
        else:
            self._connection = HTTPConnection(host, port, timeout=TIMEOUT_S)
        self._headers = {"User-Agent": USER_AGENT}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def cut(self) -> None:
        """End the call under way, which then fails."""
        opened = self._connection.sock
        if opened is not None:
            with suppress(OSError):
                socket.socket.shutdown(opened, socket.SHUT_RDWR)

    def log_in(self) -> None:
        """Log in as the user of the link, if it has one and no token yet.

        Raises:
            LinkError: the other side refuses the user, or does not answer.
        """
        if not self._settings.user or self.token:
            return
        form = urlencode({"username": self._settings.user, "password": self._settings.password}).encode()
        answer = self._object("POST", LOGIN_PATH, form, "application/x-www-form-urlencoded")
        token = answer.get("accessToken")
        if not isinstance(token, str) or not token.isprintable():
            raise LinkError(f"{self.server} gave no token to user {self._settings.user!r}")
        self.token = token

    def compare(self, query: Mapping[str, object], body: Mapping[str, object]) -> dict[str, Any]:
        """Return the answer to a comparison.

        Raises:
            LinkError: the call is refused or fails, or its answer is no JSON object.
        """
        return self._object("POST", f"{COMPARE_PATH}?{urlencode(query)}", orjson.dumps(body), "application/json")

    def lines(self, query: Mapping[str, object]) -> Iterator[tuple[list[dict[str, Any]], int]]:
        """Yield the lines of the stream of changes as they come, several together, and their bytes.

        Raises:
            LinkError: the call is refused or fails, nothing comes for ``TIMEOUT_S``, or a line is no JSON object.
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

    def _object(self, method: str, path: str, body: bytes, content_type: str) -> dict[str, Any]:
        response = self._begin(method, path, body, content_type)
        try:
            text = response.read(ANSWER_BYTES_MAX + 1)
        except (OSError, HTTPException, ValueError) as error:
            raise LinkError(f"the answer of {self.server} broke off: {error}") from None
        if len(text) > ANSWER_BYTES_MAX:
            raise LinkError(f"{self.server} sent an answer of over {ANSWER_BYTES_MAX} bytes")
        return _object_of(text, self.server)

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
        except (OSError, HTTPException, ValueError) as error:
            raise LinkError(f"{self.server} does not answer: {error or type(error).__name__}") from None
        raise LinkError(f"{self.server} answers {response.status} to {path.partition('?')[0]}: {text!a}")


def _object_of(text: bytes, server: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise LinkError(f"{server} sent what is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise LinkError(f"{server} sent JSON that is not an object")
    return found
