"""Random conversations of a gRPC client as bytes, frame by frame: calls, streams, metadata, windows, calls given up."""

import gzip
import random
from dataclasses import dataclass, field

from tests.support.http2_client import (
    BIDI,
    END_HEADERS,
    END_STREAM,
    KINDS,
    MAGIC,
    UNARY,
    ByHand,
    frame,
    prefixed,
)

MESSAGE_BYTES_MAX = 100_000
SIZES = (0, 1, 40, 40, 200, 1_000, 16_378, 16_379, 16_384, 16_385, 30_000, 65_535, 99_998)
"""Of messages: around those of frames and windows."""
FRAME_BYTES_MAX = 16_384
REPLY_SIZES = (*SIZES, 150_000)
STREAMS_MAX = 6
ROUNDS_MAX = 40
PINGS_MAX = 2
"""More without a message between them are too many, here as there."""
WIDE = frame("SETTINGS", 0, 0, b"\0\4" + (1 << 22).to_bytes(4, "big")) + frame(
    "WINDOW_UPDATE", 0, 0, (1 << 24).to_bytes(4, "big")
)
"""Windows for all that comes."""
PADDED, PRIORITIZED = 8, 32
TEXTS = ("", "no", "100 %", "zeile\nzwei", "größer", "名", "a" * 300, "%41", "\t~\x7f")


@dataclass(slots=True)
class Call:
    """What a client has to say on one stream."""

    content: bytes
    """Messages that are still to be sent."""
    given_up: bool = False


@dataclass(slots=True)
class Conversation:
    """One connection, from its preface on, in frames."""

    seed: int
    frames: list[bytes] = field(default_factory=list)
    compared: list[int] = field(default_factory=list)
    """The streams that are not given up: all that is answered on them counts."""
    given_up: list[int] = field(default_factory=list)

    @property
    def data(self) -> bytes:
        return b"".join(self.frames)

    def padded(self, chosen: random.Random) -> bytes:
        """The same with padding, which grpcio does not know."""
        return b"".join(_padded(one, chosen) if chosen.random() < 0.3 else one for one in self.frames)

    def pieces(self, chosen: random.Random) -> list[bytes]:
        """The same bytes, cut anywhere; one by one if they are few."""
        data, pieces, at = self.data, [], 0
        largest = chosen.choice((1, 30, 3_000, 40_000)) if len(data) < 3_000 else chosen.choice((3_000, 40_000))
        while at < len(data):
            size = chosen.randint(1, largest)
            pieces.append(data[at : at + size])
            at += size
        return pieces


