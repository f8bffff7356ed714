"""The socket of one gRPC connection: it reads in short turns, and writes once in each turn."""

import asyncio
import logging
import ssl
from collections import deque
from typing import cast

from app.machine.process.loop_parts import begin
from app.peers.payload import REQUEST_METHOD, STREAM_METHOD
from app.rpc.server.client_stream import ClientStream
from app.rpc.server.connections import Connection
from app.rpc.server.control_credit import KeptBytes
from app.rpc.server.grpc_messages import RESOURCE_EXHAUSTED, UNKNOWN
from app.rpc.server.grpc_routes import KnownMessage
from app.rpc.server.http2 import (
    CallReceived,
    Event,
    Http2Server,
    MessageReceived,
    StreamDone,
    StreamOpened,
)
from app.rpc.server.http2_frames import Code
from app.rpc.server.message_bounds import MessageBounds
from app.rpc.server.shared_port import Port

LOG = logging.getLogger(__name__)
TURN_S = 0.002
"""The time for the bytes of one connection; then others have their turn. uvloop hands over 256 KB, some 1,500 calls."""
WAITING_BYTES_MAX = 1 << 18
"""The most bytes of replies that wait for a client to read them; its next calls are answered when it has read."""
START_S = 10.0
"""The time for a client's preface and SETTINGS, for its acknowledgement of our SETTINGS, and for a stream's setup."""
EVENTS_PER_LOOK = 16
"""The events that are taken between two looks at the clock: a frame may hold thousands of messages of a stream."""
HALF_S = 30.0
"""The time for an incomplete frame, header block or request to become whole, while nothing more of it comes."""
HALF_MAX_S = 120.0
"""The time for an incomplete request or message, at any progress: 10 MiB over a slow line."""
STALLED_S = 20.0
"""The time for a client to read ``READ_BYTES_MIN`` of the replies that wait for it, or all."""
READ_BYTES_MIN = 65_536
SHORT_STALLED_S = 3.0
"""The same, while other answers need the room."""
UNREGISTERED_S = 60.0
"""The time for a client without a setup, from its last call on: it connects again when it has another."""
UNSENT_BYTES_MAX = 1
"""The bytes in the socket's buffer here above which nothing more is written, as these are counted. With 0, uvloop's
TLS would never stop."""
CLOSE_S = 1.0
"""The time for the last bytes to leave."""
METHODS = (REQUEST_METHOD.encode(), STREAM_METHOD.encode())


