"""One HTTP connection on the event loop: bytes become requests, replies become bytes, and every wait has a bound.

Requests of a connection are answered in their order. While one is worked on elsewhere, what the client pipelines
behind it waits here, up to ``PIPELINED_MAX``; then nothing more is read.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, Protocol, cast

import httptools

from app.http.call import Reply
from app.http.wire import HeaderBlock, RawHeaders, head_of

LINE_BYTES_MAX = 8_190
"""Of the request target. Full beats carry their metadata in it; Nacos has no room for more either (Tomcat, 8 KiB)."""
HEADER_BYTES_MAX = 8_190
HEADERS_MAX = 100
HEAD_BYTES_MAX = 65_536
PIPELINED_MAX = 64
REPLY_BYTES_HIGH = 1 << 18
"""With so much of its replies unread, a client's next requests wait."""
HEAD_S = 10.0
"""For the whole head, from its first byte."""
BODY_S = 20.0
BODY_BYTES_PER_S = 65_536
"""A body may take ``BODY_S``, and a second more for so many bytes that have come."""
IDLE_S = 75.0
"""Far longer than the 5 s between two beats. Clients keep a connection for at most a minute."""
UNREAD_S = 30.0
"""A client that takes nothing of its replies for so long is cut off."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"Connection: close\r\n"
KEEP_ALIVE = b"Connection: keep-alive\r\n"
_UPGRADE_HEADERS = frozenset({b"upgrade", b"http2-settings", b"connection"})


class Request(NamedTuple):
    """One request as it came."""

    method: bytes
    target: bytes
    block: HeaderBlock
    body: bytes
    keep_alive: bool


class Server(Protocol):
    """What a connection asks of the worker that owns it."""

    now_s: float
    """The loop's time, at most a second old."""
    date: bytes
    """The header line that dates replies, with the empty line that ends the head."""
    draining: bool

    def opened(self, connection: "HttpConnection") -> bool:
        """Take a connection; False when there are too many."""
        ...

    def closed(self, connection: "HttpConnection") -> None: ...

    def body_bytes_max(self, target: bytes, remote_ip: str) -> int: ...

    def reserve(self, count: int) -> bool:
        """Ask for room for bytes of bodies; a negative count gives some back."""
        ...

    def answer(self, connection: "HttpConnection", request: Request) -> Reply | None:
        """Answer at once, or None: then ``connection.reply`` or ``connection.stream`` is called later."""
        ...

    def log_refused(self, remote_ip: str, status: int, text: str) -> None: ...


class Phase(Enum):
    IDLE = auto()
    HEAD = auto()
    BODY = auto()


class _RefusedError(Exception):
    """Ends the parser's work on a request that is refused already."""


