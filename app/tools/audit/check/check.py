"""The check of one night: from the dumps of all members to one verdict."""

import math
import time
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.naming.model.keys import DUMP_BUCKETS
from app.rows.summary import Summary
from app.tools.audit.check import evidence as evidences
from app.tools.audit.check.agreement import UNPROVEN, Agreement, agreement, is_full_night
from app.tools.audit.check.evidence import Evidence
from app.tools.audit.check.evidence_rows import path_in_round, read_rows, read_rows_of, small_frame
from app.tools.audit.check.explain import explain_instances
from app.tools.audit.check.explain_services import explain_bad_rows, explain_doubles, explain_owners, explain_services
from app.tools.audit.check.explain_settings import explain_settings
from app.tools.audit.check.files import damaged_files, unknown_in_rows, unreadable_file, wrong_hashes
from app.tools.audit.check.fitting import all_fits, misfits
from app.tools.audit.check.flag import flag, lacks, with_key, with_services
from app.tools.audit.check.history import Looked, faults_after, with_history
from app.tools.audit.check.linked import BadLinked, judge_links
from app.tools.audit.check.night_check import NightCheck, with_notes
from app.tools.audit.check.results import Results
from app.tools.audit.check.session import FEW_ROWS
from app.tools.audit.check.summarize import FINDING_SCHEMA, Compared, in_files, summarize
from app.tools.audit.check.suppressions import BadSuppressions, open_again, read_suppressions, suppressed
from app.tools.audit.format.layout import Night, NoDump, read_night
from app.tools.audit.format.part_format import has_parquet

FEW_KEYS = 5_000
"""The most suspects for whose rows and findings one task a stage is enough."""
EXPLAINED_MAX = 50_000
"""The most suspects that are explained: for a member that is behind by millions, so many show as much as all."""
ROWS_PER_PARTITION = 1_500_000
"""Rows in a partition of the one shuffle: some 100 MB of hashes and masks."""


AQE_EMPTY = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
EXPLAINED = {
    explain_instances: ("suspect_instances",),
    explain_services: ("suspect_services",),
    explain_owners: ("suspect_services",),
    explain_doubles: ("suspect_doubles",),
    explain_settings: ("suspect_services", "suspect_others"),
}
"""The explanations, and the counts (as of ``flag.Flagged.counts``) without which they find nothing."""


class CannotJudge(Exception):
    """A night cannot be judged; the text says why."""


def judge(spark: SparkSession, check: NightCheck, results: Results) -> Summary:
    """Return the summary of a night's check; write its tables into the staging folder of ``results``.

    Raises:
        CannotJudge: the night has no complete dump, or not at least two whole members, or too many members to compare;
            or the suppressions cannot be used.
    """
    started = time.monotonic()
    try:
        night = read_night(check.dumps, check.night, check.run)
        entries = read_suppressions(check.suppressions, night.date)
    except (NoDump, BadSuppressions) as error:
        raise CannotJudge(str(error)) from None
    _tune(spark, night)
    compared = _compare(spark, check, night)
    compared = _with_links(spark, check, night, compared)
    results.begin(night.date)
    earlier = results.open_faults(spark, night.date)
    findings = compared.findings.where(~F.col("finding_class").isin([str(one.value) for one in check.ignored]))
    findings = with_history(findings, earlier, night.date, _iso(compared.evidence.taken_at[0]))
    findings = suppressed(findings, [entry for entry in entries if entry.holds(night.date)])
    rows = results.write("findings", in_files(findings, compared.suspects) if compared.may_find else None)
    summary = summarize(spark, check.dumps, results, night, compared, rows)
    found = spark.read.schema(FINDING_SCHEMA).parquet(results.staged("findings")) if compared.may_find else findings
    if summary.findings or summary.suppressed or earlier is not None:
        # A sample finds only some of what is open.
        members = () if compared.sampled else compared.evidence.members
        looked = Looked(night.date, [one["address"] for one in summary.members], members, check.ignored)
        results.write("faults", in_files(faults_after(open_again(found), earlier, looked), compared.suspects))
    summary = with_notes(summary, check, entries, results, found if summary.suppressed else None)
    return replace(summary, took_s=round(time.monotonic() - started, 1))


def _with_links(spark: SparkSession, check: NightCheck, night: Night, compared: Compared) -> Compared:
    """Return the comparison with the links, and their findings.

    Raises:
        CannotJudge: the dump of a linked cluster cannot be used.
    """
    if not check.linked:
        return compared
    _tune(spark, night)
    try:
        found, links, notes = judge_links(spark, check.dumps, night, check.linked)
    except BadLinked as error:
        raise CannotJudge(str(error)) from None
    if compared.suspects:
        _compile(spark, compiled=False)
    evidence = replace(compared.evidence, notes=[*compared.evidence.notes, *notes])
    findings = compared.findings if found is None else compared.findings.unionByName(found)
    return replace(compared, evidence=evidence, findings=findings, links=links)


