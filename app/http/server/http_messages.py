"""The messages of a connection: a whole request, its bounds, how it is kept for the next time, and a reply's head."""

import logging
from collections.abc import Mapping
from email.utils import formatdate
from http.client import responses
from typing import Final, NamedTuple

from app.auth.access_control import Session
from app.http.api.call import JSON, Reply, Route, Services
from app.http.api.loop_call import HeaderBlock
from app.http.api.parse_memo import PASSWORD, CallMemo
from app.http.api.rights import OwnHosts, is_of_browser
from app.http.input.forms import MULTIPART, unescape
from app.metrics.instruments import RouteStats

CLIENT_BODY_BYTES_MAX = 512 * 1024
"""The longest body of a client: metadata may have 64 KiB, and an escape makes three to nine bytes of a character."""
DISTRO_PATH = "/v1/ns/distro/"
MEMBER_BODY_BYTES_MAX = 8 * 1024 * 1024
"""The longest body of a member, except those that bring datums."""
LOGIN_BODY_BYTES_MAX = 16 * 1024
"""The longest body of a call about users and passwords, which anybody may make."""
USERS_PATH, LOGIN_PAGE = b"/auth/", b"/console/login"
"""In the paths of such calls."""
BODIES_BYTES_MAX = 128 * 1024 * 1024
"""All bodies of requests under way, or twice the largest of a member; clients' large ones get half."""
LOOP_FORM_BYTES_MAX = 8_192
"""A larger body of a client is read by few threads: the interpreter is held for milliseconds at a time by each."""
REPEATED_BYTES_MAX = 1_024
"""The most bytes of a kept request with its head; a longer request is parsed each time."""
ENTRY_BYTES, PLAIN_BYTES, VALUE_BYTES = 448, 128, 128
"""The memory of a kept request without its bytes: with its places in the memo's tables, and with a command made of a
query of up to ``PLAIN_BYTES``; and the memory of each value in JSON. Measured for a light beat of 211 bytes: 656.
"""
BLOCK_BYTES, HEADER_BYTES = 400, 280
"""The memory of headers that kept requests share, and of each header."""
_JSON_HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nContent-Length: ".encode()

log = logging.getLogger(__name__)


class Request(NamedTuple):
    """One whole request: method, target and headers as the client sent them, the body without its chunks."""

    method: bytes
    target: bytes
    block: HeaderBlock
    body: bytes
    keep_alive: bool


class RepeatedRequest(CallMemo):
    """A request of HTTP/1.1 that came before: as ``Request``, with its route, the route's statistics and results.

    It takes the target from its bytes when it is asked for, and shares its headers with other requests.
    """

    __slots__ = ("begin", "block", "body", "data", "end", "method", "route")
    keep_alive: Final = True

    def __init__(
        self,
        data: bytes,
        method: bytes,
        block: HeaderBlock,
        body: bytes,
        route: tuple[Route, RouteStats],
        begin: int,
        end: int,
    ) -> None:
        """``begin`` and ``end``: the place of the query in ``data``."""
        self.parser = self.command = None
        self.allowed: tuple[int, Session] | None = None
        self.data = data
        self.method = method
        self.block = block
        self.body = body
        self.route = route
        self.begin = begin
        self.end = end
        self.used = True

    @property
    def target(self) -> bytes:
        """As ``Request.target``."""
        return self.data[len(self.method) + 1 : self.end]


AnyRequest = Request | RepeatedRequest


class Refusal(NamedTuple):
    """The last answer of a connection, to bytes that form no request within the bounds."""

    status: int
    text: str


def is_slow(request: AnyRequest) -> bool:
    """Return whether the body of a call takes longer to read than the event loop has for it."""
    content_type = request.block.get("content-type") or ""
    return len(request.body) > LOOP_FORM_BYTES_MAX or content_type[: len(MULTIPART)].lower() == MULTIPART


class RequestBounds:
    """The room for the bodies of requests under way, and the refusals of requests. Used on the loop's thread."""

    __slots__ = ("_bodies_bytes", "_bodies_bytes_max", "_distro_path", "_own_hosts", "_services", "_stats")

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._services = services
        self._stats = services.http
        self._bodies_bytes = 0
        self._bodies_bytes_max = max(BODIES_BYTES_MAX, 2 * settings.distro.body_bytes_max)
        self._distro_path = (settings.context_path + DISTRO_PATH).encode()
        self._own_hosts = OwnHosts(services.cluster, settings.guards.http_hosts)

    def body_bytes_max(self, method: bytes, target: bytes, block: HeaderBlock, remote_ip: str) -> int:
        """Return the size that the body of a request may have, of which the head is here."""
        services, path = self._services, target.partition(b"?")[0]
        if b"%" in path:
            path = unescape(path)
        of_client = LOGIN_BODY_BYTES_MAX if USERS_PATH in path or LOGIN_PAGE in path else CLIENT_BODY_BYTES_MAX
        of_members, may_be_of_member = MEMBER_BODY_BYTES_MAX, block.claims_member
        if target.startswith(self._distro_path):
            of_members, may_be_of_member = services.settings.distro.body_bytes_max, True
        length = block.content_length
        if not may_be_of_member or (length is not None and int(length) <= min(of_members, of_client)):
            return of_client
        call = (method.decode(), target.decode("latin-1"), block.get, remote_ip)
        if not services.callers.may_be_member(*call):
            return of_client
        if length is not None and int(length) <= min(of_members, MEMBER_BODY_BYTES_MAX):
            return of_members
        return of_members if services.callers.may_be_large(*call) else min(of_members, MEMBER_BODY_BYTES_MAX)

    def reserve(self, count: int, *, is_large: bool = False) -> bool:
        """Take room for bytes of bodies, or return False when there is none; a negative count gives room back.

        ``is_large``: they are of a large body of a client, for which there is less.
        """
        held = self._bodies_bytes + count
        if held > self._bodies_bytes_max >> is_large and count > 0:
            return False
        self._bodies_bytes = held
        return True

    def refusal_of_page(self, block: HeaderBlock) -> str | None:
        """Return why a call with these headers, caused by a page in a browser, is refused; None for all others."""
        text = self._own_hosts.refusal(block.get)
        if text is not None:
            self._stats.pages_refused += 1
        return text

    def has_foreign_origin(self, block: HeaderBlock) -> bool:
        """Return whether a page of another origin in a browser made this call: it may change nothing."""
        return self._own_hosts.has_foreign_origin(block.get)

    def log_refused(self, remote_ip: str, status: int, text: str) -> None:
        """Count and log a refusal."""
        self._stats.requests_refused += 1
        log.debug("a request of %s is refused with %d: %s", remote_ip, status, text)


