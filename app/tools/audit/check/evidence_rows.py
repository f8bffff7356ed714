"""The rows of a dump as a Spark frame, with the columns that are compared."""

from collections.abc import Collection, Iterable
from functools import reduce
from typing import Any

import orjson
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from app.naming.model.keys import GROUP_SPLITTER
from app.rows.rows import BUCKET, CORRUPT, FIELDS, METADATA, STALE_SLACK_MS, Layer, RowKind
from app.tools.audit.check.evidence import Evidence, File
from app.tools.audit.format.file_systems import is_local, open_root

WORD_MEMBERS = 31
"""The members of one mask: each has a bit for each of two rounds in one 64-bit number, whose sign stays free."""
ROW_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items()) + f", {CORRUPT} string"
COLUMN_SCHEMA = ROW_SCHEMA.replace("map<string,string>", "string")
"""The columns of a Parquet file, and of all rows once they are read: metadata is a text."""
FOLDER_SCHEMA = "dump_date string, taken_at string, member string"
_SPARK_SCHEMES = {"s3": "s3a", "gcs": "gs"}


def spark_path(uri_or_path: str, root_uri: str) -> str:
    """Return a path of the file system of ``root_uri`` in the form that Spark takes."""
    filesystem, _ = open_root(root_uri)
    if is_local(filesystem):
        return f"file://{uri_or_path}"
    text = str(filesystem.unstrip_protocol(uri_or_path))
    scheme, _, rest = text.partition("://")
    return f"{_spark_scheme(scheme)}://{rest}"


def _spark_scheme(scheme: str) -> str:
    """Return Spark's scheme of a file system: ``s3`` stays on platforms that serve it, such as EMR."""
    # Python has no public way to Hadoop's settings.
    context = SparkContext._active_spark_context  # noqa: SLF001
    if context is not None and context._jsc.hadoopConfiguration().get(f"fs.{scheme}.impl"):  # noqa: SLF001
        return scheme
    return _SPARK_SCHEMES.get(scheme, scheme)


def small_frame(spark: SparkSession, rows: list[dict[str, Any]], schema: str) -> DataFrame:
    """Return a frame of a few rows of the driver, made from one text, so that Spark starts no Python for it."""
    text = F.lit(orjson.dumps(rows).decode())
    return spark.range(1).select(F.inline(F.from_json(text, f"array<struct<{schema}>>")))


def read_rows(
    spark: SparkSession, root_uri: str, evidence: Evidence, buckets: Collection[int] | None = None
) -> DataFrame:
    """Return the rows of all compared members.

    ``buckets``: only the rows of these buckets, with their number in a further column ``bucket``; all files must be of
    Parquet and have that column.

    Columns: those of ``rows.FIELDS``, of which ``metadata`` is JSON with sorted keys, ``{}`` by default;
    ``number`` of the member, ``round`` (1, 2), ``bit`` and ``word`` (see ``bit_of``); ``bad`` for a line that is not a
    row, with ``file`` and ``_corrupt``.
    """
    if buckets is None:
        return _numbered(_read(spark, root_uri, evidence, COLUMN_SCHEMA), evidence)
    rows = _read(spark, root_uri, evidence, f"{COLUMN_SCHEMA}, {BUCKET} int")
    return _numbered(rows.where(F.col(BUCKET).isin(sorted(buckets))), evidence, BUCKET)


def _read(spark: SparkSession, root_uri: str, evidence: Evidence, columns: str) -> DataFrame:
    frames = []
    of_parquet = [file for file in evidence.files if file.part.is_parquet]
    of_json = [file for file in evidence.files if not file.part.is_parquet]
    base = spark_path(open_root(root_uri)[1], root_uri)
    if of_parquet:
        frames.append(
            spark.read.schema(f"{columns}, {FOLDER_SCHEMA}")
            .option("basePath", base)
            # Each page is held against its checksum while it is read.
            .option("parquet.page.verify-checksum.enabled", "true")
            .parquet(*_paths(root_uri, of_parquet))
            .select("*", _file())
        )
    if of_json:
        frames.append(
            spark.read.schema(f"{ROW_SCHEMA}, {FOLDER_SCHEMA}")
            .option("basePath", base)
            .option("columnNameOfCorruptRecord", CORRUPT)
            .json(_paths(root_uri, of_json))
            .withColumn("metadata", metadata_text())
            .select("*", _file())
        )
    if not frames:  # no member holds anything, and Spark reads no empty list of files
        return small_frame(spark, [], f"{columns}, {FOLDER_SCHEMA}, file string")
    return reduce(DataFrame.unionByName, frames)


def read_rows_of(
    spark: SparkSession, root_uri: str, evidence: Evidence, services: DataFrame, buckets: Collection[int] | None
) -> DataFrame:
    """Return the rows of the services whose keys are in column ``key``, and a few others; columns as of ``read_rows``.

    ``buckets``: as of ``read_rows``.

    Parsing is most of the work of reading JSON, so only lines are parsed in which a plain search finds the names of
    such a service, or no names. The search takes the first name in a line; a writer that puts metadata before the
    names may mislead it.
    """
    if not evidence.files or any(file.part.is_parquet for file in evidence.files):
        return read_rows(spark, root_uri, evidence, buckets)
    lines = (
        spark.read.option("basePath", spark_path(open_root(root_uri)[1], root_uri))
        .text(_paths(root_uri, evidence.files))
        .select("value", "taken_at", "member", _file(), _service_key_in(F.col("value")).alias("said"))
    )
    wanted = services.select(F.col("key").alias("said"), F.lit(True).alias("wanted"))
    found = lines.join(wanted, "said", "left").where(F.col("wanted") | F.col("said").isNull())
    # Kept, or the optimizer would parse every line to find those that are no rows before it picks the wanted ones.
    found = found.select("value", "taken_at", "member", "file").persist()
    row = F.from_json("value", ROW_SCHEMA, {"columnNameOfCorruptRecord": CORRUPT})
    parsed = found.select("taken_at", "member", "file", row.alias("row")).select("taken_at", "member", "file", "row.*")
    return _numbered(parsed.withColumn("metadata", metadata_text()), evidence)


