"""The summary of a night's findings: counts by class, member, pair and service, and groups of findings.

Spark counts and groups; the driver gets a bounded number of rows and characters, however much was found.
"""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from app.rows.summary import (
    BY_MEMBER_MAX,
    EXAMPLES_MAX,
    GROUPS_LATE_MAX,
    GROUPS_MAX,
    NAME_CHARS_MAX,
    PAIRS_MAX,
    SAMPLES_MAX,
    SERVICES_MAX,
    VALUE_CHARS_MAX,
    Summary,
    Verdict,
)
from app.tools.audit.check.evidence import Evidence
from app.tools.audit.check.evidence_rows import is_service, one_of, service_key
from app.tools.audit.check.headline import begun, verdict_line, without_findings
from app.tools.audit.check.results import Results
from app.tools.audit.check.session import FEW_ROWS
from app.tools.audit.check.suppressions import is_suppressed
from app.tools.audit.format.findings import FINDING_FIELDS, SERVICE_FIELDS, FindingClass
from app.tools.audit.format.layout import Night
from app.tools.audit.report.wording import BY_SEVERITY, OF_WHOLE

FINDING_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in FINDING_FIELDS.items())
GROUP = ("finding_class", "lasting", "namespace", "service", "member")
"""The columns that the findings of one group share."""
SAMPLE = (
    "cluster",
    "ip",
    "port",
    "ephemeral",
    "reference",
    "found",
    "expected",
    "found_version",
    "expected_version",
    "detail",
)
"""The columns of a finding in ``samples`` of its group."""
ASKED_AT_ONCE = 2
"""The questions about the findings that are put to Spark at once."""
VALUES = frozenset({"found", "expected"})
BEFORE_CHARS = 20
"""The characters of a cut value that are kept before the first difference."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The findings of a night, before their history, and the counts of its rows.

    ``closer``: the rows of the explained keys and of their services; None when no key is suspect.
    """

    evidence: Evidence
    findings: DataFrame
    counts: dict[str, int]
    closer: DataFrame | None
    suspects: int
    lacks: DataFrame | None
    """How many instances each member lacks, as of ``flag.lacks``, if only a sample of the suspects was explained.

    Then the other counts of findings are minimums, and no fault is closed. None if all were explained.
    """

    misfits: bool = False
    """True if rows do not fit each other; the findings or notes say which."""

    links: list[dict[str, Any]] = field(default_factory=list)
    """How much each link carried, as ``Summary.links``."""

    @property
    def may_find(self) -> bool:
        """Return whether there can be any finding; without one Spark need not be asked for them."""
        of_links = any(one["findings"] for one in self.links)
        return bool(self.suspects or self.counts["bad"] or self.evidence.findings or self.misfits or of_links)

    @property
    def sampled(self) -> bool:
        """Return whether only a sample of the suspects was explained."""
        return self.lacks is not None


def in_files(frame: DataFrame, rows: int) -> DataFrame:
    """Return the frame in one partition, and so one file, up to ``FEW_ROWS`` rows; a larger frame unchanged."""
    return frame.coalesce(1) if rows <= FEW_ROWS else frame


def summarize(
    spark: SparkSession, dumps: str, results: Results, night: Night, compared: Compared, rows: int
) -> Summary:
    """Return the summary of the ``rows`` staged findings; stage the per-service summary and the findings as JSON.

    Without findings there is nothing to ask Spark.
    """
    summary = begun(dumps, results, night, compared.evidence, compared.counts)
    summary = replace(summary, sampled=compared.sampled, links=compared.links)
    if not rows:
        return without_findings(results, summary)
    summary = _with_findings(spark, results, compared, rows, summary)
    return replace(summary, line=verdict_line(summary))


