"""Rows that do not fit each other: instances without their service's row, and counts that are not those of the rows.

No member says so of itself, so the dump lost rows, or was changed later. The one reading of all rows shows whether
anything does not fit; only then are the rows counted by member and service.
"""

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from app.tools.audit.check.evidence import Evidence
from app.tools.audit.check.evidence_rows import is_instance, is_service, seen
from app.tools.audit.format.findings import FindingClass, finding
from app.tools.audit.format.layout import Night
from app.tools.audit.format.manifest import MemberDump

OWNED = ("number", "namespace", "service")
OF_ROWS = (
    FindingClass.MISSING,
    FindingClass.EXTRA,
    FindingClass.SERVICE,
    FindingClass.DUPLICATE,
    FindingClass.DRIFT,
    FindingClass.CORRUPT,
)
"""Classes of rows that a member lacks or has beyond others, so that its manifest may count them otherwise."""


def all_fits(night: Night, evidence: Evidence, counted: dict[str, int]) -> bool:
    """Return whether the sums over all rows show no misfit. ``counted``: as of ``flag.Flagged.counts``."""
    dumps = list(_told(night, evidence))
    services = sum(dump.services for _, _, dump in dumps)
    instances = sum(dump.instances for _, _, dump in dumps)
    told = not dumps or (counted["service_rows"], counted["instance_rows"]) == (services, instances)
    return counted["misfit"] == 0 and told


def _told(night: Night, evidence: Evidence) -> Iterable[tuple[int, int, MemberDump]]:
    """Yield the parts whose manifest counts rows by kind. Shape: the number of the member, the round, its part."""
    for one in night.rounds:
        for number, address in enumerate(evidence.members):
            dump = one.manifest.member(address)
            if dump is not None and (dump.services or dump.instances):
                yield number, one.manifest.round, dump


def misfits(
    rows: DataFrame, findings: DataFrame, night: Night, evidence: Evidence, *, sampled: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return CORRUPT findings, one for each member, and notes.

    A count that differs where there are findings is explained by them, such as by a lost instance, which is a finding
    of another member if it was the only owner's: a note, and no finding, tells it. ``findings``: those of the rows;
    ``sampled``: they are not all.
    """
    by_service = (
        rows.where(~F.col("bad") & (is_service() | is_instance()))
        .groupBy(*OWNED, "round")
        .agg(
            F.count_if(is_service()).alias("own"),
            F.max(F.when(is_service(), F.col("instances"))).alias("said"),
            F.count_if(is_instance()).alias("held"),
            F.count_if(is_instance() & seen()).alias("shown"),
        )
        .persist()
    )
    bad = {row["number"] for row in rows.where("bad").select("number").distinct().collect()}
    found, notes = _of_services(by_service, findings, evidence, bad, sampled=sampled)
    is_explained = bool(findings.where(F.col("finding_class").isin([one.value for one in OF_ROWS])).limit(1).count())
    manifests = _of_manifests(by_service, night, evidence)
    by_service.unpersist()
    for address, text in manifests:
        if is_explained:
            notes.append(f"{address}: {text}")
        else:
            found.setdefault(address, []).append(text)
    return [
        finding(FindingClass.CORRUPT, True, address, detail="; ".join(texts))
        for address, texts in sorted(found.items())
    ], notes


def _of_services(
    by_service: DataFrame, findings: DataFrame, evidence: Evidence, bad: set[int], *, sampled: bool
) -> tuple[dict[str, list[str]], list[str]]:
    """Return texts on services whose rows do not fit: of findings by member, and notes."""
    lacking = (F.col("own") == 0) & (F.col("held") > 0)
    other = (F.col("own") > 0) & (F.col("said") != F.col("shown"))
    names = F.array(*[F.lit(address) for address in evidence.members])
    known = findings.where("service != ''").select(
        F.col("namespace").alias("f_namespace"), F.col("service").alias("f_service")
    )
    odd = (
        by_service.where(lacking | other)
        .withColumn("member", F.get(names, "number"))
        .withColumn("lacking", lacking)
        .join(
            known.distinct().withColumn("explained", F.lit(True)),
            (F.col("f_namespace") == F.col("namespace")) & (F.col("f_service") == F.col("service")),
            "left",
        )
    )
    first = F.min(F.struct("namespace", "service", "round", "said", "shown")).alias("first")
    told: dict[str, list[str]] = {}
    notes = []
    counted = odd.groupBy("number", "member", "lacking", F.coalesce("explained", F.lit(False)).alias("explained")).agg(
        F.count_distinct("namespace", "service").alias("services"), first
    )
    for row in sorted(counted.collect(), key=lambda one: (one["member"], not one["lacking"], one["explained"])):
        name = f"{row['first']['namespace']} {row['first']['service']}"
        if row["lacking"]:
            text = f"the rows of the service itself are missing {_of(row['services'])}, such as {name}"
        else:
            said, shown = row["first"]["said"], row["first"]["shown"]
            text = (
                f"the number of instances does not fit their rows {_of(row['services'])}, such as {name} in round "
                f"{row['first']['round']}: {said:,} instead of {shown:,}"
            )
        if not row["lacking"] and (row["explained"] or sampled or row["number"] in bad):
            notes.append(f"{row['member']}: {text}")
        else:
            told.setdefault(row["member"], []).append(text)
    return told, notes


def _of(services: int) -> str:
    return f"in {services:,} {'service' if services == 1 else 'services'}"


def _of_manifests(by_service: DataFrame, night: Night, evidence: Evidence) -> list[tuple[str, str]]:
    """Return the members whose manifest counts other rows than there are, each with a text."""
    totals = by_service.groupBy("number", "round").agg(*[F.sum(name).alias(name) for name in ("own", "held", "shown")])
    counts = {(row["number"], row["round"]): row for row in totals.collect()}
    found = []
    for number, round_number, dump in _told(night, evidence):
        row = counts.get((number, round_number))
        own, held, shown = (row[name] if row else 0 for name in ("own", "held", "shown"))
        # Earlier releases counted only the instances that clients see.
        if dump.services != own or dump.instances not in (held, shown):
            text = (
                f"round {round_number} has {own:,} services and {held:,} instances, but its manifest says "
                f"{dump.services:,} and {dump.instances:,}"
            )
            found.append((evidence.members[number], text))
    return found