def service_key(namespace: Column, service: Column) -> Column:
    """Return the key of a service's own row, whose columns of instances are null and change no hash."""
    return F.xxhash64(F.lit(RowKind.SERVICE.value), namespace, service)


def _service_key_in(line: Column) -> Column:
    """Return the key of the service that a line names, found without parsing; null where that does not work."""
    plain = r'"%s":"([^"\\]+)"'
    namespace, service = (F.regexp_extract(line, plain % name, 1) for name in ("namespace", "service"))
    return F.when((namespace != "") & (service != ""), service_key(namespace, service))


def _paths(root_uri: str, files: Iterable[File]) -> list[str]:
    return [spark_path(file.path, root_uri) for file in files]


def _file() -> Column:
    return F.col("_metadata.file_path").alias("file")


def _numbered(frame: DataFrame, evidence: Evidence, *more: str) -> DataFrame:
    # A member that holds nothing has no rows, and so no folder.
    names = {
        evidence.folders[address].partition("=")[2]: index
        for index, address in enumerate(evidence.members)
        if address in evidence.folders
    }
    member = F.col("member")
    first = F.col("taken_at") == evidence.taken_at[0]
    bits = [{name: bit_of(index, number) for name, index in names.items()} for number in (1, 2)]
    return frame.select(
        *[F.col(name) for name in FIELDS if name != METADATA],
        _filled_metadata().alias(METADATA),
        one_of(member, names).cast("int").alias("number"),
        one_of(member, {name: index // WORD_MEMBERS for name, index in names.items()}).cast("int").alias("word"),
        F.when(first, 1).otherwise(2).alias("round"),
        F.when(first, one_of(member, bits[0])).otherwise(one_of(member, bits[1])).alias("bit"),
        is_bad().alias("bad"),
        "file",
        CORRUPT,
        *more,
    )


def bit_of(number: int, round_number: int) -> int:
    """Return the bit of a member in a mask of members and rounds, by the member's number; round 1 or 2.

    A mask has ``WORD_MEMBERS`` members. With more members there are several masks: the number divided by
    ``WORD_MEMBERS`` is the word of a member's mask.
    """
    return 1 << (number % WORD_MEMBERS + (round_number - 1) * WORD_MEMBERS)


def one_of(column: Column, values: dict[str, int]) -> Column:
    """Return the number of a column's text in ``values``; null for any other text."""
    if not values:
        return F.lit(None).cast("long")
    cases: Any = F
    for text, number in values.items():
        cases = cases.when(column == text, F.lit(number).cast("long"))
    column_of_numbers: Column = cases
    return column_of_numbers


def is_bad() -> Column:
    """Return whether a line is invalid: not JSON, a value of another type, or without a field that its kind needs."""
    kind = F.col("kind")
    layers = [layer.value for layer in Layer]

    def lacks(*names: str) -> Column:
        return reduce(Column.__or__, (F.col(name).isNull() for name in names))

    instance = kind == RowKind.INSTANCE.value
    of_instance = lacks("layer", "cluster", "ip", "port", "ephemeral", "healthy", "enabled", "weight")
    return (
        F.col(CORRUPT).isNotNull()
        | lacks("kind", "namespace", "service")
        | ~kind.isin([one.value for one in RowKind])
        | (instance & (of_instance | ~F.col("layer").isin(layers)))
        | ((kind == RowKind.RECORD.value) & lacks("name", "value"))
        | ((kind == RowKind.CLIENT.value) & lacks("name"))
    )


def seen() -> Column:
    """Return whether clients see the row's instance; an instance of a datum is only replicated."""
    return F.col("layer") != Layer.DATUM.value


def is_service() -> Column:
    return F.col("kind") == RowKind.SERVICE.value


def is_instance() -> Column:
    return F.col("kind") == RowKind.INSTANCE.value


def short_name(full_name: Column) -> Column:
    """Return a service's name without its group, even if the group was put before it twice."""
    return F.substring_index(full_name, GROUP_SPLITTER, -1)


def path_in_round(path: str) -> Column:
    """Return a file's path from ``taken_at=`` on, as ``evidence.in_round`` does; ``path`` names a column."""
    return F.regexp_extract(path, r"(taken_at=.*)$", 1)


def is_stale() -> Column:
    """Return whether the owner has had no beat for longer than it may keep the instance."""
    return F.coalesce(silence() > F.col("delete_timeout_ms") + STALE_SLACK_MS, F.lit(False))


def silence() -> Column:
    """Return the time without a beat that the owner's health check counts, in ms; else the age of the last beat."""
    return F.coalesce("silent_ms", "beat_age_ms")


def metadata_text() -> Column:
    """Return a map of metadata as JSON with sorted keys; null for null."""
    entries = F.sort_array(F.map_entries(METADATA))
    text = F.when(F.size(METADATA) == 0, "{}").otherwise(F.to_json(F.map_from_entries(entries)))
    return F.when(F.col(METADATA).isNotNull(), text)


def _filled_metadata() -> Column:
    """Return the text of metadata, of either format; no metadata are empty ones where the row has its other values."""
    has_values = is_instance() | (is_service() & F.col("protect_threshold").isNotNull())
    return F.coalesce(METADATA, F.when(has_values, "{}"))
