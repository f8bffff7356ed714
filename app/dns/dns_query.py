"""A DNS query, read from its bytes: only queries that RFC 1035 and 6891 allow."""

from struct import Struct
from typing import NamedTuple

HEADER = Struct("!HHHHHH")
"""The id, the flags, and the numbers of questions, answers, authorities and additional records that follow."""
HEADER_BYTES = 12
TYPE_AND_CLASS = Struct("!HH")
OPT_REST = Struct("!HHBBHH")
"""The fields of an OPT record after its name: type, payload size, extended code, version, flags, length."""
IS_RESPONSE, OPCODE, IS_AUTHORITATIVE, IS_TRUNCATED, RECURSION_DESIRED, CHECKING_DISABLED = (
    0x8000,
    0x7800,
    0x0400,
    0x0200,
    0x0100,
    0x0010,
)
FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, BADVERS = 1, 2, 3, 4, 5, 16
LABEL_BYTES_MAX, NAME_BYTES_MAX = 63, 255
POINTER = 0xC0
"""The two highest bits of a label's length; if they are set, the name continues elsewhere."""
OPT = 41
PLAIN_PAYLOAD_BYTES = 512
"""The most bytes of an answer over UDP to a client that announces no other size (RFC 1035)."""
ADDITIONAL_MAX = 4


class DnsQuery(NamedTuple):
    """One question."""

    id: int
    flags: int
    name: bytes
    """The name as labels on the wire, in lower case."""
    qtype: int
    qclass: int
    end: int
    """The end of the question in the packet."""
    payload_bytes: int
    """The bytes that the client can take over UDP; 0 without EDNS."""
    opt_flags: int
    version: int
    """The version of EDNS."""


class Malformed(Exception):
    """The packet is not a query; ``code`` is the code to answer, None for no answer."""

    def __init__(self, code: int | None = None) -> None:
        super().__init__(code)
        self.code = code


def parse(packet: bytes) -> DnsQuery:
    """Read a query.

    Raises:
        Malformed: the packet is not a query, or of a kind that is not answered.
    """
    size = len(packet)
    if size < HEADER_BYTES:
        raise Malformed
    query_id, flags, questions, answers, authorities, additional = HEADER.unpack_from(packet)
    if flags & IS_RESPONSE:
        raise Malformed  # otherwise two servers could answer each other for ever
    if flags & OPCODE:
        raise Malformed(NOTIMP)
    if questions != 1 or answers or authorities or additional > ADDITIONAL_MAX:
        raise Malformed(FORMERR)
    at = HEADER_BYTES
    last = size - 5  # of the name: type and class follow it
    while at <= last and (length := packet[at]):
        if length > LABEL_BYTES_MAX:
            raise Malformed(FORMERR)
        at += length + 1
    if at > last or at - HEADER_BYTES >= NAME_BYTES_MAX:
        raise Malformed(FORMERR)
    qtype, qclass = TYPE_AND_CLASS.unpack_from(packet, at + 1)
    end = at + 5
    if additional:
        payload_bytes, opt_flags, version = _edns(packet, end, additional)
    elif end == size:
        payload_bytes = opt_flags = version = 0
    else:
        raise Malformed(FORMERR)
    name = packet[HEADER_BYTES : at + 1].lower()  # lengths are below the letters
    return DnsQuery(query_id, flags, name, qtype, qclass, end, payload_bytes, opt_flags, version)


def _edns(packet: bytes, at: int, records: int) -> tuple[int, int, int]:
    """Return payload size, flags and version of the OPT record among the additional ones at the end; 0 without."""
    found: tuple[int, int, int] | None = None
    for _ in range(records):
        start = at
        at = _after_name(packet, at)
        if at + OPT_REST.size > len(packet):
            raise Malformed(FORMERR)
        kind, payload_bytes, _, version, flags, length = OPT_REST.unpack_from(packet, at)
        if kind == OPT:
            if found is not None or at != start + 1:
                raise Malformed(FORMERR)
            found = max(payload_bytes, PLAIN_PAYLOAD_BYTES), flags, version
        at += OPT_REST.size + length
    if at != len(packet):
        raise Malformed(FORMERR)
    return found or (0, 0, 0)


def _after_name(packet: bytes, at: int) -> int:
    """Return the end of a name that may end in a pointer."""
    while at < len(packet):
        length = packet[at]
        if length >= POINTER:
            return at + 2
        if length > LABEL_BYTES_MAX:
            break
        at += length + 1
        if not length:
            return at
    raise Malformed(FORMERR)


def labels_of(name: bytes) -> list[bytes]:
    """Return the labels of a name on the wire, without the empty one at its end."""
    found, at = [], 0
    while length := name[at]:
        found.append(name[at + 1 : at + 1 + length])
        at += length + 1
    return found


def name_of(labels: list[bytes]) -> bytes:
    """Return the labels as a name on the wire, without the empty one that ends it."""
    return b"".join([bytes((len(label),)) + label for label in labels])
