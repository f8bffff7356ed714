"""The history of findings, and the faults behind them: tonight's take it over from the last night that was judged."""

from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from app.tools.audit.format.commits import FAULT_FIELDS, FAULT_KEY
from app.tools.audit.format.findings import FINDING_FIELDS, FindingClass


@dataclass(frozen=True, slots=True)
class Looked:
    """The scope of a night: the members of its dump, those that were compared, and the classes left out."""

    night: str
    members: Collection[str]
    compared: Collection[str]
    ignored: Collection[FindingClass] = ()


def with_history(findings: DataFrame, earlier: DataFrame | None, night: str, taken_at: str) -> DataFrame:
    """Return findings with their history columns filled; a finding that does not last has no history before tonight.

    ``earlier``: the faults that are open after the last judged night. Several of one key, which earlier releases told
    apart by the reference, are one fault, as old as the oldest.
    """
    findings = _with_pair(findings.drop("since", "first_seen", "last_seen", "nights_open"))
    if earlier is None:
        known = findings.select("*", *[F.lit(None).alias(f"earlier_{name}") for name in _KEPT])
    else:
        grouped = _with_pair(earlier).groupBy(*_KEY).agg(*[_KEPT[name](name).alias(name) for name in _KEPT])
        before = grouped.select(*[F.col(name).alias(f"earlier_{name}") for name in (*_KEY, *_KEPT)])
        known = findings.join(before, _same(findings, before, "earlier") & findings["lasting"], "left")
    values: dict[str, Column] = {
        "since": F.coalesce("earlier_since", F.lit(taken_at)),
        "first_seen": F.coalesce("earlier_opened_night", F.lit(night)),
        "last_seen": F.lit(night),
        "nights_open": F.coalesce("earlier_nights_open", F.lit(0)) + 1,
    }
    return known.select(
        *[values.get(name, F.col(name)).cast(kind).alias(name) for name, kind in FINDING_FIELDS.items()]
    )


_KEPT = {"since": F.min, "opened_night": F.min, "nights_open": F.max}
_KEY = (*FAULT_KEY, "pair")


def _with_pair(frame: DataFrame) -> DataFrame:
    """Return the frame with ``pair``: the other member that a fault of two members is about, else null."""
    is_pair = F.col("finding_class") == FindingClass.MEMBERSHIP.value
    return frame.withColumn("pair", F.when(is_pair, F.col("reference")))


def _same(frame: DataFrame, other: DataFrame, prefix: str) -> Column:
    """Return whether two rows are of one fault; the columns of ``other`` begin with ``prefix``."""
    same = F.lit(True)
    for name in _KEY:
        same = same & frame[name].eqNullSafe(other[f"{prefix}_{name}"])
    return same


def faults_after(findings: DataFrame, earlier: DataFrame | None, looked: Looked) -> DataFrame:
    """Return the faults that are open after a night, and those that it closed. Columns: ``FAULT_FIELDS``.

    An earlier fault is closed by a night that could have found it: one that compared its members and looked for its
    class.
    """
    tonight = _with_pair(findings.where("lasting")).dropDuplicates(list(_KEY))
    tonight = tonight.withColumn("opened_night", F.col("first_seen"))
    faults = _faults(tonight, closed=F.lit(None), ended=F.lit(None))
    if earlier is None:
        return faults
    found = tonight.select(*[F.col(name).alias(f"found_{name}") for name in _KEY])
    before = _with_pair(earlier)
    gone = before.join(found, _same(before, found, "found"), "left_anti")
    has_left = ~_both_in(looked.members)
    healed = F.col("finding_class").isin(FindingClass.ABSENT_MEMBER.value) | _both_in(looked.compared)
    healed = healed & ~F.col("finding_class").isin([one.value for one in looked.ignored])
    ended = F.when(has_left, F.lit("left")).when(healed, F.lit("healed"))
    closed = F.when(ended.isNotNull(), F.lit(looked.night))
    return faults.unionByName(_faults(gone, closed=closed, ended=ended))


def _both_in(members: Collection[str]) -> Column:
    """Return whether a fault's member, and its reference if it has one, are among these."""
    among = [F.col(name).isin(list(members)) for name in ("member", "reference")]
    return F.coalesce(among[0], F.lit(True)) & F.coalesce(among[1], F.lit(True))


def _faults(frame: DataFrame, *, closed: Column, ended: Column) -> DataFrame:
    values = {"closed_night": closed, "ended": ended}
    return frame.select(*[values.get(name, F.col(name)).cast(kind).alias(name) for name, kind in FAULT_FIELDS.items()])
