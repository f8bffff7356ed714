"""The check of one night: from the dumps of all members to one verdict."""

import math
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.audit.check import evidence as evidences
from app.audit.check.evidence import Evidence
from app.audit.check.evidence_rows import path_in_round, read_rows, read_rows_of, small_frame
from app.audit.check.explain import explain_instances
from app.audit.check.explain_services import explain_bad_rows, explain_doubles, explain_owners, explain_services
from app.audit.check.explain_settings import explain_settings
from app.audit.check.files import damaged_files, unknown_in_rows, unreadable_file
from app.audit.check.flag import flag, with_key
from app.audit.check.history import Looked, faults_after, with_history
from app.audit.check.results import Results
from app.audit.check.session import FEW_ROWS
from app.audit.check.summarize import FINDING_SCHEMA, Compared, in_files, summarize
from app.audit.format.findings import FindingClass
from app.audit.format.layout import Night, NoDump, read_night
from app.audit.report.summary import Summary

ROWS_PER_PARTITION = 1_500_000
"""Rows in a partition of the one shuffle: some 100 MB of hashes and masks."""


AQE_EMPTY = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
EXPLAINED = (explain_instances, explain_services, explain_owners, explain_doubles)


class CannotJudge(Exception):
    """A night can be given no verdict; the text says why."""


@dataclass(frozen=True, slots=True)
class NightCheck:
    """The options of a check: where the dumps lie, the night (None: the latest), and classes to ignore.

    Findings of ``ignored`` classes are neither counted nor kept.
    """

    dumps: str
    night: str | None = None
    ignored: Collection[FindingClass] = ()


def judge(spark: SparkSession, check: NightCheck, results: Results) -> Summary:
    """Return the summary of a night's check; write its tables into the staging folder of ``results``.

    Raises:
        CannotJudge: the night has no complete dump, or not at least two whole members, or too many members to compare.
    """
    started = time.monotonic()
    try:
        night = read_night(check.dumps, check.night)
    except NoDump as error:
        raise CannotJudge(str(error)) from None
    _tune(spark, sum(file.part.rows for file in evidences.files_of(night)))
    compared = _compare(spark, check, night)
    results.begin(night.date)
    earlier = results.open_faults(spark, night.date)
    findings = compared.findings.where(~F.col("finding_class").isin([str(one.value) for one in check.ignored]))
    findings = with_history(findings, earlier, night.date, _iso(compared.evidence.taken_at[0]))
    results.write("findings", in_files(findings, compared.suspects))
    summary = summarize(spark, check.dumps, results, night, compared)
    if summary.findings or earlier is not None:
        found = spark.read.schema(FINDING_SCHEMA).parquet(results.staged("findings"))
        looked = Looked(
            night.date, [one["address"] for one in summary.members], compared.evidence.members, check.ignored
        )
        results.write("faults", in_files(faults_after(found, earlier, looked), compared.suspects))
    if later := results.judged_after(night.date):
        results.notes.append(f"the history of later nights is older than this verdict; check again: {', '.join(later)}")
    summary = replace(summary, notes=[*summary.notes, *results.notes])
    if check.ignored:
        names = ", ".join(sorted(one.value for one in check.ignored))
        summary = replace(summary, notes=[*summary.notes, f"not looked for: {names}"])
    return replace(summary, took_s=round(time.monotonic() - started, 1))


def _tune(spark: SparkSession, rows: int) -> None:
    """Fit the tasks to the machine and the shuffle to the rows; gzip files do not split, so they are spread whole."""
    cores = spark.sparkContext.defaultParallelism
    few = rows <= FEW_ROWS
    partitions = 1 if few else max(2 * cores, math.ceil(rows / ROWS_PER_PARTITION))
    for name, value in {
        "spark.sql.shuffle.partitions": partitions,
        # Planning again after each stage takes longer than the stages of a few rows.
        "spark.sql.adaptive.enabled": str(not few).lower(),
        "spark.sql.files.minPartitionNum": 4 * cores,
        "spark.sql.files.openCostInBytes": 1 << 18,
        # It would drop the counts along with what turns out to be empty.
        "spark.sql.adaptive.optimizer.excludedRules": AQE_EMPTY,
        # Sums of masks may run over, and rows are judged here, not by an exception.
        "spark.sql.ansi.enabled": "false",
    }.items():
        spark.conf.set(name, str(value))
    _compile(spark, compiled=not few)


