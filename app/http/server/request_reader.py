"""The bytes of a connection become requests: httptools parses them, and whatever a client may send has a bound."""

from enum import Enum, auto
from typing import NamedTuple, NoReturn, Protocol

import httptools

from app.http.server.wire import HeaderBlock, RawHeaders

LINE_BYTES_MAX = 8_190
"""Of the request target. Full beats carry their metadata in it; Nacos has no room for more either (Tomcat, 8 KiB)."""
HEADER_BYTES_MAX = 8_190
HEADERS_MAX = 100
HEAD_BYTES_MAX = 65_536
FRAMING_RATIO_MAX = 2
"""So many times the body itself may what frames it take, sizes of chunks above all, and ``HEAD_BYTES_MAX`` more."""

FEED_BYTES = 4_096
"""Parsed in one step: it may be 200 requests, and when there are too many the rest is left as it is."""
PART_BYTES_MIN = 4_096
"""Parts of a body are joined up to this: it may come byte by byte, and each part takes forty more than it holds."""
FEED_WORK = 8
"""For parsing ``FEED_BYTES``, in microseconds, as all work is counted; a part of a body is 1."""
NOTHING = memoryview(b"")

_UPGRADE_HEADERS = frozenset({b"upgrade", b"http2-settings", b"connection"})


class Request(NamedTuple):
    """One request as it came."""

    method: bytes
    target: bytes
    block: HeaderBlock
    body: bytes
    keep_alive: bool


class Phase(Enum):
    """What has come of a request."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


# Python 3.11 needs ten times as long to look a member up in its class.
IDLE, HEAD, BODY = Phase.IDLE, Phase.HEAD, Phase.BODY


class Bounds(Protocol):
    """What the connections of a server share."""

    now_s: float
    """The loop's time, at most a second old."""

    def body_bytes_max(self, target: bytes, remote_ip: str) -> int: ...

    def reserve(self, count: int) -> bool:
        """Ask for room for bytes of bodies; a negative count gives some back."""
        ...


class _RefusedError(Exception):
    """Ends the parser's work on a request that is over a bound: status and text."""


