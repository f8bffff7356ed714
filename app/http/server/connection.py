"""One HTTP connection on the event loop: requests are answered in their order, and every wait has a bound.

What comes faster than it can be answered waits in the queue that it inherits; this is about the answers, and the end.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, cast

from app.http.api.call import Reply
from app.http.server.request_queue import BULK_BYTES, RequestQueue, Turns
from app.http.server.request_queue import PIPELINED_MAX as PIPELINED_MAX
from app.http.server.request_reader import BODY, HEAD, IDLE, NOTHING
from app.http.server.request_reader import Request as Request
from app.http.server.wire import head_of

REPLY_BYTES_HIGH = 1 << 18
"""With so much of its replies unread, a client's next requests wait."""
OUT_BYTES_MAX = 1 << 16
"""Replies to what came at once are joined up to so many bytes; larger ones are sent as they are, not copied."""
HEAD_S = 10.0
"""For the whole head, from its first byte."""
BODY_S = 20.0
BODY_BYTES_PER_S = 65_536
"""A body may take ``BODY_S``, and a second more for so many bytes that have come."""
IDLE_S = 75.0
"""Far longer than the 5 s between two beats. Clients keep a connection for at most a minute."""
UNREAD_S = 30.0
UNREAD_BYTES_MIN = 65_536
"""A client that takes less than this of its waiting replies within ``UNREAD_S`` is cut off."""
LINGER_S = 2.0
"""What a refused client still sends is read for so long: the refusal would else be lost with the connection."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"Connection: close\r\n"
KEEP_ALIVE = b"Connection: keep-alive\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
FAILED = Reply(500, b"caused: internal error, see the server's log")

log = logging.getLogger(__name__)


class Server(Turns, Protocol):
    """What a connection asks of the worker that owns it."""

    date: bytes
    """The header line that dates replies, with the empty line that ends the head."""
    draining: bool

    def opened(self, connection: "HttpConnection") -> bool:
        """Take a connection; False when there are too many."""
        ...

    def closed(self, connection: "HttpConnection") -> None: ...

    def answer(self, connection: "HttpConnection", request: Request) -> Reply | None:
        """Answer at once, or None: then ``connection.reply`` or ``connection.stream_head`` is called later."""
        ...

    def log_refused(self, remote_ip: str, status: int, text: str) -> None: ...


class HttpConnection(RequestQueue, asyncio.Protocol):
    """Owned by the loop's thread; ``reply`` and the calls of a stream come from there too."""

    __slots__ = (
        "_chunked",
        "_closing",
        "_eof",
        "_out_bytes",
        "_refusal",
        "_transport",
        "_unread_bytes",
        "_waiting_to_write",
        "current",
        "out",
        "remote_port",
        "seen_s",
    )

    _server: Server

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self.seen_s = server.now_s
        self.remote_port = 0
        self.current: Request | None = None
        self.out: list[bytes] = []
        self._out_bytes = 0
        self._refusal: Reply | None = None
        """The last answer: what came behind the requests before it is none."""
        self._eof = self._closing = self._chunked = False
        self._unread_bytes = 0
        self._waiting_to_write: Callable[[], None] | None = None
        self._transport: asyncio.Transport

    # --- what the loop tells -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.remote_ip, self.remote_port = peer[0], peer[1]
        self._transport.set_write_buffer_limits(high=REPLY_BYTES_HIGH)
        if not self._server.opened(self):
            self._deaf = self._closing = True
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            if len(data) >= BULK_BYTES:
                self._rest()
            return
        self.seen_s = self._server.now_s
        self._take(data)
        if self.out:
            self.flush()

    def eof_received(self) -> bool:
        """The client sends nothing more; what it asked is still answered."""
        self._eof = True
        if self._phase is not IDLE and not self._deaf:
            self._refuse(400, "the request ended early")
        self._deaf = True
        if self.busy or self._pending:
            return True
        self._begin_to_close()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._deaf = self._closing = True
        self._drop_body()
        self._server.reserve(-sum(len(one.body) for one in self._pending))
        self._pending.clear()
        self._left = NOTHING
        # It knows our methods. The circle would stay in memory: what lived for long is not searched for any.
        del self._parser
        self._server.closed(self)
        if self._waiting_to_write is not None:
            self._resume()

    def pause_writing(self) -> None:
        self._note_unread(self._server.now_s)
        self._pause_reading()

    def resume_writing(self) -> None:
        self._unread_s = 0.0
        if self._waiting_to_write is not None:
            self._resume()
        if not self.busy:
            self._go_on()

    def _resume(self) -> None:
        waiting, self._waiting_to_write = self._waiting_to_write, None
        assert waiting is not None
        waiting()

    # --- answering -----------------------------------------------------------------------------------

    def _answer(self, request: Request) -> None:
        self.current = request
        self.busy = True
        try:
            reply = self._server.answer(self, request)
        except Exception:
            log.exception("%s %a failed", request.method.decode(), request.target.decode("latin-1"))
            reply = FAILED
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
        if not keep_alive or ((self._deaf or server.draining) and not self._pending and self._refusal is None):
            out.append(CLOSE)
            self._deaf = True
        elif request is not None and request.block.connection:
            out.append(KEEP_ALIVE)  # a client of HTTP/1.0 goes by it
        out.append(server.date)
        body = reply.body
        if body and (request is None or request.method != b"HEAD"):
            out.append(body)
            self._out_bytes += len(body)
            if self._out_bytes > OUT_BYTES_MAX:
                self._write()

    def reply(self, reply: Reply) -> None:
        """Answer the request that is worked on, and go on with the next."""
        request = self._release()
        if not self._transport.is_closing():
            self._put(reply, request.keep_alive)
            self._go_on()
            if self._unread_s:
                self._note_unread(self._server.now_s)

    def _release(self) -> Request:
        """The request that was worked on is done with."""
        self.busy = False
        assert self.current is not None
        self._server.reserve(-len(self.current.body))
        return self.current

    def flush(self) -> None:
        """Send what was answered; after the last answer, close."""
        if self.out:
            self._write()
        if self._deaf and not self.busy and not self._pending and not self._closing:
            self._end()

    def _write(self) -> None:
        out, self.out = self.out, []
        if self._out_bytes > OUT_BYTES_MAX:
            self._transport.writelines(out)
        else:
            self._transport.write(b"".join(out))
        self._out_bytes = 0

    def _pause_reading(self) -> None:
        if self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        self._reading = True
        self._transport.resume_reading()

    @property
    def _lingers(self) -> bool:
        return self._closing and not self._transport.is_closing()

    # --- the end ---------------------------------------------------------------------------------------

    def _ask_for_body(self) -> None:
        # Before its turn it would be taken for a part of another answer.
        if not self.busy and not self._pending and self._parser.get_http_version() != "1.0":
            self.out.append(CONTINUE)

    def _refuse(self, status: int, text: str) -> None:
        """Answer what is no request that can be worked on, after those before it, and close."""
        self._server.log_refused(self.remote_ip, status, text)
        self._deaf = True
        self._phase = IDLE
        self._refusal = Reply(status, text.encode())
        self._drop_body()
        if self.busy or self._pending:
            self._pause_reading()
        self.flush()

    def _end(self) -> None:
        refusal, self._refusal = self._refusal, None
        if refusal is None:
            self._begin_to_close()
            return
        self.current = None
        self._put(refusal, keep_alive=False)
        self._write()
        if self._eof or self._transport.is_closing():
            self._begin_to_close()
            return
        # Were it closed while more comes, the client would hear of that, and forget the answer that it has not read.
        self._closing = True
        self._began_s = self._server.now_s
        self._transport.write_eof()
        if not self._reading and not self._resting:
            self._resume_reading()

    def _begin_to_close(self) -> None:
        """Close as soon as all is sent."""
        self._deaf = self._closing = True
        self._began_s = self._server.now_s
        self._transport.close()

    # --- a reply in parts ----------------------------------------------------------------------------

    def stream_head(self, reply: Reply) -> None:
        """Begin a reply whose length is not known: of ``reply`` its head is sent."""
        if self._transport.is_closing():
            return
        assert self.current is not None
        assert reply.head is not None
        # A client of HTTP/1.0 knows the end of the reply by the end of the connection.
        self._chunked = self._parser.get_http_version() not in ("1.0", "0.9")
        head = reply.head + CHUNKED if self._chunked else reply.head
        self._put(Reply(reply.status, b"", head=head), self._chunked and self.current.keep_alive)
        self._write()

    def stream_part(self, part: bytes, then: Callable[[], None]) -> None:
        """Send a part; ``then`` is called when the client has taken enough of it, or is gone."""
        if self._transport.is_closing():
            then()
            return
        self._transport.writelines((b"%x\r\n" % len(part), part, b"\r\n") if self._chunked else (part,))
        if self._unread_s:
            self._waiting_to_write = then
        else:
            then()

    def stream_end(self, whole: bool) -> None:
        """The reply has ended; one that is not whole ends the connection, so that the client sees it."""
        self._release()
        if not whole:
            self._transport.abort()
        elif not self._transport.is_closing():
            if self._chunked:
                self._transport.write(b"0\r\n\r\n")
            self._go_on()

    @property
    def is_gone(self) -> bool:
        return self._transport.is_closing()

    # --- bounds of time --------------------------------------------------------------------------------

    def check_time(self, now_s: float) -> None:
        """Cut the connection if its client has taken too long. Called each second."""
        if self._unread_s:
            if now_s - self._unread_s > UNREAD_S:
                if self._transport.get_write_buffer_size() > self._unread_bytes - UNREAD_BYTES_MIN:
                    self._transport.abort()
                self._note_unread(now_s)
        elif self.busy:
            return
        elif self._closing:
            # Without an end, and with a little unread, a client that does nothing at all would stay for ever.
            waits_s = UNREAD_S if self._transport.get_write_buffer_size() else LINGER_S
            if now_s - self._began_s > waits_s:
                self._transport.abort()
        elif self._phase is HEAD:
            if now_s - self._began_s > HEAD_S:
                self._refuse(408, f"the request's head did not come within {HEAD_S:.0f} s")
        elif self._phase is BODY:
            if now_s - self._began_s > BODY_S + self._body_size / BODY_BYTES_PER_S:
                self._refuse(408, "the request's body came too slowly")
        elif now_s - self.seen_s > IDLE_S:
            self._begin_to_close()

    def _note_unread(self, now_s: float) -> None:
        self._unread_s, self._unread_bytes = now_s, self._transport.get_write_buffer_size()

    def cut(self) -> None:
        """End the connection as it is. Who streams a reply over it hears of that."""
        self._transport.abort()

    def drain(self) -> None:
        """The worker ends: close when nothing is under way."""
        if not self.busy and not self._pending and not self._left and self._phase is IDLE:
            self._begin_to_close()
