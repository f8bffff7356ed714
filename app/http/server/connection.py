"""One HTTP connection on the event loop: replies in the order of the requests, time limits, and how it is closed.

A connection has a ``RequestQueue``, where requests wait for their turn, which has a ``RequestReader``, which parses.
"""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol, cast

from app.http.api.answers import INTERNAL_ERROR
from app.http.api.call import Reply
from app.http.server.http_messages import AnyRequest, Refusal, RepeatedRequest, head_of
from app.http.server.request_queue import RequestQueue, Turns
from app.http.server.request_reader import IDLE, RequestReader, path_of
from app.machine.limits.answer_budget import AnswerBudget
from app.machine.limits.client_addresses import ClientAddress
from app.machine.limits.connection_room import Share
from app.machine.process.loop_parts import TurnSends

SOON_BYTES_MAX = 8 * 1024
"""Longer replies took a while to make: they, and those that wait with them, are sent at once."""
OUT_BYTES_MAX = 1 << 16
"""Replies to requests that came at once are joined up to so many bytes; larger ones are not copied."""
UNSENT_BYTES_MAX = 1
"""In the socket's buffer here, until nothing more is answered; uvloop's TLS takes 0 for always."""
IDLE_S = 75.0
"""Far longer than the 5 s between two beats. Clients keep a connection for at most a minute."""
UNREAD_S = 30.0
UNREAD_BYTES_MIN = 65_536
"""A client that takes less than this of its waiting replies within ``UNREAD_S``, and not all, is cut off."""
SHORT_UNREAD_S = 3.0
"""The same, while other answers need the room. Members always have ``UNREAD_S``."""
LINGER_S = 2.0
"""A refused client's further bytes are read for so long: the refusal would else be lost with the connection."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"Connection: close\r\n"
ASKS_AGAIN = HTTPStatus.UNAUTHORIZED
"""The status of the answer to a member's question: the call for which it connected follows."""
KEEP_ALIVE = b"Connection: keep-alive\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"

log = logging.getLogger(__name__)


class Server(Turns, Protocol):
    """The server that owns a connection: its endpoints, and limits over all connections."""

    date: bytes
    """The header line that dates replies, with the empty line that ends the head."""
    draining: bool
    sends: TurnSends
    answers: AnswerBudget
    check_pause: Callable[[], None]
    """Notices that this process stood still, and that bytes read now may have waited."""
    answer: Callable[["HttpConnection", AnyRequest], Reply | None]
    """Returns the reply, or None: then ``connection.reply`` or ``connection.stream_head`` is called later."""

    def opened(self, connection: "HttpConnection") -> bytes | None:
        """Count a new connection; None if it may stay, else the answer with which it is closed, perhaps empty."""
        ...

    def closed(self, connection: "HttpConnection") -> None:
        """Count a connection no more."""
        ...


