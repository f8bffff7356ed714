"""The frame of datum traffic, and what is no frame."""

import gzip
import random

import pytest

from distro.codec import (
    PART_BYTES,
    SLICED_FROM_BYTES,
    ZIPPED_PART_BYTES,
    decode_received,
    encode_received,
    frame_parts,
    gunzip_if_gzip,
    gzip_body,
    gzip_parts,
    json_object,
)
from distro.errors import CodecError
from distro.types import Received, Version


def test_gzip_is_known_by_its_first_bytes() -> None:
    assert gunzip_if_gzip(gzip_body(b"{}" * 99), 1_000) == b"{}" * 99
    assert gunzip_if_gzip(b'{"a":1}', 1_000) == b'{"a":1}'


@pytest.mark.parametrize(
    "body", [gzip.compress(b"x" * 2_000), gzip.compress(b"x")[:-4], b"\x1f\x8bnonsense", b"y" * 1_001]
)
def test_a_body_that_is_broken_or_too_long_is_the_peers_fault(body: bytes) -> None:
    with pytest.raises(CodecError):
        gunzip_if_gzip(body, 1_000)


def test_a_bomb_is_not_unpacked_whole() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    with pytest.raises(CodecError, match="over 1000000 bytes"):
        gunzip_if_gzip(bomb, 1_000_000)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'"x"', b"\xff"])
def test_only_an_object_is_a_frame(body: bytes) -> None:
    with pytest.raises(CodecError):
        json_object(body)


def test_an_answer_survives_the_way() -> None:
    received = Received({"k": Version(3, 7, "127.0.0.1:8848~1f")}, {"bad": "no"})
    assert decode_received(encode_received(received)) == received


@pytest.mark.parametrize("body", [b'{"refused":[]}', b'{"refused":{"k":1}}', b'{"refused":{"k":"x"}}', b'{"failed":3}'])
def test_an_answer_of_another_shape_is_refused(body: bytes) -> None:
    with pytest.raises(CodecError):
        decode_received(body)


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.", "-1.2.a", "1.x.a", "\u0661.2.a", "9" * 30 + ".1.a", None, 7])
def test_what_is_no_version_is_refused(text: object) -> None:
    with pytest.raises(CodecError):
        Version.from_text(text)


def test_a_version_may_hold_dots_in_its_writer() -> None:
    version = Version(5, 12, "10.0.0.1:8848~a.b")
    assert Version.from_text(version.to_text()) == version
    assert version.next("10.0.0.1:8848~a.b") == Version(5, 13, "10.0.0.1:8848~a.b")
    assert version.next("other") == Version(6, 0, "other")


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_a_frame_in_parts_is_the_frame(count: int) -> None:
    entries = [b'"%d":{"of":"%b"}' % (number, b"x" * PART_BYTES) for number in range(count)]
    parts = list(frame_parts(entries))
    assert json_object(b"".join(parts)).keys() == {str(number) for number in range(count)}
    assert len(parts) == count + 1
    assert max(map(len, parts)) < PART_BYTES + 100


def test_small_entries_share_a_part() -> None:
    assert list(frame_parts([b'"a":{}', b'"b":{}'])) == [b'{"a":{},"b":{}}']
    assert list(frame_parts([])) == [b"{}"]


def test_parts_are_zipped_as_one_body() -> None:
    parts = [random.Random(number).randbytes(ZIPPED_PART_BYTES) for number in range(5)]
    zipped = list(gzip_parts(parts))
    assert len(zipped) > 3
    assert gunzip_if_gzip(b"".join(zipped), 1 << 20) == b"".join(parts)
    assert len(list(gzip_parts([b"{}" * 1_000]))) == 1


@pytest.mark.parametrize("padding", [0, SLICED_FROM_BYTES])
def test_an_object_with_too_many_names_is_refused(padding: int) -> None:
    body = b'{"a": 1, "b": {"c": 1, "d": 2}, "e": [{}]' + b" " * padding + b"}"
    assert json_object(body, 3) == {"a": 1, "b": {"c": 1, "d": 2}, "e": [{}]}
    with pytest.raises(CodecError, match="more than 2 names"):
        json_object(body, 2)
