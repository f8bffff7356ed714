"""The results of the nights: findings, services, faults as Parquet, findings as JSON, summary and report next to them.

Spark writes a night's files under names that no other run has, and no reader uses them until
``reports/night=D/summary.json`` names them: it is written last, in one piece, and is the commit of the night. So a
check that fails changes no night, and a check that is run again replaces its own results. No file is renamed, as object
stores cannot do that.
"""

import contextlib
import uuid
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.rows.summary import Summary, encode_summary
from app.tools.audit.check.evidence_rows import spark_path
from app.tools.audit.check.night_reports import NightReports, judged
from app.tools.audit.check.table_files import Output
from app.tools.audit.check.tables import frame_of
from app.tools.audit.format.commits import (
    FINDINGS_JSON,
    REPORTS,
    STORED,
    TABLE_FIELDS,
    BadCommit,
    Committed,
    TableFile,
    began,
    committed,
    nights_by_file,
    summary_path,
    with_tables,
)
from app.tools.audit.format.file_systems import write_whole
from app.tools.audit.format.table_manifests import manifest_folders, write_manifests

ABANDONED_AFTER = timedelta(hours=12)
"""The age at which a run is over; younger files that no night names may belong to a check that is still running."""


class Results(NightReports):
    """The output folder of all nights, and the tables that this run writes: those of one night."""

    def __init__(self, uri: str, now: datetime | None = None) -> None:
        super().__init__(uri)
        self.now = now or datetime.now(UTC)
        run = f"run={self.now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
        self.output = Output(self.filesystem, self.root, uri, run)
        self.notes: list[str] = []
        """Texts for the operator about the results of other nights."""
        self._night: str | None = None
        self._tables: Committed = {}
        """The tables of tonight that were written and are not committed yet."""

    def close(self) -> None:
        """Remove the tables of this run that were not committed."""
        if self._night:
            self.remove(path for table in STORED for path in self.output.own_files(self._folder(table)))
            self._night = None

    def begin(self, night: str) -> None:
        """Set the night that is judged, before its first table is written."""
        self._night, self._tables = night, {}

    def staged(self, table: str) -> str:
        """Return the path from which Spark reads a table of this run before it is committed."""
        return spark_path(self._folder(table), self.uri)

    def write(self, table: str, frame: DataFrame | None) -> int:
        """Write a table of tonight, by the columns of its schema; no reader uses it until it is committed.

        ``frame``: None for no rows. Return the number of rows.

        Raises:
            OSError: a part of it is missing after writing.
        """
        if frame is None:
            self._tables[table] = self.output.write_empty(table, self._folder(table))
            return 0
        if table != FINDINGS_JSON:
            night = F.lit(self._night)
            columns = {name: night if name == "night" else F.col(name) for name in TABLE_FIELDS[table]}
            frame = frame.select(
                *[column.cast(TABLE_FIELDS[table][name]).alias(name) for name, column in columns.items()]
            )
        self._tables[table] = self.output.write(table, frame, self._folder(table))
        return self._tables[table].rows

    def publish(self, summary: Summary, report: str) -> str:
        """Put tonight's report in place and commit its summary and tables; return the path of the report.

        The night's manifests follow, and then the removal of the files of the commit before.

        Raises:
            OSError: a file cannot be written.
        """
        folder = f"{self.root}/{REPORTS}/night={summary.night}"
        before: set[str] = set()
        with contextlib.suppress(BadCommit):  # it is replaced now; its files count as abandoned
            before = self._named_by([summary.night])
        tables = self._tables
        self.filesystem.makedirs(folder, exist_ok=True)
        write_whole(self.filesystem, f"{folder}/report.html", report.encode())
        write_whole(
            self.filesystem, summary_path(self.root, summary.night), with_tables(encode_summary(summary), tables)
        )
        if tables:
            self._night = None
        with contextlib.suppress(BadCommit, OSError):  # the night is committed; a later check does the rest
            write_manifests(self.filesystem, self.root, {summary.night: tables})
            self.remove_unnamed(before)
        return f"{folder}/report.html"

    def write_manifests(self) -> dict[str, Committed]:
        """Write the manifests that are missing, or name other files than the commits; return the commits of all nights.

        Raises:
            BadCommit: a night's summary cannot be used.
            OSError: a file cannot be read or written.
        """
        commits = committed(self.filesystem, self.root)
        write_manifests(self.filesystem, self.root, commits)
        return commits

    def open_faults(self, spark: SparkSession, night: str) -> DataFrame | None:
        """Return the faults that were open after the last judged night before ``night``; None when there are none.

        Raises:
            BadCommit: that night's tables are of a newer release.
        """
        last, commit = self._last_judged(night)
        faults = commit.get(last, {}).get("faults")
        if faults is None or not faults.rows:
            return None
        for file in faults.files:
            if not self._is_whole(file):
                self.notes.append(f"{file.path} changed after the night {last}: the history begins again")
                return None
        return frame_of(spark, self.uri, "faults", commit).where("closed_night IS NULL")

    def has_faults(self, night: str) -> bool:
        """Return whether the last judged night before ``night`` left faults, open or closed; true if that is
        unknown."""
        try:
            last, commit = self._last_judged(night)
        except BadCommit:
            return True
        faults = commit.get(last, {}).get("faults")
        return faults is not None and faults.rows > 0

    def _last_judged(self, night: str) -> tuple[str, dict[str, Committed]]:
        """Return the last judged night before ``night``, and its commit; an empty text without one.

        Raises:
            BadCommit: its tables are of a newer release.
        """
        for summary in reversed(self.summaries(before=night)):
            if judged(summary):
                return summary.night, committed(self.filesystem, self.root, [summary.night])
        return "", {}

    def _is_whole(self, file: TableFile) -> bool:
        try:
            return int(self.filesystem.size(f"{self.root}/{file.path}")) == file.bytes
        except FileNotFoundError:
            return False

    def judged_after(self, night: str) -> list[str]:
        """Return the nights after ``night`` with a verdict: their history follows the earlier verdict of ``night``."""
        later = [self.summary(one) for one in self.nights() if one > night]
        return [one.night for one in later if one and judged(one)]

    def remove_before(self, night: str, keep: int) -> list[str]:
        """Remove nights that are ``keep`` days or more before ``night``; return their dates.

        A night is gone once its commit is gone; its rows in the file of a month are removed with the last night of that
        month.
        """
        oldest = str(date.fromisoformat(night) - timedelta(days=keep - 1))
        removed = [one for one in self.nights() if one < oldest]
        files = self._named_by(removed)
        for one in removed:
            folders = [f"{self.root}/{table}/night={one}" for table in (REPORTS, *STORED)]
            for path in (*manifest_folders(self.root, one), *folders):
                if self.filesystem.exists(path):
                    self.filesystem.rm(path, recursive=True)
        self.remove_unnamed(files)
        return removed

    def remove_abandoned(self) -> int:
        """Remove files that no night names, of runs that were cut off ``ABANDONED_AFTER`` ago; return how many.

        Raises:
            BadCommit: a night's summary cannot be used, so nothing is removed.
        """
        self.filesystem.invalidate_cache()
        limit = f"{self.now - ABANDONED_AFTER:%Y%m%dT%H%M%SZ}"
        found = [path for table in STORED for path in self.filesystem.find(f"{self.root}/{table}")]
        old = [path for path in found if (at := began(path)) is not None and at < limit]
        return self.remove_unnamed(path.removeprefix(f"{self.root}/") for path in old) if old else 0

    def remove_unnamed(self, files: Iterable[str]) -> int:
        """Remove the files, given below the root, that no night names; return how many. No manifest names one then."""
        given = set(files)
        if not given:
            return 0
        commits = self.write_manifests()
        named = {file.path for table in STORED for file in nights_by_file(commits, table)}
        named |= {_checksum_of(path) for path in named}
        return self.remove(f"{self.root}/{path}" for path in given - named)

    def remove(self, paths: Iterable[str]) -> int:
        """Remove files, their checksums and the folders that they leave empty; return how many files there were."""
        removed = 0
        folders = set()
        for path in paths:
            for one in (path, _checksum_of(path)):
                if self.filesystem.exists(one):
                    self.filesystem.rm_file(one)
                    removed += one == path
            folders.add(path.rpartition("/")[0])
        for folder in folders:
            self._remove_empty(folder)
        return removed

    def _remove_empty(self, folder: str) -> None:
        """Remove a folder without files, and those above it up to the table's."""
        while folder.startswith(f"{self.root}/") and "/" in folder.removeprefix(f"{self.root}/"):
            if not self.filesystem.isdir(folder) or self.filesystem.find(folder):
                return
            self.filesystem.rm(folder, recursive=True)
            folder = folder.rpartition("/")[0]

    def _folder(self, table: str) -> str:
        folder = f"{self.root}/{table}/night={self._night}"
        return folder if table == FINDINGS_JSON else f"{folder}/{self.output.run}"

    def _named_by(self, nights: Iterable[str]) -> set[str]:
        """Return the files that these nights' commits name."""
        commits = committed(self.filesystem, self.root, nights)
        return {file.path for table in STORED for file in nights_by_file(commits, table)}


def _checksum_of(path: str) -> str:
    """Return the path of the checksum that Hadoop keeps next to a file on a disk."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"
