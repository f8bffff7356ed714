"""The end of a check: the page and the summary of the night, the metrics, the alert, and the line of the verdict."""

import argparse
import contextlib
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from app.languages.catalogues import N_
from app.languages.command_texts import command_texts, gettext
from app.languages.phrases import phrase, shown
from app.languages.stored_texts import recognized
from app.rows.summary import Summary, unjudged
from app.tools.printable import json_text

if TYPE_CHECKING:
    from app.tools.audit.check.night_reports import NightReports


def conclude_without_verdict(
    options: argparse.Namespace, reason: str, error: dict[str, Any] | None, brief: bool
) -> int:
    """Report a night without a verdict everywhere: page, summary, metrics, alert, line; return its exit code.

    What cannot be written is named on stderr. ``brief``: the process is about to be killed, so the alert is tried once.
    """
    summary = _without_verdict(options, reason, error)
    if summary.night:
        try:
            if report := _publish_unjudged(options, summary, is_of_night=brief or _is_of_night(options)):
                say(gettext("report: %(path)s", path=report))
        except Exception as failure:  # whatever fails here, the metrics and the alert must still follow
            say(gettext("the page of the night was not written: %(error)s", error=_reason(failure)))
    return report_verdict(options, summary, None, brief=brief)


def judged_with(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the options on which the verdict depends, as ``Summary.judged_with``."""
    from app.tools.audit.format.file_systems import place

    given = {
        "linked": [place(one) for one in options.linked],
        "suppressions": [str(Path(options.suppressions).absolute())] if options.suppressions else [],
        "ignore": [",".join(sorted(options.ignore))] if options.ignore else [],
    }
    return {name: values for name, values in given.items() if values}


def _without_verdict(options: argparse.Namespace, reason: str, error: dict[str, Any] | None) -> Summary:
    """Return the unjudged summary with a reason, for the night asked for, else for the latest night with a dump."""
    night = options.night
    if night is None:
        try:
            from app.tools.audit.format.layout import nights

            night = (nights(options.dumps) or [""])[-1]
        except (OSError, ValueError, ImportError):
            night = ""
    try:
        from app.tools.audit.format.file_systems import place

        dumps, results, given = place(options.dumps), place(options.out), judged_with(options)
    except (OSError, ValueError, ImportError):
        dumps = results = ""
        given = {}
    members, summary = _members_of(options, night), unjudged(night, reason)
    return replace(summary, error=error, members=members, dumps=dumps, results=results, judged_with=given)


def _members_of(options: argparse.Namespace, night: str) -> list[dict[str, Any]]:
    """Return the members of the dump that could not be judged; none if there is no such dump."""
    if options.not_judged:
        return []
    try:
        from app.tools.audit.check.headline import members_of_night
        from app.tools.audit.format.layout import NoDump, read_night
    except ImportError:
        return []
    try:
        return members_of_night(read_night(options.dumps, night, options.dump_run))
    except (NoDump, OSError, ValueError):
        return []


def _is_of_night(options: argparse.Namespace) -> bool:
    """Return whether this is the check of the nightly run, rather than a night that is checked again by hand."""
    return bool(options.dump_run or options.not_judged)


def _publish_unjudged(options: argparse.Namespace, summary: Summary, *, is_of_night: bool) -> str | None:
    """Commit the night without a verdict; return the path of its page.

    None, and nothing is written: the night has a verdict, and this check was not that of the nightly run.
    """
    from app.tools.audit.check.night_reports import NightReports
    from app.tools.audit.report.report import render

    reports = NightReports(options.out)
    summary = reports.with_earlier(summary)
    if summary.earlier and not is_of_night:
        return None
    return reports.publish_unjudged(summary, render(summary, reports.summaries(before=summary.night), command_texts()))


def report_verdict(
    options: argparse.Namespace,
    summary: Summary,
    reports: "NightReports | None",
    on_reported: Callable[[int], None] | None = None,
    *,
    brief: bool = False,
) -> int:
    """Write the metrics file, post the alert, print notes and verdict; return the exit code of the verdict.

    A metrics file or an alert that fails is named on stderr, and changes no exit code. The line comes last: who reads
    it knows that everything else was tried. ``on_reported``: called right before it.
    """
    if options.textfile:
        try:
            from app.tools.audit.report.textfile import write

            write(options.textfile, summary)
        except (OSError, ImportError) as error:
            text = N_("the metrics were not written to %(path)s: %(error)s")
            say(gettext(text, path=options.textfile, error=_reason(error)))
    if options.alert_url:
        _alert(options, summary, reports, brief=brief)
    for note in summary.notes:
        say(gettext("note: %(text)s", text=shown(recognized(note))))
    if on_reported is not None:
        on_reported(summary.verdict.exit_code)
    sys.stdout.write(f"{json_text(asdict(summary)) if options.json else _line(summary)}\n")
    sys.stdout.flush()
    return summary.verdict.exit_code


def _line(summary: Summary) -> str:
    """Return the verdict in a line, and how long the check took if it came to one."""
    line = recognized(summary.line)
    if summary.took_s:
        line = phrase("%(text)s; took %(seconds)s s", text=line, seconds=f"{summary.took_s:g}")
    return shown(line)


def _alert(options: argparse.Namespace, summary: Summary, reports: "NightReports | None", *, brief: bool) -> None:
    try:
        from app.tools.audit.report.alert_bodies import AlertFormat
        from app.tools.audit.report.alert_state import AlertFile, Alerts, Recipient

        recipient = Recipient(options.alert_url, AlertFormat(options.alert_format), options.alert_cluster)
        try:
            file = AlertFile(options.out)
        except (ImportError, ValueError, OSError):
            file = None  # the verdict says so, too, so the recipients still learn of it
        nights = [night for night in reports.nights() if night < summary.night] if reports else []
        before = reports.summary(nights[-1]) if reports and nights else None
        stop = Event()
        if brief:
            stop.set()
        delivery = Alerts(recipient, file, stop).tell(summary, before)
        if delivery and not delivery.delivered:
            say(gettext("the alert was not delivered: %(reason)s", reason=delivery.reason))
    except ImportError as error:
        say(gettext("the alert was not delivered: %(reason)s", reason=error))
    except OSError as error:
        text = N_("the list of open alerts cannot be saved in %(folder)s: %(error)s")
        say(gettext(text, folder=options.out, error=_reason(error)))


def say(text: str) -> None:
    """Print a line to standard error; a log on a full disk must not keep the verdict back."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
