"""Writing a table's files with Spark, and recording the rows, bytes and hash of each."""

import hashlib
import io
from importlib.util import find_spec
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from app.tools.audit.check.evidence_rows import spark_path
from app.tools.audit.check.tables import schema_of
from app.tools.audit.format.commits import FINDINGS_JSON, TABLE_FIELDS, NightTable, TableFile

_CHUNK_BYTES = 1 << 20
_NO_MARKER = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


class Output:
    """An output folder, into which one run writes; ``run`` is in the path of each of its files."""

    def __init__(self, filesystem: Any, root: str, uri: str, run: str) -> None:
        self.filesystem, self.root, self.uri, self.run = filesystem, root, uri, run

    def write(self, table: str, frame: DataFrame, folder: str) -> NightTable:
        """Write the frame's rows into a folder of this run; return the table to commit.

        Raises:
            OSError: files that were written are missing, as another program removed some.
        """
        observed = Observation(table)
        counted = frame.observe(observed, F.count(F.lit(1)).alias("rows"))
        if table == FINDINGS_JSON:
            # Not in a folder of the run, so that a reader of findings_json/night=D/*.json finds them.
            named = _NO_MARKER | {"mapreduce.output.basename": self.run}
            target = spark_path(folder, self.uri)
            counted.write.mode("append").options(**named).json(target, ignoreNullFields=False)
        else:
            counted.write.options(**_NO_MARKER).parquet(spark_path(folder, self.uri))
        rows = int(observed.get.get("rows") or 0)
        written = self._written(folder)
        if table == FINDINGS_JSON:
            lines = {path: _lines(self.filesystem, path) for path in written}
        elif len(written) == 1:
            lines = {written[0]: rows}
        else:
            lines = self._rows_by_file(table, frame, written)
        if sum(lines.values()) != rows:
            raise OSError(f"{self.uri}: {sum(lines.values()):,} of {rows:,} rows of {table} exist after the write")
        return NightTable(rows, tuple(self._file(path, lines[path]) for path in written))

    def write_empty(self, table: str, folder: str) -> NightTable:
        """Write the file of a table without rows, as readers of Parquet expect one; return the table to commit.

        JSON needs no file for that. Spark is not asked, for which even nothing is several steps.
        """
        if table == FINDINGS_JSON or find_spec("pyarrow") is None:
            return NightTable(0, ())
        import pyarrow as pa
        import pyarrow.parquet as pq

        from app.tools.audit.format.columns import ARROW_TYPES

        schema = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in TABLE_FIELDS[table].items()])
        body = io.BytesIO()
        pq.write_table(schema.empty_table(), body)
        path = f"{folder}/part-00000.parquet"
        self.filesystem.makedirs(folder, exist_ok=True)
        self.filesystem.pipe_file(path, body.getvalue())
        return NightTable(0, (self._file(path, 0),))

    def own_files(self, folder: str) -> list[str]:
        """Return all files of this run in a folder, including incomplete ones and checksums."""
        self.filesystem.invalidate_cache()
        found = self.filesystem.find(folder) if self.filesystem.exists(folder) else []
        return sorted(path for path in found if self.run in path)

    def _written(self, folder: str) -> list[str]:
        return [path for path in self.own_files(folder) if not path.rpartition("/")[2].startswith((".", "_"))]

    def _rows_by_file(self, table: str, frame: DataFrame, paths: list[str]) -> dict[str, int]:
        if not paths:
            return {}
        reader = frame.sparkSession.read.schema(schema_of(table))
        read = reader.parquet(*[spark_path(path, self.uri) for path in paths])
        counted = read.groupBy(F.col("_metadata.file_name").alias("name")).agg(F.count(F.lit(1)).alias("rows"))
        rows = {row["name"]: row["rows"] for row in counted.collect()}
        return {path: rows.get(path.rpartition("/")[2], 0) for path in paths}

    def _file(self, path: str, rows: int) -> TableFile:
        digest, size = hashlib.sha256(), 0
        with self.filesystem.open(path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        return TableFile(path.removeprefix(f"{self.root}/"), rows, size, digest.hexdigest())


def _lines(filesystem: Any, path: str) -> int:
    lines = 0
    with filesystem.open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            lines += chunk.count(b"\n")
    return lines
