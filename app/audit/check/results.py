"""The results of the nights: findings and per-service summary as Parquet and JSON, summary and report beside them.

``findings/night=D``, ``services/night=D`` and ``findings_json/night=D`` are written by Spark into ``_staging`` and then
moved into place, ``reports/night=D/summary.json`` last: a night without that file is not judged. So a check that fails
changes no night, and one that is run again replaces its own.
"""

import uuid
from collections.abc import Sequence
from datetime import date, timedelta

from app.audit.check.evidence_rows import spark_path
from app.audit.format.file_systems import check_writable, dated_folders, open_root, write_whole
from app.audit.report.summary import Summary, Verdict, decode_summary, encode_summary

TABLES = ("findings", "services", "findings_json")
REPORTS = "reports"
TREND_NIGHTS_MAX = 366


class NotWritable(Exception):
    """The output folder takes no files; the text says which folder and why."""


class Results:
    """The output folder of all nights."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.filesystem, self.root = open_root(uri)
        self.staging = f"{self.root}/_staging/{uuid.uuid4().hex}"

    def open(self) -> None:
        """Make sure that results can be written, before the long work.

        Raises:
            NotWritable: the output folder takes no files.
        """
        try:
            check_writable(self.filesystem, self.staging)
        except OSError as error:
            raise NotWritable(f"cannot write to {self.uri}: {error.strerror or error}") from None

    def close(self) -> None:
        """Remove this run's staging folder, with any table that was not published; the folders of other runs stay."""
        if self.filesystem.exists(self.staging):
            self.filesystem.rm(self.staging, recursive=True)
        parent = f"{self.root}/_staging"
        if self.filesystem.isdir(parent) and not self.filesystem.ls(parent, detail=False):
            self.filesystem.rmdir(parent)

    def staged(self, table: str) -> str:
        """The path to which Spark writes a table of tonight."""
        return spark_path(f"{self.staging}/{table}", self.uri)

    def table(self, table: str, night: str) -> str | None:
        """The path from which Spark reads a night's table; None when the night has no such table."""
        path = f"{self.root}/{table}/night={night}"
        return spark_path(path, self.uri) if self.filesystem.isdir(path) else None

    def publish(self, summary: Summary, report: str) -> str:
        """Put tonight's tables, summary and report in place; return the path of the report."""
        for table in TABLES:
            source, target = f"{self.staging}/{table}", f"{self.root}/{table}/night={summary.night}"
            if self.filesystem.exists(target):
                self.filesystem.rm(target, recursive=True)
            if self.filesystem.exists(source):
                self.filesystem.makedirs(f"{self.root}/{table}", exist_ok=True)
                self.filesystem.mv(source, target, recursive=True)
        folder = f"{self.root}/{REPORTS}/night={summary.night}"
        self.filesystem.makedirs(folder, exist_ok=True)
        write_whole(self.filesystem, f"{folder}/report.html", report.encode())
        write_whole(self.filesystem, f"{folder}/summary.json", encode_summary(summary))
        return f"{folder}/report.html"

    def nights(self) -> list[str]:
        """Nights with a report, oldest first."""
        return dated_folders(self.filesystem, f"{self.root}/{REPORTS}", "night")

    def summaries(self, before: str) -> list[Summary]:
        """The readable summaries of the last ``TREND_NIGHTS_MAX`` nights before ``before``, oldest first."""
        found = []
        for night in [one for one in self.nights() if one < before][-TREND_NIGHTS_MAX:]:
            if summary := self.summary(night):
                found.append(summary)
        return found

    def summary(self, night: str) -> Summary | None:
        path = f"{self.root}/{REPORTS}/night={night}/summary.json"
        try:
            return decode_summary(self.filesystem.cat_file(path))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def last_judged(self, earlier: Sequence[Summary]) -> str | None:
        """The path from which Spark reads the findings of the last judged night of ``earlier``; None without one."""
        for summary in reversed(earlier):
            if summary.verdict is not Verdict.UNJUDGED:
                return self.table("findings", summary.night)
        return None

    def remove_before(self, night: str, keep: int) -> list[str]:
        """Remove nights that are ``keep`` days or more before ``night``; return their dates."""
        oldest = str(date.fromisoformat(night) - timedelta(days=keep - 1))
        removed = [one for one in self.nights() if one < oldest]
        for one in removed:
            for table in (*TABLES, REPORTS):
                path = f"{self.root}/{table}/night={one}"
                if self.filesystem.exists(path):
                    self.filesystem.rm(path, recursive=True)
        return removed
