"""Reading dumps from Spark: the public way to the rows of the nights, of both formats."""

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

from app.rows.rows import CORRUPT, FIELDS, METADATA
from app.tools.audit.check.evidence_rows import (
    COLUMN_SCHEMA,
    FOLDER_SCHEMA,
    ROW_SCHEMA,
    metadata_text,
    small_frame,
    spark_path,
)
from app.tools.audit.format.file_systems import open_root
from app.tools.audit.format.layout import Night, NoDump, nights, read_night

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DUMP_FIELDS = {
    "dump_date": "string",
    "round": "int",
    "taken_at": "string",
    "member": "string",
    **{name: "string" if name == METADATA else kind for name, kind in FIELDS.items()},
    CORRUPT: "string",
}
"""The columns of a dump with their Spark types. ``member`` is an address; ``metadata`` is JSON with sorted keys."""
_FOLDERS = ("dump_date", "taken_at", "folder")
_PLACES = ", ".join(f"{name} string" for name in _FOLDERS) + ", round int, member string"


def read_dump(spark: "SparkSession", uri: str, dates: Iterable[str] | None = None) -> "DataFrame":
    """Return the rows of all nights under a dump's root, or of some; columns as of ``DUMP_FIELDS``.

    A night has the rows of its latest complete run, and of no other. The rows of links, of the kind ``linked``, are
    among them; an invalid line has its text in ``_corrupt``. Only the check compares files with their hashes.

    Raises:
        ValueError: a night of ``dates`` has no complete dump, or there is none at all; the text says why.
        OSError: the folder cannot be read.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    found = _read_nights(uri, dates)
    base = spark_path(open_root(uri)[1], uri)
    paths: dict[bool, list[str]] = {True: [], False: []}
    places: dict[tuple[str, str, str], dict[str, Any]] = {}
    for night in found:
        for one in night.rounds:
            for member in one.manifest.members:
                for part in (*member.parts, *member.linked):
                    paths[part.is_parquet].append(spark_path(f"{one.folder}/{part.path}", uri))
                    place = night.date, one.manifest.taken_at, part.path.partition("/")[0].partition("=")[2]
                    of_place = dict(zip(_FOLDERS, place, strict=True))
                    places[place] = {**of_place, "round": one.manifest.round, "member": member.address}
    frames = []
    if of_parquet := paths[True]:
        reader = spark.read.schema(f"{COLUMN_SCHEMA}, {FOLDER_SCHEMA}").option("basePath", base)
        frames.append(reader.parquet(*of_parquet))
    if of_json := paths[False]:
        reader = spark.read.schema(f"{ROW_SCHEMA}, {FOLDER_SCHEMA}").option("basePath", base)
        frames.append(reader.json(of_json).withColumn(METADATA, metadata_text()))
    if not frames:  # no member holds anything
        return small_frame(spark, [], ", ".join(f"{name} {kind}" for name, kind in DUMP_FIELDS.items()))
    rows = reduce(DataFrame.unionByName, frames).withColumnRenamed("member", "folder")
    named = F.broadcast(small_frame(spark, list(places.values()), _PLACES))
    return rows.join(named, list(_FOLDERS)).select(*DUMP_FIELDS)


def _read_nights(uri: str, dates: Iterable[str] | None) -> list[Night]:
    try:
        if dates is not None:
            return [read_night(uri, date) for date in sorted(set(dates))]
        found, missing = [], f"no dump under {uri}"
        for date in nights(uri):
            try:
                found.append(read_night(uri, date))
            except NoDump as error:  # its dump is under way, or was cut off
                missing = str(error)
    except NoDump as error:
        raise ValueError(str(error)) from None
    if not found:
        raise ValueError(missing)
    return found
