"""DNS packets of any bytes raise nothing, dnspython can read what is answered, and names are found as written."""

import dns.exception
import dns.message
import dns.name
import dns.rcode
from hypothesis import example, given
from hypothesis import strategies as st

from app.dns.dns_query import Malformed, parse
from app.dns.name_index import Ambiguous, NameIndex, fold
from tests.support.dns_zone import CLIENT, DnsBed

BED = DnsBed(answers_max=8)
for _number in range(30):
    BED.register("orders", f"10.0.0.{_number}")
    BED.register("orders", f"2001:db8::{_number}", 81)
BED.register("a.B", "10.1.0.1")
BED.register("a-b", "10.1.0.2")

LABELS = st.one_of(
    st.sampled_from(
        [b"orders", b"ORDERS", b"rollcall", b"public", b"default_group", b"_tcp", b"_x", b"0a000001", b"a-b"]
    ),
    st.binary(min_size=1, max_size=63),
)
HEADERS = st.builds(
    lambda flags, counts: b"\x12\x34" + flags.to_bytes(2) + b"".join(one.to_bytes(2) for one in counts),
    st.one_of(st.just(0x0100), st.integers(0, 0xFFFF)),
    st.one_of(
        st.sampled_from([(1, 0, 0, 0), (1, 0, 0, 1)]),
        st.tuples(*[st.integers(0, 3)] * 4),
        st.tuples(*[st.just(65535)] * 4),
    ),
)
NAMES = st.lists(LABELS, max_size=6).map(lambda labels: b"".join(bytes((len(one),)) + one for one in labels) + b"\0")
TAILS = st.one_of(
    st.just(b""),
    st.just(b"\0\0\x29\x04\xd0\0\0\0\0\0\0"),
    st.binary(max_size=40),
    st.binary(max_size=20).map(lambda data: b"\0\0\x29\x04\xd0\0\0\0\0" + len(data).to_bytes(2) + data),
)
QUESTIONS = st.builds(
    lambda name, qtype, qclass: name + qtype.to_bytes(2) + qclass.to_bytes(2),
    NAMES,
    st.one_of(st.sampled_from([1, 2, 6, 28, 33, 255]), st.integers(0, 0xFFFF)),
    st.one_of(st.just(1), st.integers(0, 0xFFFF)),
)
PACKETS = st.one_of(st.binary(max_size=300), st.builds(lambda *parts: b"".join(parts), HEADERS, QUESTIONS, TAILS))


@given(packet=PACKETS, serves=st.booleans())
@example(packet=b"", serves=True)
@example(packet=b"\0" * 12, serves=True)
def test_whatever_comes_is_dropped_or_gets_an_answer_that_can_be_read(packet: bytes, serves: bool) -> None:
    BED.serves = serves
    over_udp = BED.responder.over_udp(packet, CLIENT)
    over_tcp = BED.responder.over_tcp(packet, CLIENT)
    assert (over_udp is None) is (over_tcp is None)
    if over_udp is None or over_tcp is None:
        return
    assert len(over_udp) <= 1_232
    for reply in (over_udp, over_tcp):
        read = dns.message.from_wire(reply)
        assert read.id.to_bytes(2) == packet[:2]
        assert read.rcode() != dns.rcode.NOERROR or serves
    # No more comes back than the address that was named has sent, when nothing was found to answer.
    if dns.message.from_wire(over_udp).rcode() == dns.rcode.FORMERR:
        assert len(over_udp) == 12


@given(packet=st.builds(lambda *parts: b"".join(parts), HEADERS, QUESTIONS, TAILS))
def test_a_query_is_read_as_dnspython_reads_it(packet: bytes) -> None:
    try:
        query = parse(packet)
    except Malformed:
        return
    try:
        read = dns.message.from_wire(packet)
    except (dns.exception.DNSException, ValueError):
        return  # it looks into options, too
    (question,) = read.question
    assert question.name.canonicalize().to_wire() == query.name
    assert (question.rdtype, question.rdclass) == (query.qtype, query.qclass)
    assert (read.edns >= 0) is bool(query.payload_bytes)


PARTS = st.text(st.sampled_from("abAB.-_:1"), min_size=1, max_size=4)


@given(services=st.sets(st.tuples(PARTS, PARTS, PARTS), min_size=1, max_size=12), gone=st.sets(st.integers(0, 11)))
def test_a_name_is_found_if_it_is_the_only_one_written_so(services: set[tuple[str, str, str]], gone: set[int]) -> None:
    index = NameIndex()
    listed = [(namespace, f"{group}@@{service}", group, service) for namespace, group, service in sorted(services)]
    for namespace, full_name, _, _ in listed:
        index.note(namespace, full_name, True)
    for number in gone:
        if number < len(listed):
            index.note(*listed[number][:2], False)
    left = [one for number, one in enumerate(listed) if number not in gone]

    def has_letters(one: tuple[str, str, str, str]) -> bool:
        return all(part.strip(".-_:") for part in (one[0], *one[2:]))

    def written(one: tuple[str, str, str, str]) -> list[bytes]:
        return [fold(part.encode()) for part in (one[3], one[2], one[0])]

    for one in listed:
        alike = [other[:2] for other in left if written(other) == written(one) and has_letters(other)]
        try:
            found = index.find(written(one))
        except Ambiguous:
            assert len(alike) > 1
        else:
            assert alike == ([] if found is None else [found])
    for one in left:
        assert index.find(index.unique_labels(*one[:2])) == one[:2]
        assert index.find(index.unique_labels(*one[:2], is_short=False)) == one[:2]
