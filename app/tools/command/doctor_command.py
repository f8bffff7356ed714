"""``rollcall doctor``: checks that a node can run here and fits the others, with advice for each finding.

Exit codes: 0 all is well, 1 there are warnings, 2 something does not work.
"""

import argparse
import sys
from collections.abc import Iterator

from app.config.settings import SettingError, read_settings
from app.languages.catalogues import N_
from app.languages.command_texts import gettext
from app.languages.phrases import Phrase, phrase, reason_of, shown
from app.tools.audit.client.access import AccessError, access_of, add_access_options
from app.tools.command.asking.output import add_output_options, is_data, print_data
from app.tools.command.doctor_findings import CheckFinding, Severity, failure, warning
from app.tools.command.help_texts import lines_of
from app.tools.command.node_options import add_node_options, overrides_of
from app.tools.printable import printable

WIDTH = 80
_SIGNS = {Severity.OK: N_("ok  "), Severity.WARNING: N_("WARN"), Severity.FAILURE: N_("FAIL")}


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "doctor",
        help="check this machine and the members, and say what to do",
        description="Check what a node needs here (settings, user, ports, data folder, descriptors, certificates, UDP) "
        "and how the members fit together (names, clocks, releases, lists, identity). It changes nothing. Exit code 0: "
        "all is well; 1: there are warnings; 2: something does not work.",
    )
    add_node_options(parser)
    parser.add_argument("--tls", action="store_true", help="call the members by https")
    add_output_options(parser)
    add_access_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check, print, and return the exit code."""
    try:
        findings = list(_findings(options))
    except AccessError as error:
        sys.stderr.write(f"rollcall doctor: {reason_of(error)}\n")
        return 2
    if is_data(options):
        told = [
            {
                "what": str(one.what),
                "severity": one.severity.name,
                "text": str(one.text),
                "advice": str(one.advice),
            }
            for one in findings
        ]
        print_data(options, told)
    else:
        sys.stdout.writelines(f"{line}\n" for one in findings for line in doctor_lines(one))
    return int(max(one.severity for one in findings))


def _findings(options: argparse.Namespace) -> Iterator[CheckFinding]:
    from app.tools.command.machine_checks import machine_findings
    from app.tools.command.member_checks import member_findings

    access = access_of(options)  # a wrong option is told before everything else
    try:
        settings = read_settings(overrides_of(options))
        access = access_of(options, "https" if options.tls else "http", settings.context_path)
    except SettingError:
        # Its text may quote a secret value.
        yield failure("settings", phrase("a node would not start with them"), phrase("run `rollcall config`"))
        return
    for text in settings.warnings:
        yield warning("settings", text, phrase("see docs/settings.md"))
    yield from machine_findings(settings)
    yield from member_findings(settings, access)


def doctor_lines(one: CheckFinding) -> Iterator[str]:
    """Yield a finding in lines, in the language of the user."""
    what = shown(one.what) if isinstance(one.what, Phrase) else gettext(one.what)
    yield from _wrapped(f"{gettext(_SIGNS[one.severity])} ", f"{what}: {shown(one.text)}", "     ")
    if one.advice:
        yield from _wrapped("     -> ", shown(one.advice), "        ")


def _wrapped(first: str, text: str, indent: str) -> Iterator[str]:
    """Yield the text in lines of WIDTH, the first one after ``first``, which is as wide as the indent or narrower."""
    lines = lines_of(printable(text), WIDTH - len(indent))
    yield from (f"{first if number == 0 else indent}{line}" for number, line in enumerate(lines))
