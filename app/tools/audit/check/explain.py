"""The closer look: the findings of the instances that the main comparison flagged.

Everything here is native expressions over the rows of those keys, a handful a key: at most members x rounds x layers.
They are written as SQL, where one text is one call; as calls of Python they would be a thousand round trips.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from app.rows.rows import Layer
from app.tools.audit.check.evidence import Evidence
from app.tools.audit.check.evidence_rows import is_instance, is_stale, one_of, silence
from app.tools.audit.format.findings import FINDING_FIELDS, FindingClass

COMPARED = {
    FindingClass.HEALTH: "healthy",
    FindingClass.WEIGHT: "weight",
    FindingClass.METADATA: "metadata",
    FindingClass.ENABLED: "enabled",
}
"""The column in which members must agree, by class."""
INSTANCE = ("namespace", "service", "cluster", "ip", "port", "ephemeral")
OF_INSTANCE = (*INSTANCE, "owner", "silent_ms")
ABSENT = "'absent'"
ROUNDS = (1, 2)


def explain_instances(rows: DataFrame, evidence: Evidence) -> DataFrame:
    """Return the findings of single instances, with the columns of ``FINDING_FIELDS``; their history is null."""
    entry = F.struct(
        "number",
        "round",
        "layer",
        "version",
        "healthy",
        "enabled",
        "weight",
        "metadata",
        owner_number(evidence.members).alias("owner"),
        is_stale().alias("stale"),
        silence().alias("age_ms"),
    )
    instances = rows.where(is_instance()).groupBy(*INSTANCE).agg(F.sort_array(F.collect_list(entry)).alias("entries"))
    named = "array_distinct(filter(transform(entries, e -> e.owner), o -> o IS NOT NULL))"
    instances = instances.selectExpr(
        *INSTANCE,
        "entries",
        f"CASE WHEN size({named}) = 1 THEN {named}[0] END AS owner",
        f"{evidence.everyone} AS everyone",
        f"{evidence.voters} AS voters",
        "array_max(transform(filter(entries, e -> e.stale), e -> e.age_ms)) AS silent_ms",
        *[f"filter(entries, e -> e.round = {r} AND e.layer <> '{Layer.DATUM}') AS seen_{r}" for r in ROUNDS],
    )
    instances = instances.selectExpr(
        "*",
        *[f"array_distinct(transform(seen_{r}, e -> e.number)) AS has_{r}" for r in ROUNDS],
        *[f"coalesce(filter(seen_{r}, e -> e.number = owner), array()) AS owned_{r}" for r in ROUNDS],
        *[f"{_most(r, column)} AS most_{column}_{r}" for r in ROUNDS for column in COMPARED.values()],
    )
    instances = instances.selectExpr("*", *[f"{newest(f'seen_{r}')} AS newest_{r}" for r in ROUNDS])
    found = instances.selectExpr(*OF_INSTANCE, *[f"{_candidates(r)} AS found_{r}" for r in ROUNDS])
    return _named(_judge(found), evidence.members)


def newest(entries: str) -> str:
    """Return SQL of the entry with the highest version, ``epoch.counter.writer`` (R1); of equals the first member's."""
    number = "try_cast(split_part(e.version, '.', {}) AS bigint)"
    versions = ", ".join(f"'n{part}', {number.format(part)}" for part in (1, 2))
    # With equal numbers the texts differ in their ends, which are the writers.
    order = f"{versions}, 'writer', e.version, 'first', -e.number"
    return f"array_max(transform({entries}, e -> named_struct({order}, 'entry', e))).entry"


def lasting(*names: str) -> str:
    """Return SQL of the candidates of round 2 that round 1 has, too: equal in the fields with these names.

    The reference is not such a field: of several members with the right value, any one may be it in either round.
    """
    same = " AND ".join(f"o.{name} <=> c.{name}" for name in names)
    return f"array_distinct(filter(found_2, c -> exists(found_1, o -> {same})))"