class RpcTransport(asyncio.Protocol):
    """One connection. All calls come from the loop's thread."""

    __slots__ = (
        "_block_s",
        "_bounds",
        "_called_s",
        "_calls",
        "_can_write",
        "_client",
        "_closing",
        "_events",
        "_half",
        "_half_s",
        "_held",
        "_in_socket",
        "_is_reading",
        "_is_turning",
        "_kept",
        "_machine",
        "_now_s",
        "_opened_s",
        "_opened_streams_s",
        "_owes",
        "_peer",
        "_pinged_s",
        "_port",
        "_read_s",
        "_stalled_s",
        "_streams",
        "_taken_bytes",
        "_transport",
    )

    def __init__(self, port: Port) -> None:
        self._port = port
        self._now_s = port.loop.time
        now_s = self._now_s()
        self._kept = KeptBytes(port.kept_bytes_max, port.kept)
        self._bounds = MessageBounds(port.dispatcher.bounds, port.unpacked, now_s)
        replies = KeptBytes(port.kept_bytes_max, port.answers)
        self._machine = Http2Server(port.limits, *METHODS, self._kept, now_s, self._bounds, replies)
        self._events: deque[Event] = deque()
        """The events that came and were not taken in this turn."""
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._peer = ""
        self._client: Connection | None = None
        self._streams: dict[int, ClientStream | None] = {}
        """The streams for messages both ways; None before the first message of one."""
        self._opened_streams_s = 0.0
        self._calls: dict[int, asyncio.Task[bytes]] = {}
        """The calls that wait for something."""
        self._held: list[CallReceived] = []
        """The calls that wait for the client to read."""
        self._is_reading = True
        self._can_write = True
        self._is_turning = False
        self._owes = False
        """True if a stream has messages that could not be sent."""
        self._block_s = 0.0
        """The time when an incomplete header block was found."""
        self._half, self._half_s = 0, 0.0
        """The oldest stream with an incomplete request or message, and when it was found."""
        self._in_socket = 0
        """The bytes that the socket has not taken yet, as they are counted."""
        self._stalled_s, self._taken_bytes = 0.0, 0
        """The time since which replies wait, 0 while none do, and the bytes that the client had taken by then."""
        self._opened_s = self._read_s = self._called_s = now_s
        self._pinged_s = 0.0

    # --- asyncio ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self._bounds.remote_ip = host
        self._peer = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
        if not self._port.opened(self) or (tls is not None and tls.selected_alpn_protocol() != "h2"):
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        self._flush()

    def connection_lost(self, _error: Exception | None) -> None:
        self._port.closed(self)
        self._transport = None
        if self._closing is not None:
            self._closing.cancel()
        for task in list(self._calls.values()):
            task.cancel()
        self._held.clear()
        self._events.clear()
        self._machine.replies.clear()
        self._kept.clear()
        self._count_in_socket(0)
        streams = [one for one in self._streams.values() if one is not None]
        self._streams.clear()
        for stream in streams:
            self._end_of(stream)

    def data_received(self, data: bytes) -> None:
        self._read_s = self._bounds.now_s = now_s = self._now_s()
        self._machine.receive(data, now_s)
        if not self._is_turning:
            self._turn()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._can_write = False
        self._machine.replies.paused = True
        assert self._transport is not None
        self._count_in_socket(self._transport.get_write_buffer_size())
        self._read_or_not()

    def resume_writing(self) -> None:
        self._can_write = True
        self._machine.replies.paused = False
        self._count_in_socket(0)
        self._go_on()
        self._flush()
        if self._is_turning:
            self._port.loop.call_soon(self._turn)
        else:
            self._read_or_not()

    def _count_in_socket(self, count: int) -> None:
        answers = self._port.answers
        answers.add_always(count - self._in_socket)
        self._in_socket = count
        if answers.is_over and self._transport is not None and count:
            self._transport.abort()

    # --- what comes ---------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Handle the bytes that came for ``TURN_S``; the rest has its turn after other connections."""
        self._is_turning = False
        machine, begun_s, events = self._machine, self._now_s(), self._events
        while self._transport is not None:
            if not events:
                events.extend(machine.step())
            for _ in range(min(EVENTS_PER_LOOK, len(events))):
                event = events.popleft()
                if type(event) is CallReceived and not self._held and self._is_read():
                    self._call(event)
                else:
                    self._take(event)
                if not events:
                    break
            if machine.replies.room <= 0:
                self._flush()
            if not (events or machine.has_more):
                break
            if self._now_s() - begun_s > TURN_S or not self._can_write:
                self._is_turning = True
                if self._can_write:
                    self._port.loop.call_soon(self._turn)
                break
        if self._held or self._owes:
            self._go_on()
        if self._transport is None:
            return
        if machine.ended is not None:
            LOG.debug("%s is cut: %s", self._peer, machine.ended.text)
            self._close()
            return
        if self._is_turning or not (self._can_write and self._is_reading):
            self._read_or_not()
        if machine.has_output:
            self._port.sends.add(self._flush)

    def _read_or_not(self) -> None:
        reads = not self._is_turning and self._can_write
        if reads != self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _take(self, event: Event) -> None:
        match event:
            case CallReceived():
                self._hold(event)
            case MessageReceived(stream_id, message):
                self._take_message(stream_id, message)
            case StreamOpened(stream_id):
                self._streams[stream_id] = None
                self._opened_streams_s = self._now_s()
            case StreamDone(stream_id, is_reset):
                self._on_done(stream_id, is_reset)

    def _is_read(self) -> bool:
        """Return whether the client reads its replies, or few of them wait."""
        return self._can_write and self._machine.replies.bytes <= WAITING_BYTES_MAX

    def _hold(self, call: CallReceived) -> None:
        """Keep a call until the client reads."""
        if self._kept.add(len(call.message)):
            self._held.append(call)
        else:
            self._machine.end(call.stream_id, RESOURCE_EXHAUSTED, "too much waits for this client to read it")

    def _client_of(self) -> Connection:
        """Return the client's data, made again if another stream of the transport ended those before."""
        client = self._client
        if client is None or client.is_gone:
            client = self._client = self._port.connections.opened(self._peer, self._port.on_cluster_port)
            self._bounds.client = client
        return client

    def _call(self, call: CallReceived) -> None:
        self._called_s = self._read_s
        client = self._client
        if client is None or client.is_gone:
            client = self._client_of()
        try:
            dispatcher = self._port.dispatcher
            reply, known = None, dispatcher.known.find(call.message)
            if known is not None:
                known.used = True
                reply = dispatcher.answer_hot(client, known)
            if reply is None:
                reply = self._call_handler(client, call, known)
        except Exception:
            LOG.exception("a call of %s failed unexpectedly", self._peer)
            self._machine.end(call.stream_id, UNKNOWN, "internal error, see the server's log")
            return
        if reply is not None:
            self._machine.reply(call.stream_id, reply)

    def _call_handler(self, client: Connection, call: CallReceived, known: KnownMessage | None) -> bytes | None:
        """Return the answer of a handler; None while it waits for something."""
        stream_id, kept = call.stream_id, 0

        def wait_for(task: asyncio.Task[bytes]) -> None:
            self._calls[stream_id] = task
            task.add_done_callback(lambda done: self._on_called(stream_id, kept, done))

        reply = begin(self._port.dispatcher.answer(client, call.message, known), wait_for)
        if reply is not None:
            return reply
        fits = self._kept.add(len(call.message))
        kept = len(call.message) if fits else 0
        if not self._port.begin_call() or not fits:
            self._calls[stream_id].cancel()
            self._machine.end(stream_id, RESOURCE_EXHAUSTED, "too many calls are under way")
        return None

    def _on_called(self, stream_id: int, kept: int, task: asyncio.Task[bytes]) -> None:
        self._port.end_call()
        self._calls.pop(stream_id, None)
        if self._transport is None:
            return
        self._kept.add(-kept)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            LOG.error("a call of %s failed unexpectedly", self._peer, exc_info=error)
            self._machine.end(stream_id, UNKNOWN, "internal error, see the server's log")
        else:
            self._machine.reply(stream_id, task.result())
        self._flush()

    def _take_message(self, stream_id: int, message: bytes) -> None:
        if stream_id not in self._streams:
            return
        client, stream = self._client_of(), self._streams[stream_id]
        if stream is not None and stream.ending:
            return
        if client.stream is None and stream is None:
            stream = ClientStream(client, stream_id, self, self._port.take_pending)
            client.stream = self._streams[stream_id] = stream
        if not self._port.dispatcher.take(client, message):
            client.close()

    def _on_done(self, stream_id: int, is_reset: bool) -> None:
        if (task := self._calls.get(stream_id)) is not None:
            task.cancel()
        for one in [one for one in self._held if one.stream_id == stream_id]:
            self._held.remove(one)
            self._kept.add(-len(one.message))
        if stream_id not in self._streams:
            return
        stream = self._streams.pop(stream_id)
        if stream is not None:
            self._end_of(stream)
        if not is_reset:
            self._machine.end(stream_id)

    def _end_of(self, stream: ClientStream) -> None:
        self._port.dispatcher.ended(stream.connection)
        stream.forget()

    # --- what is sent -------------------------------------------------------------------------------

    def can_send(self, stream_id: int) -> bool:
        can_send = self._can_write and self._transport is not None and not self._machine.waits(stream_id)
        if not can_send:
            self._owes = True
        return can_send

    def send(self, stream_id: int, message: bytes) -> None:
        self._machine.send(stream_id, message)
        self._flush()

    def end_stream(self, stream_id: int, status: int, text: str) -> None:
        """End a stream for messages both ways."""
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            self._end_of(stream)
        self._machine.end(stream_id, status, text)
        self._flush()

    def soon(self, stream: ClientStream) -> None:
        self._port.soon(stream)

    def _go_on(self) -> None:
        """Continue with calls and streams that waited for the client to read."""
        while self._held and self._is_read():
            call = self._held.pop(0)
            self._kept.add(-len(call.message))
            self._call(call)
        if self._owes:
            self._owes = False
            for stream in list(self._streams.values()):
                if stream is not None and stream.has_news:
                    stream.wake()

    def _flush(self) -> None:
        machine = self._machine
        while self._transport is not None and (out := machine.take_output()):
            self._transport.write(out)
            if (self._held or self._owes) and not machine.replies.may_send:
                self._go_on()
            elif not machine.replies.bytes:
                break

    # --- time ---------------------------------------------------------------------------------------

    def check(self, now_s: float) -> None:
        """End the connection if something takes too long; ping a silent client. Called about once a second."""
        machine, text = self._machine, ""
        code = Code.ENHANCE_YOUR_CALM
        if not (machine.began and machine.acknowledged):
            if now_s - self._opened_s > START_S:
                code, text = Code.SETTINGS_TIMEOUT, "no preface, or no word on SETTINGS"
        elif self._has_old_block(now_s):
            text = "a header block came in half"
        elif (machine.has_half and now_s - self._read_s > HALF_S) or self._has_old_half(now_s):
            text = "a request came in half"
        elif self._is_stalled(now_s):
            text = "replies are not read"
        elif self._client is None or not self._client.registered:
            if self._streams and now_s - self._opened_streams_s > START_S:
                text = "a stream without a setup"
            elif now_s - max(self._opened_s, self._called_s) > UNREGISTERED_S:
                code, text = Code.NO_ERROR, "no setup"
        if not text:
            text = self._keep_alive(now_s)
        if text:
            LOG.debug("%s is cut: %s", self._peer, text)
            machine.give_up(code, text)
            self._close()

    def _is_stalled(self, now_s: float) -> bool:
        """Return whether the client reads its replies too slowly; nothing else that it does counts."""
        machine, transport = self._machine, self._transport
        if transport is None or (self._can_write and not machine.replies.bytes):
            self._stalled_s = 0.0
            return False
        in_socket = transport.get_write_buffer_size()
        self._count_in_socket(in_socket)
        taken = machine.replies.sent - in_socket
        if not self._stalled_s:
            self._stalled_s, self._taken_bytes = now_s, taken
        elif now_s - self._stalled_s > (SHORT_STALLED_S if self._port.answers.is_short else STALLED_S):
            if taken - self._taken_bytes < READ_BYTES_MIN:
                return True
            self._stalled_s, self._taken_bytes = now_s, taken
        return False

    def _has_old_block(self, now_s: float) -> bool:
        if not self._machine.in_block:
            self._block_s = 0.0
            return False
        self._block_s = self._block_s or now_s
        return now_s - self._block_s > START_S

    def _has_old_half(self, now_s: float) -> bool:
        half = self._machine.oldest_half
        if half != self._half:
            self._half, self._half_s = half, now_s
        return half != 0 and now_s - self._half_s > HALF_MAX_S

    def _keep_alive(self, now_s: float) -> str:
        """Ping a silent client; return why the connection is to be ended, if it is."""
        port = self._port
        if self._pinged_s:
            if self._read_s >= self._pinged_s:
                self._pinged_s = 0.0
            elif now_s - self._pinged_s > port.keep_alive_timeout_s:
                return "no answer to a PING"
        elif now_s - self._read_s > port.keep_alive_s:
            self._pinged_s = now_s
            self._machine.ping()
            self._flush()
        return ""

    # --- the end ------------------------------------------------------------------------------------

    def leave(self, *, finally_: bool) -> None:
        """Tell the client to make its calls elsewhere; with ``finally_`` also that no more are taken."""
        self._machine.leave(finally_=finally_)
        self._flush()

    @property
    def is_idle(self) -> bool:
        """True if no call or stream is open."""
        return self._machine.streams == 0

    def end(self) -> None:
        """Close the connection after the bytes that were written before, if the client reads them."""
        self._close()

    def cut(self) -> None:
        """Close the connection; bytes that were written before may be lost."""
        if self._transport is not None:
            self._transport.abort()

    def _close(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._flush()
        if transport.get_write_buffer_size() and not self._can_write:
            transport.abort()
        else:
            transport.close()
            self._closing = self._port.loop.call_later(CLOSE_S, transport.abort)
