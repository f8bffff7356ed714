"""The rows of a dump as a Spark frame, with the columns by which they are compared."""

from functools import reduce
from typing import Any

import orjson
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from app.audit.check.evidence import Evidence
from app.audit.format.file_systems import is_local, open_root
from app.audit.format.rows import FIELDS, Layer, RowKind
from app.naming.model.keys import GROUP_SPLITTER

CORRUPT = "_corrupt"
STALE_SLACK_MS = 5_000
"""A member that removes silent instances late by less than this is no finding."""
SECOND_ROUND_BIT = 31
ROW_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items()) + f", {CORRUPT} string"
FOLDER_SCHEMA = "dump_date string, taken_at string, member string"
_SPARK_SCHEMES = {"s3": "s3a", "gcs": "gs"}


def spark_path(uri_or_path: str, root_uri: str) -> str:
    """A path of the file system of ``root_uri`` in the form that Spark takes."""
    filesystem, _ = open_root(root_uri)
    if is_local(filesystem):
        return f"file://{uri_or_path}"
    text = str(filesystem.unstrip_protocol(uri_or_path))
    scheme, _, rest = text.partition("://")
    return f"{_SPARK_SCHEMES.get(scheme, scheme)}://{rest}"


def small_frame(spark: SparkSession, rows: list[dict[str, Any]], schema: str) -> DataFrame:
    """A frame of a few rows of the driver's; made of one text, so that no Python is started for it."""
    text = F.lit(orjson.dumps(rows).decode())
    return spark.range(1).select(F.inline(F.from_json(text, f"array<struct<{schema}>>")))


def read_rows(spark: SparkSession, root_uri: str, evidence: Evidence) -> DataFrame:
    """The rows of all compared members.

    Columns: those of ``rows.FIELDS``; ``number`` of the member, ``round`` (1, 2), ``bit`` (its own in a mask of members
    and rounds); ``bad`` for a line that is no row, with ``file`` and ``_corrupt``.
    """
    if not evidence.files:  # no member holds anything, and Spark reads no empty list of files
        schema = f"{ROW_SCHEMA}, {FOLDER_SCHEMA}, file string"
        return _numbered(small_frame(spark, [], schema), evidence)
    return _numbered(
        spark.read.schema(f"{ROW_SCHEMA}, {FOLDER_SCHEMA}")
        .option("basePath", spark_path(open_root(root_uri)[1], root_uri))
        .option("columnNameOfCorruptRecord", CORRUPT)
        .json(_paths(root_uri, evidence))
        .select("*", _file()),
        evidence,
    )


def read_rows_of(spark: SparkSession, root_uri: str, evidence: Evidence, services: DataFrame) -> DataFrame:
    """The rows of the services whose keys are in column ``key``, and a few others; columns as of ``read_rows``.

    Most of the work of reading is to parse JSON: only lines are parsed in which a plain search finds the names of such
    a service, or no names. The search takes the first name in a line; a writer that puts metadata before the names may
    mislead it.
    """
    lines = (
        spark.read.option("basePath", spark_path(open_root(root_uri)[1], root_uri))
        .text(_paths(root_uri, evidence))
        .select("value", "taken_at", "member", _file(), _service_key_in(F.col("value")).alias("said"))
    )
    wanted = services.select(F.col("key").alias("said"), F.lit(True).alias("wanted"))
    found = lines.join(wanted, "said", "left").where(F.col("wanted") | F.col("said").isNull())
    # Kept, as the optimizer would else parse every line to see which are no rows before it looks which are wanted.
    found = found.select("value", "taken_at", "member", "file").persist()
    row = F.from_json("value", ROW_SCHEMA, {"columnNameOfCorruptRecord": CORRUPT})
    return _numbered(found.select("taken_at", "member", "file", row.alias("row")).select("*", "row.*"), evidence)


