"""The closer look beyond instances: settings of services, records of the cluster, clients over gRPC.

They are compared among members of one kind: real Nacos keeps its own switches, and shows no revision of a client.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from app.rows.rows import RowKind
from app.tools.audit.check.evidence import Evidence
from app.tools.audit.check.evidence_rows import is_service, one_of
from app.tools.audit.check.explain import ABSENT, ROUNDS, findings_of, lasting, newest, owner_number
from app.tools.audit.format.findings import FindingClass

KEY = ("finding_class", "namespace", "service", "name", "family")
OWNER = (
    "array_max(transform(filter(entries, e -> e.owner IS NOT NULL), e -> named_struct("
    "'votes', size(filter(entries, o -> o.owner = e.owner)), 'first', -e.owner, 'owner', e.owner))).owner"
)
"""SQL of the number of a client's own member: the one that most entries name, with equal votes the first."""


def explain_settings(rows: DataFrame, evidence: Evidence) -> DataFrame:
    """Return SETTINGS, RECORD and CLIENT findings: members whose value is not that of most, or of the client's member.

    A record or client that a member lacks is a finding, too. If most members lack it, those that have it get one.
    """
    found = rows.where(
        (is_service() & F.col("protect_threshold").isNotNull())
        | F.col("kind").isin(RowKind.RECORD.value, RowKind.CLIENT.value)
    ).select(
        "namespace",
        "service",
        F.when(is_service(), "").otherwise(F.col("name")).alias("name"),
        _class().alias("finding_class"),
        _family(evidence).alias("family"),
        F.struct(
            "round",
            "number",
            _value().alias("value"),
            F.when(is_service(), F.col("settings_version")).otherwise(F.col("version")).alias("version"),
            F.when(_is_client(), owner_number(evidence.members)).alias("owner"),
        ).alias("entry"),
    )
    grouped = found.where("family IS NOT NULL").groupBy(*KEY).agg(F.sort_array(F.collect_set("entry")).alias("entries"))
    grouped = grouped.selectExpr(
        "*",
        f"{_members(evidence)} AS everyone",
        f"{evidence.voters} AS all_voters",
        f"{OWNER} AS owner",
        *[f"filter(entries, e -> e.round = {r}) AS of_{r}" for r in ROUNDS],
    )
    grouped = grouped.selectExpr(
        "*",
        "array_intersect(everyone, all_voters) AS voters",
        *[f"array_distinct(transform(of_{r}, e -> e.number)) AS has_{r}" for r in ROUNDS],
        *[f"{_reference(r)} AS reference_{r}" for r in ROUNDS],
    )
    grouped = grouped.selectExpr("*", *[f"{_departing(r)} AS found_{r}" for r in ROUNDS])
    both = lasting("number", "found", "expected", "found_version", "expected_version")
    not_in = "f -> NOT exists({}, o -> o.number = f.number)"
    late = (
        f"concat(filter(found_2, {not_in.format('both')}), filter(found_1, {not_in.format('concat(both, found_2)')}))"
    )
    judged = grouped.selectExpr("*", f"{both} AS both").selectExpr(
        *KEY,
        f"explode(concat(transform(both, f -> named_struct('lasting', true, 'one', f)), "
        f"transform({late}, f -> named_struct('lasting', false, 'one', f)))) AS judged",
    )
    one = "judged.one"
    return findings_of(
        judged,
        evidence.members,
        {
            **{name: name for name in ("finding_class", "namespace", "service", "name")},
            "lasting": "judged.lasting",
            "member": f"get(names, {one}.number)",
            "reference": f"get(names, {one}.reference)",
            **{name: f"{one}.{name}" for name in ("found", "expected", "found_version", "expected_version")},
            "detail": "nullif(name, '')",
        },
    )


def _is_client() -> Column:
    return F.col("kind") == RowKind.CLIENT.value


def _class() -> Column:
    return (
        F.when(is_service(), FindingClass.SETTINGS.value)
        .when(_is_client(), FindingClass.CLIENT.value)
        .otherwise(FindingClass.RECORD.value)
    )


