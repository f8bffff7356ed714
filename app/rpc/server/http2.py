"""HTTP/2 as a gRPC server needs it: bytes in, events and bytes out. No socket, no clock, no task.

State of a connection   what comes                         what follows
---------------------   --------------------------------   ------------------------------------------------
preface                 the 24 bytes of a client           first frame
first frame             SETTINGS                           frames
frames                  HEADERS without END_HEADERS        block
block                   CONTINUATION with END_HEADERS      frames
frames, block           what breaks a rule or a bound      over: GOAWAY with its code, ``ended`` says why

State of a stream       what comes or is sent              what follows
---------------------   --------------------------------   ------------------------------------------------
idle                    HEADERS                            open; with END_STREAM: half closed
open                    DATA, or HEADERS with END_STREAM   open; with END_STREAM: half closed
open                    our last frame                     closed: RST_STREAM NO_ERROR goes after it
half closed             our last frame                     closed
open, half closed       RST_STREAM, either way             closed
closed                  WINDOW_UPDATE, RST_STREAM          closed: they were under way
closed by the client    DATA; HEADERS                      STREAM_CLOSED for the stream; for the connection
closed by this side     DATA, HEADERS                      closed: passed over

Source: RFC 9113; gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md). A request that is not gRPC gets 415 once it is whole.
"""

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from app.rpc.server import header_blocks
from app.rpc.server.control_credit import (
    CREDIT_MAX,
    CREDIT_PER_S,
    OF_MESSAGE,
    OF_RESET,
    OF_SENT_FRAME,
    ControlCredit,
    CountedAnswer,
    KeptBytes,
)
from app.rpc.server.grpc_messages import (
    INTERNAL,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
    MessageFault,
    MessageReader,
    MessageSizes,
    prefix_of,
)
from app.rpc.server.header_blocks import REPLY_HEAD, TRAILERS_OK, HeaderReader, MalformedBlock, RequestHead, trailers
from app.rpc.server.http2_frames import (
    ACK,
    CONTINUATION,
    DATA,
    DEFAULT_WINDOW,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    GOAWAY,
    HEAD,
    HEAD_BYTES,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    PADDED,
    PING,
    PREFACE,
    PRIORITIZED,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTING,
    SETTINGS,
    STREAM_MAX,
    U32,
    WINDOW_MAX,
    WINDOW_UPDATE,
    Code,
    ConnectionFault,
    StreamFault,
    frame,
    goaway,
    rst_stream,
    settings,
    unpadded,
    window_update,
)
from app.rpc.server.reply_queue import OUT_BYTES_MAX, Outgoing, ReplyQueue

FRAMES_PER_STEP = 16
"""The frames that are read in one step: with their calls about a millisecond."""
BLOCK_BYTES_MAX = 16_384
"""The most bytes of a header block, packed."""
CONTINUATIONS_MAX = 16
SLOW_BLOCK_BYTES = 128
"""The size above which a header block is the last frame of its step: it may take 2 ms, a hundred times the usual."""
STREAMS_PER_CREDIT = 4
"""The streams for each credit whose windows a SETTINGS frame changes: each takes a third of a microsecond, and 5 if the
stream may send then."""
SMALL_PIECE_BYTES = 64
"""The size below which DATA that completes no message costs as much as a frame that carries nothing."""
UNPAID_PER_CREDIT = 4_096
"""The bytes of messages that are packed too well for each credit: 10 KB may unpack to 10 MiB, which take 80 ms."""
CALL_BYTES_MAX = 8_192
"""The most DATA of a call that is taken together with its HEADERS."""
CLOSED_KEPT = 64
"""The closed streams, the latest, for which it is remembered which side closed them."""
CLOSED_AT_ONCE = 16
"""The number of closed streams that are forgotten at once."""
STREAM_WINDOW = 1 << 18
CONNECTION_WINDOW = 1 << 20
"""The bytes that a client may send ahead. Both windows are widened as these are read, so that neither is ever used up:
kept bytes have their own bounds, and a client that sends faster than this side reads waits for the socket."""
PINGS_TOO_SOON_MAX = 2
"""The most PINGs that come too soon, with no message between them. Source: grpcio, ``grpc.http2.max_ping_strikes``."""
OWN_PING = b"rollcall"


@dataclass(frozen=True, slots=True)
class Http2Limits:
    """The bounds of each connection of a port."""

    message_bytes_max: int
    streams_max: int
    """The most streams of one connection at once."""
    ping_interval_s: float
    """The shortest time between two PINGs of a client without a message between them."""


