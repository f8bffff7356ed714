"""The client's side of HTTP/2 by hand: frames to send, and those that came, read without any of the server's code."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hpack import Decoder, Encoder

from app.rpc.server.control_credit import KeptBytes
from app.rpc.server.http2 import (
    CallReceived,
    Event,
    Http2Limits,
    Http2Server,
    MessageReceived,
    StreamDone,
    StreamOpened,
)

UNARY, BIDI = "/Request/request", "/BiRequestStream/requestBiStream"
KINDS = (
    *("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS"),
    *("PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION"),
)
MAGIC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LIMITS = Http2Limits(message_bytes_max=100_000, streams_max=16, ping_interval_s=10.0)
END_STREAM, END_HEADERS = 1, 4


@dataclass(frozen=True, slots=True)
class Frame:
    kind: str
    flags: int
    stream: int
    content: bytes

    @property
    def number(self) -> int:
        """The error code of RST_STREAM, or of GOAWAY."""
        return int.from_bytes(self.content[4:8] if self.kind == "GOAWAY" else self.content[:4], "big")


def frame(kind: str, flags: int = 0, stream: int = 0, content: bytes = b"") -> bytes:
    head = len(content).to_bytes(3, "big") + bytes((KINDS.index(kind), flags)) + stream.to_bytes(4, "big")
    return head + content


def frames_of(data: bytes) -> Iterator[Frame]:
    while data:
        size = int.from_bytes(data[:3], "big")
        assert len(data) >= 9 + size
        yield Frame(KINDS[data[3]], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + size])
        data = data[9 + size :]


def whole_frames(data: bytes) -> tuple[bytes, bytes]:
    """Whole frames, and the rest."""
    at = 0
    while len(data) - at >= 9 and len(data) - at >= 9 + (size := int.from_bytes(data[at : at + 3], "big")):
        at += 9 + size
    return data[:at], data[at:]


def prefixed(message: bytes, *, packed: bool = False) -> bytes:
    return bytes((packed,)) + len(message).to_bytes(4, "big") + message


@dataclass(frozen=True, slots=True)
class Answered:
    """What came on one stream."""

    headers: dict[str, str]
    content: bytes
    trailers: dict[str, str]
    resets: tuple[int, ...]

    @property
    def messages(self) -> list[bytes]:
        found, rest = [], self.content
        while rest:
            size = int.from_bytes(rest[1:5], "big")
            found.append(rest[5 : 5 + size])
            rest = rest[5 + size :]
        return found

    @property
    def status(self) -> str | None:
        return self.trailers.get("grpc-status", self.headers.get("grpc-status"))


class Heard:
    """What a server says, as it comes."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self.frames: list[Frame] = []
        self.heads: dict[int, list[dict[str, str]]] = {}

    def hear(self, data: bytes) -> list[Frame]:
        """Take whole frames; return them."""
        new = list(frames_of(data))
        for one in new:
            if one.kind == "HEADERS":
                fields: Any = self._decoder.decode(one.content)
                self.heads.setdefault(one.stream, []).append(dict(fields))
        self.frames += new
        return new

    def of(self, kind: str, stream: int | None = None) -> list[Frame]:
        return [one for one in self.frames if one.kind == kind and (stream is None or one.stream == stream)]

    def answered(self, stream: int) -> Answered:
        heads = self.heads.get(stream, [])
        content = b"".join(one.content for one in self.of("DATA", stream))
        resets = tuple(one.number for one in self.of("RST_STREAM", stream))
        return Answered(heads[0] if heads else {}, content, heads[1] if len(heads) > 1 else {}, resets)


class ByHand(Heard):
    """A client that says what a test wants, and a server that it talks to without a socket."""

    def __init__(self, limits: Http2Limits = LIMITS, *, kept: KeptBytes | None = None, begun: bool = True) -> None:
        super().__init__()
        self.kept = KeptBytes(10 * limits.message_bytes_max) if kept is None else kept
        self.now_s = 100.0
        self.server = Http2Server(limits, UNARY.encode(), BIDI.encode(), self.kept, self.now_s)
        self.encoder = Encoder()
        if begun:
            self.send(MAGIC, frame("SETTINGS"), frame("SETTINGS", 1))

    def block(self, path: str = UNARY, **fields: str) -> bytes:
        whole = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "a", "te": "trailers"}
        whole |= {"content-type": "application/grpc"} | {name.replace("_", "-"): text for name, text in fields.items()}
        return bytes(self.encoder.encode(list(whole.items())))

    def opening(self, stream: int, path: str = UNARY, flags: int = END_HEADERS, **fields: str) -> bytes:
        return frame("HEADERS", flags, stream, self.block(path, **fields))

    def call(self, stream: int, message: bytes, **fields: str) -> bytes:
        """The frames of a unary call."""
        return self.opening(stream, **fields) + self.content(stream, prefixed(message), END_STREAM)

    def content(self, stream: int, data: bytes, flags: int = 0) -> bytes:
        parts = [data[at : at + 16_384] for at in range(0, len(data), 16_384)] or [b""]
        last = len(parts) - 1
        return b"".join(frame("DATA", flags if at == last else 0, stream, part) for at, part in enumerate(parts))

    def send(self, *data: bytes) -> list[Event]:
        """Hand bytes to the server, piece by piece; return the events."""
        events: list[Event] = []
        for piece in data:
            self.server.receive(piece, self.now_s)
            while found := self.server.step():
                events += found
            while self.server.has_more:
                events += self.server.step()
        self.take()
        return events

    def take(self) -> list[Frame]:
        """Read what the server has to send."""
        data = b""
        while part := self.server.take_output():
            data += part
        return self.hear(data)

    def answered(self, stream: int) -> Answered:
        self.take()
        return super().answered(stream)

    @property
    def ended_with(self) -> int | None:
        """The code of the GOAWAY with which the server ended the connection; None while it did not."""
        self.take()
        if self.server.ended is None:
            return None
        return self.of("GOAWAY")[-1].number


def echo(client: ByHand, events: Sequence[Event]) -> None:
    """Answer each message with itself, as a server of echoes would."""
    for event in events:
        match event:
            case CallReceived(stream_id, message):
                client.server.reply(stream_id, message)
            case MessageReceived(stream_id, message):
                client.server.send(stream_id, message)
            case StreamDone(stream_id, is_reset):
                if not is_reset:
                    client.server.end(stream_id)
            case StreamOpened():
                pass
