"""The closer look beyond single instances: services and their owners, one address in two services, bad rows."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from app.rows.rows import CORRUPT
from app.tools.audit.check.evidence import Evidence
from app.tools.audit.check.evidence_rows import is_instance, is_service, path_in_round, seen, short_name
from app.tools.audit.check.explain import ABSENT, ROUNDS, findings_of, lasting, newest, owner_number
from app.tools.audit.format.findings import FindingClass

SAMPLE_CHARACTERS = 120
NOBODY = "CAST(array() AS array<int>)"


def explain_owners(rows: DataFrame, evidence: Evidence) -> DataFrame:
    """Return OWNER findings: services that several members claim to own, or none of those named as owner.

    Also services that one member claims to own while another member names a third one, and services whose only named
    owner is a member that is in no list and not in the dump.
    """
    entry = F.struct("round", "number", owner_number(evidence.members).alias("owner"), F.col("owner").alias("named"))
    services = (
        rows.where(is_service())
        .groupBy("namespace", "service")
        .agg(F.sort_array(F.collect_set(entry)).alias("entries"))
    )
    known = F.array(*[F.lit(address) for address in sorted(evidence.known_owners)])
    services = services.withColumn("known", known).selectExpr("*", *[f"{_claimers(r)} AS claimers_{r}" for r in ROUNDS])
    services = services.selectExpr("*", *[f"{_disputing(r)} AS found_{r}" for r in ROUNDS])
    kinds = [f"least(size(claimers_{r}), 2)" for r in ROUNDS]
    same = f"({kinds[0]} = {kinds[1]} AND (size(claimers_2) <> 1 OR claimers_1 = claimers_2))"
    both = f"CASE WHEN {same} THEN array_intersect(found_1, found_2) ELSE {NOBODY} END"
    services = services.selectExpr("*", f"{both} AS both", "CASE WHEN size(found_2) > 0 THEN 2 ELSE 1 END AS shown")
    services = services.selectExpr(
        "*",
        # Of two members with a claim each, one alone is no dispute.
        f"size(both) >= {kinds[1]} AND size(both) > 0 AS lasting",
        "CASE WHEN shown = 2 THEN claimers_2 ELSE claimers_1 END AS claimers",
    )
    of_shown = "CASE WHEN shown = 2 THEN found_2 ELSE found_1 END"
    services = services.selectExpr("*", f"CASE WHEN lasting THEN both ELSE {of_shown} END AS members")
    return findings_of(services.where("size(members) > 0"), evidence.members, _owner_columns())


def _owner_columns() -> dict[str, str]:
    """Return SQL of the columns of an OWNER finding, of the members and claimers of the round that it shows."""
    shown = "filter(entries, e -> e.round = shown AND array_contains(members, e.number) AND e.named IS NOT NULL)"
    others = f"array_join(array_sort(array_distinct(transform({shown}, e -> e.named))), ', ')"
    listed = "array_join(transform(members, m -> get(names, m)), ', ')"
    claimer = "get(names, claimers[0])"
    is_wrong = "size(claimers) = 1 AND NOT array_contains(members, claimers[0])"
    is_unknown = f"NOT exists({shown}, e -> array_contains(known, e.named))"
    several = f"concat({listed}, ' each claim to be responsible')"
    wrong = f"concat({listed}, ' names ', {others}, ', and ', {claimer}, ' claims to be responsible')"
    unknown = f"concat({listed}, ' name ', {others}, ', which is in no list and not in the dump')"
    nobody = f"concat('none of ', {listed}, ' claims to be responsible')"
    return {
        "finding_class": f"'{FindingClass.OWNER}'",
        "lasting": "lasting",
        "namespace": "namespace",
        "service": "service",
        "member": "get(names, members[0])",
        "reference": f"CASE WHEN {is_wrong} THEN {claimer} END",
        "found": listed,
        "expected": f"CASE WHEN {is_wrong} THEN {claimer} END",
        "detail": f"CASE WHEN size(claimers) > 1 THEN {several} WHEN {is_wrong} THEN {wrong} "
        f"WHEN {is_unknown} THEN {unknown} ELSE {nobody} END",
    }


def _claimers(r: int) -> str:
    """Return SQL of the sorted numbers of the members that name themselves as owner in round ``r``."""
    return f"array_distinct(transform(filter(entries, e -> e.round = {r} AND e.number = e.owner), e -> e.number))"


def _disputing(r: int) -> str:
    """Return SQL of the sorted numbers of the members that disagree on a service's owner in round ``r``."""
    entries = f"filter(entries, e -> e.round = {r})"
    has = f"array_distinct(transform({entries}, e -> e.number))"
    named = f"array_distinct(filter(transform({entries}, e -> e.owner), o -> o IS NOT NULL))"
    texts = f"array_distinct(filter(transform({entries}, e -> e.named), o -> o IS NOT NULL))"
    # An owner that did not answer, or lacks the service, may be right as long as all name it.
    nobody = (
        f"size({named}) > 0 AND (size({texts}) > 1 OR size(array_except({named}, {has})) = 0) "
        f"OR exists({texts}, t -> NOT array_contains(known, t))"
    )
    wrong = f"filter({entries}, e -> e.named IS NOT NULL AND NOT (e.owner <=> claimers_{r}[0]))"
    others = f"array_distinct(transform({wrong}, e -> e.number))"
    return (
        f"CASE WHEN size(claimers_{r}) > 1 THEN claimers_{r} WHEN size(claimers_{r}) = 1 THEN {others} "
        f"WHEN {nobody} THEN {has} ELSE {NOBODY} END"
    )


