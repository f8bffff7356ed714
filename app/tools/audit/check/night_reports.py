"""The summaries and pages of the nights, without Spark: a night that nothing could judge has them, too."""

import contextlib
import json
from dataclasses import replace

from app.rows.summary import Summary, Verdict, decode_summary, encode_summary
from app.tools.audit.format.commits import (
    REPORTS,
    BadCommit,
    Committed,
    committed,
    read_each,
    summary_path,
    with_tables,
)
from app.tools.audit.format.file_systems import (
    check_writable,
    dated_folders,
    is_local,
    open_root,
    overwrite,
    write_whole,
)

TREND_NIGHTS_MAX = 366


class NotWritable(Exception):
    """The output folder takes no files; the text says which folder and why."""


class NightReports:
    """The folder of all nights' summaries and pages."""

    def __init__(self, uri: str) -> None:
        """Open the folder; raise ImportError or ValueError if this machine cannot reach such a URI."""
        self.uri = uri
        self.filesystem, self.root = open_root(uri)

    def open(self) -> None:
        """Make sure that results can be written, before the long work.

        Raises:
            NotWritable: the output folder takes no files.
        """
        try:
            check_writable(self.filesystem, f"{self.root}/{REPORTS}")
        except OSError as error:
            raise NotWritable(f"cannot write to {self.uri}: {error.strerror or error}") from None

    def nights(self) -> list[str]:
        """Return the nights with a report, oldest first."""
        return dated_folders(self.filesystem, f"{self.root}/{REPORTS}", "night")

    def summaries(self, before: str) -> list[Summary]:
        """Return the readable summaries of the last ``TREND_NIGHTS_MAX`` nights before ``before``, oldest first."""
        nights = [one for one in self.nights() if one < before][-TREND_NIGHTS_MAX:]
        bodies = read_each(self.filesystem, [summary_path(self.root, night) for night in nights])
        found = (_summary(bodies.get(summary_path(self.root, night))) for night in nights)
        return [summary for summary in found if summary]

    def summary(self, night: str) -> Summary | None:
        path = summary_path(self.root, night)
        return _summary(read_each(self.filesystem, [path]).get(path))

    def with_earlier(self, summary: Summary) -> Summary:
        """Return the summary of a night without a verdict, with the verdict of an earlier check of the same night."""
        before = self.summary(summary.night)
        if before is None or (before.verdict is Verdict.UNJUDGED and before.earlier is None):
            return summary
        earlier = before.earlier or {
            "verdict": before.verdict.value,
            "line": before.line,
            "checked_at": before.checked_at,
            "findings": before.findings,
        }
        return replace(summary, earlier=earlier, members=before.members)

    def publish_unjudged(self, summary: Summary, page: str) -> str:
        """Commit a night without a verdict; return the path of its page.

        The tables of an earlier check of the night stay committed. A disk that is full keeps no page and no summary
        that names an earlier verdict: both are written over in their place, or the page is removed.

        Raises:
            OSError: a file cannot be written.
        """
        tables: Committed = {}
        with contextlib.suppress(BadCommit, OSError):  # a summary that cannot be read is replaced
            tables = committed(self.filesystem, self.root, [summary.night]).get(summary.night, {})
        folder = f"{self.root}/{REPORTS}/night={summary.night}"
        body = with_tables(encode_summary(summary), tables)
        try:
            self.filesystem.makedirs(folder, exist_ok=True)
            write_whole(self.filesystem, f"{folder}/report.html", page.encode())
            write_whole(self.filesystem, summary_path(self.root, summary.night), body)
        except OSError:
            if is_local(self.filesystem):
                self._overwrite(folder, page.encode(), body)
            raise
        return f"{folder}/report.html"

    def _overwrite(self, folder: str, page: bytes, body: bytes) -> None:
        short = json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False).encode()
        if not overwrite(f"{folder}/report.html", page):
            with contextlib.suppress(OSError):
                self.filesystem.rm_file(f"{folder}/report.html")
            with contextlib.suppress(OSError):  # the space of the earlier page may suffice
                write_whole(self.filesystem, f"{folder}/report.html", page)
        overwrite(f"{folder}/summary.json", short)


def _summary(body: bytes | None) -> Summary | None:
    try:
        return decode_summary(body) if body is not None else None
    except (ValueError, TypeError):
        return None


def judged(summary: Summary) -> bool:
    """Return whether the night has a verdict, of its last check or of an earlier one."""
    return summary.verdict is not Verdict.UNJUDGED or summary.earlier is not None
