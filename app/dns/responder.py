"""The bytes of an answer for the bytes of a query. No query makes it raise."""

from collections.abc import Callable

from app.dns.dns_query import (
    BADVERS,
    CHECKING_DISABLED,
    HEADER,
    HEADER_BYTES,
    IS_AUTHORITATIVE,
    IS_RESPONSE,
    IS_TRUNCATED,
    NXDOMAIN,
    OPCODE,
    PLAIN_PAYLOAD_BYTES,
    RECURSION_DESIRED,
    SERVFAIL,
    DnsQuery,
    Malformed,
    parse,
)
from app.dns.dns_stats import DnsStats, Result
from app.dns.resource_records import EDNS_PAYLOAD_BYTES, opt_record
from app.dns.source_rate import ProvenAddresses, RateVerdict, SourceRate
from app.dns.zone import NOT_READY, Sections, Zone

TCP_PAYLOAD_BYTES = 65_535
OPT_BYTES = 11
_BADVERS = Sections(BADVERS, Result.REFUSED)
_TRUNCATED = Sections(0, Result.LIMITED, is_truncated=True)
_NOT_READY = Sections(SERVFAIL, Result.NOT_READY, reason=NOT_READY)


class Responder:
    """Answers queries over UDP and TCP. Used on the loop's thread."""

    def __init__(
        self,
        zone: Zone,
        serves: Callable[[], bool],
        rate: SourceRate,
        tcp_rate: SourceRate,
        proven: ProvenAddresses,
    ) -> None:
        """``serves``: returns whether this node answers reads; a starting node does not know the services yet."""
        self._zone = zone
        self._serves = serves
        self._rate = rate
        self._tcp_rate = tcp_rate
        self._proven = proven
        self.stats = DnsStats()

    def over_udp(self, packet: bytes, remote_ip: str) -> bytes | None:
        """Return the answer to a datagram; None for no answer."""
        stats = self.stats
        stats.queries += 1
        verdict = self._rate.take(remote_ip)
        if verdict is RateVerdict.DROP:
            stats.limited += 1
            return None
        try:
            query = parse(packet)
        except Malformed as error:
            stats.malformed += 1
            return None if error.code is None else _refusal(packet, error.code)
        if verdict is RateVerdict.TRUNCATE:
            stats.limited += 1
            return self._reply(query, packet, _TRUNCATED, PLAIN_PAYLOAD_BYTES)
        wanted = min(query.payload_bytes, EDNS_PAYLOAD_BYTES) or PLAIN_PAYLOAD_BYTES
        return self._answer(query, packet, self._proven.answer_bytes_max(remote_ip, len(packet), wanted))

    def over_tcp(self, packet: bytes, remote_ip: str) -> bytes | None:
        """Return the answer to a message; None if the connection is to be closed."""
        stats = self.stats
        stats.queries += 1
        if self._tcp_rate.take(remote_ip) is not RateVerdict.ANSWER:
            stats.limited += 1
            return None
        try:
            query = parse(packet)
        except Malformed as error:
            stats.malformed += 1
            return None if error.code is None else _refusal(packet, error.code)
        self._proven.note(remote_ip)
        return self._answer(query, packet, TCP_PAYLOAD_BYTES)

    def _answer(self, query: DnsQuery, packet: bytes, size_max: int) -> bytes:
        if query.version:
            return self._reply(query, packet, _BADVERS, size_max)
        if not self._serves():
            return self._reply(query, packet, _NOT_READY, size_max)
        room = size_max - query.end - (OPT_BYTES if query.payload_bytes else 0)
        return self._reply(query, packet, self._zone.answer(query, room), size_max)

    def _reply(self, query: DnsQuery, packet: bytes, sections: Sections, size_max: int) -> bytes:
        code, result, answers, authorities, additional, body, is_truncated, reason = sections
        self.stats.answered(query.qtype, result)
        flags = IS_RESPONSE | query.flags & (RECURSION_DESIRED | CHECKING_DISABLED) | code & 0xF
        if code in (0, NXDOMAIN):
            flags |= IS_AUTHORITATIVE
        if is_truncated:
            flags |= IS_TRUNCATED
            self.stats.truncated += result is not Result.LIMITED
        edns = b""
        if query.payload_bytes:
            edns = opt_record(query.opt_flags, code >> 4, reason)
            if query.end + len(body) + len(edns) > size_max:
                edns = opt_record(query.opt_flags, code >> 4, None)  # the reason is for people
            additional += 1
        header = HEADER.pack(query.id, flags, 1, answers, authorities, additional)
        return b"%b%b%b%b" % (header, packet[HEADER_BYTES : query.end], body, edns)


def _refusal(packet: bytes, code: int) -> bytes:
    """Return the answer to a packet without a question that could be repeated."""
    query_id, flags, *_ = HEADER.unpack_from(packet)
    return HEADER.pack(query_id, IS_RESPONSE | flags & (OPCODE | RECURSION_DESIRED) | code, 0, 0, 0, 0)
