"""Messages of gRPC on a stream: five bytes before each say whether it is packed, and how long it is."""

import zlib

from app.rpc.server.http2_frames import U32

PREFIX_BYTES = 5
OK, UNKNOWN, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 0, 2, 8, 12, 13, 14
"""Values of ``grpc-status`` that are used here."""
RATIO = 16
"""To which messages of use are packed; JSON is to a tenth."""


class MessageFault(Exception):
    """A message that ends its call, with the ``grpc-status`` for it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.before: list[bytes] = []
        """Messages that came whole with its bytes, ahead of it."""


class MessageReader:
    """Puts the messages of one stream together from its bytes, as they come."""

    __slots__ = ("_bytes_max", "_encoding", "_wanted", "kept", "unpaid_bytes")

    def __init__(self, encoding: bytes, bytes_max: int) -> None:
        """``encoding``: that of packed messages. ``bytes_max``: of one message, as it comes and unpacked."""
        self._encoding = encoding
        self._bytes_max = bytes_max
        self.kept = bytearray()
        """Of a message that is not whole."""
        self._wanted = PREFIX_BYTES
        """Bytes at which there is something to do."""
        self.unpaid_bytes = 0
        """Of packed messages, what is beyond ``RATIO`` of what came, since this was read and set to 0."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; return the messages that they complete.

        Raises:
            MessageFault: a message is too large, which its prefix shows before it is kept, or cannot be unpacked.
        """
        kept = self.kept
        if kept:
            kept += data
            if len(kept) < self._wanted:
                return []
            data = bytes(kept)
            kept.clear()
        messages: list[bytes] = []
        at, end = 0, len(data)
        try:
            while end - at >= PREFIX_BYTES:
                begin = at + PREFIX_BYTES
                [length] = U32.unpack_from(data, at + 1)
                if length > self._bytes_max:
                    text = f"a message of {length} bytes, more than {self._bytes_max}"
                    raise MessageFault(RESOURCE_EXHAUSTED, text)
                if end - begin < length:
                    self._wanted = PREFIX_BYTES + length
                    break
                message = data[begin : begin + length]
                messages.append(self._unpacked(message) if data[at] else message)
                at = begin + length
            else:
                self._wanted = PREFIX_BYTES
        except MessageFault as fault:
            fault.before = messages
            raise
        if at < end:
            kept += data[at:]
        return messages

    def _unpacked(self, message: bytes) -> bytes:
        if self._encoding != b"gzip":
            raise MessageFault(INTERNAL, "a packed message without a known grpc-encoding")
        decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            plain, whole = decoder.decompress(message, self._bytes_max + 1), decoder.eof
        except zlib.error:
            raise MessageFault(INTERNAL, "a packed message that cannot be unpacked") from None
        self.unpaid_bytes += max(0, len(plain) - RATIO * len(message))
        if len(plain) > self._bytes_max:
            raise MessageFault(RESOURCE_EXHAUSTED, f"a message of more than {self._bytes_max} bytes unpacked")
        if not whole or decoder.unused_data:
            raise MessageFault(INTERNAL, "a packed message that is cut short, or too long")
        return plain


def framed(message: bytes) -> bytes:
    """A message with its prefix, not packed."""
    return b"\x00" + U32.pack(len(message)) + message
