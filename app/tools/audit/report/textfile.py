"""Metrics of a night's check, as a file for the textfile collector of Prometheus's node exporter."""

import contextlib
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest, write_to_textfile

from app.rows.summary import Summary, Verdict
from app.tools.audit.format.file_systems import overwrite
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.manifest import DumpState


def write(path: str, summary: Summary) -> None:
    """Write the metrics, all of them or none: a reader never sees half a file.

    A night that was not judged has no counts, as none is known: an alert on counts stays silent, an alert on the
    verdict fires. The exporter reads files whose name ends in ``.prom``.

    On a full disk the file is written over in its place. If that fails, too, the earlier file is removed unless the
    members agreed: it might say that they do, and an alert on metrics that are gone fires.

    Raises:
        OSError: the file cannot be written.
    """
    registry = registry_of(summary)
    try:
        write_to_textfile(path, registry)
    except OSError:
        if overwrite(path, generate_latest(registry)):
            return
        if summary.verdict is not Verdict.AGREED:
            with contextlib.suppress(OSError):
                Path(path).unlink()
        raise


def registry_of(summary: Summary) -> CollectorRegistry:
    """Return the metrics of a summary, with a series for each verdict, and in a judged night for each class."""
    registry = CollectorRegistry()
    verdict = Gauge("rollcall_check_verdict", "1 for the verdict of the last check", ["verdict"], registry=registry)
    for one in Verdict:
        verdict.labels(one.value).set(one is summary.verdict)
    _put(registry, "duration_seconds", "How long the last check took", summary.took_s)
    if summary.checked_at:
        checked = datetime.fromisoformat(summary.checked_at).timestamp()
        _put(registry, "timestamp_seconds", "When the last check ended, in Unix time", checked)
    if summary.verdict is not Verdict.UNJUDGED:
        _put_counts(registry, summary)
    return registry


def _put_counts(registry: CollectorRegistry, summary: Summary) -> None:
    lasting = Gauge(
        "rollcall_check_findings", "Findings that were the same in both rounds", ["class"], registry=registry
    )
    late = Gauge("rollcall_check_findings_late", "Findings in only one round", ["class"], registry=registry)
    known = Gauge(
        "rollcall_check_findings_suppressed", "Findings that are suppressed until a date", ["class"], registry=registry
    )
    for one in FindingClass:
        lasting.labels(one.value).set(summary.findings.get(one, 0))
        late.labels(one.value).set(summary.late.get(one, 0))
        known.labels(one.value).set(summary.suppressed.get(one, 0))
    absent = sum(member.get("state") == DumpState.ABSENT for member in summary.members)
    oldest = max((one.get("nights_open") or 0 for one in summary.examples if one.get("lasting")), default=0)
    _put(registry, "members", "Members of the last dump, including those that did not answer", len(summary.members))
    _put(registry, "members_absent", "Members that did not answer", absent)
    _put(registry, "services", "Different services of all members together", summary.services)
    _put(registry, "instances", "Different instances of all members together", summary.instances)
    _put(registry, "rows", "Rows read, in all rounds and of all members", summary.rows)
    _put(registry, "oldest_finding_nights", "Nights for which the oldest lasting finding has been open", oldest)


def _put(registry: CollectorRegistry, name: str, text: str, value: float) -> None:
    Gauge(f"rollcall_check_{name}", text, registry=registry).set(value)