def _with_findings(spark: SparkSession, results: Results, compared: Compared, rows: int, summary: Summary) -> Summary:
    """Return the summary with all that the staged findings say; stage the tables made from them."""
    findings = spark.read.schema(FINDING_SCHEMA).parquet(results.staged("findings")).persist()
    services = _services(findings, compared.closer).persist()
    results.write("services", in_files(services, compared.suspects))
    results.write("findings_json", in_files(findings, compared.suspects))
    groups = _groups(findings.where(~is_suppressed()), services)
    groups = (groups if compared.lacks is None else _of_all(groups, compared.lacks, compared.evidence)).persist()
    by_class = _rows(_by_class(groups))
    counts = {
        lasting: Counter({row["finding_class"]: row["findings"] for row in by_class if row["lasting"] is lasting})
        for lasting in (True, False)
    }
    has_lasting = bool(counts[True])
    # The groups have all findings but suppressed ones; of a sample they have estimates.
    has_suppressed = compared.sampled or counts[True].total() + counts[False].total() < rows
    worst = services.orderBy(F.col("findings").desc(), F.col("late").desc(), "namespace", "service")
    # Most of a question is its planning, which leaves cores idle.
    with ThreadPoolExecutor(ASKED_AT_ONCE, "summary") as pool:
        by_service = pool.submit(_rows, worst.limit(SERVICES_MAX))
        samples = pool.submit(lambda: _rows(_with_samples(_largest(groups), findings.where(~is_suppressed()))))
        by_pair = pool.submit(_by_pair, findings) if has_lasting else None
        by_member = pool.submit(lambda: _rows(_by_member(findings))) if has_lasting else None
        examples = pool.submit(_examples, findings)
        return replace(
            summary,
            verdict=Verdict.DIVERGENT if has_lasting else Verdict.AGREED,
            findings=dict(sorted(counts[True].items())),
            late=dict(sorted(counts[False].items())),
            suppressed=_suppressed(findings) if has_suppressed else {},
            by_pair=by_pair.result() if by_pair else [],
            by_service=by_service.result(),
            examples=examples.result(),
            by_class=by_class,
            by_member=by_member.result() if by_member else [],
            groups=samples.result(),
        )


