"""The frame of datum traffic, and what is no frame."""

import gzip
import random
from collections.abc import Mapping
from typing import Any

import pytest

from distro.model.errors import CodecError
from distro.model.types import Datum, Received, Version
from distro.wire import codec
from distro.wire.codec import (
    GZIP_LEVEL,
    PART_BYTES,
    SLICED_FROM_BYTES,
    ZIPPED_PART_BYTES,
    decode_frame,
    decode_received,
    encode_received,
    frame_parts,
    gunzip_if_gzip,
    gzip_body,
    gzip_parts,
    json_object,
    unpacked_max,
)


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
    traced = Received(ages_ms={"a": 2.5, "b": None}, pushed_ms={"c": 7.0}, fetching=3)
    assert encode_received(traced).endswith(b'{},"ages":{"a":2.5,"b":null},"pushed":{"c":7.0},"fetching":3}')
    assert decode_received(encode_received(traced)) == traced


@pytest.mark.parametrize(
    "body", [b'{"refused":[]}', b'{"refused":{"k":1}}', b'{"refused":{"k":"x"}}', b'{"failed":3}', b'{"fetching":"1"}']
)
def test_an_answer_of_another_shape_is_refused(body: bytes) -> None:
    with pytest.raises(CodecError):
        decode_received(body)


@pytest.mark.parametrize("field", ["ages", "pushed"])
@pytest.mark.parametrize("told", [b"[]", b'{"k":-1}', b'{"k":"1"}', b'{"k":1e13}', b'{"k":[1]}'])
def test_an_age_that_cannot_be_is_refused(field: str, told: bytes) -> None:
    with pytest.raises(CodecError, match="ages in ms"):
        decode_received(b'{"%b":%b}' % (field.encode(), told))


def test_the_least_and_the_greatest_age_are_read() -> None:
    received = decode_received(b'{"ages":{"now":0,"once":1e12,"ever":null},"pushed":{"now":0,"none":null}}')
    assert received == Received(ages_ms={"now": 0, "once": 1e12, "ever": None}, pushed_ms={"now": 0})


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


def test_an_answer_that_asks_for_keys_survives_the_way() -> None:
    received = Received({}, {}, ("k1", "k2"))
    assert encode_received(received) == b'{"refused":{},"failed":{},"wanted":["k1","k2"]}'
    assert decode_received(encode_received(received)) == received
    assert encode_received(Received()) == b'{"refused":{},"failed":{}}'
    assert decode_received(b"{}") == Received()


@pytest.mark.parametrize("body", [b'{"wanted":{}}', b'{"wanted":[1]}', b'{"wanted":null}'])
def test_keys_that_are_no_list_of_texts_are_named(body: bytes) -> None:
    with pytest.raises(CodecError, match=r"^field .wanted. is not a list of keys$"):
        decode_received(body)


def test_gzip_tells_how_much_it_unpacks_to_and_not_when_it_was_made() -> None:
    plain = b"0123456789" * 500
    packed = gzip_body(plain)
    assert unpacked_max(packed) == len(plain)
    assert unpacked_max(plain) == len(plain)
    assert packed[4:8] == bytes(4)
    assert gunzip_if_gzip(packed, len(plain)) == plain


def test_all_gzip_is_made_by_the_cheapest_level() -> None:
    plain = b"".join(b"%d," % (number * number) for number in range(2_000))
    assert len(gzip_body(plain)) == len(gzip.compress(plain, GZIP_LEVEL))
    assert len(b"".join(gzip_parts([plain]))) == len(gzip.compress(plain, GZIP_LEVEL))
    assert len(gzip.compress(plain, GZIP_LEVEL)) != len(gzip.compress(plain))


def test_a_body_is_read_in_steps_only_when_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    sliced: list[int] = []
    monkeypatch.setattr(codec, "loads_sliced", lambda body, _names_max: sliced.append(len(body)) or {})
    for size in (SLICED_FROM_BYTES, SLICED_FROM_BYTES + 1):
        json_object(b'{"k":"' + b"x" * (size - 8) + b'"}')
    assert sliced == [SLICED_FROM_BYTES + 1]


def test_of_a_long_body_with_too_many_names_no_further_ones_are_read() -> None:
    names = b",".join(b'"k%d":1' % number for number in range(4))
    body = b"{" + names + b',"l":no JSON' + b" " * SLICED_FROM_BYTES
    with pytest.raises(CodecError, match="more than 3 names"):
        json_object(body, 3)


def test_a_part_ends_with_the_entry_that_fills_it() -> None:
    """Entries count, not the commas between them."""
    half = b"x" * (PART_BYTES // 2)
    assert [len(part) for part in frame_parts([half, half, half, half[1:], b"y"])] == [
        1 + PART_BYTES + 1,
        1 + PART_BYTES - 1 + 1 + 1 + 1,
        1,
    ]


def test_the_first_part_ends_no_sooner_than_others() -> None:
    entries = [b"x" * (PART_BYTES - 1), b"y" * PART_BYTES]
    assert [len(part) for part in frame_parts(entries)] == [1 + PART_BYTES - 1 + 1 + PART_BYTES, 1]


def test_a_packed_part_ends_when_it_is_long_enough() -> None:
    noise = random.Random(3).randbytes(64 * ZIPPED_PART_BYTES)
    steps = [noise[start : start + 1_000] for start in range(0, len(noise), 1_000)]
    parts = list(gzip_parts(steps))
    assert gzip.decompress(b"".join(parts)) == noise
    assert all(len(part) >= ZIPPED_PART_BYTES for part in parts[:-1])
    assert len(parts) > 16


def test_a_datum_that_is_none_fails_alone_with_its_reason() -> None:
    class Names:
        def decode(self, key: str, body: Mapping[str, Any], _now_ms: int, _version: Version | None = None) -> Datum:
            return Datum(key, Version(1, 0, "a"), body)

    datums, failed = decode_frame(b'{"a":[],"b":{},"c":1}', Names(), 0)  # type: ignore[arg-type]
    assert [one.key for one in datums] == ["b"]
    assert failed == {"a": "a datum is not an object", "c": "a datum is not an object"}
