"""LINK findings: the instances of linked clusters at the members of a cluster, against those registered there.

The dumps of all clusters are of one night. Without a linked dump none of this runs.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from app.tools.audit.check.evidence import Evidence, File
from app.tools.audit.check.evidence_rows import is_instance, read_rows, seen
from app.tools.audit.check.files import damaged_files
from app.tools.audit.format.findings import FINDING_FIELDS, FindingClass
from app.tools.audit.format.layout import Night, NoDump, Round, read_night, taken_at_ms
from app.tools.audit.format.manifest import DumpState, Link, MemberDump, Part

KEY = ("namespace", "service", "cluster", "ip", "port", "ephemeral")
GROUP_AND_NAME = r"^(.*?)@@(.*)$"
KINDS = ("missing", "extra", "stale", "differs")
LINKS_MAX = 256
"""Links of all clusters together that one check judges."""
HEARD_MS = 5_000
"""A link that works hears the other cluster more often than that."""
UNSTEADY_MS_MAX = 45_000
"""How long a link may be silent, or keep instances that a young member lacks, without a finding.

It keeps them for 30 s, and needs time to notice a restart.
"""


class BadLinked(Exception):
    """The dump of a linked cluster cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class ClusterDump:
    """The dump of one cluster of a night, and its id towards linked clusters."""

    uri: str
    night: Night
    cluster: str

    def links(self) -> dict[str, Link]:
        """Return the links of the members, by name, as the first member has each that heard the other cluster."""
        links: dict[str, Link] = {}
        for member in self.night.rounds[-1].manifest.members:
            for one in member.links:
                known = links.setdefault(one.name, one)
                if one.cluster and not known.cluster:
                    links[one.name] = one
        return links

    def has(self, servers: Collection[str]) -> bool:
        """Return whether one of these addresses is a member of this cluster."""
        members = self.night.rounds[-1].manifest.members
        return bool({address for one in members for address in (one.address, one.own_address)} & set(servers))

    def is_unsteady(self, name: str) -> bool:
        """Return whether this link was silent in a round, but not for so long that this is a fault."""
        heard_ms = [
            max((one.heard_ago_ms for one in _links_named(each, name)), default=0) for each in self.night.rounds
        ]
        return max(heard_ms) >= HEARD_MS and heard_ms[-1] < UNSTEADY_MS_MAX

    def gaps_ms(self, members: Collection[str]) -> list[int]:
        """Return the time from the first round to the second one, of each of these members."""
        first, second = (
            {one.address: one.taken_ms or taken_at_ms(each.manifest.taken_at) for one in each.manifest.members}
            for each in self.night.rounds
        )
        return [second[one] - first[one] for one in members]


def judge_links(
    spark: SparkSession, dumps: str, night: Night, linked: Collection[str]
) -> tuple[DataFrame | None, list[dict[str, Any]], list[str]]:
    """Return the LINK findings of all links between these clusters, how much each link carried, and notes.

    ``linked``: the dumps of other clusters, of the same night. Shape of a link: as ``Summary.links``.

    Raises:
        BadLinked: such a dump is missing, incomplete or damaged, or two dumps are of one cluster.
    """
    clusters = _clusters(dumps, night, linked)
    found: DataFrame | None = None
    told: list[dict[str, Any]] = []
    notes: list[str] = []
    for here in clusters.values():
        for _, link in sorted(here.links().items()):
            # A link that never heard the other cluster does not know its id.
            by_servers = (one for one in clusters.values() if not link.cluster and one.has(link.servers))
            there = clusters.get(link.cluster) or next(by_servers, None)
            if there is None or there is here or len(told) >= LINKS_MAX:
                notes.append(f"link {link.name} of {here.cluster} is not judged: no dump of its cluster was given")
                continue
            findings, carried = _judge(spark, here, there, link)
            told.append(carried)
            if here.is_unsteady(link.name):
                notes.append(
                    f"link {link.name} of {here.cluster} was silent for a moment: missing instances are not judged"
                )
            if carried["findings"]:
                found = findings if found is None else found.unionByName(findings)
    return found, told, notes


def _clusters(dumps: str, night: Night, linked: Collection[str]) -> dict[str, ClusterDump]:
    clusters: dict[str, ClusterDump] = {}
    for uri in (dumps, *linked):
        try:
            one = night if uri == dumps else read_night(uri, night.date)
        except NoDump as error:
            raise BadLinked(f"the linked dump {uri} cannot be judged: {error}") from None
        ids = {member.cluster for member in one.rounds[-1].manifest.members if member.cluster}
        if len(ids) != 1:
            text = f"its members name {len(ids)} ids of their cluster" if ids else "no member names its cluster"
            raise BadLinked(f"the links of {uri} cannot be judged: {text} (rollcall.cluster.id)")
        [cluster] = ids
        if cluster in clusters:
            raise BadLinked(f"{uri} and {clusters[cluster].uri} are dumps of one cluster")
        clusters[cluster] = ClusterDump(uri, one, cluster)
    return clusters