class HttpConnection(asyncio.Protocol):
    """Owned by the loop's thread; ``reply`` and the calls of a stream come from there too."""

    __slots__ = (
        "_began_s",
        "_block",
        "_body",
        "_body_max",
        "_body_size",
        "_closing",
        "_eof",
        "_head_bytes",
        "_headers",
        "_parser",
        "_pending",
        "_phase",
        "_reading",
        "_refusal",
        "_server",
        "_target",
        "_transport",
        "_unread_s",
        "_upgrade",
        "_waiting_to_write",
        "busy",
        "current",
        "out",
        "remote_ip",
        "remote_port",
        "seen_s",
    )

    def __init__(self, server: Server) -> None:
        self._server = server
        self.seen_s = server.now_s
        self.remote_ip, self.remote_port = "", 0
        self.busy = False
        """A request is worked on elsewhere, or its reply is streamed."""
        self.current: Request | None = None
        self.out: list[bytes] = []
        self._pending: deque[Request] = deque()
        self._phase = Phase.IDLE
        self._began_s = self._unread_s = 0.0
        self._target = b""
        self._headers: RawHeaders = []
        self._head_bytes = 0
        self._block = HeaderBlock([])
        self._body: list[bytes] = []
        self._body_size = self._body_max = 0
        self._closing = self._eof = self._upgrade = False
        self._reading = True
        self._refusal: Reply | None = None
        self._waiting_to_write: Callable[[], None] | None = None
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)

    # --- what the loop tells -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.remote_ip, self.remote_port = peer[0], peer[1]
        self._transport.set_write_buffer_limits(high=REPLY_BYTES_HIGH)
        if not self._server.opened(self):
            self._closing = True
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self.seen_s = self._server.now_s
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._on_parser_error(error)
        if self._phase is Phase.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(431, f"the request's head is over {HEAD_BYTES_MAX} bytes")
        if self.out:
            self.flush()

    def eof_received(self) -> bool:
        """The client sends nothing more; what it asked is still answered."""
        self._eof = True
        if self.busy or self._pending:
            return True
        self._closing = True
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._server.reserve(-self._body_size - sum(len(one.body) for one in self._pending))
        self._pending.clear()
        self._body_size = 0
        self._server.closed(self)
        if self._waiting_to_write is not None:
            self._resume()

    def pause_writing(self) -> None:
        self._unread_s = self._server.now_s
        self._pause_reading()

    def resume_writing(self) -> None:
        self._unread_s = 0.0
        if self._waiting_to_write is not None:
            self._resume()
        if not self.busy:
            self._take_pending()

    def _resume(self) -> None:
        waiting, self._waiting_to_write = self._waiting_to_write, None
        assert waiting is not None
        waiting()

    # --- what the parser tells -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._phase = Phase.HEAD
        self._began_s = self._server.now_s
        self._target = b""
        self._headers = []
        self._head_bytes = 0

    def on_url(self, part: bytes) -> None:
        self._target = self._target + part if self._target else part
        if len(self._target) > LINE_BYTES_MAX:
            self._stop_parsing(414, f"the request's target is over {LINE_BYTES_MAX} bytes")

    def on_header(self, name: bytes, value: bytes | None) -> None:
        self._headers.append((name, value or b""))

    def on_headers_complete(self) -> None:
        block = self._block
        if self._headers != block.raw:
            block = self._block = self._checked_block()
        self._phase = Phase.BODY
        if self._parser.should_upgrade():
            self._upgrade = True
        if block.content_length is not None or block.chunked:
            self._expect_body(block)

    def _checked_block(self) -> HeaderBlock:
        if len(self._headers) > HEADERS_MAX:
            self._stop_parsing(431, f"there are more than {HEADERS_MAX} headers")
        if any(len(name) + len(value) > HEADER_BYTES_MAX for name, value in self._headers):
            self._stop_parsing(431, f"a header is over {HEADER_BYTES_MAX} bytes")
        return HeaderBlock(self._headers)

    def _expect_body(self, block: HeaderBlock) -> None:
        self._began_s = self._server.now_s
        limit = self._body_max = self._server.body_bytes_max(self._target, self.remote_ip)
        if block.content_length is not None and int(block.content_length) > limit:
            self._stop_parsing(413, f"the body is over {limit} bytes, the most that is taken here")
        if block.expects:
            self.out.append(CONTINUE)

    def on_body(self, part: bytes) -> None:
        self._body_size += len(part)
        if self._body_size > self._body_max:
            self._body_size -= len(part)
            self._stop_parsing(413, f"the body is over {self._body_max} bytes, the most that is taken here")
        if not self._server.reserve(len(part)):
            self._body_size -= len(part)
            self._stop_parsing(503, "too many large bodies are under way, please try another server")
        self._body.append(part)

    def on_message_complete(self) -> None:
        if self._upgrade:
            return  # _ignore_upgrade gives it to a parser that sees no upgrade
        self._phase = Phase.IDLE
        body = b""
        if self._body:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body = []
            self._body_size = 0  # its room is given back with the answer
        request = Request(self._parser.get_method(), self._target, self._block, body, self._parser.should_keep_alive())
        if self.busy or self._pending or self._unread_s:
            self._pending.append(request)
            if len(self._pending) >= PIPELINED_MAX:
                self._pause_reading()
            return
        self._answer(request)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read the request again without its wish to go on in another protocol, as HTTP asks of who does not know it.

        The parser would take the body, if there is one, for a part of that protocol. Java's own client asks for
        HTTP/2 so with its first request.
        """
        self._upgrade = False
        method = self._parser.get_method()
        self._parser = httptools.HttpRequestParser(self)
        if method == b"CONNECT":
            self._refuse(405, "this server is no proxy")
            return
        kept = [(name, value) for name, value in self._headers if name.lower() not in _UPGRADE_HEADERS]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in kept)
        try:
            self._parser.feed_data(method + b" " + self._target + b" HTTP/1.1\r\n" + lines + b"\r\n")
        except httptools.HttpParserError as error:
            self._on_parser_error(error)
            return
        if rest:
            self.data_received(rest)

    def _on_parser_error(self, error: httptools.HttpParserError) -> None:
        if self._closing:
            return  # what comes behind a request that asked to close
        if isinstance(error.__context__, _RefusedError) and self._refusal is not None:
            self._refuse(self._refusal.status, self._refusal.body.decode())
        elif isinstance(error, httptools.HttpParserCallbackError) and error.__context__ is not None:
            raise error.__context__
        else:
            self._refuse(400, f"the request is not understood: {error}")

    def _stop_parsing(self, status: int, text: str) -> None:
        self._refusal = Reply(status, text.encode())
        raise _RefusedError

    def _refuse(self, status: int, text: str) -> None:
        """Answer what is no request that can be worked on, after those before it, and close."""
        self._server.log_refused(self.remote_ip, status, text)
        self._closing = True
        self._pause_reading()
        if not self.busy and not self._pending:
            self.current = None
            self._put(Reply(status, text.encode()), keep_alive=False)
        self.flush()
        if not self.busy:
            self._transport.close()

    # --- answering -----------------------------------------------------------------------------------

    def _answer(self, request: Request) -> None:
        self.current = request
        self.busy = True
        reply = self._server.answer(self, request)
        if reply is not None:
            self.busy = False
            if request.body:
                self._server.reserve(-len(request.body))
            self._put(reply, request.keep_alive)

    def _put(self, reply: Reply, keep_alive: bool) -> None:
        head = reply.head
        if head is None:
            head = reply.head = head_of(reply)
        out, server, request = self.out, self._server, self.current
        out.append(head)
        if not keep_alive or self._eof or server.draining:
            out.append(CLOSE)
            self._closing = True
        elif request is not None and request.block.connection:
            out.append(KEEP_ALIVE)  # a client of HTTP/1.0 goes by it
        out.append(server.date)
        if reply.body and (request is None or request.method != b"HEAD"):
            out.append(reply.body)

    def reply(self, reply: Reply) -> None:
        """Answer the request that is worked on, and go on with the next."""
        request, refused = self._release(), self._closing
        if self._transport.is_closing():
            return
        self._put(reply, request.keep_alive and not refused)
        self._take_pending()
        self.flush()

    def _release(self) -> Request:
        """The request that was worked on is done with."""
        self.busy = False
        assert self.current is not None
        self._server.reserve(-len(self.current.body))
        return self.current

    def _take_pending(self) -> None:
        pending = self._pending
        while pending and not self.busy and not self._closing and not self._unread_s:
            self._answer(pending.popleft())
        if not self._reading and len(pending) < PIPELINED_MAX and not self._closing and not self._unread_s:
            self._reading = True
            self._transport.resume_reading()
        if self._eof and not self.busy and not pending:
            self._closing = True
            self._transport.close()

    def flush(self) -> None:
        """Send what was answered."""
        out = self.out
        if out:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
            self.out = []
        if self._closing and not self.busy:
            self._transport.close()

    def _pause_reading(self) -> None:
        if self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    # --- a reply in parts ----------------------------------------------------------------------------

    def stream_head(self, head: bytes) -> None:
        """Begin a reply whose length is not known."""
        self.out.append(head)
        self.flush()

    def stream_part(self, part: bytes, then: Callable[[], None]) -> None:
        """Send a part; ``then`` is called when the client has taken enough of it, or is gone."""
        if self._transport.is_closing():
            then()
            return
        self._transport.write(part)
        if self._unread_s:
            self._waiting_to_write = then
        else:
            then()

    def stream_end(self, *, whole: bool) -> None:
        """The reply has ended; one that is not whole ends the connection, so that the client sees it."""
        self._release()
        if not whole:
            self._transport.abort()
            return
        self._take_pending()
        self.flush()

    @property
    def is_gone(self) -> bool:
        return self._transport.is_closing()

    # --- bounds of time --------------------------------------------------------------------------------

    def check_time(self, now_s: float) -> None:
        """Cut the connection if its client has taken too long. Called each second."""
        if self._unread_s:
            if now_s - self._unread_s > UNREAD_S:
                self._transport.abort()
        elif self.busy:
            return
        elif self._phase is Phase.HEAD:
            if now_s - self._began_s > HEAD_S:
                self._refuse(408, f"the request's head did not come within {HEAD_S:.0f} s")
        elif self._phase is Phase.BODY:
            if now_s - self._began_s > BODY_S + self._body_size / BODY_BYTES_PER_S:
                self._refuse(408, "the request's body came too slowly")
        elif now_s - self.seen_s > IDLE_S:
            self._closing = True
            self._transport.close()

    def drain(self) -> None:
        """The worker ends: close when nothing is under way."""
        if not self.busy and not self._pending and self._phase is Phase.IDLE:
            self._closing = True
            self._transport.close()
