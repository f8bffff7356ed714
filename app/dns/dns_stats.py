"""Counts of the DNS server's answers, by type and result."""

from collections import Counter
from dataclasses import dataclass, field, fields
from enum import Enum


class Result(Enum):
    """The result of a query."""

    ANSWERED = "answered"
    EMPTY = "empty"
    """The name exists, and has no record of that type."""
    UNKNOWN = "unknown"
    """The name does not exist."""
    AMBIGUOUS = "ambiguous"
    """Several services have the name, so no records are given."""
    REFUSED = "refused"
    """The name is outside of the domain, or the query of a kind that is not answered."""
    NOT_READY = "not_ready"
    LIMITED = "limited"
    """A truncated answer to an address that sends too many queries."""


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
    """Queries over UDP and TCP, with any result."""
    malformed: int = 0
    """Malformed queries, which are dropped or answered with that error."""
    limited: int = 0
    """Queries over the rate of their address: dropped, answered truncated, or, over TCP, their connection closed."""
    truncated: int = 0
    """Answers that did not fit into a datagram."""
    unsent: int = 0
    """Answers that the socket did not take."""
    failed: int = 0
    """Queries whose answer failed unexpectedly."""
    connections: int = 0
    connections_closed: int = 0
    """Connections closed in favour of others, because they were idle, or because the client sent something else."""
    by_kind: Counter[tuple[int, Result]] = field(default_factory=Counter)
    """Answers by the type's number and the result. Numbers without a name here are counted as 0."""

    def answered(self, qtype: int, result: Result) -> None:
        """Count an answer."""
        self.by_kind[qtype if qtype in TYPE_NAMES else 0, result] += 1

    def kinds(self) -> list[tuple[str, str, int]]:
        """Return the answers: type, result, count."""
        return [(TYPE_NAMES.get(qtype, OTHER), result.value, n) for (qtype, result), n in dict(self.by_kind).items()]

    def counters(self) -> dict[str, int]:
        """Return the counters without types, by name in snake_case."""
        totals = {result.value: 0 for result in Result if result is not Result.LIMITED}
        for (_, result), count in dict(self.by_kind).items():
            if result is not Result.LIMITED:
                totals[result.value] += count
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "by_kind"}
        return {f"dns_{name}": count for name, count in (plain | totals).items()}
