"""The main comparison: one pass over all rows and one shuffle, which find the keys that are worth a closer look.

A key is the hash of an instance's address or of a service; hashes and masks of members are compared. So a row takes
some 60 bytes in the shuffle with any metadata, and the aggregation works on fixed-width numbers only. Two keys of
one hash cannot hide anything: the closer look tells them apart.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntFlag
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from app.rows.rows import BUCKET, Layer, RowKind
from app.tools.audit.check.evidence_rows import (
    WORD_MEMBERS,
    bit_of,
    is_instance,
    is_service,
    is_stale,
    one_of,
    seen,
    service_key,
    short_name,
)


@dataclass(frozen=True, slots=True)
class Flagged:
    """The suspect keys. Columns of ``frame``: ``key``, ``services`` (the keys of its services), ``may_last``.

    ``may_last`` is false where members differ in one round alone. ``present_0`` and so on: masks of the members that
    have the key, by ``bit_of``; ``is_instance``. The counts are known once the frame is computed.
    """

    frame: DataFrame
    observed: Observation

    def counts(self) -> dict[str, int]:
        """Return numbers by name: ``rows``, ``bad`` rows, distinct ``services`` and ``instances``.

        Also ``service_rows`` and ``instance_rows``; ``misfit``, which is 0 if each service's row counts the rows of
        its instances (see ``misfit``); and the numbers of suspect keys: those that ``may_last``, ``suspect_instances``,
        ``suspect_doubles`` (addresses in several services), ``suspect_services`` and ``suspect_others``; and
        ``suspect_sampled``, those in buckets of the sample, which should be free of them.
        """
        return {name: int(value or 0) for name, value in self.observed.get.items()}


def with_key(rows: DataFrame) -> DataFrame:
    """Return the rows with ``key``, which is equal for rows that must be compared with each other.

    Instances of one address share a key under the short name of their service, also across groups.
    """
    service = F.when(is_instance(), short_name(F.col("service"))).otherwise(F.col("service"))
    return rows.withColumn("key", F.xxhash64("kind", "namespace", service, "cluster", "ip", "port", "name"))


def flag(
    rows: DataFrame, addresses: tuple[str, ...], known_owners: Collection[str], sample: Collection[int] = ()
) -> Flagged:
    """Return the keys of ``rows`` (as of ``evidence_rows.read_rows``) that may have findings.

    ``known_owners``: the addresses of members that may own a service although they are not compared. ``sample``: the
    buckets in which all members should have the same rows.
    """
    observed = Observation("compared")
    members = len(addresses)
    owner = one_of(F.col("owner"), {address: number for number, address in enumerate(addresses)})
    narrow = with_key(rows).select(
        F.when(~F.col("bad"), F.col("key")).alias("key"),  # all that are no rows come together under null
        *(["bit", "word"] if members > WORD_MEMBERS else ["bit"]),
        _marks(owner, addresses, known_owners, sample).alias("marks"),
        F.when(is_service() | is_instance(), service_key(F.col("namespace"), F.col("service"))).alias("service_key"),
        F.when(~is_instance() | seen(), _value()).alias("value"),
        F.when(is_service(), owner).cast("int").alias("owner"),
        F.when((F.col("round") == 2) & F.col("version").isNotNull(), F.xxhash64("version")).alias("version"),
        _fitting().alias("fitting"),
    )
    # Rows are not aggregated before the shuffle: one file has a key once, and these few columns are less than the sums.
    rows_of_key = narrow.repartition("key")
    if members <= WORD_MEMBERS:
        rows_of_key = rows_of_key.withColumn("word", F.lit(0))
    words = range(-(-members // WORD_MEMBERS))
    grouped = rows_of_key.groupBy("key").agg(*_aggregates(words))
    grouped = grouped.withColumns({"is_service": _has(Mark.SERVICE), "is_instance": _has(Mark.INSTANCE)})
    suspicion, may_last = (F.col("key").isNotNull() & one for one in _suspicions(members))
    grouped = grouped.withColumns({"suspicious": suspicion, "may_last": suspicion & may_last})
    suspects = (
        grouped.observe(observed, *_totals(words))
        .where("suspicious")
        .select(
            "key",
            F.array_compact(F.array("least_service", "most_service")).alias("services"),
            "may_last",
            "is_instance",
            *[f"present_{word}" for word in words],
        )
    )
    return Flagged(suspects, observed)


def lacks(suspects: DataFrame, members: int) -> DataFrame:
    """Return how many instances of a service each member lacks in both rounds, while others have them.

    Columns: ``service_key``, and ``lacks``, an array by the numbers of the members. Only of services with suspects.
    """
    counts = []
    for number in range(members):
        both = F.lit(bit_of(number, 1) | bit_of(number, 2))
        has_none = F.col(f"present_{number // WORD_MEMBERS}").bitwiseAND(both) == 0
        counts.append(F.count_if(has_none))
    of_one = suspects.where(F.col("is_instance") & (F.size(F.array_distinct("services")) == 1))
    return of_one.groupBy(F.col("services")[0].alias("service_key")).agg(F.array(*counts).alias("lacks"))


def with_services(suspects: DataFrame) -> DataFrame:
    """Return the keys of suspects and of their services, each once, in column ``key``."""
    keys = F.concat(F.array("key"), "services")
    return suspects.select(F.explode(keys).alias("key")).dropDuplicates()


def _fitting() -> Column:
    """Return the instances that a service's row counts, and -1 for each instance; null for rows that do not count."""
    return F.when(is_service(), F.col("instances")).when(is_instance() & seen(), F.lit(-1))


