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
    rows: int = 0
    """Rows read, of all members and rounds."""
    services: int = 0
    instances: int = 0
    """``services`` and ``instances`` count distinct ones, of all members together."""
    findings: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    by_pair: list[dict[str, Any]] = field(default_factory=list)
    """Lasting findings by pair of members. Shape: member, reference (may be null), findings."""
    by_service: list[dict[str, Any]] = field(default_factory=list)
    """The services with most findings, as in the per-service summary: namespace, service, instances, findings, late."""
    examples: list[dict[str, Any]] = field(default_factory=list)
    """Findings as in ``findings.FINDING_FIELDS``: lasting ones first, among them those open for longest."""
    notes: list[str] = field(default_factory=list)
    """Further texts for the operator, such as on a folder of a dump that was cut off, or on an unknown field."""


def unjudged(night: str, reason: str) -> Summary:
    """The summary of a night without a verdict; ``night`` may be empty when not even that is known."""
    return Summary(night, Verdict.UNJUDGED, f"could not judge: {reason}", checked_at=now_text())


def now_text() -> str:
    """This moment, ISO 8601, UTC."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def encode_summary(summary: Summary) -> bytes:
    return json.dumps(asdict(summary), indent=2, ensure_ascii=False).encode() + b"\n"


def decode_summary(body: bytes) -> Summary:
    """Read a summary that this program wrote; a field that it does not know is left out.

    Raises:
        ValueError: the bytes are no summary.
    """
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("a summary is a JSON object")
    known = {name: value[name] for name in Summary.__dataclass_fields__ if name in value}
    if not {"night", "verdict", "line"} <= known.keys():
        raise ValueError("a summary has the fields night, verdict and line")
    return Summary(**known | {"verdict": Verdict(known["verdict"])})
