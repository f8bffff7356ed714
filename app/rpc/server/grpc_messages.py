"""Messages of gRPC on a stream: five bytes before each say whether it is packed, and how long it is."""

import zlib
from typing import Protocol

from app.rpc.server.http2_frames import U32

PREFIX_BYTES = 5
OK, UNKNOWN, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 0, 2, 8, 12, 13, 14
"""Values of ``grpc-status`` that are used here."""
RATIO = 16
"""The ratio up to which useful messages are packed; JSON shrinks to a tenth."""
ANYBODYS_BYTES_MAX = 32_768
"""The largest message that is taken from anybody; the bound of a longer one depends on its type and its sender."""
BEGIN_BYTES = 8_192
"""The length of the beginning that shows the bound of a longer message: it has the type, and a token in the headers."""
MESSAGE_BYTES_MAX = 1 << 40
"""The bound of a type whose messages may be as large as the port takes."""
PACKED_BYTES_MAX = 131_072
"""The bound of any packed message, unpacked: under a millisecond's work. No SDK packs, and no member."""


class MessageFault(Exception):
    """A message that ends its call, with the ``grpc-status`` for it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.before: list[bytes] = []
        """Messages that came whole with its bytes, ahead of it."""


class MessageSizes(Protocol):
    """The bounds of the messages of one connection."""

    def bytes_max(self, begin: bytes) -> int:
        """Return the size that a message with this beginning may have."""
        ...

    def may_unpack(self) -> bool:
        """Return whether messages of this address may still be unpacked."""
        ...

    def on_unpaid(self, count: int) -> None:
        """Take note of the bytes of a packed message beyond ``RATIO`` times the bytes that came."""
        ...


class MessageReader:
    """Puts the messages of one stream together from its bytes, as they come."""

    __slots__ = ("_bounds", "_bytes_max", "_encoding", "_is_allowed", "_short_bytes", "_wanted", "kept", "unpaid_bytes")

    def __init__(self, encoding: bytes, bytes_max: int, bounds: MessageSizes | None = None) -> None:
        """``encoding``: that of packed messages. ``bytes_max``: the bound of one message, both packed and unpacked.

        ``bounds``: the tighter bounds of each message; None for ``bytes_max`` alone.
        """
        self._encoding = encoding
        self._bytes_max = bytes_max
        self._bounds = bounds
        self._short_bytes = bytes_max if bounds is None else min(bytes_max, ANYBODYS_BYTES_MAX)
        """The size up to which a message that is not packed needs no further look."""
        self._is_allowed = False
        """True if the message that is coming may have the length that its prefix says."""
        self.kept = bytearray()
        """The bytes of a message that is not whole yet."""
        self._wanted = PREFIX_BYTES
        """The number of kept bytes at which there is something to do."""
        self.unpaid_bytes = 0
        """The bytes of packed messages beyond ``RATIO`` times those that came, since this was read and set to 0."""

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
                is_packed, here = bool(data[at]), min(end - begin, length)
                if not self._is_allowed:
                    is_short = length <= self._short_bytes and not is_packed
                    self._is_allowed = is_short or self._allows(
                        length, data[begin : begin + BEGIN_BYTES], is_packed=is_packed
                    )
                if here < length:
                    self._wanted = PREFIX_BYTES + (length if self._is_allowed else BEGIN_BYTES)
                    break
                message = data[begin : begin + length]
                messages.append(self._unpacked(message) if is_packed else message)
                at = begin + length
                self._is_allowed = False
            else:
                self._wanted = PREFIX_BYTES
        except MessageFault as fault:
            fault.before = messages
            raise
        if at < end:
            kept += data[at:]
        return messages

    def _allows(self, length: int, begin: bytes, *, is_packed: bool) -> bool:
        """Return whether a message may be so long; False if more of its beginning must come first.

        Raises:
            MessageFault: it may not.
        """
        bytes_max = self._bytes_max
        if self._bounds is not None:
            if is_packed:
                bytes_max = min(bytes_max, PACKED_BYTES_MAX)
            elif ANYBODYS_BYTES_MAX < length <= bytes_max:
                if len(begin) < BEGIN_BYTES:
                    return False
                bytes_max = min(bytes_max, self._bounds.bytes_max(begin))
        if length > bytes_max:
            raise MessageFault(RESOURCE_EXHAUSTED, f"a message of {length} bytes, more than {bytes_max}")
        return True

    def _unpacked(self, message: bytes) -> bytes:
        """Return the bytes of a packed message, unpacked in steps: no more than its type and its sender allow."""
        bounds, bytes_max = self._bounds, self._bytes_max
        if self._encoding != b"gzip":
            raise MessageFault(INTERNAL, "a packed message without a known grpc-encoding")
        if bounds is not None and not bounds.may_unpack():
            self.unpaid_bytes += ANYBODYS_BYTES_MAX  # a connection that continues so is ended
            raise MessageFault(RESOURCE_EXHAUSTED, "too many packed messages of this address, please send them plain")
        decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        first = bytes_max if bounds is None else min(bytes_max, ANYBODYS_BYTES_MAX)
        plain = b""
        try:
            plain = decoder.decompress(message, first + 1)
            if bounds is not None and len(plain) > first:
                bytes_max = min(bytes_max, PACKED_BYTES_MAX, bounds.bytes_max(plain[:BEGIN_BYTES]))
                if bytes_max > first:
                    plain += decoder.decompress(decoder.unconsumed_tail, bytes_max + 1 - len(plain))
        except zlib.error:
            raise MessageFault(INTERNAL, "a packed message that cannot be unpacked") from None
        finally:
            unpaid = max(0, len(plain) - RATIO * len(message))
            self.unpaid_bytes += unpaid
            if bounds is not None and unpaid:
                bounds.on_unpaid(unpaid)
        if len(plain) > bytes_max:
            raise MessageFault(RESOURCE_EXHAUSTED, f"a message of more than {bytes_max} bytes unpacked")
        if not decoder.eof or decoder.unused_data:
            raise MessageFault(INTERNAL, "a packed message that is cut short, or too long")
        return plain


def prefix_of(message: bytes) -> bytes:
    """Return the prefix of a message that is not packed."""
    return b"\x00" + U32.pack(len(message))
