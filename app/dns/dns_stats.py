"""What the DNS server has answered, by type and result."""

from collections import Counter
from dataclasses import dataclass, field, fields
from enum import Enum


class Result(Enum):
    """How a query was answered."""

    ANSWERED = "answered"
    EMPTY = "empty"
    """The name exists, and has no record of that type."""
    UNKNOWN = "unknown"
    """There is no such name."""
    AMBIGUOUS = "ambiguous"
    """Several services have the name, and none is answered for."""
    REFUSED = "refused"
    """Outside of the domain, or of a kind that is not answered."""
    NOT_READY = "not_ready"
    LIMITED = "limited"
    """A truncated answer to an address that asks too often."""


TYPE_NAMES = {
    1: "A",
    2: "NS",
    5: "CNAME",
    6: "SOA",
    12: "PTR",
    15: "MX",
    16: "TXT",
    28: "AAAA",
    33: "SRV",
    64: "SVCB",
    65: "HTTPS",
    255: "ANY",
}
OTHER = "other"


@dataclass(slots=True)
class DnsStats:
    """Counters, written on the loop's thread and read by any."""

    queries: int = 0
    """Over UDP and TCP, whatever became of them."""
    malformed: int = 0
    """Dropped, or answered that they are malformed."""
    limited: int = 0
    """Over the rate of their address: dropped, answered truncated, or, over TCP, their connection closed."""
    truncated: int = 0
    """Answers that did not fit into a datagram."""
    unsent: int = 0
    """Answers that the socket did not take."""
    failed: int = 0
    """Queries whose answer failed in an unforeseen way."""
    connections: int = 0
    connections_closed: int = 0
    """Closed for another one's sake, as idle, or as their client sent what is no query."""
    by_kind: Counter[tuple[int, Result]] = field(default_factory=Counter)
    """By type's number and result. Numbers that have no name here are counted as 0."""

    def answered(self, qtype: int, result: Result) -> None:
        """Count an answer."""
        self.by_kind[qtype if qtype in TYPE_NAMES else 0, result] += 1

    def kinds(self) -> list[tuple[str, str, int]]:
        """The answers: type, result, count."""
        return [(TYPE_NAMES.get(qtype, OTHER), result.value, n) for (qtype, result), n in dict(self.by_kind).items()]

    def counters(self) -> dict[str, int]:
        """The counters without types, by name in snake_case."""
        totals = {result.value: 0 for result in Result if result is not Result.LIMITED}
        for (_, result), count in dict(self.by_kind).items():
            if result is not Result.LIMITED:
                totals[result.value] += count
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "by_kind"}
        return {f"dns_{name}": count for name, count in (plain | totals).items()}
