"""The tables of the nights: their columns, and the part of a night's ``summary.json`` that names their files.

That file is the commit of a night. A table's rows of the night are those in the files that it names, with the night in
their column ``night``; any other files next to them belong to a check that was cut off, or to an earlier one.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app.tools.audit.format.file_systems import dated_folders
from app.tools.audit.format.findings import FINDING_FIELDS, SERVICE_FIELDS

REPORTS = "reports"
SUMMARY = "summary.json"
SCHEMA_VERSION = 1
"""The version, which rises with a change that breaks readers of earlier files; an added column does not."""
NIGHTS_AT_ONCE = 64
"""The commits that are read together, and held in memory as text."""

FAULT_KEY = (
    "finding_class",
    "namespace",
    "service",
    "cluster",
    "ip",
    "port",
    "ephemeral",
    "name",
    "member",
)
"""The columns that are equal in two nights' findings of one fault: the class, the key and the member.

The reference may change, as when the owner moved; only of MEMBERSHIP it is the other member of the pair.
"""
FAULT_FIELDS: dict[str, str] = {
    **{name: FINDING_FIELDS[name] for name in (*FAULT_KEY, "reference")},
    "opened_night": "string",
    "last_seen": "string",
    "closed_night": "string",
    "ended": "string",
    "since": "string",
    "nights_open": "int",
}
"""Columns of the faults that are open after a night, and of those that it closed.

``closed_night`` is null while the fault is open. ``ended`` says how it closed: ``healed``, or ``left`` when one of its
members has left the cluster. A fault whose members were not compared, or whose class was not looked for, stays open
with an earlier ``last_seen``.
"""
TABLE_FIELDS: dict[str, dict[str, str]] = {
    name: {"night": "string"} | fields
    for name, fields in {"findings": FINDING_FIELDS, "services": SERVICE_FIELDS, "faults": FAULT_FIELDS}.items()
}
"""The columns of each table in Parquet, with Spark's types."""
FINDINGS_JSON = "findings_json"
STORED = (*TABLE_FIELDS, FINDINGS_JSON)

_RUN = re.compile(r"run=(\d{8}T\d{6}Z)-[0-9a-f]{8}")


class BadCommit(ValueError):
    """A night's ``summary.json`` cannot be used; the text names the file and says why."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table. ``path`` is below the output folder; ``rows`` are those of all nights in the file."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class NightTable:
    """A table of one night: how many rows the night has in it, and the files that hold them."""

    rows: int
    files: tuple[TableFile, ...]
    schema: int = SCHEMA_VERSION


Committed = dict[str, NightTable]
"""The tables of a night by name."""


def summary_path(root: str, night: str) -> str:
    return f"{root}/{REPORTS}/night={night}/{SUMMARY}"


def with_tables(summary: bytes, tables: Mapping[str, NightTable]) -> bytes:
    """Return the JSON of a summary with these tables, in place of any that it has."""
    value = json.loads(summary) | {"tables": {name: asdict(table) for name, table in tables.items()}}
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def decode_tables(body: bytes, path: str) -> Committed:
    """Return the tables of a night's summary; none if the night was not judged.

    Raises:
        BadCommit: the bytes are not a summary, or the tables are of a newer schema.
    """
    try:
        return {str(name): _table(one) for name, one in json.loads(body).get("tables", {}).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadCommit(f"{path}: {error if isinstance(error, _Newer) else 'not the summary of a night'}") from None


class _Newer(ValueError):
    """Tables that a newer release wrote."""


def _table(value: Mapping[str, Any]) -> NightTable:
    schema = int(value["schema"])
    if schema > SCHEMA_VERSION:
        raise _Newer(f"its tables are of schema {schema}, and this release reads up to {SCHEMA_VERSION}")
    files = (TableFile(str(one["path"]), int(one["rows"]), int(one["bytes"]), one["sha256"]) for one in value["files"])
    return NightTable(int(value["rows"]), tuple(files), schema)


def committed(filesystem: Any, root: str, nights: Iterable[str] | None = None) -> dict[str, Committed]:
    """Return the tables of each night, oldest first; of all nights, or of those in ``nights`` that exist.

    Raises:
        BadCommit: a night's summary cannot be used.
        OSError: a file cannot be read.
    """
    there = dated_folders(filesystem, f"{root}/{REPORTS}", "night")
    wanted = there if nights is None else sorted(set(there) & set(nights))
    found = {}
    for start in range(0, len(wanted), NIGHTS_AT_ONCE):
        paths = {summary_path(root, night): night for night in wanted[start : start + NIGHTS_AT_ONCE]}
        for path, body in read_each(filesystem, list(paths)).items():
            found[paths[path]] = decode_tables(body, path)
    return {night: found[night] for night in sorted(found)}


def read_each(filesystem: Any, paths: list[str]) -> dict[str, bytes]:
    """Return the bytes of files by path, all at once where the file system can; a missing file is left out.

    Raises:
        OSError: a file exists and cannot be read.
    """
    found = {}
    for path, body in filesystem.cat(paths, on_error="return").items() if paths else ():
        if isinstance(body, FileNotFoundError):
            continue
        if isinstance(body, Exception):
            raise OSError(f"{path}: {body}") from body
        found[path] = body
    return found


def nights_by_file(commits: Mapping[str, Committed], table: str) -> dict[TableFile, list[str]]:
    """Return the files of a table, each with the nights whose rows are read from it."""
    found: dict[TableFile, list[str]] = {}
    for night, tables in commits.items():
        for file in tables[table].files if table in tables else ():
            found.setdefault(file, []).append(night)
    return found


def began(path: str) -> str | None:
    """Return when the run that wrote a file began, as ``20261121T031500Z``; None for a file that no run wrote."""
    match = _RUN.search(path)
    return match[1] if match else None
