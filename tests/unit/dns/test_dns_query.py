"""Queries as bytes: what is read of them, and what is none."""

import struct

import dns.message
import dns.name
import pytest

from app.dns.dns_query import FORMERR, NOTIMP, Malformed, labels_of, name_of, parse

PLAIN = dns.message.make_query("Orders.Rollcall", "SRV", id=7, use_edns=False).to_wire()


def refused_with(packet: bytes) -> int | None:
    with pytest.raises(Malformed) as caught:
        parse(packet)
    return caught.value.code


def test_a_plain_query() -> None:
    query = parse(PLAIN)
    assert (query.id, query.qtype, query.qclass, query.payload_bytes) == (7, 33, 1, 0)
    assert labels_of(query.name) == [b"orders", b"rollcall"]
    assert query.end == len(PLAIN)


@pytest.mark.parametrize(("said", "taken"), [(100, 512), (512, 512), (1_232, 1_232), (4_096, 4_096)])
def test_what_a_client_can_take(said: int, taken: int) -> None:
    packet = dns.message.make_query("a.rollcall", "A", use_edns=0, payload=said, want_dnssec=True).to_wire()
    query = parse(packet)
    assert (query.payload_bytes, query.version, query.opt_flags) == (taken, 0, 0x8000)


def test_options_and_other_records_beside_the_opt_record_are_passed_over() -> None:
    import dns.edns

    query = dns.message.make_query("a.rollcall", "A", use_edns=0, options=[dns.edns.GenericOption(10, b"cookie12")])
    packet = bytearray(query.to_wire())
    packet[10:12] = struct.pack("!H", 2)
    other = b"\xc0\x0c" + struct.pack("!HHIH", 16, 1, 0, 3) + b"\x02hi"
    assert parse(bytes(packet) + other).payload_bytes == 1_232


@pytest.mark.parametrize("size", range(12))
def test_what_is_shorter_than_a_header_is_dropped(size: int) -> None:
    assert refused_with(PLAIN[:size]) is None


@pytest.mark.parametrize("size", range(12, len(PLAIN)))
def test_a_query_that_is_cut(size: int) -> None:
    assert refused_with(PLAIN[:size]) == FORMERR


def test_a_response_is_dropped_or_two_servers_would_answer_each_other() -> None:
    packet = bytearray(PLAIN)
    packet[2] |= 0x80
    assert refused_with(bytes(packet)) is None


def test_an_update_is_not_implemented() -> None:
    packet = bytearray(PLAIN)
    packet[2] |= 5 << 3
    assert refused_with(bytes(packet)) == NOTIMP


@pytest.mark.parametrize(("at", "count"), [(4, 0), (4, 2), (6, 1), (8, 1), (10, 1), (10, 5)], ids=str)
def test_counts_that_are_not_those_of_a_query(at: int, count: int) -> None:
    packet = bytearray(PLAIN)
    packet[at : at + 2] = struct.pack("!H", count)
    assert refused_with(bytes(packet)) == FORMERR


def header(additional: int = 0) -> bytes:
    return struct.pack("!HHHHHH", 1, 0, 1, 0, 0, additional)


@pytest.mark.parametrize(
    "question",
    [
        b"\xc0\x0c\x00\x01\x00\x01",
        b"\x40" + b"a" * 64 + b"\x00\x00\x01\x00\x01",
        (b"\x3f" + b"a" * 63) * 4 + b"\x00\x00\x01\x00\x01",
        b"\x01a\x00\x00\x01\x00\x01trailing",
    ],
    ids=["pointer", "long label", "long name", "trailing bytes"],
)
def test_questions_that_are_malformed(question: bytes) -> None:
    assert refused_with(header() + question) == FORMERR


def test_the_longest_name_is_read() -> None:
    name = (b"\x3f" + b"a" * 63) * 3 + b"\x3d" + b"a" * 61 + b"\x00"
    assert len(name) == 255
    assert parse(header() + name + b"\x00\x01\x00\x01").name == name


OPT = b"\x00" + struct.pack("!HHBBHH", 41, 1_232, 0, 0, 0, 0)


@pytest.mark.parametrize(
    "additional",
    [OPT + OPT, OPT[:-1] + b"\x05", b"\x01a" + OPT, OPT + b"x", b"\x01"],
    ids=["two", "cut", "named", "trailing", "half a name"],
)
def test_opt_records_that_are_malformed(additional: bytes) -> None:
    question = b"\x01a\x00\x00\x01\x00\x01"
    assert refused_with(header(2 if additional == OPT + OPT else 1) + question + additional) == FORMERR


def test_names_on_the_wire_and_back() -> None:
    labels = [b"orders", b"default-group", b"public"]
    assert labels_of(name_of(labels) + b"\0") == labels
    assert name_of(labels) + b"\0" == dns.name.from_text("orders.default-group.public.").to_wire()
