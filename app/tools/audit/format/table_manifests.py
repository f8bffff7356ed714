"""Manifests of the tables: the committed files of each night, for engines that know a table only by a folder.

``manifests/findings/commit_night=2026-11-21/manifest`` has the URI of a file on each line, as Hive's
``SymlinkTextInputFormat`` reads it, and with it Trino and Athena. The file of a month is in the manifest of each of its
nights, so a row counts only where its column ``night`` is ``commit_night``.
"""

from collections.abc import Mapping
from typing import Any

from app.tools.audit.format.commits import TABLE_FIELDS, Committed, NightTable, read_each
from app.tools.audit.format.file_systems import write_whole

MANIFESTS = "manifests"
COMMIT_NIGHT = "commit_night"
"""The column of the partitions."""


def manifest_folders(root: str, night: str) -> list[str]:
    """Return the folders of a night's manifests, one for each table."""
    return [f"{root}/{MANIFESTS}/{table}/{COMMIT_NIGHT}={night}" for table in TABLE_FIELDS]


def write_manifests(filesystem: Any, root: str, commits: Mapping[str, Committed]) -> None:
    """Write the manifests of these nights that are missing or differ; that of a table without rows is empty.

    Raises:
        OSError: a manifest cannot be read or written.
    """
    wanted = {
        f"{folder}/manifest": _lines(filesystem, root, tables.get(table))
        for night, tables in commits.items()
        for table, folder in zip(TABLE_FIELDS, manifest_folders(root, night), strict=True)
    }
    found = read_each(filesystem, list(wanted))
    for path, body in wanted.items():
        if found.get(path) != body:
            filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
            write_whole(filesystem, path, body)


def _lines(filesystem: Any, root: str, table: NightTable | None) -> bytes:
    files = table.files if table is not None and table.rows else ()
    return "".join(f"{filesystem.unstrip_protocol(f'{root}/{file.path}')}\n" for file in files).encode()
