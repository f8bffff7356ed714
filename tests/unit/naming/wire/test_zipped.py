"""Gzip of texts with one beginning and many ends."""

import zlib

import pytest

from app.naming.wire.service_info import STORED_BYTES_MAX, ZippedHead

HEAD = b"0123456789" * 1_000


@pytest.mark.parametrize("end", [b"", b"x", b"\x00" * 300, b"y" * STORED_BYTES_MAX])
def test_the_whole_is_one_gzip_and_nothing_follows_it(end: bytes) -> None:
    head = ZippedHead.of(HEAD)
    decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    assert decoder.decompress(head.with_end(end)) == HEAD + end
    assert decoder.eof
    assert decoder.unused_data == b""


def test_the_beginning_is_compressed_as_much_as_the_level_says() -> None:
    assert len(ZippedHead.of(HEAD).packed) < 100
    assert len(ZippedHead.of(HEAD, 0).packed) > len(HEAD)
