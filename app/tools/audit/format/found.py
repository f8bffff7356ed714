"""The findings of a night as its commit names them: no line of a check that was cut off is among them."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from app.tools.audit.format.commits import FINDINGS_JSON, REPORTS, BadCommit, TableFile, decode_tables, summary_path
from app.tools.audit.format.file_systems import dated_folders, open_root

RESULTS_VARIABLE, STATE_VARIABLE = "ROLLCALL_AUDIT_RESULTS", "ROLLCALL_AUDIT_STATE"
"""The settings of the nightly run that name the folder of its results, or the one above it."""
STATE = "/var/lib/rollcall-audit"
CHUNK_BYTES = 1 << 20
SUMMARY_BYTES_MAX = 64 * 1024 * 1024


class NoFindings(Exception):
    """The findings of a night cannot be read; the text says why."""


@dataclass(frozen=True, slots=True)
class NightFindings:
    """The findings of one night. ``note``: a text for the operator, empty if there is none."""

    night: str
    line: str
    """The line of its verdict."""
    note: str
    filesystem: Any
    root: str
    files: tuple[TableFile, ...]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the findings, lasting and late ones, by the columns of ``FINDING_FIELDS``.

        Raises:
            NoFindings: a file is not the one that the commit names.
        """
        for file in self.files:
            path = f"{self.root}/{file.path}"
            try:
                self._verify(path, file)
                with self.filesystem.open(path, "rb") as lines:
                    for line in lines:
                        if isinstance(row := orjson.loads(line), dict):
                            yield row
            except (OSError, orjson.JSONDecodeError) as error:
                raise NoFindings(f"{path} cannot be read: {error}") from None

    def _verify(self, path: str, file: TableFile) -> None:
        digest = hashlib.sha256()
        with self.filesystem.open(path, "rb") as body:
            while chunk := body.read(CHUNK_BYTES):
                digest.update(chunk)
        if digest.hexdigest() != file.sha256:
            raise NoFindings(f"{path} is not the file that the night's summary names: the sha256 differs")


def default_results() -> str:
    """Return the folder of the results of the nightly run, by its settings in the environment."""
    return os.environ.get(RESULTS_VARIABLE) or f"{os.environ.get(STATE_VARIABLE) or STATE}/results"


def committed_findings(uri: str, night: str | None = None) -> NightFindings:
    """Return the findings of a night; of the last night with a verdict without ``night``.

    Raises:
        NoFindings: there is no such night, or it has no verdict; or the folder cannot be read.
    """
    try:
        filesystem, root = open_root(uri)
        there = dated_folders(filesystem, f"{root}/{REPORTS}", "night")
        if night is not None and night not in there:
            raise NoFindings(f"no results of the night {night} under {uri}")
        for one in [night] if night is not None else reversed(there):
            path = summary_path(root, one)
            try:
                body = filesystem.cat_file(path, end=SUMMARY_BYTES_MAX)
            except FileNotFoundError:
                if night is not None:
                    raise NoFindings(f"the check of the night {night} did not end: {path} is missing") from None
                continue
            tables = decode_tables(body, path)
            if FINDINGS_JSON in tables:
                return _found(filesystem, root, one, orjson.loads(body), tables[FINDINGS_JSON].files)
            if night is not None:
                raise NoFindings(f"the night {night} has no verdict: {orjson.loads(body).get('line', '')}")
    except (BadCommit, OSError, ValueError, ImportError) as error:
        raise NoFindings(f"{uri} cannot be read: {error}") from None
    raise NoFindings(f"no night under {uri} has a verdict")


def _found(
    filesystem: Any, root: str, night: str, summary: dict[str, Any], files: tuple[TableFile, ...]
) -> NightFindings:
    note, line = "", str(summary.get("line", ""))
    if isinstance(earlier := summary.get("earlier"), dict):
        at = earlier.get("checked_at")
        note = f"the last check of the night has no verdict; the findings are those of the check at {at}"
    return NightFindings(night, line, note, filesystem, root, files)
