"""Gzip of texts that differ only in their end: the common beginning is compressed once."""

import zlib
from dataclasses import dataclass

GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
STORED_BYTES_MAX = 0xFFFF
"""The most bytes of a stored block, which is not compressed: the format has 16 bits for its length."""
WORD_MASK = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class ZippedHead:
    """The compressed beginning of a text, flushed to a whole byte, with its length and CRC."""

    packed: bytes
    plain_bytes: int
    crc: int

    @classmethod
    def of(cls, plain: bytes, level: int = -1) -> "ZippedHead":
        """Compress a beginning; ``level`` as in zlib."""
        packer = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
        packed = GZIP_HEADER + packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH)
        return cls(packed, len(plain), zlib.crc32(plain))

    def with_end(self, end: bytes) -> bytes:
        """Return the gzip of the whole text. ``end`` has at most ``STORED_BYTES_MAX`` bytes."""
        size = len(end)
        assert size <= STORED_BYTES_MAX
        stored = b"\x01" + size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little") + end
        total = (self.plain_bytes + size) & WORD_MASK
        return self.packed + stored + zlib.crc32(end, self.crc).to_bytes(4, "little") + total.to_bytes(4, "little")
