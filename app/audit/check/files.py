"""The files of a night against their manifests, before any of their rows is believed."""

import re
import zlib
from collections.abc import Iterable
from gzip import GzipFile
from typing import Any

import orjson
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from app.audit.check.evidence import File, in_round, unknown_fields
from app.audit.check.evidence_rows import path_in_round, small_frame, spark_path
from app.audit.format.file_systems import open_root
from app.audit.format.layout import Night

MISMATCHES_MAX = 1_000
LINE_BYTES_MAX = 1 << 20
_IN_ROUND = re.compile(r"taken_at=[^\s\"']*?\.jsonl\.gz")


def damaged_files(spark: SparkSession, root_uri: str, night: Night, files: list[File]) -> dict[str, str]:
    """Files that depart from their manifests. Shape: path to the fault, in words. Spark's executors hash the bytes."""
    filesystem, _ = open_root(root_uri)
    found: dict[str, Any] = {}
    for one in night.rounds:
        found |= filesystem.find(one.folder, detail=True)
    wrong = {}
    for file in files:
        info = found.get(file.path)
        if info is None:
            wrong[file.path] = "the file is missing"
        elif info["size"] != file.part.bytes:
            wrong[file.path] = f"it has {info['size']} bytes, the manifest says {file.part.bytes}"
    whole = [file for file in files if file.path not in wrong]
    return wrong | (_wrong_hashes(spark, root_uri, whole) if whole else {})


def _wrong_hashes(spark: SparkSession, root_uri: str, files: list[File]) -> dict[str, str]:
    expected = small_frame(
        spark, [{"name": in_round(file.path), "said": file.part.sha256} for file in files], "name string, said string"
    )
    hashed = (
        spark.read.format("binaryFile")
        .load([spark_path(file.path, root_uri) for file in files])
        .select(path_in_round("path").alias("name"), F.sha2("content", 256).alias("sha256"))
    )
    wrong = hashed.join(F.broadcast(expected), "name").where("sha256 != said").limit(MISMATCHES_MAX).collect()
    paths = {in_round(file.path): file.path for file in files}
    return {paths[row["name"]]: "its sha256 is not that of the manifest" for row in wrong}


def unreadable_file(text: str, files: Iterable[File]) -> str | None:
    """The path of the file that the text of a Spark error names; None when it is none of ``files``."""
    paths = {in_round(file.path): file.path for file in files}
    return next((paths[name] for name in _IN_ROUND.findall(text) if name in paths), None)


def unknown_in_rows(root_uri: str, files: Iterable[File]) -> list[str]:
    """Notes on fields that are unknown here, from each member's first row: in a newer member's dump it has them all."""
    filesystem, _ = open_root(root_uri)
    notes: list[str] = []
    for file in files:
        if file.round != 1 or not file.part.path.endswith("part-00000.jsonl.gz"):
            continue
        with filesystem.open(file.path, "rb") as raw, GzipFile(fileobj=raw) as lines:
            try:
                row = orjson.loads(lines.readline(LINE_BYTES_MAX))
            except (OSError, EOFError, zlib.error, orjson.JSONDecodeError):
                continue  # named when it is read whole
        if isinstance(row, dict):
            notes += unknown_fields(f"the dump of {file.member}", row.keys())
    return notes