def _judge(spark: SparkSession, here: ClusterDump, there: ClusterDump, link: Link) -> tuple[DataFrame, dict[str, Any]]:
    """Return the findings of one link, and what it carried."""
    of_link, registered = _evidence(spark, here, lambda one: one.linked), _evidence(spark, there, lambda one: one.parts)
    members = list(of_link.members)
    stated = _registered(read_rows(spark, there.uri, registered), link, len(registered.members)).persist()
    wanted = stated.where("settled").count()
    of_members = spark.range(len(members)).select(F.col("id").cast("int").alias("number"))
    brought = _brought(read_rows(spark, here.uri, of_link), link.name)
    expected = stated.crossJoin(F.broadcast(of_members))
    judged = _judged(expected, brought, here.gaps_ms(members), lacks=not here.is_unsteady(link.name)).persist()
    counts = {(row["number"], row["what"]): row["findings"] for row in _counted(judged)}
    by_kind = {kind: sum(count for (_, what), count in counts.items() if what == kind) for kind in KINDS}
    worst = max(range(len(members)), key=lambda number: sum(counts.get((number, kind), 0) for kind in KINDS), default=0)
    carried = {
        "link": link.name,
        "cluster": here.cluster,
        "origin": there.cluster,
        "instances": wanted,
        "lacking": max((counts.get((number, "missing"), 0) for number in range(len(members))), default=0),
        "findings": sum(by_kind.values()),
        **by_kind,
        "member": members[worst] if members else "",
        "heard_ago_ms": max((one.heard_ago_ms for one in _links_named(here.night.rounds[-1], link.name)), default=0),
    }
    return _findings(judged, members, link, there.cluster), carried


def _links_named(one: Round, name: str) -> list[Link]:
    return [link for member in one.manifest.members for link in member.links if link.name == name]


def _evidence(spark: SparkSession, dump: ClusterDump, parts: Callable[[MemberDump], list[Part]]) -> Evidence:
    """Return the members of a cluster that were dumped in each round, with some of their files.

    Raises:
        BadLinked: none was, or a file is damaged.
    """
    rounds = dump.night.rounds
    states = [{one.address for one in each.manifest.members if one.state is DumpState.DUMPED} for each in rounds]
    members = sorted(set.intersection(*states))
    if not members:
        raise BadLinked(f"no member of {dump.cluster} was dumped in each round")
    files = tuple(
        File(member.address, one.manifest.round, f"{one.folder}/{part.path}", part)
        for one in rounds
        for member in one.manifest.members
        if member.address in members
        for part in parts(member)
    )
    if damaged := damaged_files(spark, dump.uri, dump.night, list(files)):
        path, reason = next(iter(damaged.items()))
        raise BadLinked(f"the links of {dump.cluster} cannot be judged: {path}: {reason}")
    folders = {file.member: file.part.path.partition("/")[0] for file in files}
    taken_at = tuple(one.manifest.taken_at for one in rounds)
    return Evidence(dump.night.date, rounds[0].manifest.run, taken_at, tuple(members), folders, files)


def _value() -> Column:
    """Return the values of an instance in one text, as findings show it."""
    return F.concat_ws(
        " ",
        F.when(F.col("healthy"), "healthy").otherwise("unhealthy"),
        F.when(F.col("enabled"), "enabled").otherwise("disabled"),
        F.concat(F.lit("weight="), F.col("weight").cast("string")),
        F.concat(F.lit("metadata="), F.col("metadata")),
    )


def _registered(rows: DataFrame, link: Link, members: int) -> DataFrame:
    """Return the instances that a link is to carry, by their names here.

    Columns: ``KEY``; ``expected``, the value; ``settled``, true if all members have it alike in both rounds. Only such
    an instance can be missing, or differ; any other may have changed between the dumps.
    """
    chosen = rows.where(is_instance() & seen() & ~F.col("bad")).where(_is_chosen(link))
    named = chosen.withColumn("namespace", _named_here(link.namespace_map)).withColumn("said", _value())
    return (
        named.groupBy(*KEY)
        .agg(
            F.min("said").alias("expected"),
            (F.count_distinct("number", "round") == 2 * members).alias("whole"),
            (F.min("said") == F.max("said")).alias("alike"),
        )
        .select(*KEY, "expected", (F.col("whole") & F.col("alike")).alias("settled"))
    )


def _is_chosen(link: Link) -> Column:
    group, name = (F.regexp_extract("service", GROUP_AND_NAME, number) for number in (1, 2))
    chosen = _fits(F.col("namespace"), link.namespaces) & _fits(group, link.groups) & _fits(name, link.services)
    taken = [one for one in link.namespace_map.values() if one not in link.namespace_map]
    return chosen & ~F.col("namespace").isin(taken) if taken else chosen