class CallReceived(NamedTuple):
    """A unary call is whole."""

    stream_id: int
    message: bytes


class StreamOpened(NamedTuple):
    """A client opened a stream for messages both ways."""

    stream_id: int


class MessageReceived(NamedTuple):
    """A message came on such a stream."""

    stream_id: int
    message: bytes


class StreamDone(NamedTuple):
    """The client ends a stream or gives up a call: nothing is to be sent on it if ``is_reset``."""

    stream_id: int
    is_reset: bool


Event = CallReceived | StreamOpened | MessageReceived | StreamDone


@dataclass(slots=True, eq=False)
class _Stream:
    """The state of one stream that is not closed."""

    head: RequestHead
    is_bidi: bool
    reader: MessageReader | None
    """The reader of the content; None for a request that is not a call of gRPC, and once nothing more of it counts."""
    out: Outgoing
    half_closed: bool = False
    is_over: bool = False
    """True once its last frame is queued."""
    message: bytes | None = None
    """The message of a unary call, once it is whole."""
    held: int = 0
    """The bytes of that message, while the message is whole and its call is not."""
    received: int = 0
    window: int = STREAM_WINDOW


class Http2Server:
    """The server's side of one connection."""

    __slots__ = (
        "_at",
        "_bidi",
        "_block",
        "_bounds",
        "_buffer",
        "_closed",
        "_credit",
        "_is_enough",
        "_kept",
        "_last_id",
        "_limits",
        "_now_s",
        "_out",
        "_pinged_s",
        "_pings_too_soon",
        "_reader",
        "_refuses_from",
        "_stream_window",
        "_streams",
        "_take",
        "_unary",
        "_window",
        "acknowledged",
        "began",
        "ended",
        "has_more",
        "ping_answered",
        "replies",
    )

    def __init__(
        self, limits: Http2Limits, unary: bytes, bidi: bytes, kept: KeptBytes, now_s: float,
        bounds: MessageSizes | None = None, kept_replies: KeptBytes | None = None,
    ) -> None:  # fmt: skip
        """``unary``, ``bidi``: the paths of the two methods. ``kept``: counts the bytes of incomplete requests.

        ``bounds``: those of each message, tighter than ``limits``; None for none. ``kept_replies``: counts the bytes of
        replies; ``kept`` for None.
        """
        self._limits = limits
        self._bounds = bounds
        self._unary = unary
        self._bidi = bidi
        self._kept = kept
        self._now_s = now_s
        self._buffer = b""
        self._at = 0
        self._out: list[bytes] = []
        self._credit = ControlCredit()
        self._reader = HeaderReader(self._credit)
        self._streams: dict[int, _Stream] = {}
        self._closed = array("i")
        """The streams that are closed, the latest last, negative if this side closed them: 300 bytes of an idle
        connection, where a dict would take 4 KB."""
        self.replies = ReplyQueue(kept if kept_replies is None else kept_replies)
        """The replies that wait for windows, or for the socket."""
        self._last_id = 0
        self._window = CONNECTION_WINDOW
        self._stream_window = DEFAULT_WINDOW
        self._block: tuple[int, int, list[bytes]] | None = None
        """A header block that is not whole: stream, flags, parts."""
        self._take = Http2Server._take_preface  # unbound, or this object would refer to itself
        self._is_enough = False
        """True if the last frame took long."""
        self._pinged_s = -1e9
        self._pings_too_soon = 0
        self._refuses_from = STREAM_MAX + 1
        self.began = False
        """True once the client's preface and its first SETTINGS came."""
        self.acknowledged = False
        """True once the client acknowledged our SETTINGS."""
        self.ping_answered = True
        self.has_more = False
        """True if a further ``step`` may read something."""
        self.ended: ConnectionFault | None = None
        """The reason why the connection is over, once it is; its GOAWAY is among the bytes to send."""
        own = {
            MAX_CONCURRENT_STREAMS: limits.streams_max,
            INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            MAX_HEADER_LIST_SIZE: header_blocks.LIST_BYTES_MAX,
        }
        self._out += (settings(own), window_update(0, CONNECTION_WINDOW - DEFAULT_WINDOW))

    # --- what came ---------------------------------------------------------------------------------

    def receive(self, data: bytes, now_s: float) -> None:
        """Take bytes; ``step`` reads them. ``now_s``: a monotonic time."""
        left = self._credit.left + (now_s - self._now_s) * CREDIT_PER_S
        self._credit.left = CREDIT_MAX if left > CREDIT_MAX else left
        self._now_s = now_s
        self.has_more = True
        self._buffer = self._buffer[self._at :] + data if self._at < len(self._buffer) else data
        self._at = 0

    def step(self, frames_max: int = FRAMES_PER_STEP) -> list[Event]:
        """Read up to ``frames_max`` frames; return their events, none when all is read."""
        events: list[Event] = []
        if self.ended is None:
            self._is_enough = False
            left = frames_max
            try:
                while left > 0 and not self._is_enough and self._at < len(self._buffer):
                    taken = self._take(self, events, left)
                    if not taken:
                        self.has_more = False
                        return events
                    left -= taken
            except ConnectionFault as fault:
                self._end(fault)
        self.has_more = self.ended is None and self._at < len(self._buffer)
        return events

    @property
    def has_half(self) -> bool:
        """True while a frame, a header block or a request is incomplete."""
        return (
            not self.began
            or self._block is not None
            or self._at < len(self._buffer)
            or any(not one.half_closed and not one.is_bidi for one in self._streams.values())
        )

    @property
    def oldest_half(self) -> int:
        """The oldest stream with an incomplete request or message; 0 for none."""
        for stream_id, one in self._streams.items():
            if not one.half_closed and (not one.is_bidi or (one.reader is not None and one.reader.kept)):
                return stream_id
        return 0

    @property
    def in_block(self) -> bool:
        """True while a header block is incomplete."""
        return self._block is not None

    def _take_preface(self, events: list[Event], most: int) -> int:
        begun = self._buffer[self._at : self._at + len(PREFACE)]
        if not PREFACE.startswith(begun):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "not the preface of HTTP/2")
        if len(begun) < len(PREFACE):
            return 0
        self._at += len(PREFACE)
        self._take = Http2Server._take_first
        return 1

    def _take_first(self, events: list[Event], most: int) -> int:
        head = self._buffer[self._at : self._at + HEAD_BYTES]
        if len(head) >= 5 and (head[3] != SETTINGS or head[4] & ACK):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        if not self._take_frames(events, 1):
            return 0
        self.began = True
        self._take = Http2Server._take_frames
        return 1

    def _take_frames(self, events: list[Event], most: int) -> int:
        """Take up to ``most`` frames that came; return how many, 0 while the next one is not whole."""
        buffer, at, taken, replies = self._buffer, self._at, 0, self.replies
        size = len(buffer)
        last = size - HEAD_BYTES
        while at <= last and taken < most and not self._is_enough:
            high, low, kind, flags, stream_id = HEAD.unpack_from(buffer, at)
            length = high << 8 | low
            if length > FRAME_BYTES_MAX:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            begin = at + HEAD_BYTES
            end = begin + length
            if end > size:
                break
            may_be_call = kind == HEADERS and flags == END_HEADERS and end <= last and buffer[end + 3] == DATA
            if may_be_call and taken + 2 <= most and self._take_call(stream_id, begin, end, events):
                at = self._at
                taken += 2
                continue
            self._at = at = end
            taken += 1
            if not stream_id and self._block is None:  # grpc-go sends two such frames before each call
                count = U32.unpack_from(buffer, begin)[0] if kind == WINDOW_UPDATE and length == 4 else 0
                if 0 < count <= WINDOW_MAX - replies.window and not replies.bytes:
                    replies.window += count
                    self._spend()
                    continue
                since_s = self._now_s - self._pinged_s
                if kind == PING and length == 8 and not flags and since_s >= self._limits.ping_interval_s:
                    self._spend()
                    self._pinged_s = self._now_s
                    self._out.append(_PING_ACK + buffer[begin:end])
                    continue
            if self._block is not None and kind != CONTINUATION:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "a header block is not whole")
            take = self._TAKES.get(kind)
            if take is None:
                self._spend()
                continue
            try:
                take(self, stream_id & STREAM_MAX, flags, buffer[begin:end], events)
            except StreamFault as fault:
                self._reset(fault.stream_id, fault.code, events)
        return taken

    def _take_call(self, stream_id: int, begin: int, data_at: int, events: list[Event]) -> bool:
        """Take a call that came whole, as nearly all do: HEADERS, and one DATA that ends it with one message.

        The block begins at ``begin``, the DATA at ``data_at``. Return False, and take nothing, for any other frames.
        """
        buffer = self._buffer
        high, low, _, flags, of_id = HEAD.unpack_from(buffer, data_at)
        length = high << 8 | low
        content_at = data_at + HEAD_BYTES
        end = content_at + length
        if flags != END_STREAM or of_id != stream_id or end > len(buffer):
            return False
        if not 5 <= length <= CALL_BYTES_MAX or self._block is not None or stream_id in self._streams:
            return False
        if buffer[content_at] or U32.unpack_from(buffer, content_at + 1)[0] != length - 5:
            return False
        if stream_id <= self._last_id or not stream_id & 1 or stream_id >= self._refuses_from:
            return False
        if len(self._streams) >= self._limits.streams_max or length - 5 > self._limits.message_bytes_max:
            return False
        head = self._reader.find(buffer[begin:data_at])
        if head is None or head.path != self._unary or not head.is_plain:
            return False
        self._reader.take()
        self._last_id = stream_id
        self._spend()
        self._window -= length
        if self._window < CONNECTION_WINDOW // 2:
            self._out.append(window_update(0, CONNECTION_WINDOW - self._window))
            self._window = CONNECTION_WINDOW
        self._refill(OF_MESSAGE)
        self._at = end
        self._streams[stream_id] = _Stream(head, False, None, Outgoing(self._stream_window), half_closed=True)
        events.append(CallReceived(stream_id, buffer[content_at + 5 : end]))
        return True

    def _spend(self, count: float = 1.0) -> None:
        credit = self._credit
        credit.left -= count
        if credit.left < 0:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too many frames without a call")

    def _refill(self, count: float) -> None:
        """Credit a useful message or frame, after which the client may send control frames."""
        left = self._credit.left + count
        self._credit.left = CREDIT_MAX if left > CREDIT_MAX else left
        self._pings_too_soon = 0
        self._pinged_s = -1e9

    # --- header blocks -----------------------------------------------------------------------------

    def _on_headers(self, stream_id: int, flags: int, content: bytes, events: list[Event]) -> None:
        if not stream_id & 1:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "HEADERS on a stream that no client has")
        if flags & PADDED:
            content = unpadded(content)
        if flags & PRIORITIZED:
            if len(content) < 5:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, "HEADERS without its priority")
            if U32.unpack_from(content)[0] & STREAM_MAX == stream_id:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "a stream depends on itself")
            content = content[5:]
        if flags & END_HEADERS:
            self._on_block(stream_id, flags, content, events)
        else:
            self._block = (stream_id, flags, [content])

    def _on_continuation(self, stream_id: int, flags: int, content: bytes, events: list[Event]) -> None:
        if self._block is None or self._block[0] != stream_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "CONTINUATION of nothing")
        _, first_flags, parts = self._block
        self._spend()
        parts.append(content)
        if len(parts) > CONTINUATIONS_MAX or sum(map(len, parts)) > BLOCK_BYTES_MAX:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, f"a header block of more than {BLOCK_BYTES_MAX} bytes")
        if flags & END_HEADERS:
            self._block = None
            self._on_block(stream_id, first_flags, b"".join(parts), events)

    def _on_block(self, stream_id: int, flags: int, block: bytes, events: list[Event]) -> None:
        self._is_enough = len(block) > SLOW_BLOCK_BYTES
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._on_trailers(stream_id, stream, flags, block, events)
            return
        if stream_id <= self._last_id:
            by_us = self._closed_by_us(stream_id)
            if by_us is None:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "a stream that is older than the last one")
            if not by_us:
                raise ConnectionFault(Code.STREAM_CLOSED, "HEADERS on a closed stream")
            self._spend()
            self._reader.skip(block)
            return
        self._last_id = stream_id
        self._spend()
        try:
            head = self._reader.request(block)
        except MalformedBlock:
            raise StreamFault(stream_id, Code.PROTOCOL_ERROR) from None
        if stream_id >= self._refuses_from:
            return  # the client knows, or will, and asks elsewhere
        if len(self._streams) >= self._limits.streams_max:
            raise StreamFault(stream_id, Code.REFUSED_STREAM)
        is_bidi = head.path == self._bidi
        is_ours = head.is_grpc and (is_bidi or head.path == self._unary)
        reader = MessageReader(head.encoding, self._limits.message_bytes_max, self._bounds) if is_ours else None
        stream = self._streams[stream_id] = _Stream(head, is_bidi and is_ours, reader, Outgoing(self._stream_window))
        if is_ours and head.encoding not in (b"", b"identity", b"gzip"):
            stream.reader = None
            self.end(stream_id, UNIMPLEMENTED, "this grpc-encoding is not known", header_blocks.ACCEPTED_ENCODINGS)
        elif head.is_grpc and not is_ours:
            self._refuse(stream_id, stream, UNIMPLEMENTED, "Method not found!")
        elif stream.is_bidi:
            events.append(StreamOpened(stream_id))
        if flags & END_STREAM:
            self._half_closed(stream_id, stream, events)

    def _on_trailers(self, stream_id: int, stream: _Stream, flags: int, block: bytes, events: list[Event]) -> None:
        try:
            self._reader.trailers(block)
        except MalformedBlock:
            raise StreamFault(stream_id, Code.PROTOCOL_ERROR) from None
        if stream.half_closed:
            raise StreamFault(stream_id, Code.STREAM_CLOSED)
        if not flags & END_STREAM:
            raise StreamFault(stream_id, Code.PROTOCOL_ERROR)
        self._half_closed(stream_id, stream, events)

    # --- content -----------------------------------------------------------------------------------

    def _on_data(self, stream_id: int, flags: int, content: bytes, events: list[Event]) -> None:
        size = len(content)
        self._window -= size
        if self._window < CONNECTION_WINDOW // 2:
            self._out.append(window_update(0, CONNECTION_WINDOW - self._window))
            self._window = CONNECTION_WINDOW
        stream = self._streams.get(stream_id)
        if stream is None:
            self._on_late_data(stream_id)
            return
        if stream.half_closed:
            raise StreamFault(stream_id, Code.STREAM_CLOSED)
        stream.window -= size
        if flags & PADDED:
            content = unpadded(content)
        if content:
            stream.received += len(content)
            if stream.reader is not None:
                self._on_content(stream_id, stream, content, events)
            else:
                self._spend()
        else:
            self._spend()
        if flags & END_STREAM:
            if stream_id in self._streams:
                self._half_closed(stream_id, stream, events)
            return
        if stream.message and not stream.held:
            self._hold(stream_id, stream, stream.message)
        if stream.window < STREAM_WINDOW // 2:
            self._out.append(window_update(stream_id, STREAM_WINDOW - stream.window))
            stream.window = STREAM_WINDOW

    def _hold(self, stream_id: int, stream: _Stream, message: bytes) -> None:
        """Keep the message of a unary call until the client ends its side of the stream."""
        if self._kept.add(len(message)):
            stream.held = len(message)
        else:
            self._refuse(stream_id, stream, RESOURCE_EXHAUSTED, "too many requests are under way in half")

    def _on_late_data(self, stream_id: int) -> None:
        """Handle DATA for a stream that is closed, or was never open."""
        if not stream_id or stream_id > self._last_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "DATA on an idle stream")
        self._spend()
        if self._closed_by_us(stream_id) is False:
            self._out.append(rst_stream(stream_id, Code.STREAM_CLOSED))

    def _on_content(self, stream_id: int, stream: _Stream, content: bytes, events: list[Event]) -> None:
        reader = stream.reader
        assert reader is not None
        before = len(reader.kept)
        try:
            messages = reader.feed(content)
        except MessageFault as fault:
            self._spend(reader.unpaid_bytes / UNPAID_PER_CREDIT)
            self._kept.add(-before)
            if stream.is_bidi:
                events += [MessageReceived(stream_id, message) for message in fault.before]
                events.append(StreamDone(stream_id, True))
            self._refuse(stream_id, stream, fault.status, fault.text)
            return
        if reader.unpaid_bytes:
            self._spend(reader.unpaid_bytes / UNPAID_PER_CREDIT)
            reader.unpaid_bytes = 0
            self._is_enough = True
        if not messages:  # pieces cost as much as whole messages do
            self._spend(1.0 if len(content) < SMALL_PIECE_BYTES else 0.25)
        kept = len(reader.kept)
        if kept != before and not self._kept.add(kept - before):
            self._kept.add(-before)
            reader.kept.clear()
            self._refuse(stream_id, stream, RESOURCE_EXHAUSTED, "too many requests are under way in half")
            if stream.is_bidi:
                events.append(StreamDone(stream_id, True))
            return
        for message in messages:
            self._refill(OF_MESSAGE)
            if stream.is_bidi:
                events.append(MessageReceived(stream_id, message))
                self._is_enough = True  # it may be the setup, on which the bounds of what follows depend
            elif stream.message is None:
                stream.message = message
            else:
                self._refuse(stream_id, stream, INTERNAL, "more than one message in a unary call")
                return

    def _half_closed(self, stream_id: int, stream: _Stream, events: list[Event]) -> None:
        """Take note that the client has sent all of a stream."""
        stream.half_closed = True
        head = stream.head
        if head.content_length not in (-1, stream.received):
            raise StreamFault(stream_id, Code.PROTOCOL_ERROR)
        if not head.is_grpc:
            out = stream.out
            self._out.append(frame(HEADERS, END_HEADERS, stream_id, header_blocks.UNSUPPORTED_HEAD))
            out.begun, out.last, stream.is_over = True, b"", True
            self.replies.put(stream_id, out, b"gRPC alone is spoken here\n")
            self._flush()
        elif stream.is_over or stream.reader is None:
            if not self.replies.waits(stream_id):
                self._finish(stream_id)
        elif stream.reader.kept:
            self._forget_half(stream)
            self.end(stream_id, INTERNAL, "a message is cut short")
            if stream.is_bidi:
                events.append(StreamDone(stream_id, True))
        elif stream.is_bidi:
            events.append(StreamDone(stream_id, False))
        elif stream.message is None:
            self.end(stream_id, INTERNAL, "a call without a message")
        else:
            message, stream.message = stream.message, None
            if stream.held:
                self._forget_half(stream)
            stream.reader = None
            events.append(CallReceived(stream_id, message))

    def _forget_half(self, stream: _Stream) -> None:
        if stream.held:
            self._kept.add(-stream.held)
            stream.held = 0
        if stream.reader is not None and stream.reader.kept:
            self._kept.add(-len(stream.reader.kept))
            stream.reader.kept.clear()

    # --- control frames ----------------------------------------------------------------------------

    def _on_priority(self, stream_id: int, flags: int, content: bytes, events: list[Event]) -> None:
        self._spend()
        if not stream_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "PRIORITY of the connection")
        if len(content) != 5:
            raise StreamFault(stream_id, Code.FRAME_SIZE_ERROR)
        if U32.unpack_from(content)[0] & STREAM_MAX == stream_id:
            raise StreamFault(stream_id, Code.PROTOCOL_ERROR)

    def _on_rst_stream(self, stream_id: int, flags: int, content: bytes, events: list[Event]) -> None:
        if not stream_id or stream_id > self._last_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "RST_STREAM of an idle stream")
        if len(content) != 4:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "RST_STREAM")
        stream = self._streams.get(stream_id)
        if stream is None:
            self._spend()
            return
        self._spend(OF_RESET)
        self._close(stream_id, by_us=False)
        events.append(StreamDone(stream_id, True))

    def _on_settings(self, stream_id: int, flags: int, content: bytes, events: list[Event]) -> None:
        if stream_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "SETTINGS of a stream")
        if flags & ACK:
            if content:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, "SETTINGS with ACK")
            if self.acknowledged:
                self._spend()
            self.acknowledged = True
            return
        if len(content) % SETTING.size:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "SETTINGS")
        self._spend(1.0 + len(content) / SETTING.size / 8)
        window = self._stream_window
        for key, value in SETTING.iter_unpack(content):
            if key == INITIAL_WINDOW_SIZE:
                if value > WINDOW_MAX:
                    raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a window that is too wide")
                window = value
            elif (key == ENABLE_PUSH and value > 1) or (
                key == MAX_FRAME_SIZE and not FRAME_BYTES_MAX <= value < 1 << 24
            ):
                raise ConnectionFault(Code.PROTOCOL_ERROR, f"setting {key} is {value}")
        if window != self._stream_window:  # the last one counts: a frame has room for 2,730 of them
            self._change_windows(window)
        self._out.append(frame(SETTINGS, ACK, 0))
        self._flush()

    def _change_windows(self, value: int) -> None:
        self._spend(len(self._streams) / STREAMS_PER_CREDIT)
        change, self._stream_window = value - self._stream_window, value
        for stream_id, one in self._streams.items():
            one.out.window += change
            self.replies.look_again(stream_id, one.out)
            if one.out.window > WINDOW_MAX:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a window that is too wide")

    def _on_push_promise(self, stream_id: int, flags: int, content: bytes, events: list[Event]) -> None:
        raise ConnectionFault(Code.PROTOCOL_ERROR, "PUSH_PROMISE of a client")

    def _on_ping(self, stream_id: int, flags: int, content: bytes, events: list[Event]) -> None:
        if stream_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "PING of a stream")
        if len(content) != 8:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "PING")
        if flags & ACK:
            if self.ping_answered:
                self._spend()
            self.ping_answered = True
            return
        self._spend()
        if self._now_s - self._pinged_s < self._limits.ping_interval_s:
            self._pings_too_soon += 1
            if self._pings_too_soon > PINGS_TOO_SOON_MAX:
                raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too_many_pings")
        self._pinged_s = self._now_s
        self._out.append(_PING_ACK + content)

    def _on_goaway(self, stream_id: int, flags: int, content: bytes, events: list[Event]) -> None:
        self._spend()
        if stream_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "GOAWAY of a stream")
        if len(content) < 8:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "GOAWAY")

    def _on_window_update(self, stream_id: int, flags: int, content: bytes, events: list[Event]) -> None:
        if len(content) != 4:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "WINDOW_UPDATE")
        self._spend()
        count = U32.unpack(content)[0] & WINDOW_MAX
        if not stream_id:
            if not count:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "WINDOW_UPDATE of 0")
            self.replies.window += count
            if self.replies.window > WINDOW_MAX:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a window that is too wide")
        elif (stream := self._streams.get(stream_id)) is not None:
            if not count:
                raise StreamFault(stream_id, Code.PROTOCOL_ERROR)
            stream.out.window += count
            if stream.out.window > WINDOW_MAX:
                raise StreamFault(stream_id, Code.FLOW_CONTROL_ERROR)
            if self.replies.bytes:
                self.replies.look_again(stream_id, stream.out)
        elif stream_id > self._last_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "WINDOW_UPDATE of an idle stream")
        if self.replies.bytes:
            self._flush()

    # --- what is sent ------------------------------------------------------------------------------

    @property
    def streams(self) -> int:
        """The number of streams that are not closed."""
        return len(self._streams)

    def waits(self, stream_id: int) -> bool:
        """Return whether a message of this stream waits for windows."""
        return self.replies.waits(stream_id)

    @property
    def has_output(self) -> bool:
        """True if there are bytes to send."""
        return bool(self._out)

    def take_output(self) -> bytes:
        """Return the bytes to send, once: also those of replies that wait, as far as there is room for them."""
        if self.replies.bytes and self.replies.may_send:
            self._flush()
        if sent := self.replies.frames_sent:
            self._refill(OF_SENT_FRAME * sent)
            self.replies.frames_sent = 0
        out = b"".join(self._out)
        self._out.clear()
        self.replies.room = OUT_BYTES_MAX
        return out

    def reply(self, stream_id: int, message: bytes) -> None:
        """Answer a unary call; do nothing if the client has given it up."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        size = len(message) + 5
        replies = self.replies
        fits = size <= FRAME_BYTES_MAX and size <= replies.window and size <= stream.out.window
        if fits and not replies.bytes and not replies.paused:
            sid = U32.pack(stream_id)
            self._out += (
                _HEAD_FRAME,
                sid,
                REPLY_HEAD,
                b"\x00" + size.to_bytes(2, "big") + b"\x00\x00",
                sid,
                b"\x00",
                U32.pack(size - 5),
                message,
                _OK_FRAME,
                sid,
                TRAILERS_OK,
            )
            replies.window -= size
            replies.room -= size
            replies.frames_sent += 1
            self._close(stream_id, by_us=False)  # the call is whole: its client closed the stream
        else:
            self.send(stream_id, message)
            self.end(stream_id)

    def send(self, stream_id: int, message: bytes) -> None:
        """Send a message on a stream; do nothing if that is closed."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.is_over or self.ended is not None:
            return
        if not stream.out.begun:
            stream.out.begun = True
            self._out.append(frame(HEADERS, END_HEADERS, stream_id, REPLY_HEAD))
        prefix, replies = prefix_of(message), self.replies
        is_shared = type(message) is CountedAnswer
        fits = replies.put(stream_id, stream.out, prefix if is_shared else prefix + message)
        if not fits or (is_shared and not replies.put(stream_id, stream.out, message)):
            self._end(ConnectionFault(Code.ENHANCE_YOUR_CALM, "too much waits for this client to read it"))
            return
        self._flush()

    def end(self, stream_id: int, status: int = 0, text: str = "", more: bytes = b"") -> None:
        """End a stream or call behind the replies that wait on it, if it is open. ``more``: further fields."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.is_over or self.ended is not None:
            return
        stream.is_over = True
        block = trailers(status, text) + more
        out = stream.out
        if not out.begun:
            out.begun = True
            block = REPLY_HEAD + block
        if self.replies.waits(stream_id):
            out.last = block
            return
        self._out.append(frame(HEADERS, END_HEADERS | END_STREAM, stream_id, block))
        self._finish(stream_id)

    def ping(self) -> None:
        """Ask whether the other side still answers; ``ping_answered`` becomes true with its answer."""
        self.ping_answered = False
        self._out.append(frame(PING, 0, 0, OWN_PING))

    def leave(self, *, finally_: bool = False) -> None:
        """Tell the client to make new calls elsewhere; with ``finally_`` also that none is taken from now on."""
        if self.ended is not None:
            return
        if finally_:
            self._refuses_from = self._last_id + 1
        self._out.append(goaway(self._last_id if finally_ else STREAM_MAX, Code.NO_ERROR))

    def give_up(self, code: Code, text: str) -> None:
        """End the connection for a reason that this machine does not know of, such as time."""
        self._end(ConnectionFault(code, text))

    def _refuse(self, stream_id: int, stream: _Stream, status: int, text: str) -> None:
        """End a call before all of it came; the rest of it is ignored."""
        self._forget_half(stream)
        stream.reader = stream.message = None
        self.end(stream_id, status, text)

    def _flush(self) -> None:
        if self.replies.bytes:
            for stream_id in self.replies.flush(self._out):
                self._finish(stream_id)

    def _finish(self, stream_id: int) -> None:
        """Close a stream of which all is sent."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        if not stream.half_closed:
            self._out.append(rst_stream(stream_id, Code.NO_ERROR))
        self._close(stream_id, by_us=not stream.half_closed)

    def _reset(self, stream_id: int, code: Code, events: list[Event]) -> None:
        """End a stream for a fault of the client."""
        self._spend()
        self._out.append(rst_stream(stream_id, code))
        if stream_id in self._streams:
            self._close(stream_id, by_us=True)
            events.append(StreamDone(stream_id, True))
        elif self._closed_by_us(stream_id) is None:
            self._close(stream_id, by_us=True)

    def _close(self, stream_id: int, *, by_us: bool) -> None:
        """Forget a stream, which need not have been open, and remember which side closed it."""
        stream = self._streams.pop(stream_id, None)
        if stream is not None and (stream.held or stream.reader is not None):
            self._forget_half(stream)
        if self.replies.bytes:
            self.replies.drop(stream_id)
        closed = self._closed
        closed.append(-stream_id if by_us else stream_id)
        if len(closed) > CLOSED_KEPT + CLOSED_AT_ONCE:
            del closed[:CLOSED_AT_ONCE]

    def _closed_by_us(self, stream_id: int) -> bool | None:
        """Return whether this side closed a stream; None for a stream that is not known to be closed."""
        if stream_id in self._closed:
            return False
        return True if -stream_id in self._closed else None

    def _end(self, fault: ConnectionFault) -> None:
        if self.ended is None:
            self.ended = fault
            self._out.append(goaway(self._last_id, fault.code, fault.text))
            self._streams.clear()
            self.replies.clear()
            self._kept.clear()

    _TAKES: ClassVar[Mapping[int, Callable[["Http2Server", int, int, bytes, list[Event]], None]]] = {
        DATA: _on_data,
        HEADERS: _on_headers,
        PRIORITY: _on_priority,
        RST_STREAM: _on_rst_stream,
        SETTINGS: _on_settings,
        PUSH_PROMISE: _on_push_promise,
        PING: _on_ping,
        GOAWAY: _on_goaway,
        WINDOW_UPDATE: _on_window_update,
        CONTINUATION: _on_continuation,
    }
    """The methods by the kind of a frame."""


def _head(kind: int, flags: int, length: int) -> bytes:
    return HEAD.pack(length >> 8, length & 0xFF, kind, flags, 0)[:5]


_PING_ACK = HEAD.pack(0, 8, PING, ACK, 0)
_HEAD_FRAME = _head(HEADERS, END_HEADERS, len(REPLY_HEAD))
_OK_FRAME = _head(HEADERS, END_HEADERS | END_STREAM, len(TRAILERS_OK))
