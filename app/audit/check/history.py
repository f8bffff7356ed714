"""The history of findings: tonight's findings take it over from those of the last night that was judged."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from app.audit.format.findings import FINDING_FIELDS

SAME = ("finding_class", "namespace", "service", "cluster", "ip", "port", "ephemeral", "name", "member", "reference")
"""The columns that are equal in two nights' findings of one fault: the class, the key, the member and its reference."""


def with_history(findings: DataFrame, earlier: DataFrame | None, night: str, taken_at: str) -> DataFrame:
    """Findings with their history columns filled; a finding that is not lasting has no history before tonight."""
    findings = findings.drop("since", "first_seen", "last_seen", "nights_open")
    if earlier is None:
        known = findings.select("*", *[F.lit(None).alias(f"earlier_{name}") for name in _KEPT])
    else:
        renamed = [F.col(name).alias(f"earlier_{name}") for name in (*SAME, *_KEPT)]
        before = earlier.where("lasting").select(*renamed).dropDuplicates([f"earlier_{name}" for name in SAME])
        same = F.lit(True)
        for name in SAME:
            same = same & findings[name].eqNullSafe(before[f"earlier_{name}"])
        known = findings.join(before, same & findings["lasting"], "left")
    values: dict[str, Column] = {
        "since": F.coalesce("earlier_since", F.lit(taken_at)),
        "first_seen": F.coalesce("earlier_first_seen", F.lit(night)),
        "last_seen": F.lit(night),
        "nights_open": F.coalesce("earlier_nights_open", F.lit(0)) + 1,
    }
    return known.select(
        *[values.get(name, F.col(name)).cast(kind).alias(name) for name, kind in FINDING_FIELDS.items()]
    )


_KEPT = ("since", "first_seen", "nights_open")
