"""Compaction: the small files of a month's nights merged into one file for each table.

A month is merged once its last night is old enough. Every step leaves each night with the same rows: the files of the
month are written first, then the commit of one night after another names them in place of its files, and files that no
night names any more are removed last. Findings as JSON stay by night.
"""

import math
import uuid
from collections.abc import Mapping
from datetime import date, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.tools.audit.check.results import Results
from app.tools.audit.check.table_files import Output
from app.tools.audit.check.tables import frame_of
from app.tools.audit.format.commits import (
    TABLE_FIELDS,
    Committed,
    NightTable,
    TableFile,
    committed,
    decode_tables,
    nights_by_file,
    read_each,
    summary_path,
    with_tables,
)
from app.tools.audit.format.file_systems import write_whole

FILE_BYTES = 128 << 20
"""The size from which a month has several files: about what one task of Spark reads."""


def compact(spark: SparkSession, results: Results, older_than: str) -> list[str]:
    """Merge the months whose last day is before ``older_than``; return those of which a table changed.

    Raises:
        BadCommit: a night's summary cannot be used.
        OSError: a file cannot be read or written.
    """
    months: dict[str, dict[str, Committed]] = {}
    for night, tables in committed(results.filesystem, results.root).items():
        if _last_day(night) < older_than:
            months.setdefault(night[:7], {})[night] = tables
    return [month for month, commits in sorted(months.items()) if _compact_month(spark, results, month, commits)]


def days_before(night: str, days: int) -> str:
    return str(date.fromisoformat(night) - timedelta(days=days))


def _last_day(night: str) -> str:
    first = date.fromisoformat(f"{night[:7]}-01")
    return str((first + timedelta(days=31)).replace(day=1) - timedelta(days=1))


def _compact_month(spark: SparkSession, results: Results, month: str, commits: Mapping[str, Committed]) -> bool:
    """Merge the files of a month; return whether there was anything to merge."""
    run = f"run={results.now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
    output = Output(results.filesystem, results.root, results.uri, run)
    together: dict[str, NightTable] = {}
    for table in TABLE_FIELDS:
        files = nights_by_file(commits, table)
        if _are_together(files):
            continue
        rows = frame_of(spark, results.uri, table, commits)
        count = math.ceil(sum(file.bytes for file in files) / FILE_BYTES)
        rows = rows.coalesce(1) if count <= 1 else rows.repartition(count)
        folder = f"{results.root}/{table}/month={month}/{run}"
        together[table] = output.write(table, rows.sortWithinPartitions("night"), folder)
        _same_rows(spark, results.uri, table, commits, together[table])
    if not together:
        return False
    for night, tables in commits.items():
        _commit(results, night, tables, together)
    written = [file.path for table in together.values() for file in table.files]
    results.remove_unnamed([*written, *(file.path for table in together for file in nights_by_file(commits, table))])
    return True


def _are_together(files: Mapping[TableFile, list[str]]) -> bool:
    """Return whether a table has only one file, or only files of one compaction."""
    folders = {file.path.rpartition("/")[0] for file in files}
    return len(files) <= 1 or (len(folders) == 1 and "/month=" in next(iter(folders)))


def _same_rows(
    spark: SparkSession, uri: str, table: str, commits: Mapping[str, Committed], together: NightTable
) -> None:
    """Make sure that the files of the month have as many rows of each night as its commit says.

    Raises:
        OSError: they have not.
    """
    expected = {night: tables[table].rows for night, tables in commits.items() if table in tables}
    everything = {night: {table: together} for night in expected}
    counted = _count_by_night(frame_of(spark, uri, table, everything))
    for night, rows in expected.items():
        if counted.get(night, 0) != rows:
            raise OSError(f"{uri}: {table} of night {night} has {counted.get(night, 0):,} rows instead of {rows:,}")


def _count_by_night(frame: DataFrame) -> dict[str, int]:
    counted = frame.groupBy("night").agg(F.count(F.lit(1)).alias("rows")).collect()
    return {row["night"]: row["rows"] for row in counted}


def _commit(results: Results, night: str, before: Committed, together: Mapping[str, NightTable]) -> None:
    """Name the files of the month in a night's commit, unless the night was checked again or removed since."""
    path = summary_path(results.root, night)
    body = read_each(results.filesystem, [path]).get(path)
    if body is None or decode_tables(body, path) != before:
        return
    tables = dict(before)
    for name, month in together.items():
        if name in before:
            tables[name] = NightTable(before[name].rows, month.files if before[name].rows else ())
    write_whole(results.filesystem, path, with_tables(body, tables))