def _candidate(
    finding_class: str,
    number: str,
    reference: str = "NULL",
    found: str = "NULL",
    expected: str = "NULL",
    found_version: str = "NULL",
    expected_version: str = "NULL",
) -> str:
    """Return SQL of a candidate: a finding of one round, which lasts if both have it with equal versions and values.

    ``finding_class``: a class, or an SQL expression ``CASE ... END`` of one; ``number`` and ``reference``: SQL of
    members' numbers; the other arguments: SQL of texts.
    """
    texts = {
        "found": found,
        "expected": expected,
        "found_version": found_version,
        "expected_version": expected_version,
    }
    columns = [f"'{name}', CAST({text} AS string)" for name, text in texts.items()]
    numbers = f"'number', CAST({number} AS int), 'reference', CAST({reference} AS int)"
    named = finding_class if finding_class.startswith("CASE") else f"'{finding_class}'"
    return f"named_struct('finding_class', {named}, {numbers}, {', '.join(columns)})"


def _candidates(r: int) -> str:
    """Return SQL of the array of all candidates of an instance in round ``r``."""
    values = [_values(r, finding_class, column) for finding_class, column in COMPARED.items()]
    return f"concat({', '.join([_missing(r), _extra(r), *values, _behind(r), _drift(r), _stale(r), _twice(r)])})"


def _wanted(r: int) -> str:
    """Return SQL of whether members should have an instance.

    They should if its owner has it, or without an owner if at least half of them have it. An owner that lacks it, while
    most members and at least two have it, has lost it: the owner's word alone does not make the others remove it. A
    member that holds nothing at all has lost everything and does not count, even if it is the owner.
    """
    voted = f"size(has_{r}) * 2 >= size(voters)"
    lost = f"size(has_{r}) >= 2 AND size(has_{r}) * 2 > size(voters)"
    owned = f"array_contains(has_{r}, owner) OR ({lost})"
    has_say = "owner IS NOT NULL AND array_contains(voters, owner)"
    return f"size(seen_{r}) > 0 AND CASE WHEN {has_say} THEN {owned} ELSE {voted} END"


def _missing(r: int) -> str:
    reference = f"coalesce(owned_{r}[0], seen_{r}[0])"
    one = _candidate(
        FindingClass.MISSING,
        "m",
        f"{reference}.number",
        ABSENT,
        _text(reference),
        expected_version=f"{reference}.version",
    )
    return f"transform(filter(everyone, m -> {_wanted(r)} AND NOT array_contains(has_{r}, m)), m -> {one})"


def _extra(r: int) -> str:
    lacking = f"coalesce(owner, array_except(everyone, has_{r})[0])"
    one = _candidate(FindingClass.EXTRA, "e.number", lacking, _text("e"), ABSENT, "e.version")
    return f"transform(filter(seen_{r}, e -> NOT ({_wanted(r)})), e -> {one})"


def _most(r: int, column: str) -> str:
    """Return SQL of a row with the value that most members have; with equal votes, that of the first member."""
    alike = f"size(filter(seen_{r}, o -> o.{column} <=> e.{column}))"
    votes = f"transform(seen_{r}, e -> named_struct('votes', {alike}, 'first', -e.number, 'entry', e))"
    return f"array_max({votes}).entry"


def _values(r: int, finding_class: FindingClass, column: str) -> str:
    """Return SQL of candidates: members whose value departs from the owner's or, without it, from most members'."""
    reference = f"coalesce(owned_{r}[0], most_{column}_{r})"
    silent = f"coalesce(e.version = {reference}.version, false)"

    def text(entry: str) -> str:
        # One finding for all values that departed without a new version.
        return f"CASE WHEN {silent} THEN {_text(entry)} ELSE CAST({entry}.{column} AS string) END"

    one = _candidate(
        f"CASE WHEN {silent} THEN '{FindingClass.SILENT_CORRUPTION}' ELSE '{finding_class}' END",
        "e.number",
        f"{reference}.number",
        text("e"),
        text(reference),
        "e.version",
        f"{reference}.version",
    )
    return f"transform(filter(seen_{r}, e -> NOT (e.{column} <=> {reference}.{column})), e -> {one})"


def _behind(r: int) -> str:
    """Return SQL of candidates: members with the values of the highest version under a lower one."""
    last = f"newest_{r}"
    alike = " AND ".join(f"e.{column} <=> {last}.{column}" for column in COMPARED.values())
    one = _candidate(
        FindingClass.BEHIND,
        "e.number",
        f"{last}.number",
        "e.version",
        f"{last}.version",
        "e.version",
        f"{last}.version",
    )
    return f"transform(filter(seen_{r}, e -> e.version <> {last}.version AND {alike}), e -> {one})"