def explain_services(rows: DataFrame, evidence: Evidence) -> DataFrame:
    """Return SERVICE findings, services without instances that only some members have, and BEHIND ones of versions.

    A service whose instances differ has findings of these instances instead.
    """
    service = F.when(is_service(), F.struct("round", "number", "version"))
    services = (
        rows.where(is_service() | is_instance())
        .groupBy("namespace", "service")
        .agg(
            F.sort_array(F.collect_set(service)).alias("entries"),
            F.max(is_instance()).alias("has_suspects"),
            F.coalesce(F.max("instances"), F.lit(0)).alias("instances"),
        )
        .where("NOT has_suspects AND size(entries) > 0")
    )
    services = services.selectExpr("*", *[f"filter(entries, e -> e.round = {r}) AS of_{r}" for r in ROUNDS])
    services = services.selectExpr(
        "*",
        f"{evidence.everyone} AS everyone",
        f"{evidence.voters} AS voters",
        *[f"array_distinct(transform(of_{r}, e -> e.number)) AS has_{r}" for r in ROUNDS],
        *[f"{newest(f'of_{r}')} AS newest_{r}" for r in ROUNDS],
    )
    services = services.selectExpr("*", *[f"{_departing(r)} AS found_{r}" for r in ROUNDS])
    # A version that catches up is normal during a change.
    is_new = f"f -> f.finding_class = '{FindingClass.SERVICE}' AND NOT exists({{}}, o -> o.number = f.number)"
    of_service = "filter({}, o -> o.finding_class = '" + FindingClass.SERVICE + "')"
    late = (
        f"concat(filter(found_2, {is_new.format(of_service.format('both'))}), "
        f"filter(found_1, {is_new.format(of_service.format('concat(both, found_2)'))}))"
    )
    services = services.selectExpr("*", f"{lasting('finding_class', 'number', 'found', 'expected')} AS both")
    services = services.selectExpr(
        "namespace",
        "service",
        f"explode(concat(transform(both, f -> named_struct('lasting', true, 'one', f)), "
        f"transform({late}, f -> named_struct('lasting', false, 'one', f)))) AS judged",
    )
    one = "judged.one"
    return findings_of(
        services,
        evidence.members,
        {
            "finding_class": f"{one}.finding_class",
            "lasting": "judged.lasting",
            "namespace": "namespace",
            "service": "service",
            "member": f"get(names, {one}.number)",
            "reference": f"get(names, {one}.reference)",
            **{name: f"{one}.{name}" for name in ("found", "expected")},
            "found_version": f"CASE WHEN {one}.finding_class = '{FindingClass.BEHIND}' THEN {one}.found END",
            "expected_version": f"CASE WHEN {one}.finding_class = '{FindingClass.BEHIND}' THEN {one}.expected END",
        },
    )


