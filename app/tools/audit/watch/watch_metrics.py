"""Metrics of the watch, as a file for the textfile collector of Prometheus's node exporter."""

from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from app.rows.summary import Verdict
from app.tools.audit.compare.link_look import KINDS
from app.tools.audit.format.manifest import DumpState
from app.tools.audit.watch.rounds import RoundOutcome


def write_metrics(path: str, outcome: RoundOutcome) -> None:
    """Write the metrics of a round, all of them or none.

    Raises:
        OSError: the file cannot be written; the earlier file is then still there.
    """
    write_to_textfile(path, metrics_of(outcome))


def metrics_of(outcome: RoundOutcome) -> CollectorRegistry:
    """Return the metrics of a round; one without a verdict has no counts, as none is known."""
    registry, summary = CollectorRegistry(), outcome.summary
    verdict = Gauge("rollcall_watch_verdict", "1 for the verdict of the last round", ["verdict"], registry=registry)
    for one in Verdict:
        verdict.labels(one.value).set(one is summary.verdict)
    absent = sum(member["state"] == DumpState.ABSENT for member in summary.members)
    counts = {
        "duration_seconds": ("How long the last round took", summary.took_s),
        "timestamp_seconds": ("When the last round ended, in Unix time", _seconds(summary.checked_at)),
        "members": ("Members that were called, including those that did not answer", len(summary.members)),
        "members_absent": ("Members that did not answer", absent),
    }
    if summary.verdict is not Verdict.UNJUDGED:
        counts |= {
            "services_differing": ("Services that differ and did not change between two comparisons", outcome.lasting),
            "services_in_motion": (
                "Services that differed and were still changing: unknown whether they agree",
                outcome.in_motion,
            ),
            "services": ("Services with instances, at the member with the most", summary.services),
            "instances": ("Instances, at the member with the most", summary.instances),
        }
    for name, (text, value) in counts.items():
        Gauge(f"rollcall_watch_{name}", text, registry=registry).set(value)
    if summary.links:
        text = "Instances of a link that are not as the other cluster has them, of all members"
        gauge = Gauge("rollcall_watch_link_findings", text, ["link", "kind"], registry=registry)
        for link in summary.links:
            for kind in KINDS:
                gauge.labels(link["link"], kind).set(link[kind])
    return registry


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
