"""The domain's names, with the records for each name or the reason why there are none."""

from collections import OrderedDict
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from app.config.dns_settings import DnsSettings
from app.dns.dns_query import HEADER_BYTES, NAME_BYTES_MAX, NXDOMAIN, REFUSED, DnsQuery, labels_of, name_of
from app.dns.dns_stats import Result
from app.dns.name_index import Ambiguous, NameIndex, ServiceName
from app.dns.resource_records import (
    AAAA,
    ANY,
    AXFR,
    HINFO,
    HOST_LABELS,
    IN,
    IXFR,
    NO_ANY,
    NS,
    QUESTION_POINTER,
    SOA,
    SRV,
    A,
    ip_of_label,
    pointer,
    record,
    soa_data,
)
from app.dns.service_addresses import ServiceAddresses
from app.naming.model.ip_addresses import packed_ip
from app.naming.model.model import ServiceView

KEPT_MAX = 10_000
"""The most services whose records are kept, and the most resolved names; the oldest goes."""
PARTS_MAX = 3
"""The most labels of a name: service, group and namespace."""
IP_LABEL_BYTES_MAX = 33
"""The bytes of the label before a service's name: the hex digits of an IPv6 address."""
PROTOCOLS = (b"_tcp", b"_udp")
NS_LABEL = HOST_LABELS[0][1:]
NOT_READY = (14, b"this member does not serve now")
NOT_OURS = (20, b"not of this domain")
SEVERAL = (0, b"several services are written like this: use the exact form of the name")


class Sections(NamedTuple):
    """The records of an answer."""

    code: int
    result: Result
    answers: int = 0
    authorities: int = 0
    additional: int = 0
    body: bytes = b""
    is_truncated: bool = False
    reason: tuple[int, bytes] | None = None
    """The code and text of an extended error."""


class NameMeaning(NamedTuple):
    """The meaning of a name."""

    service: ServiceName
    ip: str | None = None
    """The one address of the service for which the name stands; None for the service itself."""
    is_protocol: bool = False
    """True if ``_port._tcp`` comes before the name, as in RFC 2782: such a name has only SRV records."""


_REFUSED = Sections(REFUSED, Result.REFUSED, reason=NOT_OURS)