def _drift(r: int) -> str:
    """Return SQL of candidates: members whose replicated datum differs from the view that their clients see."""

    def text(layer: Layer) -> str:
        row = f"filter(entries, e -> e.round = {r} AND e.number = m AND e.layer = '{layer}')[0]"
        return f"coalesce({_text(row, health=False)}, {ABSENT})"

    one = _candidate(FindingClass.DRIFT, "m", "m", text(Layer.VIEW), text(Layer.DATUM))
    return f"filter(transform(everyone, m -> {one}), d -> d.found <> d.expected)"


def _stale(r: int) -> str:
    one = _candidate(FindingClass.STALE, "e.number", found_version="e.version")
    return f"transform(filter(entries, e -> e.round = {r} AND e.stale), e -> {one})"


def _twice(r: int) -> str:
    times = f"size(filter(seen_{r}, e -> e.number = m))"
    one = _candidate(FindingClass.DUPLICATE, "m", found=f"concat({times}, ' times')", expected="'once'")
    return f"transform(filter(everyone, m -> {times} > 1), m -> {one})"


def _text(entry: str, *, health: bool = True) -> str:
    """Return SQL of an instance's values in one text; null when there is no instance."""
    names = ("healthy", "enabled", "weight", "metadata") if health else ("enabled", "weight", "metadata")
    parts = ", ' ', ".join(f"'{name}=', {entry}.{name}" for name in names)
    return f"concat({parts})"


def _judge(found: DataFrame) -> DataFrame:
    """Return one row for each finding, in column ``one``; ``lasting`` when the candidates of both rounds are equal.

    Of two different candidates, the second round's is kept; a candidate of one round alone is kept, too.
    """
    equal = ("finding_class", "number", "found", "expected", "found_version", "expected_version")

    def not_in(others: str) -> str:
        return f"c -> NOT exists({others}, o -> o.finding_class = c.finding_class AND o.number = c.number)"

    both = found.selectExpr("*", f"{lasting(*equal)} AS both")
    late = f"concat(filter(found_2, {not_in('both')}), filter(found_1, {not_in('concat(both, found_2)')}))"
    # A version that catches up is normal during a change.
    late = f"array_distinct(filter({late}, c -> c.finding_class <> '{FindingClass.BEHIND}'))"
    struct = "named_struct('lasting', {}, 'one', c)"
    judged = both.selectExpr(
        *OF_INSTANCE,
        f"explode(concat(transform(both, c -> {struct.format('true')}), "
        f"transform({late}, c -> {struct.format('false')}))) AS judged",
    )
    return judged.selectExpr(*OF_INSTANCE, "judged.lasting AS lasting", "judged.one AS one")


def _named(judged: DataFrame, addresses: tuple[str, ...]) -> DataFrame:
    """Return rows of ``_judge`` as findings, with the addresses of members in place of their numbers."""
    silent = "concat('not heard of for ', CAST(silent_ms / 1000 AS bigint), ' s')"
    columns = {
        "finding_class": "one.finding_class",
        "lasting": "lasting",
        **{name: name for name in INSTANCE},
        "member": "get(names, one.number)",
        "reference": "get(names, one.reference)",
        **{name: f"one.{name}" for name in ("found", "expected", "found_version", "expected_version")},
        "detail": f"CASE WHEN one.finding_class = '{FindingClass.STALE}' THEN {silent} "
        f"WHEN one.finding_class = '{FindingClass.MISSING}' AND one.number = owner THEN 'the owner lacks it' END",
    }
    return findings_of(judged, addresses, columns)


def owner_number(addresses: tuple[str, ...]) -> Column:
    """Return the number of the member that a row names as owner; null for an owner outside ``addresses``."""
    return one_of(F.col("owner"), {address: number for number, address in enumerate(addresses)}).cast("int")


def findings_of(frame: DataFrame, addresses: tuple[str, ...], columns: Mapping[str, str]) -> DataFrame:
    """Return rows as findings, by an SQL expression for each column, where ``names`` has the members' addresses.

    A column without an expression is empty if it is a text of the key, else null.
    """
    given = dict.fromkeys(("namespace", "service", "cluster", "ip", "name"), "''") | dict(columns)
    return frame.withColumn("names", F.array(*[F.lit(address) for address in addresses])).selectExpr(
        *[f"CAST({given.get(name, 'NULL')} AS {kind}) AS {name}" for name, kind in FINDING_FIELDS.items()]
    )