def _fits(column: Column, patterns: Collection[str]) -> Column:
    """Return whether a name fits the patterns of a link, as ``LinkFilter`` reads them."""
    chosen = [one for one in patterns if not one.startswith("!")]
    excluded = [one[1:] for one in patterns if one.startswith("!")]
    fits = column.rlike(_regex(chosen)) if chosen else F.lit(True)
    return fits & ~column.rlike(_regex(excluded)) if excluded else fits


def _regex(patterns: Collection[str]) -> str:
    """Return the regular expression, of Java, that whole names match."""
    texts = [
        "".join(".*" if char == "*" else "." if char == "?" else re.escape(char) for char in one) for one in patterns
    ]
    return f"(?s)^({'|'.join(texts)})$"


def _named_here(namespace_map: Mapping[str, str]) -> Column:
    named: Column = F.col("namespace")
    for there, here in namespace_map.items():
        named = F.when(F.col("namespace") == there, here).otherwise(named)
    return named


def _brought(rows: DataFrame, name: str) -> DataFrame:
    """Return what each member has of a link: ``KEY``, ``number``, and its value, age and staleness in each round."""
    found = rows.where(F.col("name") == name).withColumn("said", _value())
    by_round = [
        F.max(F.when(F.col("round") == number, F.struct("said", "beat_age_ms", "silent_ms"))).alias(f"round_{number}")
        for number in (1, 2)
    ]
    return found.groupBy(*KEY, "number").agg(*by_round)


def _judged(expected: DataFrame, brought: DataFrame, gaps_ms: Sequence[int], *, lacks: bool) -> DataFrame:
    """Return what differs: ``KEY``, ``number``, ``what`` (one of ``KINDS``), ``found``, ``expected``, ``age_ms``.

    ``gaps_ms``: the time between the rounds, by the number of the member. ``lacks``: whether missing instances count.
    """
    joined = expected.join(brought, [*KEY, "number"], "full")
    is_there = F.col("round_1").isNotNull() & F.col("round_2").isNotNull()
    is_absent = F.col("round_1").isNull() & F.col("round_2").isNull()
    is_registered, settled = F.col("expected").isNotNull(), F.coalesce("settled", F.lit(False))
    stays = F.col("round_1.said") == F.col("round_2.said")
    was_silent, is_silent = (F.col(f"round_{number}.silent_ms").isNotNull() for number in (1, 2))
    gap_ms = F.get(F.array(*[F.lit(one) for one in gaps_ms]), F.col("number"))
    # One silence over both rounds; an instance that vanished is kept for a while after each restart of a member.
    lasts_ms = F.when(is_registered, gap_ms).otherwise(F.greatest(gap_ms, F.lit(UNSTEADY_MS_MAX)))
    what = (
        F.when(is_absent & settled & F.lit(lacks), "missing")
        .when(was_silent & is_silent & (F.col("round_2.silent_ms") >= lasts_ms), "stale")
        .when(was_silent | is_silent, None)
        .when(is_there & ~is_registered, "extra")
        .when(is_there & settled & stays & (F.col("round_2.said") != F.col("expected")), "differs")
    )
    return joined.select(
        *KEY,
        "number",
        what.alias("what"),
        F.col("round_2.said").alias("found"),
        "expected",
        F.coalesce("round_2.silent_ms", "round_2.beat_age_ms").alias("age_ms"),
    ).where(F.col("what").isNotNull())


def _counted(judged: DataFrame) -> list[Any]:
    return judged.groupBy("number", "what").agg(F.count(F.lit(1)).alias("findings")).collect()


def _findings(judged: DataFrame, members: list[str], link: Link, origin: str) -> DataFrame:
    age = F.concat(
        F.lit(", last heard "), F.round(F.col("age_ms") / 1_000).cast("int").cast("string"), F.lit(" s before")
    )
    detail = F.concat(F.col("what"), F.lit(f": link {link.name} from {origin}"), F.coalesce(age, F.lit("")))
    values = {
        "finding_class": F.lit(FindingClass.LINK.value),
        "lasting": F.lit(True),
        **{name: F.col(name) for name in KEY},
        "name": F.lit(link.name),
        "member": F.get(F.array(*[F.lit(one) for one in members]), F.col("number")),
        "reference": F.lit(origin),
        "found": F.coalesce("found", F.lit("absent")),
        "expected": F.coalesce("expected", F.lit("absent")),
        "detail": detail,
    }
    null = F.lit(None)
    return judged.select(*[values.get(name, null).cast(kind).alias(name) for name, kind in FINDING_FIELDS.items()])
