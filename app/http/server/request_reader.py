"""The bytes of a connection become requests: httptools parses them, and each part of a request has a bound."""

import re
from enum import Enum, auto
from typing import NoReturn, Protocol

import httptools

from app.http.api.loop_call import HeaderBlock, RawHeaders
from app.http.server.http_messages import CLIENT_BODY_BYTES_MAX, RequestBounds
from app.http.server.http_messages import Refusal as Refusal
from app.http.server.http_messages import Request as Request

LINE_BYTES_MAX = 8_190
"""The most bytes of the request target. Full beats carry their metadata in it; Nacos takes no more (Tomcat, 8 KiB)."""
HEADER_BYTES_MAX, HEADERS_MAX, HEAD_BYTES_MAX = 8_190, 100, 65_536
FRAMING_BYTES_MAX, BODY_BYTES_PER_FRAMING = 16_384, 32
"""The framing of a body may take so much, and one more for so many of the body: a chunk takes 1 us, and has 5 bytes."""
HEAD_S = 10.0
"""The time for the whole head, from its first byte."""
BODY_S = 20.0
BODY_BYTES_PER_S = 65_536
"""A body may take ``BODY_S``, and a second more for each ``BODY_BYTES_PER_S`` received."""
LARGE_BODY_BYTES = 16_384
"""From here on a client's body is large, and finds less room beside others."""
PART_BYTES_MIN = 4_096
"""Parts of a body are joined up to this: it may come byte by byte, and a ``bytes`` object for it takes 40 more."""

VERSIONS = ("1.1", "1.0")
"""The parser also takes 0.9, which has no headers, and 2.0, which is another protocol on the wire."""
READS = (b"GET", b"HEAD", b"OPTIONS")
_HOST = re.compile(r"[A-Za-z0-9._~%!$&'()*+,;=:\[\]-]*")
"""The characters of a host and port. Source: RFC 3986, section 3.2.2."""
_CR = ord("\r")
_BARE_LF = re.compile(rb"(?:\r\n)*\n")
"""A blank line before a request that lacks its carriage return; the parser refuses it in all other places."""
_UPGRADE_HEADERS = frozenset({b"upgrade", b"http2-settings", b"connection"})


class Phase(Enum):
    """The part of a request that is being received; IDLE between two requests."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


# Python 3.11 needs ten times as long to look a member up in its class.
IDLE, HEAD, BODY = Phase.IDLE, Phase.HEAD, Phase.BODY
# ``_new_tuple(Request, (...))`` is ``Request(...)`` without its function in Python.
_new_tuple = tuple.__new__


class Clocked(Protocol):
    """A server, as its readers see it."""

    now_s: float
    """The loop's time, at most a second old."""
    bounds: RequestBounds


class RequestTaker(Protocol):
    """The owner of a reader."""

    def on_request(self, request: Request) -> None:
        """Take a whole request, and with it the duty to give back the room of its body."""
        ...

    def on_expect(self) -> None:
        """A client sends its body only after ``100 Continue``."""
        ...


class _RefusedError(Exception):
    """Ends the parser's work on a request that is over a bound: status and text."""