def _compile(spark: SparkSession, compiled: bool) -> None:
    """Have expressions compiled to Java, or interpreted."""
    spark.conf.set("spark.sql.codegen.wholeStage", str(compiled).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if compiled else "NO_CODEGEN")


def _compare(spark: SparkSession, check: NightCheck, night: Night) -> Compared:
    """Return all findings of a night, without history.

    A file that breaks off although its hash is right excludes its member, and the comparison starts again without it.

    Raises:
        CannotJudge: too few or too many members can be compared.
    """
    files = evidences.files_of(night)
    damaged = damaged_files(spark, check.dumps, night, files)
    while True:
        try:
            evidence = evidences.weigh(night, damaged)
        except NoDump as error:
            raise CannotJudge(str(error)) from None
        rows = read_rows(spark, check.dumps, evidence)
        few = sum(file.part.rows for file in evidence.files) <= FEW_ROWS
        if few:
            rows = rows.persist()  # they are looked at twice
        flagged = flag(rows, evidence.members)
        keys = flagged.frame.persist()
        try:
            suspects = keys.count()
        except (PySparkException, Py4JJavaError) as error:
            keys.unpersist()
            rows.unpersist()
            path = unreadable_file(str(error), evidence.files)
            if path is None or path in damaged:
                raise
            damaged[path] = "it cannot be read to its end"
            continue
        evidence = replace(evidence, notes=[*evidence.notes, *unknown_in_rows(check.dumps, evidence.files)])
        closer = None
        if suspects:
            closer = _rows_with(rows, keys) if few else _look_closer(spark, check.dumps, evidence, keys, suspects)
        counts = flagged.counts()
        return Compared(evidence, _findings(spark, rows, closer, counts, evidence), counts, closer, suspects)


def _look_closer(spark: SparkSession, dumps: str, evidence: Evidence, keys: DataFrame, suspects: int) -> DataFrame:
    """The rows of the suspect keys and of their services, persisted.

    The expressions that explain these few rows are large: to compile them takes longer than to interpret them, and one
    method of Java does not hold them.
    """
    closer = _rows_with(read_rows_of(spark, dumps, evidence, keys), keys)
    if closer.select("key").distinct().count() < suspects:
        closer.unpersist()
        closer = _rows_with(read_rows(spark, dumps, evidence), keys)
        closer.count()
    _compile(spark, compiled=False)
    return closer


def _rows_with(rows: DataFrame, keys: DataFrame) -> DataFrame:
    return with_key(rows.where(~F.col("bad"))).join(keys, "key").persist()


def _findings(
    spark: SparkSession, rows: DataFrame, closer: DataFrame | None, counts: dict[str, int], evidence: Evidence
) -> DataFrame:
    known = list(evidence.findings)
    if counts["rows"] != sum(file.part.rows for file in evidence.files):
        known += _miscounted(rows, evidence)
    found = small_frame(spark, known, FINDING_SCHEMA)
    explained = [explain_bad_rows(rows, evidence.members)] if counts["bad"] else []
    if closer is not None:
        explained += [explain(closer, evidence.members) for explain in EXPLAINED]
        explained += [explain_settings(closer, evidence)]
    return reduce(DataFrame.unionByName, explained, found)


def _miscounted(rows: DataFrame, evidence: Evidence) -> list[dict[str, Any]]:
    """CORRUPT findings: one for each file with another number of rows than its manifest says."""
    counted = {
        row["name"]: row["rows"]
        for row in rows.groupBy(path_in_round("file").alias("name")).agg(F.count(F.lit(1)).alias("rows")).collect()
    }
    return evidences.miscounted(evidence, counted)


def _iso(taken_at: str) -> str:
    """``20261121T031500.000Z`` as ``2026-11-21T03:15:00.000Z``."""
    moment = datetime.strptime(taken_at, "%Y%m%dT%H%M%S.%f%z")
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