class Zone:
    """Answers for the names below one domain. Used on the loop's thread."""

    def __init__(
        self,
        settings: DnsSettings,
        index: NameIndex,
        view_of: Callable[[str, str], ServiceView | None],
        now_s: Callable[[], float],
        serial: int,
        own_ip: str,
        draw: Random,
    ) -> None:
        """``own_ip``: the address of the name server; empty if it is not known."""
        self._settings = settings
        self._index = index
        self._view_of = view_of
        self._now_s = now_s
        self._serial = serial
        self._draw = draw
        self._own_ip = packed_ip(own_ip) if own_ip else None
        self._apex_labels = settings.domain.encode().split(b".")
        self._apex = name_of(self._apex_labels) + b"\0"
        self._resolved: OrderedDict[bytes, NameMeaning] = OrderedDict()
        self._revision = -1
        """The revision of the name index from which ``_resolved`` was made."""
        self._addresses: OrderedDict[ServiceName, ServiceAddresses] = OrderedDict()

    def answer(self, query: DnsQuery, room: int) -> Sections:
        """Return the records for a query that this node serves, as the caller checked, in at most ``room`` bytes."""
        if query.qclass != IN or query.qtype in (AXFR, IXFR):
            return _REFUSED
        if self._revision != self._index.revision:
            self._revision = self._index.revision
            self._resolved.clear()
        found = self._resolved.get(query.name)
        if found is None:
            labels = labels_of(query.name)
            above = len(labels) - len(self._apex_labels)
            if above < 0 or labels[above:] != self._apex_labels:
                return _REFUSED
            resolved = self._resolve(labels[:above], query, room)
            if isinstance(resolved, Sections):
                return resolved
            found = resolved
            if len(self._resolved) >= KEPT_MAX:
                self._resolved.popitem(last=False)
            self._resolved[query.name] = found
        return self._records(found, query, room)

    def _resolve(self, labels: list[bytes], query: DnsQuery, room: int) -> NameMeaning | Sections:
        """Return the meaning of a name without the domain; an answer if the name is not that of a service."""
        if not labels:
            return self._of_apex(query, room)
        if labels == [NS_LABEL]:
            return self._of_name_server(query, room)
        if labels[0] in PROTOCOLS:
            return self._above(labels[1:], query, room)
        try:
            if len(labels) > 1 and labels[1] in PROTOCOLS and labels[0].startswith(b"_"):
                return self._protocol(labels[2:]) or self._none(query, room, exists=False)
            if found := self._find(labels):
                return found
        except Ambiguous:
            return self._none(query, room, exists=True, result=Result.AMBIGUOUS)
        return self._none(query, room, exists=self._index.is_above(labels))

    def _find(self, labels: list[bytes]) -> NameMeaning | None:
        if len(labels) <= PARTS_MAX:
            service = self._index.find(labels)
            return None if service is None else NameMeaning(service)
        if len(labels) == PARTS_MAX + 1 and (ip := ip_of_label(labels[0])) is not None:
            service = self._index.find(labels[1:])
            if service is not None:
                return NameMeaning(service, ip)
        return None

    def _protocol(self, labels: list[bytes]) -> NameMeaning | None:
        service = self._index.find(labels) if 0 < len(labels) <= PARTS_MAX else None
        return None if service is None else NameMeaning(service, is_protocol=True)

    def _above(self, labels: list[bytes], query: DnsQuery, room: int) -> Sections:
        """Return the answer for ``_tcp`` before a service's name, which has names below it, and no records."""
        try:
            exists = self._protocol(labels) is not None
        except Ambiguous:
            exists = True
        return self._none(query, room, exists=exists)

    def _records(self, found: NameMeaning, query: DnsQuery, room: int) -> Sections:
        kept = self._addresses_of(found.service)
        if kept is None:
            return self._none(query, room, exists=False)
        qtype, count = query.qtype, self._settings.answers_max
        if found.ip is not None:
            if not kept.has_ip(found.ip):
                return self._none(query, room, exists=False)
            return self._of_address(packed_ip(found.ip), query, room)
        if qtype in (A, AAAA) and not found.is_protocol:
            rotation = kept.rotations[qtype]
            if rotation.count:
                answers, body, is_cut = rotation.take(count, room)
                return Sections(0, Result.ANSWERED, answers, 0, 0, body, is_cut)
        elif qtype == SRV:
            answers, additional, body, is_cut = kept.srv(count, room, query.end)
            if answers or is_cut:
                return Sections(0, Result.ANSWERED, answers, 0, additional, body, is_cut)
        elif qtype == ANY:
            return self._any(room)
        return self._none(query, room, exists=True)

    def _addresses_of(self, service: ServiceName) -> ServiceAddresses | None:
        """Return the records of the service's present state; None if readers no longer see the service."""
        kept = self._addresses.get(service)
        now_s = self._now_s()
        if kept is not None and kept.is_fresh(now_s):
            return kept
        view = self._view_of(*service)
        if view is None:
            self._addresses.pop(service, None)
            return None
        is_current = kept is not None and kept.view is view and not kept.is_large
        if kept is not None and is_current and kept.names_revision == self._revision:
            return kept
        name = self._unique_name(service)
        if kept is None or not is_current or kept.name != name:
            if kept is None and len(self._addresses) >= KEPT_MAX:
                self._addresses.popitem(last=False)
            kept = ServiceAddresses(view, name, self._settings.ttl_s, now_s, self._draw)
            self._addresses[service] = kept
        kept.names_revision = self._revision
        return kept

    def _unique_name(self, service: ServiceName) -> bytes:
        """Return the name above the names of the service's addresses."""
        for is_short in (True, False):
            name = name_of(self._index.unique_labels(*service, is_short=is_short)) + self._apex
            if len(name) + IP_LABEL_BYTES_MAX <= NAME_BYTES_MAX:
                break
        return name

    # --- names that are no service's ----------------------------------------------------------------

    def _of_apex(self, query: DnsQuery, room: int) -> Sections:
        apex = self._apex_pointer(query)
        ttl_s = self._settings.ttl_s
        if query.qtype == SOA:
            data = soa_data(apex, self._serial, ttl_s)
            return self._fitting(record(apex, SOA, ttl_s, data), room)
        if query.qtype == NS:
            answer = record(apex, NS, ttl_s, HOST_LABELS[0] + apex)
            if self._own_ip is None:
                return self._fitting(answer, room)
            address = record(HOST_LABELS[0] + apex, self._own_kind, ttl_s, self._own_ip)
            if len(answer) + len(address) > room:
                return self._fitting(answer, room)
            return Sections(0, Result.ANSWERED, 1, 0, 1, answer + address)
        return self._any(room) if query.qtype == ANY else self._none(query, room, exists=True)

    @property
    def _own_kind(self) -> int:
        return A if self._own_ip is not None and len(self._own_ip) == 4 else AAAA

    def _of_name_server(self, query: DnsQuery, room: int) -> Sections:
        return self._of_address(self._own_ip, query, room)

    def _of_address(self, packed: bytes | None, query: DnsQuery, room: int) -> Sections:
        """Return the answer for a name with this one address."""
        kind = A if packed is None or len(packed) == 4 else AAAA
        if query.qtype == ANY:
            return self._any(room)
        if packed is None or query.qtype != kind:
            return self._none(query, room, exists=True)
        return self._fitting(record(QUESTION_POINTER, kind, self._settings.ttl_s, packed), room)

    def _any(self, room: int) -> Sections:
        """Return the one record that answers a question for all types (RFC 8482)."""
        return self._fitting(record(QUESTION_POINTER, HINFO, self._settings.ttl_s, NO_ANY), room)

    def _fitting(self, answer: bytes, room: int) -> Sections:
        if len(answer) > room:
            return Sections(0, Result.ANSWERED, is_truncated=True)
        return Sections(0, Result.ANSWERED, 1, 0, 0, answer)

    def _none(self, query: DnsQuery, room: int, *, exists: bool, result: Result | None = None) -> Sections:
        """Return an answer without records, whose SOA record says how long that holds (RFC 2308)."""
        ttl_s = self._settings.ttl_s
        apex = self._apex_pointer(query)
        authority = record(apex, SOA, ttl_s, soa_data(apex, self._serial, ttl_s))
        count = 1 if len(authority) <= room else 0
        return Sections(
            0 if exists else NXDOMAIN,
            result or (Result.EMPTY if exists else Result.UNKNOWN),
            0,
            count,
            0,
            authority if count else b"",
            reason=SEVERAL if result is Result.AMBIGUOUS else None,
        )

    def _apex_pointer(self, query: DnsQuery) -> bytes:
        """Return the pointer to the domain's name, which is the end of the question's name."""
        return pointer(HEADER_BYTES + len(query.name) - len(self._apex))