def misfit() -> Column:
    """Return a number whose sum over the rows of a service at one member in one round is 0 if its row counts them.

    Each such group has a separate weight, a hash, so that groups do not make up for each other in one sum.
    """
    return F.xxhash64("service_key", "bit", "word") * F.col("fitting")


class Mark(IntFlag):
    """A fact about a row. The marks of a key are those of all its rows."""

    SERVICE = 1
    INSTANCE = 2
    TROUBLE = 4
    """The row alone is worth a closer look."""
    STRANGE_OWNER = 8
    """A service's owner is not compared."""
    CLAIMED_1 = 16
    CLAIMED_2 = 32
    """The member names itself as the owner of the service, in round 1 or 2."""
    SAMPLED = 64
    """The row is in a bucket in which all members should have the same rows."""


def _marks(owner: Column, addresses: tuple[str, ...], known_owners: Collection[str], sample: Collection[int]) -> Column:
    """Return the marks of a row. ``owner``: the number of the member that it names as owner."""
    claimed = is_service() & (owner == F.col("number"))
    facts = {
        Mark.SERVICE: is_service(),
        Mark.INSTANCE: is_instance(),
        Mark.TROUBLE: _is_trouble(known_owners),
        Mark.STRANGE_OWNER: is_service() & ~F.col("owner").isin(*addresses),
        Mark.CLAIMED_1: claimed & (F.col("round") == 1),
        Mark.CLAIMED_2: claimed & (F.col("round") == 2),
    }
    if sample:
        facts[Mark.SAMPLED] = F.col(BUCKET).isin(sorted(sample))
    return reduce(Column.__add__, (F.when(is_so, mark.value).otherwise(0) for mark, is_so in facts.items()))


def _has(mark: Mark) -> Column:
    """Return whether any row of a key has a mark."""
    return F.col("marks").bitwiseAND(F.lit(mark.value)) != 0


def _is_trouble(known_owners: Collection[str]) -> Column:
    """Return whether a row alone is worth a closer look."""
    of_instance = is_instance() & (is_stale() | (F.col("layer") != Layer.BOTH.value))
    return of_instance | (is_service() & F.coalesce(~F.col("owner").isin(sorted(known_owners)), F.lit(False)))


def _value() -> Column:
    """Return the hash of all values in which members must agree; null for a service whose own values are unknown."""
    of_service = F.xxhash64("protect_threshold", "selector", "clusters", "metadata")
    of_client = F.xxhash64("revision", "owner")
    of_instance = F.xxhash64("ephemeral", "healthy", "enabled", "weight", "metadata")
    return (
        F.when(is_instance(), of_instance)
        .when(is_service(), F.when(F.col("protect_threshold").isNotNull(), of_service))
        .when(F.col("kind") == RowKind.RECORD.value, F.xxhash64("value"))
        .otherwise(of_client)
    )


def _aggregates(words: range) -> list[Column]:
    is_first = F.col("bit") < 1 << WORD_MEMBERS
    values = [
        column
        for number, is_round in ((1, is_first), (2, ~is_first))
        for value in (F.when(is_round, F.col("value")),)
        for column in (F.min(value).alias(f"least_{number}"), F.max(value).alias(f"most_{number}"))
    ]
    return [
        F.count(F.lit(1)).alias("lines"),
        F.bit_or("marks").alias("marks"),
        *[column for word in words for column in _masks(word, is_first)],
        F.min("service_key").alias("least_service"),
        F.max("service_key").alias("most_service"),
        F.sum(misfit()).alias("misfit"),
        # Of the second round alone: what lasts is told in both.
        F.min("version").alias("least_version"),
        F.max("version").alias("most_version"),
        *values,
    ]


