"""Blocks that are read here and blocks that hpack reads: the same heads, the same tables, the same refusals."""

import math

from hpack import Encoder
from hypothesis import given
from hypothesis import strategies as st

from app.rpc.server.control_credit import ControlCredit
from app.rpc.server.header_blocks import (
    KEPT_BLOCKS,
    TABLE_BYTES,
    HeaderReader,
    MalformedBlock,
    RequestHead,
    _WatchedTable,
    read_head,
)
from app.rpc.server.http2_frames import ConnectionFault

LIMITS = ("999999u", "1000000u", "3S", "2999876u", "10S", "999998u", "1n", "a" * 32, "b" * 33, "c" * 200, "")


ENDLESS = ControlCredit(math.inf)
"""Pays for blocks of any number."""


class ByHpack(HeaderReader):
    """Reads each block by hpack."""

    def find(self, block: bytes) -> RequestHead | None:
        return None

    def request(self, block: bytes) -> RequestHead:
        return read_head(self._fields(block))


def outcome(reader: HeaderReader, block: bytes) -> object:
    try:
        return reader.request(block)
    except (ConnectionFault, MalformedBlock) as fault:
        return type(fault), getattr(fault, "code", None)


def table(reader: HeaderReader) -> object:
    return list(reader._table.dynamic_entries), reader._table.maxsize, reader._table._current_size


@st.composite
def blocks(draw: st.DrawFn) -> list[bytes]:
    """What a client sends: calls that differ in time limits, among others, and some that nobody should send."""
    encoder, found = Encoder(), list[bytes]()
    limits = st.sampled_from(LIMITS) | st.integers(0, 99_999_999).map("{}u".format)
    for _ in range(draw(st.integers(0, 40))):
        fields = [(":method", "POST"), (":scheme", "http"), (":path", draw(st.sampled_from(["/a", "/a", "/b"])))]
        fields += [("content-type", "application/grpc"), ("te", "trailers")]
        for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2]))):
            at = draw(st.sampled_from([len(fields), len(fields), len(fields), 1]))
            fields.insert(at, ("grpc-timeout", draw(limits)))
        match draw(st.sampled_from(["", "", "", "", "", "other", "table", "huffman"])):
            case "other":
                fields.append((draw(st.sampled_from(["x", "X", "te"])), draw(st.text("ab", max_size=5_000))))
            case "table":
                encoder.header_table_size = draw(st.sampled_from([0, 40, 100, 300, TABLE_BYTES]))
        found.append(encoder.encode(fields, huffman=draw(st.booleans())))
    return found


@given(sent=blocks(), changes=st.dictionaries(st.integers(0, 39), st.tuples(st.integers(0, 99), st.binary(max_size=3))))
def test_blocks_mean_what_hpack_says(sent: list[bytes], changes: dict[int, tuple[int, bytes]]) -> None:
    ours, oracle = HeaderReader(ENDLESS), ByHpack(ENDLESS)
    for number, block in enumerate(sent):
        if number in changes:
            at, bytes_ = changes[number]
            block = block[:at] + bytes_ + block[at + len(bytes_) :]
        expected = outcome(oracle, block)
        assert outcome(ours, block) == expected
        if isinstance(expected, tuple) and expected[0] is ConnectionFault:
            return
        assert table(ours) == table(oracle)
        assert len(ours._heads) <= KEPT_BLOCKS


@given(first=st.binary(max_size=40), second=st.binary(max_size=40))
def test_no_bytes_are_read_otherwise_than_by_hpack(first: bytes, second: bytes) -> None:
    encoder = Encoder()
    known = encoder.encode([(":method", "POST"), (":scheme", "http"), (":path", "/"), ("grpc-timeout", "1S")])
    again = encoder.encode([(":method", "POST"), (":scheme", "http"), (":path", "/"), ("grpc-timeout", "2S")])
    ours, oracle = HeaderReader(ENDLESS), ByHpack(ENDLESS)
    for block in (known, again, again[:-1] + first, known[:2] + second, again):
        expected = outcome(oracle, block)
        assert outcome(ours, block) == expected
        if isinstance(expected, tuple) and expected[0] is ConnectionFault:
            return
        assert table(ours) == table(oracle)


def test_what_is_known_of_time_limits_is_bounded() -> None:
    encoder, reader = Encoder(), HeaderReader(ENDLESS)
    for number in range(2_000):
        fields = [(":method", "POST"), (":scheme", "http"), (":path", "/a"), ("grpc-timeout", f"{number}u")]
        head = reader.request(encoder.encode(fields))
        assert head.path == b"/a"
    assert isinstance(reader._table, _WatchedTable)
    assert len(reader._table.time_limits) <= TABLE_BYTES // 32
    assert len(reader._heads) <= KEPT_BLOCKS


def test_calls_that_differ_in_time_limits_are_read_without_hpack() -> None:
    encoder, reader, read = Encoder(), HeaderReader(ENDLESS), list[bytes]()
    decode = reader._decoder.decode
    reader._decoder.decode = lambda block, raw: (read.append(block), decode(block, raw=raw))[1]  # type: ignore[method-assign, assignment]
    for number in range(400):
        fields = [(":method", "POST"), (":scheme", "http"), (":path", "/a"), ("content-type", "application/grpc")]
        reader.request(encoder.encode([*fields, ("grpc-timeout", f"{9_999_000 + number % 250}u")]))
    assert len(read) < 25  # the first two, and where an entry went out of the table and came back
