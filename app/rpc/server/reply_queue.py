"""The replies that wait on the streams of one connection, and the windows that the other side gives (RFC 9113, 5.2)."""

from dataclasses import dataclass, field

from app.rpc.server.control_credit import CountedAnswer, KeptBytes
from app.rpc.server.http2_frames import (
    DATA,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    HEADERS,
    frame,
)

OUT_BYTES_MAX = 32_768
"""The most bytes that are framed at once: no more wait in the socket of a slow client, next to the system's buffer."""

SMALL_PART_BYTES = 512
"""The size of a small part: a client that reads takes more than this at a time."""


@dataclass(slots=True, eq=False)
class Outgoing:
    """The output of one stream: its window, and the bytes that wait for it."""

    window: int
    chunks: list[bytes] = field(default_factory=list)
    """The replies of a stream, a message or two: its writer waits until they are written."""
    at: int = 0
    """The number of bytes of the first chunk that are sent."""
    begun: bool = False
    """True once the block of headers is sent."""
    last: bytes | None = None
    """The block that ends the stream once all chunks are sent; empty: the last DATA frame ends it."""


class ReplyQueue:
    """Sends as much as the windows of the connection and of its streams allow, a frame of each stream in turn.

    ``CountedAnswer`` counts itself, however many queues it is in; everything else is counted here while it waits.
    """

    __slots__ = ("_blocked", "_kept", "_ready", "bytes", "frames_sent", "paused", "room", "sent", "window")

    def __init__(self, kept: KeptBytes) -> None:
        self.window = DEFAULT_WINDOW
        self.frames_sent = 0
        """The DATA frames since this was read and set to 0, without the small parts that tiny windows cause."""
        self.bytes = 0
        """The number of bytes that wait."""
        self.sent = 0
        """The bytes of DATA frames in all."""
        self.room = OUT_BYTES_MAX
        """The bytes that may be framed until ``take_output``."""
        self.paused = False
        """True while the socket takes nothing more."""
        self._kept = kept
        self._ready: dict[int, Outgoing] = {}
        """The streams whose windows have room, in turn."""
        self._blocked: dict[int, Outgoing] = {}
        """The streams with used-up windows: not looked at when others may send."""

    def __len__(self) -> int:
        """The number of streams that wait."""
        return len(self._ready) + len(self._blocked)

    def waits(self, stream_id: int) -> bool:
        return stream_id in self._ready or stream_id in self._blocked

    def put(self, stream_id: int, stream: Outgoing, chunk: bytes) -> bool:
        """Queue bytes of a stream; return False when more are kept than may be."""
        if type(chunk) is not CountedAnswer and not self._kept.add(len(chunk)):
            return False
        self.bytes += len(chunk)
        stream.chunks.append(chunk)
        if not self.waits(stream_id):
            self._place(stream_id, stream)
        return True

    def look_again(self, stream_id: int, stream: Outgoing) -> None:
        """Sort a stream again, as its window has changed."""
        if self.waits(stream_id):
            self._ready.pop(stream_id, None)
            self._blocked.pop(stream_id, None)
            self._place(stream_id, stream)

    def drop(self, stream_id: int) -> None:
        """Forget the replies of a stream that was reset."""
        stream = self._ready.pop(stream_id, None) or self._blocked.pop(stream_id, None)
        if stream is not None:
            self.bytes -= sum(map(len, stream.chunks)) - stream.at
            for chunk in stream.chunks:
                if type(chunk) is not CountedAnswer:
                    self._kept.add(stream.at - len(chunk))
                stream.at = 0
            stream.chunks.clear()

    def clear(self) -> None:
        """Forget all that waits, at the end of the connection."""
        for stream_id in (*self._ready, *self._blocked):
            self.drop(stream_id)

    @property
    def may_send(self) -> bool:
        """True if frames may leave now, once those before have been taken."""
        return bool(self._ready) and self.window > 0 and not self.paused

    def flush(self, out: list[bytes]) -> list[int]:
        """Append the frames that may be sent to ``out``; return the streams that ended."""
        ended: list[int] = []
        while self._ready and self.window > 0 and self.room > 0 and not self.paused:
            stream_id, stream = next(iter(self._ready.items()))
            del self._ready[stream_id]
            self._send(stream_id, stream, out)
            if stream.chunks:
                self._place(stream_id, stream)
            elif stream.last is not None:
                if stream.last:
                    out.append(frame(HEADERS, END_HEADERS | END_STREAM, stream_id, stream.last))
                ended.append(stream_id)
        return ended

    def _place(self, stream_id: int, stream: Outgoing) -> None:
        (self._ready if stream.window > 0 else self._blocked)[stream_id] = stream

    def _send(self, stream_id: int, stream: Outgoing, out: list[bytes]) -> None:
        """Send one frame of a stream, given that both windows have room."""
        chunk = stream.chunks[0]
        size = min(len(chunk) - stream.at, FRAME_BYTES_MAX, self.window, stream.window)
        end = stream.at + size
        content = chunk[stream.at : end]
        if end == len(chunk):
            del stream.chunks[0]
            stream.at = 0
        else:
            stream.at = end
        ends = not stream.chunks and stream.last == b""
        out.append(frame(DATA, END_STREAM if ends else 0, stream_id, content))
        self.window -= size
        stream.window -= size
        self.bytes -= size
        self.sent += size
        self.room -= size
        if type(chunk) is not CountedAnswer:
            self._kept.add(-size)
        self.frames_sent += size >= SMALL_PART_BYTES or end == len(chunk)