def _masks(word: int, is_first: Column) -> list[Column]:
    """Return masks of ``WORD_MEMBERS`` members: those with the key, and those named as owner."""
    is_seen = F.col("value").isNotNull() | (F.col("marks").bitwiseAND(F.lit(Mark.INSTANCE.value)) == 0)
    seen_bit = F.when(is_seen & (F.col("word") == word), F.col("bit"))
    shift = F.col("owner") - word * WORD_MEMBERS + F.when(is_first, 0).otherwise(WORD_MEMBERS)
    owner_bit = F.when(
        F.floor(F.col("owner") / WORD_MEMBERS) == word, F.call_function("shiftleft", F.lit(1).cast("long"), shift)
    )
    return [
        F.coalesce(F.bit_or(seen_bit), F.lit(0)).alias(f"present_{word}"),
        F.coalesce(F.bit_or(owner_bit), F.lit(0)).alias(f"named_{word}"),
    ]


def _totals(words: range) -> list[Column]:
    row = F.col("key").isNotNull()
    present = reduce(Column.__or__, (F.col(f"present_{word}") > 0 for word in words))
    instance = row & F.col("is_instance") & present
    several = F.col("least_service") != F.col("most_service")
    return [
        F.sum("lines").alias("rows"),
        F.sum(F.when(~row, F.col("lines"))).alias("bad"),
        F.count_if(row & F.col("is_service")).alias("services"),
        F.sum(F.when(row & F.col("is_service"), F.col("lines"))).alias("service_rows"),
        F.sum(F.when(row & F.col("is_instance"), F.col("lines"))).alias("instance_rows"),
        F.sum(F.when(row, F.col("misfit"))).alias("misfit"),
        F.sum(F.when(instance, F.when(several, 2).otherwise(1)).otherwise(0)).alias("instances"),
        F.count_if("may_last").alias("may_last"),
        F.count_if(F.col("suspicious") & F.col("is_instance")).alias("suspect_instances"),
        F.count_if(F.col("suspicious") & F.col("is_instance") & several).alias("suspect_doubles"),
        F.count_if(F.col("suspicious") & F.col("is_service")).alias("suspect_services"),
        F.count_if(F.col("suspicious") & ~F.col("is_instance") & ~F.col("is_service")).alias("suspect_others"),
        F.count_if(F.col("suspicious") & _has(Mark.SAMPLED)).alias("suspect_sampled"),
    ]


def _suspicions(members: int) -> tuple[Column, Column]:
    """Return whether a key may have a finding, and whether it may have one that lasts."""
    everyone = [(1 << min(WORD_MEMBERS, members - first)) - 1 for first in range(0, members, WORD_MEMBERS)]
    words = range(len(everyone))
    is_named = reduce(Column.__or__, (F.col(f"named_{word}") != 0 for word in words))
    is_present = reduce(Column.__or__, (F.col(f"present_{word}") > 0 for word in words))
    in_any = [
        _has(Mark.TROUBLE),
        # Twice at one member; a line that is not seen is trouble of its own.
        reduce(Column.__add__, (F.bit_count(f"present_{word}") for word in words)) != F.col("lines"),
        F.coalesce(F.col("least_version") != F.col("most_version"), F.lit(False)),
        _has(Mark.STRANGE_OWNER) & is_named,
        F.coalesce(is_present & (F.col("least_service") != F.col("most_service")), F.lit(False)),
    ]
    first, second = (_differs(number, everyone) for number in (1, 2))
    odd = reduce(Column.__or__, in_any)
    return odd | first | second, odd | (first & second)


def _differs(number: int, everyone: list[int]) -> Column:
    """Return whether members differ in a round: some lack the key, have other values, or disagree on its owner.

    ``everyone``: the mask of all members, word by word.
    """

    def masks(name: str) -> list[Column]:
        shift = (number - 1) * WORD_MEMBERS
        return [
            F.shiftright(F.col(f"{name}_{word}"), shift).bitwiseAND(F.lit(mask)) for word, mask in enumerate(everyone)
        ]

    def ones(columns: list[Column]) -> Column:
        return reduce(Column.__add__, (F.bit_count(one) for one in columns))

    present, named = (masks(name) for name in ("present", "named"))
    is_claimed = _has(Mark.CLAIMED_1 if number == 1 else Mark.CLAIMED_2)
    nobody = reduce(Column.__and__, (one == 0 for one in present))
    all_of_them = reduce(Column.__and__, (one == F.lit(mask) for one, mask in zip(present, everyone, strict=True)))
    named_by_any = reduce(Column.__or__, (one != 0 for one in named))
    return (
        (~nobody & ~all_of_them)
        | F.coalesce(F.col(f"least_{number}") != F.col(f"most_{number}"), F.lit(False))
        # A claim names its member, so that one name and a claim are of the same member.
        | (named_by_any & (~is_claimed | (ones(named) != 1)))
    )