class SharedBlock:
    """Headers, and the number of kept requests that share them."""

    __slots__ = ("block", "uses")

    def __init__(self, block: HeaderBlock) -> None:
        self.block = block
        self.uses = 0


class RequestKeeper:
    """Makes the requests that a memo keeps: those that mean the same whenever they come. Used on the loop's thread."""

    def __init__(self, hot: Mapping[tuple[bytes, bytes], tuple[Route, RouteStats]]) -> None:
        self._hot = hot
        self._methods = {method: method for method, _ in hot}
        self._blocks: dict[tuple[tuple[bytes, bytes], ...], SharedBlock] = {}

    def keep(self, data: bytes, request: Request) -> tuple[RepeatedRequest, int] | None:
        """Return a request with its route, and its bytes of memory; None where more than its bytes decides.

        Those are calls of members and of browsers, and those whose headers say something about the connection. One with
        a password is not kept in memory; the thread may wait for the turn to compare it.
        """
        block, target, body = request.block, request.target, request.body
        if block.connection or block.chunked or block.expects or block.claims_member or not request.keep_alive:
            return None
        if block.deadline is not None or PASSWORD in target or PASSWORD in body:
            return None
        path, _, query = target.partition(b"?")
        route = self._hot.get((request.method, path))
        if route is None or route[0].for_members or (body and is_slow(request)):
            return None
        method = self._methods[request.method]
        end = len(method) + 1 + len(target)
        if data[len(method) + 1 : end] != target:
            return None  # blank lines precede it
        kept = RepeatedRequest(data, method, block, body, route, end - len(query), end)
        size = _bytes_of(kept)
        if is_of_browser(block.get):
            return None
        key = tuple(block.raw)
        shared = self._blocks.get(key)
        if shared is None:
            shared = self._blocks[key] = SharedBlock(block)
            size += _bytes_of_block(block)
        shared.uses += 1
        kept.block = shared.block
        return kept, size

    def drop(self, data: bytes, kept: RepeatedRequest) -> int:
        """Let go of a kept request and its part of the shared headers; return the memory that this frees."""
        key = tuple(kept.block.raw)
        shared = self._blocks[key]
        shared.uses -= 1
        if shared.uses:
            return _bytes_of(kept)
        del self._blocks[key]
        return _bytes_of(kept) + _bytes_of_block(kept.block)


def _bytes_of(kept: RepeatedRequest) -> int:
    data, body, query = kept.data, len(kept.body), kept.end - kept.begin
    values = data.count(b",") + data.count(b"%2C") + data.count(b"%2c")
    return ENTRY_BYTES + len(data) + body + max(0, query + body - PLAIN_BYTES) + VALUE_BYTES * values


def _bytes_of_block(block: HeaderBlock) -> int:
    return BLOCK_BYTES + sum(HEADER_BYTES + 2 * (len(name) + len(value)) for name, value in block.raw)


def status_line(status: int) -> str:
    """Return the status line with its line break."""
    return f"HTTP/1.1 {status} {responses.get(status, 'Unknown')}\r\n"


def head_of(reply: Reply) -> bytes:
    """Return the status line and headers of a reply, without ``Date`` and ``Connection``, which the connection adds."""
    if reply.status == 200 and reply.content_type is JSON and not reply.headers:
        return b"%b%d\r\n" % (_JSON_HEAD, len(reply.body))
    lines = [status_line(reply.status)]
    if reply.content_type is not None:
        lines.append(f"Content-Type: {reply.content_type}\r\n")
    lines.extend(f"{name}: {value}\r\n" for name, value in reply.headers.items())
    if reply.status >= 200 and reply.status != 204 and reply.status != 304:
        lines.append(f"Content-Length: {len(reply.body)}\r\n")
    # The values of headers were checked where they were made; a line break in one would begin another header.
    head = "".join(lines)
    assert head.count("\n") == len(lines), "a header of a reply holds a line's end"
    return head.encode("latin-1", "replace")


def date_line(wall_s: float) -> bytes:
    """Return the ``Date`` header with its line break."""
    return f"Date: {formatdate(wall_s, usegmt=True)}\r\n".encode()


def closing_bytes(reply: Reply) -> bytes:
    """The whole of a reply to a connection that is closed with it, before any request; without a date."""
    return b"%bConnection: close\r\n\r\n%b" % (head_of(reply), reply.body)