def _family(evidence: Evidence) -> Column:
    """Return the kind of the row's member; null for the record or client of a member without others to compare with."""
    settings, others = (
        {
            str(number): place
            for place, family in enumerate(evidence.families.values())
            for number in (family.members if is_settings else family.telling)
        }
        for is_settings in (True, False)
    )
    number = F.col("number").cast("string")
    return F.when(is_service(), one_of(number, settings)).otherwise(one_of(number, others)).cast("int")


def _members(evidence: Evidence) -> str:
    """Return SQL of the numbers of the members that give records and clients, of the kind ``family``."""
    cases = " ".join(
        f"WHEN {place} THEN array({', '.join(map(str, family.telling))})"
        for place, family in enumerate(evidence.families.values())
    )
    return f"CASE family {cases} END"


def _value() -> Column:
    """Return all compared values in one text."""
    settings = F.concat(
        F.lit("protectThreshold="),
        F.col("protect_threshold").cast("string"),
        F.lit(" selector="),
        F.coalesce("selector", F.lit("{}")),
        F.lit(" clusters="),
        F.coalesce("clusters", F.lit("{}")),
        F.lit(" metadata="),
        F.coalesce("metadata", F.lit("{}")),
    )
    revision = F.coalesce(F.concat(F.lit("revision "), F.col("revision").cast("string")), F.lit("there"))
    client = F.concat_ws(" of ", revision, "owner")
    return F.when(is_service(), settings).when(_is_client(), client).otherwise(F.col("value"))


def _reference(r: int) -> str:
    """Return SQL of the right entry: that of a client's own member, else one with the value that most members have.

    With equal votes the newest value is right.
    """
    of_owner = f"filter(of_{r}, e -> e.number = owner)[0]"
    alike = f"size(filter(of_{r}, o -> o.value = e.value))"
    most = f"array_max(transform(of_{r}, e -> {alike}))"
    return f"coalesce({of_owner}, {newest(f'filter(of_{r}, e -> {alike} = {most})')})"


def _departing(r: int) -> str:
    """Return SQL of the members that depart in round ``r``.

    A client that its own member lacks is gone; a service's settings are not compared at members that lack the service.
    """
    reference, lacking = f"reference_{r}", f"array_except(everyone, has_{r})"

    def one(number: str, against: str, found: str, expected: str, versions: tuple[str, str]) -> str:
        texts = {"found": found, "expected": expected, "found_version": versions[0], "expected_version": versions[1]}
        columns = ", ".join(f"'{name}', CAST({text} AS string)" for name, text in texts.items())
        return f"named_struct('number', {number}, 'reference', {against}, {columns})"

    other = one(
        "e.number", f"{reference}.number", "e.value", f"{reference}.value", ("e.version", f"{reference}.version")
    )
    absent = one("m", f"{reference}.number", ABSENT, f"{reference}.value", ("NULL", f"{reference}.version"))
    extra = one("e.number", f"coalesce(owner, {lacking}[0])", "e.value", ABSENT, ("e.version", "NULL"))
    owner_has = f"array_contains(has_{r}, owner)"
    has_say = "owner IS NOT NULL AND array_contains(voters, owner)"
    wanted = f"CASE WHEN {has_say} THEN {owner_has} ELSE size(has_{r}) * 2 >= size(voters) END"
    whole = (
        f"CASE WHEN size(of_{r}) = 0 THEN array() WHEN {wanted} THEN transform({lacking}, m -> {absent}) "
        f"ELSE transform(of_{r}, e -> {extra}) END"
    )
    settings = f"finding_class = '{FindingClass.SETTINGS}'"
    values = f"transform(filter(of_{r}, e -> e.value <> {reference}.value), e -> {other})"
    return (
        f"concat(CASE WHEN {settings} THEN array() ELSE {whole} END, "
        f"CASE WHEN {settings} OR {wanted} THEN {values} ELSE array() END)"
    )