def _tune(spark: SparkSession, night: Night) -> None:
    """Fit the tasks to the machine and the shuffle to a night; gzip files do not split, so they are spread whole."""
    rows = sum(file.part.rows for file in evidences.files_of(night))
    cores = spark.sparkContext.defaultParallelism
    few = rows <= FEW_ROWS
    partitions = 1 if few else max(2 * cores, math.ceil(rows / ROWS_PER_PARTITION))
    for name, value in {
        "spark.sql.shuffle.partitions": partitions,
        # Planning again after each stage takes longer than the stages of a few rows.
        "spark.sql.adaptive.enabled": str(not few).lower(),
        "spark.sql.files.minPartitionNum": 4 * cores,
        "spark.sql.files.openCostInBytes": 1 << 18,
        # With more values than that, Spark does not tell the files' reader which buckets to read.
        "spark.sql.parquet.pushdown.inFilterThreshold": DUMP_BUCKETS,
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


def _expect_few(spark: SparkSession) -> None:
    """Fit what follows to few rows: one task a stage, which is not planned again."""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    spark.conf.set("spark.sql.adaptive.enabled", "false")


def _compare(spark: SparkSession, check: NightCheck, night: Night) -> Compared:
    """Return all findings of a night, without history.

    A file that breaks off although its hash is right, or has other rows than its manifest says, excludes its member,
    and the comparison starts again without it.

    Raises:
        CannotJudge: too few or too many members can be compared.
    """
    files = evidences.files_of(night)
    damaged = damaged_files(spark, check.dumps, night, files)
    full, notes = check.full or is_full_night(night.date), list(check.notes)
    are_hashed = False
    while True:
        try:
            evidence = evidences.weigh(night, damaged)
        except NoDump as error:
            raise CannotJudge(str(error)) from None
        agreed = None if full or not has_parquet() else agreement(night, evidence)
        reading = _ComparedRows(spark, check.dumps, evidence, agreed)
        if agreed is not None and not are_hashed:
            # Most of their pages are not read.
            damaged |= wrong_hashes(spark, check.dumps, evidence.files)
            are_hashed = True
            continue
        rows = reading.rows()
        flagged = flag(rows, evidence.members, evidence.known_owners, reading.sample)
        suspects = flagged.frame.persist()
        try:
            count = suspects.count()
        except (PySparkException, Py4JJavaError) as error:
            suspects.unpersist()
            rows.unpersist()
            path = unreadable_file(str(error), evidence.files)
            if path is None or path in damaged:
                raise
            damaged[path] = "the file cannot be read to its end"
            continue
        counted = flagged.counts()
        lacking = _miscounted(rows, evidence) if agreed is None and counted["rows"] != evidence.rows else {}
        is_proven = agreed is None or agreed.is_proven(counted)
        if lacking or not is_proven:
            suspects.unpersist()
            rows.unpersist()
            damaged |= lacking
            if not lacking:
                full, notes = True, [*notes, UNPROVEN]
            continue
        if agreed is not None:
            counted = agreed.completed(counted)
            notes.append(agreed.note)
        notes += unknown_in_rows(check.dumps, evidence.files)
        reading = replace(reading, evidence=replace(evidence, notes=[*evidence.notes, *notes]))
        compared = _explained(reading, rows, counted, suspects, count)
        return compared if all_fits(night, evidence, counted) else _with_misfits(spark, reading.all(), night, compared)


def _with_misfits(spark: SparkSession, rows: DataFrame, night: Night, compared: Compared) -> Compared:
    """Return the comparison with the findings and notes on rows that do not fit each other."""
    findings, evidence = compared.findings.persist(), compared.evidence
    _tune(spark, night)
    _compile(spark, compiled=False)  # the findings are not explained yet
    found, notes = misfits(rows, findings, night, evidence, sampled=compared.sampled)
    findings = findings.unionByName(small_frame(spark, found, FINDING_SCHEMA))
    evidence = replace(evidence, notes=[*evidence.notes, *notes])
    return replace(compared, findings=findings, evidence=evidence, misfits=True)


@dataclass(frozen=True, slots=True)
class _ComparedRows:
    """The rows that are compared: all, or those of the buckets to which ``agreed`` points."""

    spark: SparkSession
    dumps: str
    evidence: Evidence
    agreed: Agreement | None

    @property
    def buckets(self) -> frozenset[int] | None:
        return None if self.agreed is None else self.agreed.read

    @property
    def sample(self) -> frozenset[int]:
        return frozenset() if self.agreed is None else self.agreed.sample

    @property
    def are_few(self) -> bool:
        return (self.evidence.rows if self.agreed is None else self.agreed.chosen.rows) <= FEW_ROWS

    def all(self) -> DataFrame:
        return read_rows(self.spark, self.dumps, self.evidence)

    def rows(self) -> DataFrame:
        """Return the rows, persisted if they are few: they are looked at twice."""
        rows = read_rows(self.spark, self.dumps, self.evidence, self.buckets)
        return rows.persist() if self.are_few else rows

    def rows_of(self, keys: DataFrame) -> DataFrame:
        return read_rows_of(self.spark, self.dumps, self.evidence, keys, self.buckets)


def _explained(
    reading: _ComparedRows, rows: DataFrame, counted: dict[str, int], suspects: DataFrame, count: int
) -> Compared:
    """Return the findings of the suspects: of all, or of a sample where they are too many.

    A sample without a lasting finding does not prove that the members agree: then all are explained.
    """
    spark, evidence = reading.spark, reading.evidence
    if count == 0:
        return Compared(evidence, _findings(spark, rows, None, counted, evidence), counted, None, 0, None)
    may_last = counted["may_last"]
    for part in _samples(count, may_last):
        keys = with_services(part.of(suspects)).persist()
        closer = _rows_with(rows, keys) if reading.are_few else _rows_closer(reading, keys)
        if count <= FEW_KEYS:
            _expect_few(spark)
        # The expressions that explain these few rows are large: compiling them takes longer than interpreting them.
        _compile(spark, compiled=False)
        findings = _findings(spark, rows, closer, counted, evidence)
        if not part.sampled:
            break
        findings = findings.persist()
        if part.with_all_that_may_last or findings.where("lasting").limit(1).count():
            text = f"{count:,} keys differ, {may_last:,} in both rounds; explained and counted: {part.text}"
            evidence = replace(evidence, notes=[text, *evidence.notes])
            break
        closer.unpersist()
    of_all = lacks(suspects, len(evidence.members)) if part.sampled else None
    return Compared(evidence, findings, counted, closer, count, of_all)


@dataclass(frozen=True, slots=True)
class _Sample:
    """A sample of the suspects: one of so many by their hash, or all; with or without those that may last."""

    one_of: int
    with_all_that_may_last: bool = False

    @property
    def sampled(self) -> bool:
        return self.one_of > 1

    @property
    def text(self) -> str:
        rest = " of those that differ in only one round" if self.with_all_that_may_last else ""
        return f"one of {self.one_of}{rest}"

    def of(self, suspects: DataFrame) -> DataFrame:
        if not self.sampled:
            return suspects
        chosen = F.pmod("key", F.lit(self.one_of)) == 0
        return suspects.where(chosen | F.col("may_last") if self.with_all_that_may_last else chosen)


def _samples(count: int, may_last: int) -> list[_Sample]:
    """Return the samples to explain, in order, until one is proof enough."""
    if count <= EXPLAINED_MAX:
        return [_Sample(1)]
    if may_last <= EXPLAINED_MAX:
        return [_Sample(-(-count // EXPLAINED_MAX), with_all_that_may_last=True)]
    return [_Sample(-(-count // EXPLAINED_MAX)), _Sample(1)]


def _rows_closer(reading: _ComparedRows, keys: DataFrame) -> DataFrame:
    """Return the rows of the suspect keys and of their services, persisted."""
    closer = _rows_with(reading.rows_of(keys), keys)
    if closer.select("key").distinct().count() < keys.count():
        closer.unpersist()
        closer = _rows_with(reading.all(), keys)
        closer.count()
    return closer


def _rows_with(rows: DataFrame, keys: DataFrame) -> DataFrame:
    return with_key(rows.where(~F.col("bad"))).join(keys, "key").persist()


def _findings(
    spark: SparkSession, rows: DataFrame, closer: DataFrame | None, counts: dict[str, int], evidence: Evidence
) -> DataFrame:
    found = small_frame(spark, evidence.findings, FINDING_SCHEMA)
    explained = [explain_bad_rows(rows, evidence)] if counts["bad"] else []
    if closer is not None:
        explained += [explain(closer, evidence) for explain, of in EXPLAINED.items() if any(counts[one] for one in of)]
    return reduce(DataFrame.unionByName, explained, found)


def _miscounted(rows: DataFrame, evidence: Evidence) -> dict[str, str]:
    """Return the files with another number of rows than their manifests say. Shape: path to the fault, in words."""
    counted = {
        row["name"]: row["rows"]
        for row in rows.groupBy(path_in_round("file").alias("name")).agg(F.count(F.lit(1)).alias("rows")).collect()
    }
    return evidences.miscounted(evidence, counted)


def _iso(taken_at: str) -> str:
    """``20261121T031500.000Z`` as ``2026-11-21T03:15:00.000Z``."""
    moment = datetime.strptime(taken_at, "%Y%m%dT%H%M%S.%f%z")
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
