"""``rollcall findings``: the findings of a night, from the files that its commit names.

Exit codes: 0 they were printed, also if there are none; 2 they cannot be read, with the reason on stderr.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from app.languages.catalogues import N_
from app.languages.command_texts import command_texts, gettext
from app.languages.phrases import shown
from app.languages.stored_texts import recognized
from app.tools.audit.format.findings import FINDING_FIELDS
from app.tools.audit.report.night_options import add_night_options
from app.tools.printable import json_line, printable

PRINTED, NOT_READ = 0, 2
TABLE_ROWS_MAX = 1_000
PUBLIC = "public"


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "findings",
        help="print the findings of a night's check",
        description="Print the findings of a night's check, from the files that its commit names. Exit code 0: they "
        "were printed, also if there are none; 2: they cannot be read.",
    )
    add_night_options(parser)
    parser.add_argument("--service", metavar="NAME", help="only this service: group@@name, or a name in DEFAULT_GROUP")
    parser.add_argument("--namespace", metavar="NAMESPACE", help="only this namespace; the default namespace is public")
    parser.add_argument("--member", metavar="HOST:PORT", help="only findings of this member")
    parser.add_argument("--lasting", action="store_true", help="only findings in both rounds")
    parser.add_argument("--json", action="store_true", help="print each finding as one line of JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the findings of a night, and return the exit code."""
    from app.tools.audit.format.found import NoFindings, committed_findings, default_results

    try:
        found = committed_findings(options.results or default_results(), options.night)
        if found.note:
            _say(shown(recognized(found.note)))
        rows = (row for row in found.rows() if _is_wanted(row, options))
        lines = map(json_line, rows) if options.json else _table(rows, found.night)
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except NoFindings as error:
        _say(shown(recognized(str(error))))
        return NOT_READ
    except BrokenPipeError:
        # The reader, such as head, has read enough; the rest of the buffer is dropped without complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PRINTED


def _is_wanted(row: Mapping[str, Any], options: argparse.Namespace) -> bool:
    from app.naming.model.keys import DEFAULT_GROUP, compose_service_name

    service = compose_service_name(options.service, DEFAULT_GROUP) if options.service else None
    return (
        (not options.classes or row.get("finding_class") in options.classes)
        and service in (None, row.get("service"))
        and options.namespace in (None, row.get("namespace"))
        and options.member in (None, row.get("member"))
        and (bool(row.get("lasting")) or not options.lasting)
    )


def _table(rows: Iterator[Mapping[str, Any]], night: str) -> Iterator[str]:
    """Yield the lines of a table of the first ``TABLE_ROWS_MAX`` findings, and their number."""
    from app.tools.audit.compare.table import MORE_IN_JSON, aligned

    cells = [_cells(row) for row in islice(rows, TABLE_ROWS_MAX)]
    more = sum(1 for _ in rows)
    heads = (N_("CLASS"), N_("SERVICE"), N_("INSTANCE OR NAME"), N_("MEMBER"), N_("REFERENCE"))
    head = [*heads, N_("FOUND"), N_("EXPECTED"), N_("NIGHTS"), N_("DETAIL")]
    if cells:
        yield from aligned(map(gettext, head), cells)
    if more:
        yield gettext(MORE_IN_JSON, count=more)
    total = len(cells) + more
    yield command_texts().ngettext(
        "%(count)s finding of the night %(night)s",
        "%(count)s findings of the night %(night)s",
        total,
        count=total,
        night=night,
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    from app.tools.audit.compare.table import NOT_LASTING

    row = {name: row.get(name) for name in FINDING_FIELDS}
    ip, namespace, service = row["ip"], row["namespace"] or "", row["service"] or ""
    host = f"[{ip}]" if ip and ":" in str(ip) else ip
    where = f"{host}:{row['port']}#{row['cluster']}" if ip else str(row["name"] or "")
    told = [row["member"], row["reference"], row["found"], row["expected"], row["nights_open"], _detail(row)]
    return [
        f"{row['finding_class']}{'' if row['lasting'] else gettext(NOT_LASTING)}",
        service if namespace in ("", PUBLIC) else f"{namespace}/{service}",
        where,
        *("" if one is None else str(one) for one in told),
    ]


def _detail(row: Mapping[str, Any]) -> str | None:
    """Return the detail of a finding in the language of the user."""
    return None if row["detail"] is None else shown(recognized(str(row["detail"])))


def _say(text: str) -> None:
    sys.stderr.write(f"rollcall findings: {printable(text)}\n")