def _suppressed(findings: DataFrame) -> dict[str, int]:
    """Return the suppressed findings by class, which are in no group."""
    counted = findings.where(is_suppressed()).groupBy("finding_class").count().orderBy("finding_class")
    return {row["finding_class"]: row["count"] for row in counted.collect()}


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a bounded frame, their names cut to ``NAME_CHARS_MAX``."""
    texts = {name for name, kind in frame.dtypes if kind == "string"} - VALUES
    bounded = frame.select(*[_cut(name, NAME_CHARS_MAX) if name in texts else name for name in frame.columns])
    return [row.asDict(recursive=True) for row in bounded.collect()]


def _cut(name: str, chars_max: int) -> Column:
    """Return a text column in which a longer text ends in an ellipsis."""
    start = F.concat(F.substring(name, 1, chars_max - 1), F.lit("…"))
    return F.when(F.length(name) > chars_max, start).otherwise(F.col(name)).alias(name)


def _value(name: str) -> Column:
    """Return a value of a finding, cut to ``VALUE_CHARS_MAX``, and at its start if both values begin alike."""
    chars_max = VALUE_CHARS_MAX
    step = "start + shiftleft(1, power)"
    # The longest common start, found by halves: values may have a million characters.
    same = (
        "aggregate(sequence(24, 0, -1), 0, (start, power) -> CASE WHEN "
        f"least(length(found), length(expected)) >= {step} AND left(found, {step}) = left(expected, {step}) "
        f"THEN {step} ELSE start END)"
    )
    cut = f"greatest(0, coalesce({same}, 0) - {BEFORE_CHARS})"
    text = (
        f"concat(CASE WHEN {cut} > 0 THEN '…' ELSE '' END, substring({name}, {cut} + 1, {chars_max - 2}), "
        f"CASE WHEN length({name}) > {cut} + {chars_max - 2} THEN '…' ELSE '' END)"
    )
    is_long = f"greatest(length(found), length(expected)) > {chars_max}"
    return F.expr(f"CASE WHEN {is_long} THEN {text} ELSE {name} END").alias(name)


def _services(findings: DataFrame, closer: DataFrame | None) -> DataFrame:
    """Return the per-service summary: services with findings, each with the largest number of instances at a member."""
    services = (
        findings.where("service != ''")
        .groupBy("namespace", "service")
        .agg(F.count_if("lasting").alias("findings"), F.count_if(~F.col("lasting") & ~is_suppressed()).alias("late"))
    )
    if closer is None:
        services = services.withColumn("instances", F.lit(None))
    else:
        seen = closer.where(is_service()).groupBy("namespace", "service").agg(F.max("instances").alias("instances"))
        services = services.join(seen, ["namespace", "service"], "left")
    return services.select(*[F.col(name).cast(kind).alias(name) for name, kind in SERVICE_FIELDS.items()])


def _by_pair(findings: DataFrame) -> list[dict[str, Any]]:
    """Return lasting findings by pair of members, by address; at most the ``PAIRS_MAX`` pairs with most findings."""
    pairs = findings.where("lasting").groupBy("member", "reference").agg(F.count(F.lit(1)).alias("findings"))
    most = pairs.orderBy(F.col("findings").desc(), "member", "reference").limit(PAIRS_MAX)
    return _rows(most.orderBy("member", "reference"))


def _examples(findings: DataFrame) -> list[dict[str, Any]]:
    """Return the first findings: lasting ones, those that have been open for longest first."""
    first = F.col("lasting").desc(), F.col("nights_open").desc()
    names = ("finding_class", "namespace", "service", "ip", "port", "member", "cluster", "name", *SAMPLE)
    examples = findings.orderBy(*first, *names).limit(EXAMPLES_MAX)
    return _rows(examples.select(*[_value(name) if name in VALUES else name for name in FINDING_FIELDS]))


def _counts() -> dict[str, Column]:
    """Return counts over findings, and since when they are open."""
    return {
        "findings": F.count(F.lit(1)),
        "new": F.count_if(F.col("nights_open") == 1),
        "first_seen": F.min("first_seen"),
        "since": F.min("since"),
        "nights_open": F.max("nights_open"),
    }


def _named(columns: Mapping[str, Column], *without: str) -> list[Column]:
    return [column.alias(name) for name, column in columns.items() if name not in without]


def _groups(findings: DataFrame, services: DataFrame) -> DataFrame:
    """Return the findings by ``GROUP``, counted, with the instances of the service."""
    of_service = services.select("namespace", "service", "instances")
    return findings.groupBy(*GROUP).agg(*_named(_counts())).join(of_service, ["namespace", "service"], "left")


def _of_all(groups: DataFrame, lacks: DataFrame, evidence: Evidence) -> DataFrame:
    """Return the groups of a sample with all instances that a member lacks; ``at_least`` where only the sample counts.

    In a service with an instance too many at some member, the members that lack that one are right.
    """
    number = one_of(F.col("member"), {address: place for place, address in enumerate(evidence.members)})
    has_extra = F.max(F.col("finding_class") == FindingClass.EXTRA.value).over(
        Window.partitionBy("namespace", "service")
    )
    is_lack = (F.col("finding_class") == FindingClass.MISSING.value) & F.col("lasting")
    keyed = groups.withColumns({"service_key": service_key(F.col("namespace"), F.col("service")), "extra": has_extra})
    joined = keyed.join(lacks, "service_key", "left")
    of_all = F.when(is_lack & ~F.col("extra"), F.get("lacks", number.cast("int")))
    values = {
        "findings": F.coalesce(F.greatest(of_all, "findings"), "findings"),
        "new": F.when(F.col("new") == F.col("findings"), F.greatest(F.coalesce(of_all, "new"), "new")).otherwise(
            F.col("new")
        ),
        "at_least": of_all.isNull() & ~F.col("finding_class").isin([one.value for one in OF_WHOLE]),
    }
    return joined.select(
        *[values.get(name, F.col(name)).alias(name) for name in (*groups.columns, "at_least")],
    )


def _severity() -> Column:
    """Return the place of a class among all, the worst first."""
    ranked = F.array(*[F.lit(one.value) for one in BY_SEVERITY])
    return F.array_position(ranked, F.col("finding_class"))


def _by_class(groups: DataFrame) -> DataFrame:
    """Return the classes found, lasting and late ones apart, the worst first."""
    summed = {"findings": F.sum("findings"), "new": F.sum("new"), "groups": F.count(F.lit(1))}
    has_service = F.col("service") != ""
    distinct = {
        "services": F.count_distinct(F.when(has_service, F.struct("namespace", "service"))),
        "members": F.count_distinct("member"),
        "first_seen": F.min("first_seen"),
        "nights_open": F.max("nights_open"),
    }
    by_class = groups.groupBy("finding_class", "lasting").agg(*_named(summed | distinct))
    return by_class.orderBy(F.col("lasting").desc(), _severity(), "finding_class")


def _by_member(findings: DataFrame) -> DataFrame:
    """Return lasting findings by member and class; a dispute counts at each member that takes part in it."""
    concerned = F.expr(
        f"CASE finding_class WHEN '{FindingClass.MEMBERSHIP}' THEN array(member, reference) "
        f"WHEN '{FindingClass.OWNER}' THEN coalesce(split(found, ', '), array(member)) ELSE array(member) END"
    )
    of_members = findings.where("lasting").withColumn("member", F.explode(concerned)).where("member IS NOT NULL")
    counts = _counts() | {
        "services": F.count_distinct(F.when(F.col("service") != "", F.struct("namespace", "service")))
    }
    counted = of_members.groupBy("member", "finding_class").agg(*_named(counts, "since"))
    return counted.orderBy(_severity(), F.col("findings").desc(), "member").limit(BY_MEMBER_MAX)


def _largest(groups: DataFrame) -> DataFrame:
    """Return the groups to show of each class: services with a finding for every instance first, then those with most.

    Shape: the columns of ``_groups`` and ``place``, which counts from 1 in each class.
    """
    whole = F.coalesce(F.col("findings") >= F.col("instances"), F.lit(False))
    most = (whole.desc(), F.col("findings").desc(), F.col("nights_open").desc(), "namespace", "service", "member")
    placed = groups.withColumn(
        "place", F.row_number().over(Window.partitionBy("lasting", "finding_class").orderBy(*most))
    )
    return placed.where(F.col("place") <= F.when(F.col("lasting"), GROUPS_MAX).otherwise(GROUPS_LATE_MAX))


def _with_samples(groups: DataFrame, findings: DataFrame) -> DataFrame:
    """Return the groups in the order of ``Summary.groups``, each with its first findings as ``samples``."""
    wanted = F.broadcast(groups.withColumnsRenamed({name: f"group_{name}" for name in groups.columns}))
    of_group = [F.col(name).eqNullSafe(F.col(f"group_{name}")) for name in GROUP]
    of_groups = findings.join(wanted, reduce(Column.__and__, of_group))
    by_address = (F.length("ip"), "ip", "port", "cluster", "name", *SAMPLE)
    first = Window.partitionBy(*GROUP).orderBy(F.col("nights_open").desc(), *by_address)
    few = of_groups.withColumn("number", F.row_number().over(first)).where(F.col("number") <= SAMPLES_MAX)
    sample = F.struct("number", *[_sampled(name) for name in SAMPLE])
    kept = [f"group_{name}" for name in groups.columns if name not in GROUP]
    gathered = few.groupBy(*GROUP, *kept).agg(F.sort_array(F.collect_list(sample)).alias("samples"))
    ordered = gathered.orderBy(F.col("lasting").desc(), _severity(), "finding_class", "group_place")
    told = [F.col(f"group_{name}").alias(name) for name in groups.columns if name not in (*GROUP, "place")]
    without_number = ", ".join(f"s.{name} AS {name}" for name in SAMPLE)
    return ordered.select(*GROUP, *told, F.expr(f"transform(samples, s -> struct({without_number}))").alias("samples"))


def _sampled(name: str) -> Column:
    """Return a column of a sample, cut."""
    if name in VALUES:
        return _value(name)
    return _cut(name, VALUE_CHARS_MAX) if FINDING_FIELDS[name] == "string" else F.col(name)