def service_key(namespace: Column, service: Column) -> Column:
    """The key of a service's own row, in which the columns of instances are null and change no hash."""
    return F.xxhash64(F.lit(RowKind.SERVICE.value), namespace, service)


def _service_key_in(line: Column) -> Column:
    """The key of the service that a line names, found without parsing; null when that cannot tell the names."""
    plain = r'"%s":"([^"\\]+)"'
    namespace, service = (F.regexp_extract(line, plain % name, 1) for name in ("namespace", "service"))
    return F.when((namespace != "") & (service != ""), service_key(namespace, service))


def _paths(root_uri: str, evidence: Evidence) -> list[str]:
    return [spark_path(file.path, root_uri) for file in evidence.files]


def _file() -> Column:
    return F.col("_metadata.file_path").alias("file")


def _numbered(frame: DataFrame, evidence: Evidence) -> DataFrame:
    # A member that holds nothing has no rows, and so no folder.
    names = {
        evidence.folders[address].partition("=")[2]: index
        for index, address in enumerate(evidence.members)
        if address in evidence.folders
    }
    first = F.col("taken_at") == evidence.taken_at[0]
    in_first = one_of(F.col("member"), {name: 1 << index for name, index in names.items()})
    in_second = one_of(F.col("member"), {name: 1 << (index + SECOND_ROUND_BIT) for name, index in names.items()})
    return frame.select(
        *[F.col(name) for name in FIELDS],
        one_of(F.col("member"), names).cast("int").alias("number"),
        F.when(first, 1).otherwise(2).alias("round"),
        F.when(first, in_first).otherwise(in_second).alias("bit"),
        is_bad().alias("bad"),
        "file",
        CORRUPT,
    )


def one_of(column: Column, values: dict[str, int]) -> Column:
    """The number of a column's text in ``values``; null for any other text."""
    if not values:
        return F.lit(None).cast("long")
    cases: Any = F
    for text, number in values.items():
        cases = cases.when(column == text, F.lit(number).cast("long"))
    column_of_numbers: Column = cases
    return column_of_numbers


def is_bad() -> Column:
    """Whether a line is no row: not JSON, a value of another type, or without a field that its kind needs."""
    instance = F.col("kind") == RowKind.INSTANCE.value
    needed = ("layer", "cluster", "ip", "port", "ephemeral", "healthy", "enabled", "weight")
    lacks = reduce(Column.__or__, (F.col(name).isNull() for name in needed))
    known = F.col("layer").isin([layer.value for layer in Layer])
    return (
        F.col(CORRUPT).isNotNull()
        | F.col("kind").isNull()
        | F.col("namespace").isNull()
        | F.col("service").isNull()
        | ~F.col("kind").isin([kind.value for kind in RowKind])
        | (instance & (lacks | ~known))
    )


def seen() -> Column:
    """Whether clients see the row's instance: not that of a datum, which is replicated only."""
    return F.col("layer") != Layer.DATUM.value


def is_service() -> Column:
    return F.col("kind") == RowKind.SERVICE.value


def short_name(full_name: Column) -> Column:
    """A service's name without its group, and without a group that was put before it twice."""
    return F.substring_index(full_name, GROUP_SPLITTER, -1)


def path_in_round(path: str) -> Column:
    """A file's path from ``taken_at=`` on, as of ``evidence.in_round``; ``path`` names a column."""
    return F.regexp_extract(path, r"(taken_at=.*)$", 1)


def is_stale() -> Column:
    """Whether the owner has gone without a beat for longer than it may keep the instance."""
    return F.coalesce(F.col("beat_age_ms") > F.col("delete_timeout_ms") + STALE_SLACK_MS, F.lit(False))


def metadata_text() -> Column:
    """Metadata as JSON with sorted keys; ``{}`` for null and for empty metadata."""
    entries = F.sort_array(F.map_entries("metadata"))
    return F.coalesce(F.to_json(F.map_from_entries(entries)), F.lit("{}"))