class RequestReader:
    """What the parser of one connection calls. Who inherits it takes what ``on_message_complete`` finds here."""

    __slots__ = (
        "_began_s",
        "_block",
        "_body",
        "_body_max",
        "_body_size",
        "_deaf",
        "_headers",
        "_left",
        "_more_bytes",
        "_parser",
        "_phase",
        "_server",
        "_target",
        "_upgrade",
        "_work",
        "remote_ip",
    )

    _server: Bounds

    def __init__(self) -> None:
        self.remote_ip = ""
        self._phase = IDLE
        self._began_s = 0.0
        self._deaf = False
        """The last request of this connection was read; what comes behind it is nothing to us."""
        self._upgrade = False
        """The request that is parsed will be read again, as one that wishes for no other protocol."""
        self._target = b""
        self._headers: RawHeaders = []
        self._left = NOTHING
        """What came and was not parsed yet."""
        self._more_bytes = 0
        self._work = 0
        """What was done in this turn of the loop."""
        self._block = HeaderBlock([])
        self._body: list[bytes] = []
        self._body_size = self._body_max = 0
        self._parser = httptools.HttpRequestParser(self)

    # --- what the parser tells -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._phase = HEAD
        self._began_s = self._server.now_s
        self._target = b""
        self._headers = []
        self._more_bytes = -1

    def on_url(self, part: bytes) -> None:
        self._target = self._target + part if self._target else part
        if len(self._target) > LINE_BYTES_MAX:
            _stop(414, f"the request's target is over {LINE_BYTES_MAX} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        block = self._block
        if self._headers != block.raw:
            block = self._block = self._checked_block()
        self._phase = BODY
        if self._parser.should_upgrade():
            if self._parser.get_method() == b"CONNECT":
                _stop(405, "this server is no proxy")
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
        return HeaderBlock(self._headers)

    def _expect_body(self, block: HeaderBlock) -> None:
        self._began_s = self._server.now_s
        self._more_bytes = -1
        limit = self._body_max = self._server.body_bytes_max(self._target, self.remote_ip)
        if block.content_length is not None and int(block.content_length) > limit:
            _stop(413, f"the body is over {limit} bytes, the most that is taken here")
        if block.chunked:
            # What comes behind the body in the form of headers is for nobody: it could pose as one of them.
            self._headers = []
        if block.expects:
            self._ask_for_body()

    def on_body(self, part: bytes) -> None:
        size = len(part)
        if self._body_size + size > self._body_max:
            _stop(413, f"the body is over {self._body_max} bytes, the most that is taken here")
        if not self._server.reserve(size):
            _stop(503, "too many large bodies are under way, please try another server")
        self._body_size += size
        self._work += 1
        body = self._body
        if body and len(body[-1]) < PART_BYTES_MIN:
            body[-1] += part
        else:
            body.append(part)

    # --- for who inherits ----------------------------------------------------------------------------

    def _feed(self, data: bytes | memoryview) -> None:
        """Parse bytes."""
        failure: Exception | None = None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            failure = error
        if failure is not None:
            # Not above: what failed there would become the reason of what fails here.
            self._on_parser_error(failure, data)
        if self._phase is not IDLE:
            self._count_more(len(data))
        elif self._more_bytes < 0:
            self._more_bytes = 0
        else:
            self._more_bytes += len(data)
            if self._more_bytes > HEAD_BYTES_MAX and not self._deaf:
                self._refuse(400, "nothing but blank lines comes")

    def _feed_left(self) -> None:
        """Parse what is left of what came, as far as this turn reaches."""
        while self._left and not self._deaf and self._may_feed():
            part, self._left = self._left[:FEED_BYTES], self._left[FEED_BYTES:]
            self._work += FEED_WORK
            self._feed(part)
        if self._deaf:
            self._left = NOTHING

    def _take_body(self) -> bytes:
        """The whole body. Its room is given back by who takes it."""
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body = []
        self._body_size = 0
        return body

    def _drop_body(self) -> None:
        """Give up the body that is being read."""
        self._server.reserve(-self._body_size)
        self._body = []
        self._body_size = 0

    def _count_more(self, count: int) -> None:
        """Note bytes after which a request is still not whole: its head must end, and so must what frames its body.

        The first are not counted, as whole requests may come before it in them; the loop's buffer bounds them.
        """
        if self._more_bytes < 0:
            self._more_bytes = 0
            return
        self._more_bytes += count
        if self._phase is HEAD:
            if self._more_bytes > HEAD_BYTES_MAX:
                self._refuse(431, f"the request's head is over {HEAD_BYTES_MAX} bytes")
        elif self._more_bytes > HEAD_BYTES_MAX + FRAMING_RATIO_MAX * self._body_size:
            self._refuse(400, "there is far more around the request's body than in it")

    def _on_parser_error(self, error: Exception, data: bytes | memoryview) -> None:
        """Go on where the parser stopped at a wish to speak another protocol; else refuse the request."""
        rest = memoryview(data)
        while isinstance(error, httptools.HttpParserUpgrade) and not self._deaf:
            rest = rest[error.args[0] :]
            try:
                self._read_again()
                self._parser.feed_data(rest)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as next_error:
                error = next_error
            else:
                return
        if self._deaf:
            return
        reason = error.__context__
        if isinstance(reason, _RefusedError):
            self._refuse(*reason.args)
        elif isinstance(error, httptools.HttpParserCallbackError) and reason is not None:
            raise reason
        else:
            self._refuse(400, f"the request is not understood: {error}")

    def _read_again(self) -> None:
        """Read a head again without its wish for another protocol, as HTTP asks of who does not know that one.

        The parser would take the body, if there is one, for a part of that protocol. Java's own client asks for
        HTTP/2 so with its first request.
        """
        kept = [(name, value) for name, value in self._headers if name.lower() not in _UPGRADE_HEADERS]
        if not self._parser.should_keep_alive():
            kept.append((b"Connection", b"close"))
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in kept)
        method = self._parser.get_method()
        self._upgrade = False
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(method + b" " + self._target + b" HTTP/1.1\r\n" + lines + b"\r\n")

    def _may_feed(self) -> bool:
        """Whether more is parsed now."""
        raise NotImplementedError

    def _ask_for_body(self) -> None:
        """The client waits for leave to send its body."""
        raise NotImplementedError

    def _refuse(self, status: int, text: str) -> None:
        """What came is no request that can be worked on; nothing more is read."""
        raise NotImplementedError


def _stop(status: int, text: str) -> NoReturn:
    raise _RefusedError(status, text)
