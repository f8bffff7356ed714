"""The check of a night's files against their manifests, before any of their rows is trusted."""

import re
import zlib
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from gzip import GzipFile
from hashlib import file_digest, sha256
from typing import Any

import orjson
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from app.tools.audit.check.evidence import File, in_round, miscount, unknown_fields
from app.tools.audit.check.evidence_rows import path_in_round, small_frame, spark_path
from app.tools.audit.format.file_systems import is_local, open_root
from app.tools.audit.format.layout import Night
from app.tools.audit.format.part_format import has_parquet

FOOTER_BYTES_MAX = 64 * 1024 * 1024
LINE_BYTES_MAX = 1 << 20
FOOTERS_AT_ONCE = 16
HASHED_HERE_BYTES_MAX = 8 * 1024 * 1024
"""The most bytes of files elsewhere, of all together, that are hashed here: Spark's executors take longer to begin."""
PARQUET_MAGIC = b"PAR1"
WRONG_HASH = "its sha256 is not the one in the manifest"
_IN_ROUND = re.compile(r"taken_at=[^\s\"']*?\.(?:jsonl\.gz|parquet)")


def damaged_files(spark: SparkSession, root_uri: str, night: Night, files: list[File]) -> dict[str, str]:
    """Return the files that differ from their manifests. Shape: path to the fault, in words.

    Of a Parquet file only the footer is read here: a reader of all its rows checks each page against its checksum. JSON
    files are hashed whole.
    """
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
            wrong[file.path] = f"the file has {info['size']} bytes, but its manifest says {file.part.bytes}"
    whole = [file for file in files if file.path not in wrong]
    footers = [file for file in whole if file.part.is_parquet]
    hashed = [file for file in whole if not file.part.is_parquet]
    return wrong | _faults(filesystem, footers, _footer_fault) | wrong_hashes(spark, root_uri, hashed)


def wrong_hashes(spark: SparkSession, root_uri: str, files: Collection[File]) -> dict[str, str]:
    """Return the files that do not have the hash in their manifest. Shape: path to the fault, in words.

    Spark's executors hash large files that are not on this machine.
    """
    filesystem, _ = open_root(root_uri)
    if is_local(filesystem) or sum(file.part.bytes for file in files) <= HASHED_HERE_BYTES_MAX:
        return hash_faults(root_uri, files)
    return _hashed_by_spark(spark, root_uri, files)


def hash_faults(root_uri: str, files: Collection[File]) -> dict[str, str]:
    """Return the faults of files that are hashed here, as ``wrong_hashes`` does."""
    filesystem, _ = open_root(root_uri)
    return _faults(filesystem, files, _hash_fault)


def _faults(filesystem: Any, files: Collection[File], fault_of: Callable[[Any, File], str]) -> dict[str, str]:
    """Return the faults of files by path, several files at once."""
    with ThreadPoolExecutor(FOOTERS_AT_ONCE, thread_name_prefix="files") as pool:
        faults = pool.map(lambda file: fault_of(filesystem, file), files)
        return {file.path: fault for file, fault in zip(files, faults, strict=True) if fault}


def _hash_fault(filesystem: Any, file: File) -> str:
    """Return the fault in the bytes of a file, in words; empty for none."""
    try:
        with filesystem.open(file.path, "rb") as raw:
            found = file_digest(raw, "sha256").hexdigest()
    except OSError as error:
        return f"the file cannot be read: {error.strerror or error}"
    return "" if found == file.part.sha256 else WRONG_HASH


def _footer_fault(filesystem: Any, file: File) -> str:
    """Return the fault in the beginning or the footer of a Parquet file, in words; empty for none."""
    part = file.part
    if not len(PARQUET_MAGIC) < part.footer_bytes < min(part.bytes, FOOTER_BYTES_MAX):
        return f"its manifest names a footer of {part.footer_bytes} bytes"
    try:
        head = filesystem.cat_file(file.path, start=0, end=len(PARQUET_MAGIC))
        footer = filesystem.cat_file(file.path, start=part.bytes - part.footer_bytes, end=part.bytes)
    except OSError as error:
        return f"the file cannot be read: {error.strerror or error}"
    if head != PARQUET_MAGIC or sha256(footer).hexdigest() != part.footer_sha256:
        return "the sha256 of its footer is not the one in the manifest"
    if not has_parquet():  # a reading of all rows counts them
        return ""
    from app.tools.audit.format.columns import rows_in_footer

    try:
        rows = rows_in_footer(footer)
    except OSError as error:
        return f"its footer cannot be read: {error}"
    return "" if rows == part.rows else miscount(rows, file)


def _hashed_by_spark(spark: SparkSession, root_uri: str, files: Collection[File]) -> dict[str, str]:
    expected = small_frame(
        spark, [{"name": in_round(file.path), "said": file.part.sha256} for file in files], "name string, said string"
    )
    hashed = (
        spark.read.format("binaryFile")
        .load([spark_path(file.path, root_uri) for file in files])
        .select(path_in_round("path").alias("name"), F.sha2("content", 256).alias("sha256"))
    )
    wrong = hashed.join(F.broadcast(expected), "name").where("sha256 != said").collect()
    paths = {in_round(file.path): file.path for file in files}
    return {paths[row["name"]]: WRONG_HASH for row in wrong}


def unreadable_file(text: str, files: Iterable[File]) -> str | None:
    """Return the path of the file that the text of a Spark error names; None if that is none of ``files``."""
    paths = {in_round(file.path): file.path for file in files}
    return next((paths[name] for name in _IN_ROUND.findall(text) if name in paths), None)


def unknown_in_rows(root_uri: str, files: Iterable[File]) -> list[str]:
    """Return notes on unknown fields, from each member's first row: in a newer member's dump that row has them all."""
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
