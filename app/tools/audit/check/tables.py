"""Reading the tables of the nights: the public way to findings, services and faults from Spark."""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from app.tools.audit.check.evidence_rows import small_frame, spark_path
from app.tools.audit.format.commits import TABLE_FIELDS, Committed, TableFile, committed, nights_by_file
from app.tools.audit.format.file_systems import open_root

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_table(spark: "SparkSession", uri: str, table: str, nights: Iterable[str] | None = None) -> "DataFrame":
    """Return the rows of ``findings``, ``services`` or ``faults`` of all nights, or of some; ``night`` comes first.

    Each night is complete or left out, as of this call. If a night is checked again in the meantime, its files are
    removed: Spark then fails, and does not leave them out.

    Raises:
        ValueError: there is no such table, or a night's ``summary.json`` is damaged or of a newer release.
        OSError: the output folder cannot be read.
    """
    if table not in TABLE_FIELDS:
        raise ValueError(f"{table!r} is not a table; the tables are {', '.join(TABLE_FIELDS)}")
    filesystem, root = open_root(uri)
    return frame_of(spark, uri, table, committed(filesystem, root, nights))


def frame_of(spark: "SparkSession", uri: str, table: str, commits: Mapping[str, Committed]) -> "DataFrame":
    """Return the rows of a table that these commits name."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    _, root = open_root(uri)
    schema = schema_of(table)
    alike: dict[tuple[str, ...], list[TableFile]] = {}
    for file, nights in nights_by_file(commits, table).items():
        # A night's own file has only its rows; that of a month may have rows of nights that have moved or are gone.
        alike.setdefault(tuple(nights) if _is_of_month(file) else (), []).append(file)
    reader = spark.read.schema(schema).option("recursiveFileLookup", "true").option("ignoreMissingFiles", "false")
    frames = []
    for named, files in sorted(alike.items()):
        rows = reader.parquet(*[spark_path(f"{root}/{file.path}", uri) for file in files])
        frames.append(rows.where(F.col("night").isin(list(named))) if named else rows)
    return reduce(DataFrame.unionByName, frames) if frames else small_frame(spark, [], schema)


def schema_of(table: str) -> str:
    """Return the columns of a table as Spark reads them from a text."""
    return ", ".join(f"{name} {kind}" for name, kind in TABLE_FIELDS[table].items())


def _is_of_month(file: TableFile) -> bool:
    return "/month=" in file.path
