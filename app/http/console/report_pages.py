"""The reports of the nightly audit, read from the folder to which it writes them."""

import re
from pathlib import Path
from typing import Any

from app.auth.access_rules import READ, admin
from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.page import HEADERS, HTML, ConsolePage, page_route
from app.languages.phrases import shown
from app.languages.stored_texts import recognized
from app.rows.summary import Summary, decode_summary

NIGHTS_SHOWN = 60
SUMMARY_BYTES_MAX = 4 * 1024 * 1024
REPORT_BYTES_MAX = 4 * 1024 * 1024
NIGHT = re.compile(r"\d{4}-\d{2}-\d{2}")
REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The policy of a report, a single file with its own style that was made elsewhere: it may not run or load anything."""


@page_route("/console/reports", access=admin(READ).in_console())
def reports(page: ConsolePage) -> Reply:
    """List the nights, the latest first."""
    folder = page.services.settings.told.console_reports
    return page.show(
        "reports.html",
        page.gettext("Nightly check"),
        nav="reports",
        folder=str(folder) if folder else "",
        nights=[_night(page, name, summary) for name, summary in _nights(folder)] if folder else [],
    )


def _nights(folder: Path) -> list[tuple[str, Summary | None]]:
    """Return the last nights with their summaries; None for a summary that cannot be read."""
    try:
        names = [one.name.removeprefix("night=") for one in folder.iterdir() if one.name.startswith("night=")]
    except OSError:
        return []
    nights = sorted((name for name in names if NIGHT.fullmatch(name)), reverse=True)
    return [(name, _summary(folder / f"night={name}" / "summary.json")) for name in nights[:NIGHTS_SHOWN]]


def _summary(file: Path) -> Summary | None:
    try:
        if file.stat().st_size > SUMMARY_BYTES_MAX:
            return None
        return decode_summary(file.read_bytes())
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _night(page: ConsolePage, name: str, summary: Summary | None) -> dict[str, Any]:
    if summary is None:
        line = page.gettext("The summary of this night is missing, or cannot be read.")
        return {"night": name, "verdict": "", "line": line, "findings": None}
    return {
        "night": name,
        "verdict": str(summary.verdict),
        "line": shown(recognized(summary.line), page.texts),
        "findings": sum(summary.findings.values()),
        "late": sum(summary.late.values()),
        "services": summary.services,
        "instances": summary.instances,
        "compared": summary.compared,
    }


@page_route("/console/report", access=admin(READ).in_console())
def report(page: ConsolePage) -> Reply:
    """Show one night's report, as the audit wrote it."""
    folder, night = page.services.settings.told.console_reports, page.text("night")
    if folder is None or not NIGHT.fullmatch(night):
        raise ApiRefusal(404, page.gettext("The address names no night."))
    file = folder / f"night={night}" / "report.html"
    try:
        body = file.read_bytes() if file.stat().st_size <= REPORT_BYTES_MAX else None
    except OSError:
        body = None
    if body is None:
        raise ApiRefusal(404, page.gettext("There is no report of the night %(night)s.", night=night))
    return Reply(200, body, HTML, {**HEADERS, "Content-Security-Policy": REPORT_POLICY})
