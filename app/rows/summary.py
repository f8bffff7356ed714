"""The summary of one night's check, from which its report, its alert and the trend of later nights are made.

It is written last, so a night without one was not judged to its end.
"""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

EXAMPLES_MAX = 200
SERVICES_MAX = 50
PAIRS_MAX = 1_000
BY_MEMBER_MAX = 1_000
GROUPS_MAX = 30
"""The most groups of lasting findings that are kept for one class."""
GROUPS_LATE_MAX = 10
SAMPLES_MAX = 3
"""The most findings that are kept for one group."""
NAME_CHARS_MAX = 1_000
"""The most characters of a name, or any text but a value, in a summary; a longer one ends in an ellipsis."""
VALUE_CHARS_MAX = 500
"""The most characters of a value, which begin shortly before the first difference."""


class Verdict(StrEnum):
    AGREED = "agreed"
    DIVERGENT = "divergent"
    UNJUDGED = "unjudged"

    @property
    def exit_code(self) -> int:
        return {Verdict.AGREED: 0, Verdict.DIVERGENT: 1, Verdict.UNJUDGED: 2}[self]


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of one night. ``findings`` counts lasting findings by class, ``late`` transient ones."""

    night: str
    verdict: Verdict
    line: str
    """The verdict in one line, with counts and night, or with the reason why there is none."""
    checked_at: str = ""
    """ISO 8601, UTC."""
    took_s: float = 0.0
    run: str = ""
    taken_at: list[str] = field(default_factory=list)
    """The moment of each round, as in the dump: ``20261121T031500.000Z``."""
    members: list[dict[str, Any]] = field(default_factory=list)
    """Shape: address, state, kind, version, services, instances, error."""
    compared: int = 0
    """The number of members that were compared: those that answered in both rounds, and whose files are sound."""
    unasked: int = 0
    """Members in lists of others that are in neither the dump nor ``members``: some lists have them, or not as UP."""
    sampled: bool = False
    """True if so many keys differ that only a sample was explained: counts of findings are minimums."""
    rows: int = 0
    """The number of rows read, of all members and rounds."""
    services: int = 0
    instances: int = 0
    """``services`` and ``instances`` count distinct ones, of all members together."""
    findings: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    suppressed: dict[str, int] = field(default_factory=dict)
    """Known findings by class, which change no verdict until a date that the operator set."""
    by_pair: list[dict[str, Any]] = field(default_factory=list)
    """Lasting findings by pair of members. Shape: member, reference (may be null), findings."""
    by_service: list[dict[str, Any]] = field(default_factory=list)
    """The services with most findings, as in the per-service summary: namespace, service, instances, findings, late."""
    examples: list[dict[str, Any]] = field(default_factory=list)
    """Findings as in ``findings.FINDING_FIELDS``: lasting ones first, among them those open for longest."""
    by_class: list[dict[str, Any]] = field(default_factory=list)
    """Shape: finding_class, lasting, findings, new (of tonight), groups, services, members, first_seen, nights_open.

    A night of an earlier release has neither this nor the fields below.
    """
    by_member: list[dict[str, Any]] = field(default_factory=list)
    """Lasting findings by member and class. Shape: member, finding_class, findings, services, new, first_seen,
    nights_open. A dispute of several members (OWNER, MEMBERSHIP) counts at each of them.
    """
    groups: list[dict[str, Any]] = field(default_factory=list)
    """Findings of one class, service and member: those of the worst class first, of each class the largest ones.

    Shape: finding_class, lasting, namespace, service, member, findings, new, instances (of the service, null when not
    known), first_seen, since, nights_open, in a sampled night at_least (there are more findings than these), and under
    ``samples`` up to ``SAMPLES_MAX`` of the findings.
    """
    links: list[dict[str, Any]] = field(default_factory=list)
    """Links between clusters whose dumps were given. Shape: link, cluster (that follows), origin, instances (that the
    link is to bring), lacking (of them, at the member that lacks most), findings, missing, extra, stale, differs (of
    all members), member (with most findings), heard_ago_ms (since the last word of the origin).
    """
    dumps: str = ""
    """The location of the dumps; ``results`` is that of all findings. Both are paths, or URIs without credentials."""
    results: str = ""
    judged_with: dict[str, list[str]] = field(default_factory=dict)
    """The options of the check on which its verdict depends, for a command that checks again. Shape: the name of the
    option (linked, suppressions, ignore) to its values.
    """
    earlier: dict[str, Any] | None = None
    """The verdict of an earlier check of a night whose last check has no verdict; the tables of the night are of that
    check.

    Shape: verdict, line, checked_at, findings (counts by class).
    """
    error: dict[str, Any] | None = None
    """The failure of Spark in a night without a verdict. Shape: condition (may be null), message, parameters."""
    notes: list[str] = field(default_factory=list)
    """Further texts for the operator, such as on a folder of a dump that was cut off, or on an unknown field."""


def unjudged(night: str, reason: str) -> Summary:
    """Return the summary of a night without a verdict; ``night`` may be empty if not even that is known."""
    return Summary(night, Verdict.UNJUDGED, f"could not judge: {reason}", checked_at=now_text())


def now_text() -> str:
    """Return this moment, ISO 8601, UTC."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def encode_summary(summary: Summary) -> bytes:
    return json.dumps(asdict(summary), indent=2, ensure_ascii=False).encode() + b"\n"


def decode_summary(body: bytes) -> Summary:
    """Read a summary that this program wrote; a field that it does not know is left out.

    Raises:
        ValueError: the bytes are not a summary.
    """
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("a summary is a JSON object")
    known = {name: value[name] for name in Summary.__dataclass_fields__ if name in value}
    if not {"night", "verdict", "line"} <= known.keys():
        raise ValueError("a summary has the fields night, verdict and line")
    return Summary(**known | {"verdict": Verdict(known["verdict"])})