class RequestReader:
    """Parses the bytes of one connection, and hands each whole request to its taker within ``feed``.

    Its owner calls ``close`` at the end: parser and reader refer to each other.
    """

    __slots__ = (
        "_began_s",
        "_block",
        "_body",
        "_body_max",
        "_body_size",
        "_bounds",
        "_headers",
        "_parser",
        "_remote_ip",
        "_server",
        "_take",
        "_taker",
        "_target",
        "_upgrade",
        "ended",
        "latest",
        "more_bytes",
        "phase",
        "taken",
        "work",
    )

    def __init__(self, server: Clocked, taker: RequestTaker, remote_ip: str) -> None:
        self._server = server
        self._bounds = server.bounds
        self._taker = taker
        self._take = taker.on_request
        self._remote_ip = remote_ip
        self.ended = False
        """True once no further request is taken: the last one was read, or the owner ends the connection."""
        self.phase = IDLE
        self.latest: Request | None = None
        """The last request, of ``taken`` that were handed over; the owner resets both."""
        self.taken = 0
        self.work = 0
        """The work of this turn of the loop, roughly in microseconds; a part of a body is 1. Its owner resets it."""
        self._began_s = 0.0
        """The time when the head or the body that is being received began."""
        self._upgrade = False
        """True if the request that is parsed will be read again, without its wish for another protocol."""
        self._target = b""
        self._headers: RawHeaders = []
        self.more_bytes = 0
        """Bytes behind the piece in which the head or the body began, -1 within it; between requests, blank lines.

        Its owner sets 0 when a whole request came that was not parsed."""
        self._block: HeaderBlock | None = None
        """The headers of the request that was read last: the same headers need no second check."""
        self._body: list[bytes] = []
        self._body_size = self._body_max = 0
        self._parser = httptools.HttpRequestParser(self)

    @property
    def http_version(self) -> str:
        """The version of the request that was parsed last, ``1.1`` for example."""
        version: str = self._parser.get_http_version()
        return version

    # --- the bytes -----------------------------------------------------------------------------------

    def feed(self, data: bytes | memoryview) -> Refusal | None:
        """Parse bytes; a refusal means that they are not a request, and that no more is read."""
        if self.phase is IDLE and not self.more_bytes and _BARE_LF.match(data):
            return self._refuse(400, "a line ends without a carriage return")
        failure: Exception | None = None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            failure = error
        if failure is not None:
            # Not in the except block: an error raised here would have the parser's as its context.
            refusal = self._on_parser_error(failure, data)
            if refusal is not None:
                return refusal
        if self.phase is not IDLE:
            return self._count_more(len(data))
        if self.more_bytes < 0:
            self.more_bytes = 1 if data[-1] == _CR else 0  # a blank line begins
            return None
        self.more_bytes += len(data)
        if self.more_bytes > HEAD_BYTES_MAX and not self.ended:
            return self._refuse(400, "the request has only blank lines")
        return None

    def feed_eof(self) -> Refusal | None:
        """The client sends no more; a request of which only a part has come is refused."""
        if self.phase is not IDLE and not self.ended:
            return self._refuse(400, "the request ended early")
        self.ended = True
        return None

    def check_time(self, now_s: float) -> Refusal | None:
        """Refuse the request that is being received if it takes too long."""
        if self.phase is HEAD and now_s - self._began_s > HEAD_S:
            return self._refuse(408, f"the request's head did not come within {HEAD_S:.0f} s")
        if self.phase is BODY and now_s - self._began_s > BODY_S + self._body_size / BODY_BYTES_PER_S:
            return self._refuse(408, "the request's body came too slowly")
        return None

    def restart_time(self) -> None:
        """Count the time of the request that is being received from now: nothing was read for a while."""
        self._began_s = self._server.now_s

    def close(self) -> None:
        """Give back the room of the body that was being read, and let go of the parser and the taker."""
        self.ended = True
        self._drop_body()
        # It knows our methods. The cycle would stay in memory: old objects are hardly ever searched for cycles.
        del self._parser, self._take, self._taker

    # --- called by the parser ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.phase = HEAD
        self._target = b""
        self._headers = []
        self.more_bytes = -1

    def on_url(self, part: bytes) -> None:
        target = self._target = self._target + part if self._target else part
        if len(target) > LINE_BYTES_MAX:
            _stop(414, f"the request's target is over {LINE_BYTES_MAX} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        block, parser = self._block, self._parser
        if block is None or self._headers != block.raw:
            self._block = None
            block = self._checked_block()
            self._block = block
        # Of two requests with the same headers one may be of another version. Each but 1.1 ends the connection, unless
        # a header asks otherwise; to ask for each request's version would take a tenth of a microsecond.
        elif block.connection or block.chunked or not parser.should_keep_alive():
            self._check_version(block)
        if block.foreign and parser.get_method() not in READS:
            _stop(403, "the call comes from a page of another origin, which may change nothing")
        self.phase = BODY
        if self._parser.should_upgrade():
            if self._parser.get_method() == b"CONNECT":
                _stop(405, "this server is not a proxy")
            self._upgrade = True
        elif block.content_length is not None or block.chunked:
            self._expect_body(block)

    def _checked_block(self) -> HeaderBlock:
        if len(self._headers) > HEADERS_MAX:
            _stop(431, f"there are more than {HEADERS_MAX} headers")
        sizes = [len(name) + len(value) for name, value in self._headers]
        if sizes and max(sizes) > HEADER_BYTES_MAX:
            _stop(431, f"a header is over {HEADER_BYTES_MAX} bytes")
        if sum(sizes) > HEAD_BYTES_MAX:
            _stop(431, f"the request's head is over {HEAD_BYTES_MAX} bytes")
        block = HeaderBlock(self._headers)
        self._check_version(block)
        if block.encoded_otherwise:
            _stop(400, "Transfer-Encoding may be 'chunked' and nothing else")
        if not _HOST.fullmatch(block.get("host") or ""):
            _stop(400, "the header Host must be a name or an address, with or without a port")
        if (text := self._bounds.refusal_of_page(block)) is not None:
            _stop(403, text)
        block.foreign = block.get("origin") is not None and self._bounds.has_foreign_origin(block)
        return block

    def _check_version(self, block: HeaderBlock) -> None:
        """Refuse what another version of HTTP reads in another way: a proxy in front may be of that version."""
        version = self._parser.get_http_version()
        if version not in VERSIONS:
            _stop(400, f"HTTP/{version} is not spoken here: HTTP/1.1 is")
        if block.chunked and version == "1.0":
            _stop(400, "HTTP/1.0 knows no chunks")
        if block.hosts > 1 or (not block.hosts and version == "1.1"):
            _stop(400, "a request should have one header Host")

    def _expect_body(self, block: HeaderBlock) -> None:
        self.more_bytes = -1
        limit = self._body_max = self._bounds.body_bytes_max(
            self._parser.get_method(), self._target, block, self._remote_ip
        )
        if block.content_length is not None and int(block.content_length) > limit:
            _stop(413, f"the body is over {limit} bytes, the most that is taken here")
        if block.chunked:
            # A trailer behind the body comes as headers do, and must not pose as one of them.
            self._headers = []
        if block.expects and self._parser.get_http_version() != "1.0":
            self._taker.on_expect()

    def on_body(self, part: bytes) -> None:
        size = len(part)
        if self._body_size + size > self._body_max:
            _stop(413, f"the body is over {self._body_max} bytes, the most that is taken here")
        is_large = self._body_size + size > LARGE_BODY_BYTES and self._body_max <= CLIENT_BODY_BYTES_MAX
        if not self._bounds.reserve(size, is_large=is_large):
            _stop(503, "too many large bodies are under way, please try another server")
        self._body_size += size
        self.work += 1
        body = self._body
        if body and len(body[-1]) < PART_BYTES_MIN:
            body[-1] += part
        else:
            body.append(part)

    def on_message_complete(self) -> None:
        if self.ended or self._upgrade:
            return
        self.phase = IDLE
        self.more_bytes = -1
        parser = self._parser
        keep_alive = parser.should_keep_alive()
        if not keep_alive:
            self.ended = True
        body = b""
        if self._body:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body = []
            self._body_size = 0  # its room is given back by the taker of the request
        request = _new_tuple(Request, (parser.get_method(), self._target, self._block, body, keep_alive))
        self.latest = request
        self.taken += 1
        self._take(request)

    # --- bodies and refusals -------------------------------------------------------------------------

    def _drop_body(self) -> None:
        self._bounds.reserve(-self._body_size)
        self._body = []
        self._body_size = 0

    def _count_more(self, count: int) -> Refusal | None:
        """Count bytes after which a request is still not whole: neither its head nor its body's framing is endless.

        The first piece is not counted, as whole requests may precede this one in it; the loop's buffer bounds it.
        """
        if len(self._headers) > HEADERS_MAX:
            return self._refuse(431, f"there are more than {HEADERS_MAX} headers")
        if self.more_bytes < 0:
            self.more_bytes = 0
            self._began_s = self._server.now_s
            return None
        self.more_bytes += count
        if self.phase is HEAD:
            if self.more_bytes > HEAD_BYTES_MAX:
                return self._refuse(431, f"the request's head is over {HEAD_BYTES_MAX} bytes")
        elif self.more_bytes > FRAMING_BYTES_MAX + self._body_size + self._body_size // BODY_BYTES_PER_FRAMING:
            return self._refuse(400, "there is far more around the request's body than in it")
        return None

    def _on_parser_error(self, error: Exception, data: bytes | memoryview) -> Refusal | None:
        """Continue where the parser stopped at a wish to speak another protocol; else refuse the request."""
        rest = memoryview(data)
        while isinstance(error, httptools.HttpParserUpgrade) and not self.ended:
            rest = rest[error.args[0] :]
            try:
                self._read_again()
                self._parser.feed_data(rest)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as next_error:
                error = next_error
            else:
                return None
        if self.ended:
            return None
        reason = error.__context__
        if isinstance(reason, _RefusedError):
            return self._refuse(*reason.args)
        if isinstance(error, httptools.HttpParserCallbackError) and reason is not None:
            raise reason
        return self._refuse(400, f"the request is not understood: {error}")

    def _refuse(self, status: int, text: str) -> Refusal:
        self.ended = True
        self.phase = IDLE
        self._drop_body()
        return Refusal(status, text)

    def _read_again(self) -> None:
        """Read a head again without its wish for another protocol, as HTTP asks of a server that does not speak it.

        The parser would take the body, if there is one, for a part of that protocol. Java's own client asks for
        HTTP/2 so with its first request.
        """
        kept = [(name, value) for name, value in self._headers if name.lower() not in _UPGRADE_HEADERS]
        if not self._parser.should_keep_alive():
            kept.append((b"Connection", b"close"))
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in kept)
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        self._upgrade, self.work = False, self.work + 48  # such a request costs four times as much as others
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(method + b" " + self._target + b" HTTP/" + version + b"\r\n" + lines + b"\r\n")


def path_of(target: bytes) -> str:
    """The path of a request's target, for logs: a query may hold a token or a password."""
    return target.partition(b"?")[0].decode("latin-1")


def _stop(status: int, text: str) -> NoReturn:
    raise _RefusedError(status, text)