class HttpConnection(asyncio.Protocol):
    """Receives requests and sends replies over one transport. All calls come from the loop's thread."""

    __slots__ = (
        "_chunked",
        "_closing",
        "_closing_s",
        "_eof",
        "_out_bytes",
        "_queue",
        "_reader",
        "_refusal",
        "_server",
        "_transport",
        "_unread_bytes",
        "_unread_counted",
        "_unread_s",
        "_waiting_to_write",
        "address",
        "at_member",
        "current",
        "has_member_certificate",
        "is_tls",
        "out",
        "remote_ip",
        "remote_port",
        "seen_s",
        "share",
    )

    _transport: asyncio.Transport
    _queue: RequestQueue
    _reader: RequestReader

    def __init__(self, server: Server, share: Share | None = None) -> None:
        """``share``: where it was counted when it was accepted; None when ``Server.opened`` is to do that."""
        self._server = server
        self.share = share
        self.seen_s = server.now_s
        self.remote_ip = ""
        self.remote_port = 0
        self.is_tls = self.has_member_certificate = False
        self.address: ClientAddress | None = None
        """The client's address, from ``Server.opened`` on."""
        self.at_member = False
        """True if the address is a member's."""
        self.current: AnyRequest | None = None
        self.out: list[bytes] = []
        self._out_bytes = 0
        self._refusal: Reply | None = None
        """The last answer, to be sent after the replies to all earlier requests."""
        self._eof = self._closing = self._chunked = False
        self._closing_s = 0.0
        self._unread_s = 0.0
        """Since when too much is unread; 0 while it is not."""
        self._unread_bytes = self._unread_counted = 0
        self._waiting_to_write: Callable[[], None] | None = None

    # --- called by the loop ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.remote_ip, self.remote_port = peer[0], peer[1]
        self.is_tls = transport.get_extra_info("ssl_object") is not None
        # Only one that is trusted is ever shown here, and none is asked for without mutual TLS.
        self.has_member_certificate = bool(transport.get_extra_info("peercert"))
        # Whoever has not taken all replies has its next requests wait, and all that waits is counted.
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        self._queue = RequestQueue(self._server, self._transport, self, self.remote_ip)
        self._reader = self._queue.reader
        refused = self._server.opened(self)
        if refused is not None:
            self._reader.ended = self._closing = True
            if refused:
                self._transport.write(refused)
                self._transport.close()  # at once: an end that waits for the client would keep its descriptor
            else:
                self._transport.abort()

    def data_received(self, data: bytes) -> None:
        server = self._server
        server.check_pause()
        self.seen_s = server.now_s
        self._queue.take(data)
        if self.out:
            self.flush_soon()

    def eof_received(self) -> bool:
        """The client sends nothing more; its earlier requests are still answered, except over TLS, which closes both
        ways.
        """
        self._eof = True
        refusal = self._reader.feed_eof()
        if refusal is not None:
            self.refuse(refusal)
        if not self.is_tls and (self._queue.busy or self._queue.pending):
            return True
        self._begin_to_close()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._queue.close()
        self._count_unread(0)
        self._server.closed(self)
        if self._waiting_to_write is not None:
            self._resume()

    def pause_writing(self) -> None:
        self._note_unread(self._server.now_s)
        self._queue.blocked = True
        self._queue.pause_reading()

    def resume_writing(self) -> None:
        self._unread_s = 0.0
        self._count_unread(0)
        self._queue.blocked = False
        if self._waiting_to_write is not None:
            self._resume()
        if not self._queue.busy:
            self._queue.go_on()

    def _resume(self) -> None:
        waiting, self._waiting_to_write = self._waiting_to_write, None
        assert waiting is not None
        waiting()

    # --- answering -----------------------------------------------------------------------------------

    def answer(self, request: AnyRequest) -> None:
        """Answer a request now, or leave the queue ``busy`` until ``reply`` or ``stream_end`` is called."""
        self.current = request
        queue = self._queue
        queue.busy = True
        try:
            reply = self._server.answer(self, request)
        except Exception:
            log.exception("%s %a failed", request.method.decode(), path_of(request.target))
            reply = INTERNAL_ERROR
        if reply is not None:
            queue.busy = False
            if request.body:
                self._server.bounds.reserve(-len(request.body))
            self._put(reply, request.keep_alive)

    def _put(self, reply: Reply, keep_alive: bool) -> None:
        head = reply.head
        if head is None:
            head = reply.head = head_of(reply)
        out, server, request = self.out, self._server, self.current
        out.append(head)
        reader = self._reader
        if not keep_alive or (
            (reader.ended or (server.draining and reply.status != ASKS_AGAIN))
            and not self._queue.pending
            and self._refusal is None
        ):
            out.append(CLOSE)
            reader.ended = True
        elif request is not None and request.block.connection:
            out.append(KEEP_ALIVE)  # a client of HTTP/1.0 relies on it
        out.append(server.date)
        body = reply.body
        if body and (request is None or request.method != b"HEAD"):
            out.append(body)
            self._out_bytes += len(body)
            if self._out_bytes > OUT_BYTES_MAX:
                self._write()

    def reply(self, reply: Reply, *, together: bool = False) -> None:
        """Answer the request that the queue is ``busy`` with, and continue with the next.

        ``together``: others are answered in this turn of the loop, too, so that all answers leave at its end.
        """
        request = self._release()
        if not self._transport.is_closing():
            self._put(reply, request.keep_alive)
            self._queue.go_on(together=together)
            if self._unread_s:
                self._note_unread(self._server.now_s)

    def _release(self) -> AnyRequest:
        self._queue.busy = False
        assert self.current is not None
        if self.current.body:
            self._server.bounds.reserve(-len(self.current.body))
        return self.current

    def flush(self) -> None:
        """Send the replies that were given; behind the last one, close."""
        if self.out:
            self._write()
        if self._reader.ended and not self._queue.busy and not self._queue.pending and not self._closing:
            self._end()

    def flush_soon(self) -> None:
        """Send the replies that were given at the end of this turn of the loop, beside those of other connections."""
        if self._reader.ended or self._out_bytes > SOON_BYTES_MAX:
            self.flush()
        elif self.out:
            self._server.sends.add(self.send)

    def send(self) -> None:
        """Send the replies that were given, if any wait."""
        if self.out and not self._transport.is_closing():
            self._write()

    def _write(self) -> None:
        out, self.out = self.out, []
        if self._out_bytes > OUT_BYTES_MAX:
            self._write_large(out)
        else:
            self._transport.write(b"".join(out))
        self._out_bytes = 0

    def _write_large(self, out: list[bytes]) -> None:
        if not self.is_tls:
            self._transport.writelines(out)
            return
        # In one piece, all of it would be encrypted into the buffer of the socket below, of which nothing is known.
        for part in out:
            for at in range(0, len(part), OUT_BYTES_MAX):
                self._transport.write(part[at : at + OUT_BYTES_MAX])
        if self._unread_s:
            self._note_unread(self._server.now_s)

    # --- the end ---------------------------------------------------------------------------------------

    def send_continue(self) -> None:
        """Let the client send the body of the request that is being received."""
        self.out.append(CONTINUE)

    def refuse(self, refusal: Refusal) -> None:
        """Answer for the last time, behind the replies to all requests before, and close."""
        self._server.bounds.log_refused(self.remote_ip, refusal.status, refusal.text)
        self._refusal = Reply(refusal.status, refusal.text.encode())
        if self._queue.busy or self._queue.pending:
            self._queue.pause_reading()
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
        # Were it closed while more comes, the client would see a reset, and drop the answer that it has not read.
        self._closing = True
        self._closing_s = self._server.now_s
        if not self.is_tls:  # which cannot end one direction alone; the length of the answer tells its end
            self._transport.write_eof()
        self._queue.linger()

    def _begin_to_close(self) -> None:
        """Close as soon as all is sent."""
        self.send()
        self._reader.ended = self._closing = True
        self._closing_s = self._server.now_s
        self._transport.close()

    # --- a reply in parts ----------------------------------------------------------------------------

    def stream_head(self, reply: Reply) -> None:
        """Begin a reply of unknown length: the head of ``reply`` is sent, and no body."""
        if self._transport.is_closing():
            return
        assert self.current is not None
        assert reply.head is not None
        # A client of HTTP/1.0 knows the end of the reply by the end of the connection.
        is_repeated = isinstance(self.current, RepeatedRequest)
        self._chunked = is_repeated or self._reader.http_version not in ("1.0", "0.9")
        head = reply.head + CHUNKED if self._chunked else reply.head
        self._put(Reply(reply.status, b"", head=head), self._chunked and self.current.keep_alive)
        self._write()

    def stream_part(self, part: bytes, then: Callable[[], None]) -> None:
        """Send a part of a reply; ``then`` is called when the client has room for the next one, or is gone."""
        if self._transport.is_closing():
            then()
            return
        self._transport.writelines((b"%x\r\n" % len(part), part, b"\r\n") if self._chunked else (part,))
        if self._unread_s:
            self._waiting_to_write = then
        else:
            then()

    def stream_end(self, whole: bool) -> None:
        """End a reply in parts; if it is not ``whole``, the connection is cut, so that the client sees it."""
        self._release()
        if not whole:
            self._transport.abort()
        elif not self._transport.is_closing():
            if self._chunked:
                self._transport.write(b"0\r\n\r\n")
            self._queue.go_on()

    @property
    def is_gone(self) -> bool:
        """True once replies no longer reach the client."""
        return self._transport.is_closing()

    # --- bounds of time --------------------------------------------------------------------------------

    def check_time(self, now_s: float) -> None:
        """Cut the connection if its client has taken too long. Called each second."""
        if self._unread_s:
            unread = self._transport.get_write_buffer_size()
            self._count_unread(unread)
            is_short = self._server.answers.is_short and not self.at_member
            if now_s - self._unread_s > (SHORT_UNREAD_S if is_short else UNREAD_S):
                if unread > self._unread_bytes - UNREAD_BYTES_MIN:
                    self._transport.abort()
                self._note_unread(now_s)
        elif self._queue.busy:
            return
        elif self._closing:
            # Without an end, and with a little unread, a client that does nothing at all would stay for ever.
            waits_s = UNREAD_S if self._transport.get_write_buffer_size() else LINGER_S
            if now_s - self._closing_s > waits_s:
                self._transport.abort()
        elif self._reader.phase is not IDLE:
            refusal = self._reader.check_time(now_s)
            if refusal is not None:
                self.refuse(refusal)
        elif now_s - self.seen_s > IDLE_S:
            self._begin_to_close()

    def _note_unread(self, now_s: float) -> None:
        self._unread_s, self._unread_bytes = now_s, self._transport.get_write_buffer_size()
        self._count_unread(self._unread_bytes)

    def _count_unread(self, count: int) -> None:
        """Count the bytes that wait for the client in the budget of all; cut it off when that is used up."""
        more, self._unread_counted = count - self._unread_counted, count
        if not more:
            return
        answers = self._server.answers
        answers.add_always(more)
        if more > 0 and answers.count - more > answers.bytes_max and not self.at_member:
            self._transport.abort()

    def cut(self) -> None:
        """Close at once, even with an answer under way; a stream's ``then`` is called."""
        self._transport.abort()

    def drain(self) -> None:
        """Close if no request is under way; else the next reply with none behind it is the last one."""
        if self._queue.is_empty:
            self._begin_to_close()
