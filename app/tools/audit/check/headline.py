"""The summary of a night before its findings are counted: members, numbers of rows, and the line of the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.rows.summary import Summary, Verdict, now_text
from app.tools.audit.check.evidence import Evidence
from app.tools.audit.check.results import Results
from app.tools.audit.format.file_systems import place
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.layout import Night
from app.tools.audit.format.manifest import DumpState
from app.tools.audit.report.wording import links_in_words


def begun(dumps: str, results: Results, night: Night, evidence: Evidence, counts: Mapping[str, int]) -> Summary:
    """Return the summary of a night without findings, and still without its line."""
    return Summary(
        night=night.date,
        verdict=Verdict.AGREED,
        line="",
        checked_at=now_text(),
        run=evidence.run,
        taken_at=list(evidence.taken_at),
        members=members_of_night(night, evidence.not_dumped.absent),
        unasked=evidence.not_dumped.others,
        compared=len(evidence.members),
        rows=counts["rows"],
        services=counts["services"],
        instances=counts["instances"],
        dumps=place(dumps),
        results=place(results.uri),
        notes=list(evidence.notes),
    )


def without_findings(results: Results, summary: Summary) -> Summary:
    """Return the summary of a night without findings with its line; stage its empty tables."""
    for table in ("services", "findings_json"):
        results.write(table, None)
    return replace(summary, line=verdict_line(summary))


def verdict_line(summary: Summary) -> str:
    """Return the verdict in one line: findings by class or ``agreed``, the size of the comparison, and the night."""
    late = f"; {sum(summary.late.values())} late" if summary.late else ""
    late += f"; {sum(summary.suppressed.values())} suppressed" if summary.suppressed else ""
    total = len(summary.members) + summary.unasked
    of_all = f" of {total}" if summary.compared < total else ""
    listed = " listed" if summary.unasked else ""
    size = (
        f"{summary.compared}{of_all}{listed} members, {summary.instances:,} instances of {summary.services:,} services"
    )
    if not summary.findings:
        return f"agreed: {size}{late}; night {summary.night}"
    # First the class that replication cannot see: a single one would be overlooked behind many others.
    ordered = sorted(summary.findings.items(), key=lambda one: one[0] != FindingClass.SILENT_CORRUPTION)
    counts = ", ".join(f"{count:,} {name}" for name, count in ordered)
    if summary.sampled:
        counts = f"at least {counts}"
    oldest = summary.examples[0]["first_seen"]
    since = f"; open since {oldest}" if oldest < summary.night else ""
    counts = "; ".join([counts, *links_in_words(summary)])
    return f"divergent: {counts}; {size}{late}{since}; night {summary.night}"


def members_of_night(night: Night, unasked: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return each member's state, kind, version, counts and error in the last round that names it, by address.

    ``unasked``: members that the others list as UP, and that are not in the dump.
    """
    unknown = {"kind": "", "version": "", "services": 0, "instances": 0, "error": "it is not in the dump"}
    members: dict[str, dict[str, Any]] = {
        address: {"address": address, "state": DumpState.ABSENT.value, **unknown} for address in unasked
    }
    for one in night.rounds:
        for dump in one.manifest.members:
            members[dump.address] = {
                "address": dump.address,
                "state": dump.state.value,
                "kind": dump.kind,
                "version": dump.version,
                "services": dump.services,
                "instances": dump.instances,
                "error": dump.error,
            }
    return [members[address] for address in sorted(members)]
