"""The main comparison: one pass over all rows and one shuffle, which leave the keys that are worth a closer look.

A key is the hash of an instance's address or of a service; hashes and masks of members are compared. So a row weighs
some 60 bytes in the shuffle whatever its metadata, and the aggregation never leaves fixed-width numbers. Two keys of
one hash cannot hide anything: they are looked at closer, where they are told apart.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from app.audit.check.evidence_rows import SECOND_ROUND_BIT, is_service, is_stale, one_of, seen, service_key, short_name
from app.audit.format.rows import Layer


@dataclass(frozen=True, slots=True)
class Flagged:
    """The suspect keys. ``frame`` has one column, ``key``: of suspects and their services.

    The counts are known once the frame is computed.
    """

    frame: DataFrame
    observed: Observation

    def counts(self) -> dict[str, int]:
        """Numbers of all rows, bad rows, and distinct services and instances. Shape: rows, bad, services, instances."""
        return {name: int(value or 0) for name, value in self.observed.get.items()}


def with_key(rows: DataFrame) -> DataFrame:
    """Rows with ``key``, which is equal for rows that must be compared with each other.

    Instances of one address have one key under the short name of their service: another group's of that name, too.
    """
    name = F.when(is_service(), F.col("service")).otherwise(short_name(F.col("service")))
    return rows.withColumn("key", F.xxhash64("kind", "namespace", name, "cluster", "ip", "port"))


def flag(rows: DataFrame, addresses: tuple[str, ...]) -> Flagged:
    """Return the keys of ``rows`` (as of ``evidence_rows.read_rows``) that may have findings."""
    observed = Observation("compared")
    keyed = with_key(rows).select(
        F.when(~F.col("bad"), F.col("key")).alias("key"),  # all that are no rows come together under null
        "bit",
        (F.col("round") == 1).alias("first"),
        is_service().alias("is_service"),
        (is_service() | (F.col("ip").isNotNull() & seen())).alias("is_seen"),
        service_key(F.col("namespace"), F.col("service")).alias("service_key"),
        F.xxhash64("ephemeral", "healthy", "enabled", "weight", F.sort_array(F.map_entries("metadata"))).alias("value"),
        _owner_bit(addresses).alias("owner_bit"),
        F.when(is_service(), ~F.col("owner").isin(*addresses)).alias("strange_owner"),
        F.when((F.col("round") == 2) & F.col("version").isNotNull(), F.xxhash64("version")).alias("version"),
        (is_stale() | (F.col("layer") != Layer.BOTH.value)).alias("trouble"),
    )
    grouped = keyed.groupBy("key").agg(*_aggregates()).observe(observed, *_totals())
    keys = F.array_distinct(F.array("key", "least_service", "most_service"))
    suspects = grouped.where(F.col("key").isNotNull() & _is_suspect(len(addresses))).select(
        F.explode(keys).alias("key")
    )
    return Flagged(suspects.where(F.col("key").isNotNull()).dropDuplicates(), observed)


def _owner_bit(addresses: tuple[str, ...]) -> Column:
    """The bit of the member that the row names as owner, in the row's round."""
    first = one_of(F.col("owner"), {address: 1 << number for number, address in enumerate(addresses)})
    return F.when(F.col("round") == 1, first).otherwise(F.shiftleft(first, SECOND_ROUND_BIT))


def _aggregates() -> list[Column]:
    seen_bit = F.when(F.col("is_seen"), F.col("bit"))
    owner_bit = F.when(F.col("is_service"), F.col("owner_bit"))
    values = [
        column
        for number, is_round in ((1, F.col("first")), (2, ~F.col("first")))
        for value in (F.when(F.col("is_seen") & is_round, F.col("value")),)
        for column in (F.min(value).alias(f"least_{number}"), F.max(value).alias(f"most_{number}"))
    ]
    return [
        F.count(F.lit(1)).alias("lines"),
        F.coalesce(F.bit_or(seen_bit), F.lit(0)).alias("present"),
        F.coalesce(F.sum(seen_bit), F.lit(0)).alias("total"),
        F.coalesce(F.bit_or(owner_bit), F.lit(0)).alias("named"),
        F.coalesce(F.bit_or(F.when(owner_bit == F.col("bit"), owner_bit)), F.lit(0)).alias("claims"),
        F.min("service_key").alias("least_service"),
        F.max("service_key").alias("most_service"),
        F.max("is_service").alias("is_service"),
        F.max("trouble").alias("trouble"),
        F.max("strange_owner").alias("strange_owner"),
        # Of the second round alone: what lasts is told in both.
        F.min("version").alias("least_version"),
        F.max("version").alias("most_version"),
        *values,
    ]


def _totals() -> list[Column]:
    row = F.col("key").isNotNull()
    instance = row & ~F.col("is_service") & (F.col("present") > 0)
    several = F.col("least_service") != F.col("most_service")
    return [
        F.sum("lines").alias("rows"),
        F.sum(F.when(~row, F.col("lines"))).alias("bad"),
        F.count_if(row & F.col("is_service")).alias("services"),
        F.sum(F.when(instance, F.when(several, 2).otherwise(1)).otherwise(0)).alias("instances"),
    ]


def _is_suspect(members: int) -> Column:
    everyone = (1 << members) - 1
    suspect = F.coalesce(F.col("trouble"), F.lit(False))
    suspect = suspect | (F.col("total") != F.col("present"))
    suspect = suspect | F.coalesce(F.col("least_version") != F.col("most_version"), F.lit(False))
    suspect = suspect | (F.coalesce(F.col("strange_owner"), F.lit(False)) & (F.col("named") != 0))
    suspect = suspect | ((F.col("present") > 0) & (F.col("least_service") != F.col("most_service")))
    for number, shift in ((1, 0), (2, SECOND_ROUND_BIT)):
        present, named, claims = (
            F.shiftright(F.col(name), shift).bitwiseAND(F.lit(everyone)) for name in ("present", "named", "claims")
        )
        suspect = suspect | ~present.isin(0, everyone)
        suspect = suspect | F.coalesce(F.col(f"least_{number}") != F.col(f"most_{number}"), F.lit(False))
        suspect = suspect | ((named != 0) & ((F.bit_count(claims) != 1) | (F.bit_count(named) != 1)))
    return suspect