def _departing(r: int) -> str:
    """Return SQL of departures in a service's own rows in round ``r``: from most members, or by an older version."""

    def one(finding_class: FindingClass, number: str, reference: str, found: str, expected: str) -> str:
        return (
            f"named_struct('finding_class', '{finding_class}', 'number', {number}, 'reference', {reference}, "
            f"'found', {found}, 'expected', {expected})"
        )

    there = "'there, without instances'"
    lacking = f"array_except(everyone, has_{r})"
    differ = f"instances = 0 AND size(has_{r}) > 0 AND size({lacking}) > 0"
    wanted = f"size(has_{r}) * 2 >= size(voters)"
    missing = one(FindingClass.SERVICE, "m", f"has_{r}[0]", ABSENT, there)
    extra = one(FindingClass.SERVICE, "m", f"{lacking}[0]", there, ABSENT)
    behind = one(FindingClass.BEHIND, "e.number", f"newest_{r}.number", "e.version", f"newest_{r}.version")
    older = f"filter(of_{r}, e -> e.version <> newest_{r}.version)"
    return (
        f"concat(CASE WHEN {differ} THEN CASE WHEN {wanted} THEN transform({lacking}, m -> {missing}) "
        f"ELSE transform(has_{r}, m -> {extra}) END ELSE array() END, transform({older}, e -> {behind}))"
    )


def explain_doubles(rows: DataFrame, evidence: Evidence) -> DataFrame:
    """Return DUPLICATE findings: one address in services of one name in several groups, for each after the first."""
    address = ("namespace", "name", "cluster", "ip", "port")
    keys = (
        rows.where(is_instance() & seen())
        .withColumn("name", short_name(F.col("service")))
        .groupBy(*address)
        .agg(F.sort_array(F.collect_set(F.struct("round", "number", "service", "ephemeral"))).alias("entries"))
        .selectExpr("*", "sort_array(array_distinct(transform(entries, e -> e.service))) AS services")
        .where("size(services) > 1")
        .selectExpr("*", "explode(slice(services, 2, size(services) - 1)) AS service")
    )
    keys = keys.selectExpr("*", *[f"{_holding_both(r)} AS found_{r}" for r in ROUNDS])
    keys = keys.selectExpr("*", "array_intersect(found_1, found_2) AS both")
    of_any = "CASE WHEN size(both) > 0 THEN both WHEN size(found_2) > 0 THEN found_2 ELSE found_1 END"
    keys = keys.selectExpr("*", f"{of_any} AS members")
    others = "array_join(filter(services, s -> s < service), ', ')"
    return findings_of(
        keys.where("size(members) > 0"),
        evidence.members,
        {
            "finding_class": f"'{FindingClass.DUPLICATE}'",
            **{name: name for name in ("namespace", "service", "cluster", "ip", "port")},
            "lasting": "size(both) > 0",
            "ephemeral": "filter(entries, e -> e.service = service)[0].ephemeral",
            "member": "get(names, members[0])",
            "found": "array_join(transform(members, m -> get(names, m)), ', ')",
            "detail": f"concat('the same address is in ', {others})",
        },
    )


def _holding_both(r: int) -> str:
    """Return SQL of the sorted numbers of members that show an address in ``service`` and in an earlier service."""

    def numbers(comparison: str) -> str:
        return f"transform(filter(entries, e -> e.round = {r} AND e.service {comparison} service), e -> e.number)"

    return f"sort_array(array_intersect({numbers('=')}, {numbers('<')}))"


def explain_bad_rows(rows: DataFrame, evidence: Evidence) -> DataFrame:
    """Return CORRUPT findings: one for each file with invalid lines."""
    files = (
        rows.where("bad")
        .groupBy("number", path_in_round("file").alias("path"))
        .agg(F.count(F.lit(1)).alias("lines"), F.min(F.substring(CORRUPT, 1, SAMPLE_CHARACTERS)).alias("sample"))
    )
    return findings_of(
        files,
        evidence.members,
        {
            "finding_class": f"'{FindingClass.CORRUPT}'",
            "lasting": "true",
            "member": "get(names, number)",
            "detail": "concat(path, ': ', lines, ' lines are not rows, such as one', coalesce(': ' || sample, ''))",
        },
    )
