"""The closer look beyond single instances: owners of services, one address in two services, bad rows."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from app.audit.check.evidence_rows import CORRUPT, is_service, path_in_round, seen, short_name
from app.audit.check.explain import ROUNDS, findings_of, owner_number
from app.audit.format.findings import FindingClass

SAMPLE_CHARACTERS = 120
NOBODY = "CAST(array() AS array<int>)"


def explain_owners(rows: DataFrame, addresses: tuple[str, ...]) -> DataFrame:
    """OWNER findings: services that several members, or none of those named as owner, claim to own."""
    services = (
        rows.where(is_service())
        .groupBy("namespace", "service")
        .agg(F.collect_set(F.struct("round", "number", owner_number(addresses).alias("owner"))).alias("entries"))
    )
    services = services.selectExpr("*", *[f"{_disputing(r)} AS found_{r}" for r in ROUNDS])
    services = services.selectExpr(
        "*",
        "CASE WHEN size(found_2) > 0 THEN found_2 ELSE found_1 END AS members",
        "size(array_distinct(transform(filter(entries, e -> e.number = e.owner), e -> e.number))) AS claimers",
    ).where("size(members) > 0")
    listed = "array_join(transform(members, m -> get(names, m)), ', ')"
    several = f"concat({listed}, ' each take themselves for responsible')"
    nobody = f"concat('none of ', {listed}, ' takes itself for responsible')"
    return findings_of(
        services,
        addresses,
        {
            "finding_class": f"'{FindingClass.OWNER}'",
            "lasting": "found_1 = found_2",
            "namespace": "namespace",
            "service": "service",
            "member": "get(names, members[0])",
            "found": listed,
            "detail": f"CASE WHEN claimers > 1 THEN {several} ELSE {nobody} END",
        },
    )


def _disputing(r: int) -> str:
    """SQL of the sorted numbers of the members that disagree on a service's owner in round ``r``; empty if none do."""
    entries = f"filter(entries, e -> e.round = {r})"
    has = f"sort_array(array_distinct(transform({entries}, e -> e.number)))"
    named = f"array_distinct(filter(transform({entries}, e -> e.owner), o -> o IS NOT NULL))"
    claimers = f"sort_array(array_distinct(transform(filter({entries}, e -> e.number = e.owner), e -> e.number)))"
    nobody = f"size({claimers}) = 0 AND size({named}) > 0 AND size(array_except({named}, {has})) = 0"
    return f"CASE WHEN size({claimers}) > 1 THEN {claimers} WHEN {nobody} THEN {has} ELSE {NOBODY} END"


def explain_doubles(rows: DataFrame, addresses: tuple[str, ...]) -> DataFrame:
    """DUPLICATE findings: one address in services of the same name in several groups, one for each after the first."""
    address = ("namespace", "name", "cluster", "ip", "port")
    keys = (
        rows.where(~is_service() & seen())
        .withColumn("name", short_name(F.col("service")))
        .groupBy(*address)
        .agg(F.collect_set(F.struct("round", "number", "service", "ephemeral")).alias("entries"))
        .selectExpr("*", "sort_array(array_distinct(transform(entries, e -> e.service))) AS services")
        .where("size(services) > 1")
        .selectExpr("*", "explode(slice(services, 2, size(services) - 1)) AS service")
    )
    keys = keys.selectExpr("*", *[f"{_holding_both(r)} AS found_{r}" for r in ROUNDS])
    keys = keys.selectExpr("*", "CASE WHEN size(found_2) > 0 THEN found_2 ELSE found_1 END AS members")
    others = "array_join(filter(services, s -> s < service), ', ')"
    return findings_of(
        keys.where("size(members) > 0"),
        addresses,
        {
            "finding_class": f"'{FindingClass.DUPLICATE}'",
            **{name: name for name in ("namespace", "service", "cluster", "ip", "port")},
            "lasting": "found_1 = found_2",
            "ephemeral": "filter(entries, e -> e.service = service)[0].ephemeral",
            "member": "get(names, members[0])",
            "found": "array_join(transform(members, m -> get(names, m)), ', ')",
            "detail": f"concat('the same address is in ', {others})",
        },
    )


def _holding_both(r: int) -> str:
    """SQL of the sorted numbers of members that show an address in ``service`` and in a service sorted before it."""

    def numbers(comparison: str) -> str:
        return f"transform(filter(entries, e -> e.round = {r} AND e.service {comparison} service), e -> e.number)"

    return f"sort_array(array_intersect({numbers('=')}, {numbers('<')}))"


def explain_bad_rows(rows: DataFrame, addresses: tuple[str, ...]) -> DataFrame:
    """CORRUPT findings: one for each file with lines that are no rows."""
    files = (
        rows.where("bad")
        .groupBy("number", path_in_round("file").alias("path"))
        .agg(F.count(F.lit(1)).alias("lines"), F.min(F.substring(CORRUPT, 1, SAMPLE_CHARACTERS)).alias("sample"))
    )
    return findings_of(
        files,
        addresses,
        {
            "finding_class": f"'{FindingClass.CORRUPT}'",
            "lasting": "true",
            "member": "get(names, number)",
            "detail": "concat(path, ': ', lines, ' lines are no rows, such as one', coalesce(': ' || sample, ''))",
        },
    )
