"""Frames of HTTP/2 as bytes: types, flags and errors (RFC 9113, sections 4, 6 and 7)."""

from enum import IntEnum
from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The bytes with which each client begins."""
HEAD_BYTES = 9
FRAME_BYTES_MAX = 16_384
"""The most bytes of the content of one frame, both ways: the default, which needs no announcement."""
WINDOW_MAX = (1 << 31) - 1
STREAM_MAX = (1 << 31) - 1
DEFAULT_WINDOW = 65_535
"""The window of a connection and of each stream, until one side announces another."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
"""The kinds of frames. Others are ignored."""
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITIZED = 0x20

ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(2, 7)
"""The settings that are known. Others are ignored."""

HEAD = Struct(">HBBBL")
"""The head of a frame: length in two parts, kind, flags, stream."""
SETTING = Struct(">HL")
U32 = Struct(">L")


class Code(IntEnum):
    """The reason why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class ConnectionFault(Exception):
    """The other side broke a rule, or passed a bound, that ends the connection."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class StreamFault(Exception):
    """The other side broke a rule that ends one stream."""

    def __init__(self, stream_id: int, code: Code) -> None:
        super().__init__(f"stream {stream_id}: {code.name}")
        self.stream_id = stream_id
        self.code = code


def frame(kind: int, flags: int, stream_id: int, content: bytes = b"") -> bytes:
    """Return a frame. ``content``: at most ``FRAME_BYTES_MAX`` bytes."""
    length = len(content)
    return HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream_id) + content


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(key, value) for key, value in values.items()))


def window_update(stream_id: int, count: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, U32.pack(count))


def rst_stream(stream_id: int, code: Code) -> bytes:
    return frame(RST_STREAM, 0, stream_id, U32.pack(code))


def goaway(last_stream_id: int, code: Code, text: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, U32.pack(last_stream_id) + U32.pack(code) + text.encode())


def unpadded(content: bytes) -> bytes:
    """Return the content of a padded frame without its padding.

    Raises:
        ConnectionFault: more padding than content.
    """
    if not content:
        raise ConnectionFault(Code.FRAME_SIZE_ERROR, "no length of the padding")
    end = len(content) - content[0]
    if end < 1:
        raise ConnectionFault(Code.PROTOCOL_ERROR, "more padding than content")
    return content[1:end]