class Talker:
    """Makes a conversation of a seed."""

    def __init__(self, seed: int) -> None:
        self._chosen = random.Random(seed)
        self._client = ByHand(begun=False)
        self._talk = Conversation(seed)
        self._calls: dict[int, Call] = {}
        self._next = 1
        self._pings = 0

    def talk(self) -> Conversation:
        chosen, out = self._chosen, self._talk.frames
        window = chosen.choice((65_535, 65_535, 0, 1, 100, 20_000, 1 << 20))
        out += [MAGIC, frame("SETTINGS", 0, 0, b"\0\4" + window.to_bytes(4, "big")), frame("SETTINGS", 1)]
        steps = (self._open, self._open, self._say, self._say, self._say, self._say, self._control, self._give_up)
        for _ in range(chosen.randint(2, ROUNDS_MAX)):
            chosen.choice(steps)()
        while self._calls:
            self._say()
        out.append(WIDE)
        return self._talk

    # --- calls -------------------------------------------------------------------------------------

    def _open(self) -> None:
        chosen = self._chosen
        if len(self._calls) >= STREAMS_MAX:
            return
        stream, self._next = self._next, self._next + chosen.choice((2, 2, 2, 4))
        path = chosen.choice((UNARY, UNARY, UNARY, BIDI, BIDI, "/Request/other"))
        packed = chosen.random() < 0.2
        fields = self._metadata() | ({"grpc-encoding": "gzip"} if packed else {})
        self._send_block(stream, self._block(path, fields))
        count = 1 if path != BIDI else chosen.randint(0, 6)
        content = b"".join(self._message(path, packed) for _ in range(count))
        self._calls[stream] = Call(content)
        self._talk.compared.append(stream)

    def _block(self, path: str, fields: dict[str, str]) -> bytes:
        encoder = self._client.encoder
        if self._chosen.random() < 0.1:
            encoder.header_table_size = self._chosen.choice((0, 60, 300, 4_096))
        return self._client.block(path, **fields)

    def _metadata(self) -> dict[str, str]:
        chosen, fields = self._chosen, {}
        if chosen.random() < 0.4:
            fields["grpc-timeout"] = f"{chosen.randint(50, 90_000)}{chosen.choice('SM')}"
        if chosen.random() < 0.5:
            fields["user-agent"] = chosen.choice(("grpc-java-netty/1.50", "grpc-go/1.60", "grpc-python/1.85"))
        if chosen.random() < 0.5:
            fields["grpc-accept-encoding"] = chosen.choice(("gzip", "identity,deflate,gzip"))
        for _ in range(chosen.choice((0, 0, 1, 5))):
            name = "x-" + "".join(chosen.choices("abcdef", k=4))
            fields[name] = "v" * chosen.choice((0, 1, 30, 130, 600))
            if chosen.random() < 0.2:
                fields[name + "-bin"] = "AAEC"
        return fields

    def _send_block(self, stream: int, block: bytes) -> None:
        chosen, flags = self._chosen, 0
        if chosen.random() < 0.1:
            flags, block = PRIORITIZED, b"\0\0\0\0\x10" + block
        at = chosen.randint(5, len(block)) if chosen.random() < 0.15 else len(block)
        parts = [block[:at], block[at:]]
        if not parts[1]:
            self._put("HEADERS", flags | END_HEADERS, stream, block)
        else:
            self._put("HEADERS", flags, stream, parts[0])
            self._put("CONTINUATION", END_HEADERS, stream, parts[1])

    def _message(self, path: str, packed: bool) -> bytes:
        chosen = self._chosen
        match chosen.choice("eeeeerrf" if path == UNARY else "eeeeerrnnf"):
            case "e":
                message = b"e" + chosen.randbytes(1) * chosen.choice(SIZES)
            case "r":
                message = b"r" + chosen.choice(REPLY_SIZES).to_bytes(4, "big")
            case "f":
                message = b"f" + bytes((chosen.randint(1, 16),)) + chosen.choice(TEXTS).encode()
            case _:
                message = b"n"
        if packed and chosen.random() < 0.8:
            return prefixed(gzip.compress(message, 1), packed=True)
        return prefixed(message)

    # --- what comes of them --------------------------------------------------------------------------

    def _say(self) -> None:
        """Send a piece of what is to be said on one stream."""
        if not self._calls:
            return
        chosen = self._chosen
        stream, call = chosen.choice(list(self._calls.items()))
        size = chosen.choice((0, 1, 5, 100, 16_384, 16_384, 16_384, 16_384))
        piece, call.content = call.content[:size], call.content[size:]
        ends = not call.content and chosen.random() < 0.8
        self._put("DATA", END_STREAM if ends else 0, stream, piece)
        if ends:
            del self._calls[stream]

    def _give_up(self) -> None:
        if not self._calls or self._chosen.random() < 0.7:
            return
        stream = self._chosen.choice(list(self._calls))
        del self._calls[stream]
        self._talk.compared.remove(stream)
        self._talk.given_up.append(stream)
        self._put("RST_STREAM", 0, stream, b"\0\0\0\x08")

    def _control(self) -> None:
        chosen = self._chosen
        match chosen.choice(("window", "window", "ping", "setting", "priority", "unknown")):
            case "window":
                stream = chosen.choice([0, *self._calls])
                self._put("WINDOW_UPDATE", 0, stream, chosen.randint(1, 100_000).to_bytes(4, "big"))
            case "ping" if self._pings < PINGS_MAX:
                self._pings += 1
                self._put("PING", 0, 0, chosen.randbytes(8))
            case "setting":
                key, value = chosen.choice(((4, 0), (4, 70_000), (4, 300), (5, 16_384), (3, 1_000), (77, 1)))
                self._put("SETTINGS", 0, 0, key.to_bytes(2, "big") + value.to_bytes(4, "big"))
            case "priority":
                self._put("PRIORITY", 0, self._next, b"\0\0\0\0\x10")
            case "unknown":
                self._talk.frames.append(b"\0\0\3\x77\0\0\0\0\0abc")

    def _put(self, kind: str, flags: int, stream: int, content: bytes) -> None:
        self._talk.frames.append(frame(kind, flags, stream, content))


def _padded(whole: bytes, chosen: random.Random) -> bytes:
    size, kind, flags, stream = int.from_bytes(whole[:3], "big"), whole[3], whole[4], int.from_bytes(whole[5:9], "big")
    count = chosen.randint(0, 200)
    if whole == MAGIC or kind > 1 or size + 1 + count > FRAME_BYTES_MAX:
        return whole
    return frame(KINDS[kind], flags | PADDED, stream, bytes((count,)) + whole[9:] + bytes(count))


def conversation(seed: int) -> Conversation:
    return Talker(seed).talk()
